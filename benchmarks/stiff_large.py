"""Large stiff problems: Rodas5P with the structure of the Jacobian beside pydiffsol and CVODE, at equal error.

Each solver's cost is taken at three tolerances and read off, by interpolation of the logarithms, at the error that ours has at
1e-6; beyond the ends of a peer's curve the run at that end counts. Errors are those of the last state, over its largest number,
against ours at 1e-10, beside which each peer's at 1e-10 is printed. A peer runs in its own process, before ours. Goal: at most
1.2 times the best peer's CPU time; rows are ours over theirs.

Peers run in `.envs/stiff_large`. Run: `python benchmarks/stiff_large.py`, or with the names of some problems. With `bdf` as the
first word it runs no peers, but our BDF beside Rodas5P, both at three tolerances: rows are the time of BDF over that of Rodas5P,
read off at the error that BDF has at 1e-6. Problems on grids of several species are solved by BDF and GMRES.

`gradient_vs_forward_...` is the CPU time of a value and its gradient by 30 parameters over that of the value;
`ensemble_vs_loop_...` the CPU time of pydiffsol for one member, times the members, over that of an ensemble. With `gradients` or
`ensembles` as the first word these alone are run.
"""

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np
from _stiff_problems import LARGER, PROBLEMS, Stiff

import simkit

PACKAGES = ("numpy", "scipy", "pydiffsol==0.6.2", "scikit-sundae==1.2.0")
TOLERANCES = (1e-4, 1e-6, 1e-8)
COMPARED_AT, TRUTH = 1, 1e-10
SAMPLES = 7


BY_FACTORS = (
    "robertson3",
    "robertson30",
    "robertson300",
    "robertson3000",
    "heat32",
    "network500",
    "brusselator32",
    *LARGER,
)


def grid(problem: Stiff) -> bool:
    """Tell whether a problem is one of several species on a grid."""
    return problem.species > 1


def method_for(problem: Stiff) -> simkit.solvers.Stepper:
    """The solver that a user would take."""
    return simkit.solvers.BDF(krylov=simkit.solvers.Krylov()) if grid(problem) else simkit.solvers.Rodas5P()


def parted(problem: Stiff, y: Any) -> Any:
    """A state as one array a species."""
    if not grid(problem):
        return y
    return {f"species{i}": part for i, part in enumerate(jnp.split(y, problem.species))}


def joined(y: Any) -> jax.Array:
    return jnp.concatenate(jax.tree.leaves(y))


def posed(problem: Stiff, k: Any) -> simkit.System:
    """A problem as a system, whose field is multiplied by `k`."""

    def field(t: Any, y: Any, p: Any) -> Any:
        return parted(problem, p["k"] * problem.field(jnp, joined(y)))

    if not problem.algebraic:
        return simkit.from_function(field, {"k": k})

    class Posed(simkit.ConstrainedSystem):
        k: simkit.Scalar = simkit.quantity(1.0, doc="of the right side")

        def vector_field(self, t: Any, y: Any, inputs: Any) -> Any:
            return field(t, y, {"k": self.k})

        def mass(self, t: Any) -> Any:
            size = problem.y0.size // problem.species
            moving = problem.species - problem.algebraic
            return {f"species{i}": jnp.full(size, float(i < moving)) for i in range(problem.species)}

        @classmethod
        def example(cls) -> simkit.Example:
            return simkit.Example(cls(), parted(problem, jnp.asarray(problem.y0)), jnp.asarray([0.0, problem.end]))

    return Posed(k)


class Solver:
    """One problem under `jit`: the last state for a tolerance that is traced."""

    def __init__(self, problem: Stiff, method: simkit.solvers.Stepper | None = None) -> None:
        system, method = posed(problem, 1.0), method_for(problem) if method is None else method
        y0, times = parted(problem, jnp.asarray(problem.y0)), jnp.array([0.0, problem.end])

        @jax.jit
        def solve(tolerance: jax.Array) -> jax.Array:
            step = simkit.Adaptive(tolerance, tolerance * problem.scale, max_steps=100_000)
            return joined(simkit.simulate(system, y0, times, solver=method, step=step, on_failure="mark").final())

        start = time.process_time()
        self.solve = solve.lower(jnp.asarray(TRUTH)).compile()
        self.compiled = time.process_time() - start

    def __call__(self, tolerance: float) -> np.ndarray:
        return np.asarray(self.solve(jnp.asarray(tolerance)))


Costs = list[tuple[float, float]]
"""Errors and CPU seconds."""


