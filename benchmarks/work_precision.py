"""Work and precision on problems of the Test Set for IVP Solvers: `Rodas5P` and `BDF` beside CVODE, IDA and SciPy's Radau.

Digits of the worst number at the end, by published values, over the least CPU time of a solve, at tolerances of 1e-3 to
1e-10. Every solver has one relative tolerance, and as its absolute one that times the problem's floor. The peers have their fields
and exact Jacobians as machine code (`peers/sundials_radau.py`); scikit-sundae calls them through Python, some microseconds each,
which a program in C would save. Times of simkit are those of a compiled program, without compiling. A solver stops at the tolerance
that took it more than 8 seconds.

`python benchmarks/run.py work_precision` writes `docs/_static/work-precision.json` and draws `docs/_static/work-precision.png` from
it; with the environment variable `ONLY`, names of problems with commas between them, these alone are measured and the others kept.
With `DRAW` set nothing is measured.

Rows are the CPU time of ours over that of CVODE, IDA for algebraic problems, at the error that ours has at 1e-6.
"""

import json
import os
from typing import Any

import _harness
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _set_problems import PROBLEMS, ROOT, Work

import simkit

PACKAGES = ("numpy", "scipy", "scikit-sundae==1.2.0", "numba", "sympy")
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
MOST_SECONDS, MOST_STEPS = 8.0, 1_000_000
NOT_BY_BDF = ("ring modulator",)
RESULTS = ROOT / "docs" / "_static" / "work-precision.json"
COLOURS = {"Rodas5P": "#0b5fa5", "BDF": "#e07b00", "CVODE": "#444444", "IDA": "#444444", "Radau": "#999999"}
MARKS = {"Rodas5P": "o-", "BDF": "s-", "CVODE": "^--", "IDA": "^--", "Radau": "v--"}


class Field(simkit.PlainSystem):
    """A problem as a system."""

    one: simkit.Scalar = simkit.quantity(1.0)
    rates: Any = eqx.field(static=True, default=None)

    def vector_field(self, t, y, inputs):
        return slopes(self.rates, t, y, inputs)

    @classmethod
    def example(cls):
        raise NotImplementedError


class Algebraic(simkit.ConstrainedSystem):
    """The same with a mass matrix."""

    one: simkit.Scalar = simkit.quantity(1.0)
    rates: Any = eqx.field(static=True, default=None)
    weights: Any = eqx.field(static=True, default=None)

    def vector_field(self, t, y, inputs):
        return slopes(self.rates, t, y, inputs)

    def mass(self, t):
        whole = np.array(self.weights)
        diagonal = np.diag(whole)
        return jnp.asarray(diagonal if (np.diag(diagonal) == whole).all() else whole)

    @classmethod
    def example(cls):
        raise NotImplementedError


def slopes(rates: Any, t: Any, y: Any, inputs: Any) -> Any:
    found = rates(jnp, t, y, 1.0 if inputs is None else inputs["day"])
    return jnp.stack([jnp.asarray(x, float) for x in found]) if isinstance(found, list) else found


def ours(problem: Work, solver: str) -> dict[str, list[float]]:
    """Tolerance -> error and least CPU seconds."""
    if problem.mass is None:
        system: Any = Field(rates=problem.field)
    else:
        system = Algebraic(rates=problem.field, weights=tuple(map(tuple, problem.mass.tolist())))
    inputs = None
    if problem.turns:
        places = jnp.asarray([problem.times[0], *problem.turns])
        inputs = {"day": simkit.PiecewiseConstant(places, jnp.asarray([float(k % 2 == 0) for k in range(len(places))]))}

    @jax.jit
    def solve(tolerance: jax.Array) -> Any:
        step = simkit.Adaptive(tolerance, tolerance * problem.floor, max_steps=MOST_STEPS)
        times = jnp.asarray(problem.times)
        run = simkit.simulate(
            system, jnp.asarray(problem.y0), times, solver=solver, step=step, inputs=inputs, on_failure="mark"
        )
        return run.final(), run.status

    compiled, found = solve.lower(jnp.asarray(1e-6)).compile(), {}
    for tolerance in TOLERANCES:
        (end, status), spent = _harness.least_cpu(lambda tolerance=tolerance: compiled(jnp.asarray(tolerance)))
        if int(status) == 0:
            found[f"{tolerance:g}"] = [problem.error(np.asarray(end)), spent]
        else:
            print(f"{solver} at {tolerance:g} ended with status {status}")
        if spent > MOST_SECONDS:
            break
    return found


