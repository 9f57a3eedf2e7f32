"""PEtab: what 50 starts find of three harder problems of the benchmark collection, and what that costs.

Fujita et al. (2010), 19 parameters with bounds 16 decades apart; Elowitz and Leibler (2000), an oscillator, 21; Weber et al.
(2015), 36. Goal: at least as good as the published values. The problems run one after the other for tens of minutes; the CPU
seconds include compilation.

Run: `python benchmarks/petab_large.py`, or with the names of some: `python benchmarks/petab_large.py elowitz`.
"""

import sys
import time

import jax
import numpy as np
from _harness import HERE

import simkit

FOLDER = HERE.parent / "data" / "petab"
PUBLISHED = {
    "fujita": ("Fujita_SciSignal2010", -53.0838),
    "elowitz": ("Elowitz_Nature2000", -63.2028),
    "weber": ("Weber_BMC2015", 296.2018),
}
STARTS, STEPS = 50, 500
EVOLVE = {"fujita": 300, "elowitz": 0, "weber": 300}  # where most draws lie on plateaus


def found(name: str, starts: int = STARTS, steps: int = STEPS) -> tuple[float, float, int]:
    """The best objective of one problem, the CPU seconds of the fit, and how many starts agree."""
    folder, _ = PUBLISHED[name]
    # Simulations of good draws take some hundred steps; hopeless ones must not take thousands.
    step = simkit.Adaptive(5e-7, 1e-12, max_steps=2000)
    (file,) = (FOLDER / folder).glob("*.yaml")
    problem = simkit.petab.load(file, step=step).problem
    method = simkit.GaussNewton(max_steps=steps, tolerance=1e-3)
    begin = time.process_time()
    key = jax.random.key(1)
    result = simkit.fit(problem, starts=starts, screen=3, evolve=EVOLVE[name], horizons=(1.0,), key=key, method=method)
    return float(np.min(result.objective)), time.process_time() - begin, result.agreeing()


def main(names: tuple[str, ...] = tuple(PUBLISHED)) -> dict[str, float]:
    simkit.enable_x64()
    rows = {}
    for name in names:
        best, seconds, agree = found(name)
        print(
            f"{name}: best of {STARTS} starts {best:.4f} (published {PUBLISHED[name][1]}), {agree} agree, {seconds:.0f} CPU s",
            flush=True,
        )
        rows |= {f"{name}_{STARTS}_starts_best": best, f"{name}_{STARTS}_starts_cpu_s": seconds}
    return rows


if __name__ == "__main__":
    for row, figure in main(tuple(sys.argv[1:]) or tuple(PUBLISHED)).items():
        print(f"{row:26s} {figure:.6g}")