def worst(problem: Stiff, y: np.ndarray, truth: np.ndarray) -> float:
    """The largest error of a species over its largest number."""
    pairs = zip(np.split(y, problem.species), np.split(truth, problem.species), strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def timed(
    name: str, problem: Stiff, solver: Solver, truth: np.ndarray, samples: int = SAMPLES
) -> tuple[Costs, list[list[str]]]:
    """Errors and CPU seconds of one of our solvers at all tolerances, and the same as rows of a table."""
    costs, table = [], []
    for tolerance in TOLERANCES:
        answer, spent = _harness.least_cpu(functools.partial(solver, tolerance), samples=samples)
        costs.append((worst(problem, answer, truth), spent))
        table.append([f"{name} {tolerance:.0e}", f"{costs[-1][0]:.1e}", f"{1e3 * spent:.3g}"])
    table.append([f"{name}, compiling", "", f"{1e3 * solver.compiled:.0f}"])
    return costs, table


def by_factors(name: str) -> dict[str, float]:
    """The row of one problem for BDF, whose factors serve many steps, beside Rodas5P."""
    problem = (PROBLEMS | LARGER)[name]()
    ours = {"bdf": Solver(problem, simkit.solvers.BDF()), "rodas5p": Solver(problem, simkit.solvers.Rodas5P())}
    truth, samples = ours["rodas5p"](TRUTH), SAMPLES if problem.y0.size < 1000 else 3
    curves, table = {}, []
    for kind, solver in ours.items():
        curves[kind], rows = timed(kind, problem, solver, truth, samples)
        table += rows
    _harness.print_table(name, ["solver, tolerance", "error", "CPU min, ms"], table)
    at, cost = curves["bdf"][COMPARED_AT]
    return {f"{name}_bdf": cost / _harness.read_off(curves["rodas5p"], at)}


def measured(name: str) -> dict[str, float]:
    """The rows of one problem."""
    problem = PROBLEMS[name]()
    solver = Solver(problem)
    asked = {"problem": name, "tolerances": (*TOLERANCES, TRUTH)}
    arrays, _ = _harness.run_peer("stiff_large", PACKAGES, "large_stiff.py", options=asked)
    truth = solver(TRUTH)
    error = lambda y: worst(problem, y, truth)
    kinds = sorted({key.split(".")[0] for key in arrays})
    table, curves = [], {}
    for kind in kinds:
        points = [(error(arrays[f"{kind}.{k}.y"]), arrays[f"{kind}.{k}.cpu"].min()) for k in range(len(TOLERANCES))]
        curves[kind] = points
        table += [
            [f"{kind} {t:.0e}", f"{e:.1e}", f"{1e3 * c:.3g}"] for t, (e, c) in zip(TOLERANCES, points, strict=True)
        ]
        table.append([f"{kind} {TRUTH:.0e}", f"{error(arrays[f'{kind}.{len(TOLERANCES)}.y']):.1e}", ""])
    costs, ours = timed("simkit", problem, solver, truth)
    table += ours
    _harness.print_table(name, ["solver, tolerance", "error", "CPU min, ms"], table)
    at, cost = costs[COMPARED_AT]
    theirs = {kind: _harness.read_off(curve, at) for kind, curve in curves.items()}
    rows = {f"{name}_vs_{kind}": cost / value for kind, value in theirs.items()}
    return rows | {f"{name}_vs_best": cost / min(theirs.values())}


def value_of(problem: Stiff) -> Callable[[jax.Array], jax.Array]:
    """A number of the last state by 30 others, each of which multiplies the rates of every thirtieth state."""
    y0, times = parted(problem, jnp.asarray(problem.y0)), jnp.array([0.0, problem.end])
    groups = np.arange(problem.y0.size) % 30

    def value(k: jax.Array) -> jax.Array:
        step = simkit.Adaptive(1e-6, 1e-6 * problem.scale, max_steps=10_000)
        system = posed(problem, k[groups])
        run = simkit.simulate(system, y0, times, solver=method_for(problem), step=step, on_failure="mark")
        return jnp.sum(joined(run.final()) ** 2)

    return value


def gradients(names: tuple[str, ...]) -> dict[str, float]:
    """The cost of a gradient by 30 numbers."""
    rows = {}
    for name in names or DIFFERENTIATED:
        value = value_of(PROBLEMS[name]())
        both = {"value": jax.jit(value), "gradient": jax.jit(jax.value_and_grad(value))}
        calls = {kind: functools.partial(f, jnp.ones(30)) for kind, f in both.items()}
        spent = [timing.minimum for timing in _harness.compare(calls).values()]
        rows[f"gradient_vs_forward_{name}"] = spent[1] / spent[0]
        print(f"{name}: {1e3 * spent[0]:.3g} and {1e3 * spent[1]:.3g} ms")
        print({row: round(x, 2) for row, x in rows.items()}, flush=True)
    return rows


def ensembles(names: tuple[str, ...]) -> dict[str, float]:
    """The cost of a member of an ensemble beside a solve by pydiffsol, at a tolerance of 1e-6."""
    rows = {}
    for name in names or MANY:
        problem, count = PROBLEMS[name](), MANY[name]
        asked = {"problem": name, "tolerances": (1e-6,)}
        arrays, _ = _harness.run_peer("stiff_large", PACKAGES, "large_stiff.py", options=asked)
        step = simkit.Adaptive(1e-6, 1e-6 * problem.scale)
        times, over = jnp.array([0.0, problem.end]), {"k": jnp.linspace(0.5, 2.0, count)}
        run = functools.partial(
            simkit.ensemble, posed(problem, 1.0), jnp.asarray(problem.y0), times, over=over, step=step
        )
        _, spent = _harness.least_cpu(lambda run=run: run(solver=simkit.solvers.Rodas5P()).ys, seconds=5.0)
        rows[f"ensemble_vs_loop_{name}"] = count * arrays["pydiffsol.0.cpu"].min() / spent
        print({row: round(x, 2) for row, x in rows.items()}, flush=True)
    return rows


DIFFERENTIATED = ("robertson300", "heat32", "brusselator32", "foodweb20")
MANY = {"robertson30": 1000, "robertson300": 200}


def main(names: tuple[str, ...] = tuple(PROBLEMS)) -> dict[str, float]:
    jax.config.update("jax_enable_x64", True)
    if names[:1] == ("gradients",):
        return gradients(names[1:])
    if names[:1] == ("ensembles",):
        return ensembles(names[1:])
    rows: dict[str, float] = {} if names != tuple(PROBLEMS) else gradients(()) | ensembles(())
    alone, names = names[:1] == ("bdf",), tuple(name for name in names if name != "bdf")
    for name in names or BY_FACTORS:
        rows |= by_factors(name) if alone else measured(name)
        print({row: round(value, 3) for row, value in rows.items() if row.startswith(name)}, flush=True)
    return rows


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or tuple(PROBLEMS))