def measured(name: str) -> dict[str, dict[str, list[float]]]:
    """Solver -> tolerance -> error and CPU seconds."""
    problem = PROBLEMS[name]()
    found: dict[str, dict[str, list[float]]] = {}
    for title, solver in (("Rodas5P", "rodas5p"), ("BDF", "bdf")):
        if title != "BDF" or name not in NOT_BY_BDF:
            found[title] = ours(problem, solver)
    asked = {"problem": name, "tolerances": TOLERANCES}
    arrays, _ = _harness.run_peer("work_precision", PACKAGES, "sundials_radau.py", options=asked)
    for key, pair in arrays.items():
        peer, tolerance = key.split(":")
        found.setdefault(peer, {})[tolerance] = pair.tolist()
    rows = [
        [f"{solver} {tolerance}", f"{error:.1e}", f"{1e3 * cost:.3g}"]
        for solver, points in found.items()
        for tolerance, (error, cost) in points.items()
    ]
    _harness.print_table(name, ["solver, tolerance", "error", "CPU min, ms"], rows)
    return found


def ratio(curves: dict[str, dict[str, list[float]]], solver: str) -> float | None:
    """The CPU time of ours over that of the peer in C, at the error that ours has at 1e-6."""
    peer = curves.get("CVODE", curves.get("IDA"))
    if solver not in curves or "1e-06" not in curves[solver] or not peer:
        return None
    error, cost = curves[solver]["1e-06"]
    return cost / _harness.read_off([(max(e, 1e-16), c) for e, c in peer.values()], max(error, 1e-16))


def draw(results: dict[str, Any]) -> None:
    """One small picture a problem: digits to the right, CPU time upwards."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = 4
    rows = -(-len(results) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(13, 3.1 * rows), layout="constrained", squeeze=False)
    for place, (name, curves) in zip(axes.flat, results.items(), strict=False):
        for solver, points in curves.items():
            digits = [-np.log10(max(error, 1e-16)) for error, _ in points.values()]
            costs = [1e3 * cost for _, cost in points.values()]
            place.plot(digits, costs, MARKS[solver], color=COLOURS[solver], markersize=4, linewidth=1.2)
        place.set_yscale("log")
        place.set_title(name, fontsize=10)
        place.grid(alpha=0.3)
    for place in axes.flat[len(results) :]:
        place.axis("off")
    named = {"Rodas5P": "Rodas5P", "BDF": "BDF", "CVODE": "CVODE; IDA for DAEs", "Radau": "SciPy's Radau"}
    for solver, label in named.items():
        axes.flat[-1].plot([], [], MARKS[solver], color=COLOURS[solver], label=label)
    axes.flat[-1].legend(loc="center", fontsize=11, frameon=False)
    figure.supxlabel("correct digits of the worst number at the end", fontsize=11)
    figure.supylabel("CPU time of a solve, ms", fontsize=11)
    figure.savefig(RESULTS.with_suffix(".png"), dpi=85)


def main() -> dict[str, float]:
    simkit.enable_x64()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if "DRAW" not in os.environ:
        only = os.environ.get("ONLY", ",".join(PROBLEMS)).split(",")
        for name in only:
            results[name] = measured(name)
            rounded = {
                problem: {
                    s: {t: [float(f"{x:.3g}") for x in pair] for t, pair in points.items()}
                    for s, points in curves.items()
                }
                for problem, curves in results.items()
            }
            RESULTS.write_text(json.dumps({n: rounded[n] for n in PROBLEMS if n in rounded}, indent=1) + "\n")
    results = json.loads(RESULTS.read_text())
    draw(results)
    rows = {}
    for name, curves in results.items():
        for solver in ("Rodas5P", "BDF"):
            found = ratio(curves, solver)
            if found is not None:
                rows[f"{name}_{solver}"] = found
    return rows


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))
