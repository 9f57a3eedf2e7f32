"""Differential-algebraic problems: Rodas5P and BDF beside IDA, at equal error.

Errors are those of the worst number of the last state against published values, relative. Each solver's cost is taken at three
tolerances and read off at the error of Rodas5P at 1e-6. IDA's residual is a Python function, which takes most of its time; a
program in C would be some ten times as fast. Rows are ours over IDA's.
"""

import time

import _harness
import jax
import jax.numpy as jnp
import numpy as np
from _constrained_problems import PROBLEMS, Constrained

import simkit

PACKAGES = ("numpy", "scipy", "pydiffsol==0.6.2", "scikit-sundae==1.2.0")
TOLERANCES = (1e-4, 1e-6, 1e-8)
COMPARED_AT, SAMPLES = 1, 7
SCALE = 1e-6
"""Absolute tolerance over the relative one: below the least number of the states, some 1e-5."""


def posed(problem: Constrained) -> simkit.ConstrainedSystem:
    """A problem as a system."""

    class Posed(simkit.ConstrainedSystem):
        factor: simkit.Scalar = simkit.quantity(1.0, doc="of the right side")

        def vector_field(self, t, y, inputs):
            return self.factor * problem.right(jnp, t, y)

        def mass(self, t):
            diagonal = np.diag(problem.mass)
            return jnp.asarray(diagonal if (np.diag(diagonal) == problem.mass).all() else problem.mass)

        @classmethod
        def example(cls):
            return simkit.Example(cls(), jnp.asarray(problem.y0), jnp.asarray([0.0, problem.end]))

    return Posed()


def curve(problem: Constrained, solver: str) -> tuple[list[tuple[float, float]], float]:
    """Error and CPU time for each tolerance, and the CPU time of compiling."""
    system, times = posed(problem), jnp.asarray([0.0, problem.end])

    @jax.jit
    def solve(tolerance: jax.Array) -> jax.Array:
        step = simkit.Adaptive(tolerance, tolerance * SCALE, max_steps=100_000)
        run = simkit.simulate(system, jnp.asarray(problem.y0), times, solver=solver, step=step, on_failure="mark")
        return run.final()

    start = time.process_time()
    compiled = solve.lower(jnp.asarray(1e-6)).compile()
    taken, found = time.process_time() - start, []
    for tolerance in TOLERANCES:
        run = lambda tolerance=tolerance: compiled(jnp.asarray(tolerance))
        answer, spent = _harness.least_cpu(run, samples=SAMPLES)
        found.append((error_of(problem, np.asarray(answer)), spent))
    return found, taken


def error_of(problem: Constrained, answer: np.ndarray) -> float:
    """The largest relative error of a number."""
    return float(np.max(np.abs(answer / problem.published - 1)))


def main() -> dict[str, float]:
    simkit.enable_x64()
    rows = {}
    for name, make in PROBLEMS.items():
        problem = make()
        asked = {"problem": name, "tolerances": TOLERANCES, "scale": SCALE}
        arrays, figures = _harness.run_peer("stiff_large", PACKAGES, "ida.py", options=asked)
        curves = {
            "IDA": [(error_of(problem, arrays[f"{k}.y"]), arrays[f"{k}.cpu"].min()) for k in range(len(TOLERANCES))]
        }
        table = []
        for solver in ("rodas5p", "bdf"):
            curves[solver], taken = curve(problem, solver)
            table.append([f"{solver}, compiling", "", f"{1e3 * taken:.0f}"])
        for kind, points in curves.items():
            table += [
                [f"{kind} {t:.0e}", f"{e:.1e}", f"{1e3 * c:.3g}"] for t, (e, c) in zip(TOLERANCES, points, strict=True)
            ]
        table.append(["IDA, one residual", "", f"{1e3 * figures['residual']:.3g}"])
        _harness.print_table(name, ["solver, tolerance", "error", "CPU min, ms"], table)
        at, cost = curves["rodas5p"][COMPARED_AT]
        rows[f"{name}_vs_ida"] = cost / _harness.read_off(curves["IDA"], at)
    return rows


if __name__ == "__main__":
    print(main())
