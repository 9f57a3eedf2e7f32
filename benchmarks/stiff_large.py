"""Large stiff problems: Rodas5P with the structure of the Jacobian beside pydiffsol and CVODE, at equal error.

Each solver's cost is taken at three tolerances and read off, by interpolation of the logarithms, at the error that ours has at
1e-6; beyond the ends of a peer's curve the run at that end counts. Errors are those of the last state, over its largest number,
against ours at 1e-10, beside which each peer's at 1e-10 is printed. A peer runs in its own process, before ours. Goal: at most
1.2 times the best peer's CPU time; rows are ours over theirs.

Peers run in `.envs/stiff_large`. Run: `python benchmarks/stiff_large.py`, or with the names of some problems. With `bdf` as the
first word it runs no peers, but our BDF beside Rodas5P, both at three tolerances: rows are the time of BDF over that of Rodas5P,
read off at the error that BDF has at 1e-6.
"""

import sys
import time

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


class Solver:
    """One problem under `jit`: the last state for a tolerance that is traced."""

    def __init__(self, problem: Stiff, method: simkit.solvers.Stepper = simkit.solvers.Rodas5P()) -> None:
        system = simkit.from_function(lambda t, y, p: p["k"] * problem.field(jnp, y), {"k": 1.0})
        y0, times = jnp.asarray(problem.y0), jnp.array([0.0, problem.end])

        @jax.jit
        def solve(tolerance: jax.Array) -> jax.Array:
            step = simkit.Adaptive(tolerance, tolerance * problem.scale, max_steps=100_000)
            run = simkit.simulate(system, y0, times, solver=method, step=step, on_failure="mark")
            return run.final()

        start = time.process_time()
        self.solve = solve.lower(jnp.asarray(TRUTH)).compile()
        self.compiled = time.process_time() - start

    def __call__(self, tolerance: float) -> np.ndarray:
        return np.asarray(self.solve(jnp.asarray(tolerance)))


Costs = list[tuple[float, float]]
"""Errors and CPU seconds."""


def timed(name: str, solver: Solver, truth: np.ndarray, samples: int = SAMPLES) -> tuple[Costs, list[list[str]]]:
    """Errors and CPU seconds of one of our solvers at all tolerances, and the same as rows of a table."""
    costs, table = [], []
    for tolerance in TOLERANCES:
        answer, spent = solver(tolerance), []
        for _ in range(samples):
            start = time.process_time()
            answer = solver(tolerance)
            spent.append(time.process_time() - start)
        costs.append((float(np.abs(answer - truth).max() / np.abs(truth).max()), min(spent)))
        table.append([f"{name} {tolerance:.0e}", f"{costs[-1][0]:.1e}", f"{1e3 * min(spent):.3g}"])
    table.append([f"{name}, compiling", "", f"{1e3 * solver.compiled:.0f}"])
    return costs, table


def by_factors(name: str) -> dict[str, float]:
    """The row of one problem for BDF, whose factors serve many steps, beside Rodas5P."""
    problem = (PROBLEMS | LARGER)[name]()
    ours = {"bdf": Solver(problem, simkit.solvers.BDF()), "rodas5p": Solver(problem)}
    truth, samples = ours["rodas5p"](TRUTH), SAMPLES if problem.y0.size < 1000 else 3
    curves, table = {}, []
    for kind, solver in ours.items():
        curves[kind], rows = timed(kind, solver, truth, samples)
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
    error = lambda y: float(np.abs(y - truth).max() / np.abs(truth).max())
    kinds = sorted({key.split(".")[0] for key in arrays})
    table, curves = [], {}
    for kind in kinds:
        points = [(error(arrays[f"{kind}.{k}.y"]), arrays[f"{kind}.{k}.cpu"].min()) for k in range(len(TOLERANCES))]
        curves[kind] = points
        table += [
            [f"{kind} {t:.0e}", f"{e:.1e}", f"{1e3 * c:.3g}"] for t, (e, c) in zip(TOLERANCES, points, strict=True)
        ]
        table.append([f"{kind} {TRUTH:.0e}", f"{error(arrays[f'{kind}.{len(TOLERANCES)}.y']):.1e}", ""])
    costs, ours = timed("simkit", solver, truth)
    table += ours
    _harness.print_table(name, ["solver, tolerance", "error", "CPU min, ms"], table)
    at, cost = costs[COMPARED_AT]
    theirs = {kind: _harness.read_off(curve, at) for kind, curve in curves.items()}
    rows = {f"{name}_vs_{kind}": cost / value for kind, value in theirs.items()}
    return rows | {f"{name}_vs_best": cost / min(theirs.values())}


def main(names: tuple[str, ...] = tuple(PROBLEMS)) -> dict[str, float]:
    jax.config.update("jax_enable_x64", True)
    rows: dict[str, float] = {}
    alone, names = names[:1] == ("bdf",), tuple(name for name in names if name != "bdf")
    for name in names or BY_FACTORS:
        rows |= by_factors(name) if alone else measured(name)
        print({row: round(value, 3) for row, value in rows.items() if row.startswith(name)}, flush=True)
    return rows


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or tuple(PROBLEMS))
