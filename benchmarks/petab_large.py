"""PEtab: what 50 starts find of three harder problems of the benchmark collection, and what that costs.

Fujita et al. (2010), 19 parameters with bounds 16 decades apart; Elowitz and Leibler (2000), an oscillator, 21; Weber et al.
(2015), 36. Goal: at least as good as the published values. The problems run one after the other for tens of minutes; our CPU
seconds include compilation.

Peer: pyPESTO with fides and AMICI, 50 starts or as many as our CPU seconds give it, where `benchmarks/.envs/amici` holds them (see
`petab.py`). Its CPU seconds do not include the compilation of C++.

Run: `python benchmarks/petab_large.py`, or with the names of some: `python benchmarks/petab_large.py elowitz`.
"""

import os
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np
from _harness import ENVIRONMENTS, HERE

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


def peer(name: str, seconds: float) -> tuple[float, float, int]:
    """The best objective of pyPESTO, its CPU seconds, and how many of its starts could be simulated."""
    python = ENVIRONMENTS / "amici" / "bin" / "python"
    if not python.exists():
        print("pyPESTO is not installed in benchmarks/.envs/amici.")
        return np.nan, np.nan, 0
    (file,) = (FOLDER / PUBLISHED[name][0]).glob("*.yaml")
    surroundings = os.environ | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}  # which holds swig
    with tempfile.TemporaryDirectory() as folder:  # where the C++ of the model is made
        words = [python, HERE / "peers" / "pypesto_fit.py", file, str(seconds), str(STARTS)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder, env=surroundings)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("start ")]
    values, spent = np.array(lines, float).T
    return float(values.min()), float(spent[-1]), int(np.isfinite(values).sum())


def main(names: tuple[str, ...] = tuple(PUBLISHED)) -> dict[str, float]:
    simkit.enable_x64()
    rows = {}
    for name in names:
        best, seconds, agree = found(name)
        print(
            f"{name}: best of {STARTS} starts {best:.4f} (published {PUBLISHED[name][1]}), {agree} agree, {seconds:.0f} CPU s",
            flush=True,
        )
        theirs, spent, simulated = peer(name, seconds)
        print(f"{name}, pyPESTO: best of {simulated} starts that simulate {theirs:.4f}, {spent:.0f} CPU s", flush=True)
        rows |= {f"{name}_{STARTS}_starts_best": best, f"{name}_{STARTS}_starts_cpu_s": seconds}
        rows |= {f"{name}_pypesto_best": theirs, f"{name}_pypesto_cpu_s": spent}
    return rows


if __name__ == "__main__":
    for row, figure in main(tuple(sys.argv[1:]) or tuple(PUBLISHED)).items():
        print(f"{row:26s} {figure:.6g}")
