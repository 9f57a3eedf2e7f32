"""PEtab: Boehm's signalling model (8 states, 9 parameters, 48 data) from its files to likelihood, gradient and fit.

Boehm et al. (2014), J. Proteome Res. 13:5685, from the PEtab benchmark collection (doi:10.5281/zenodo.8155057). Before anything is
timed the states are compared with SciPy's Radau, and the likelihood with the published one. Goals: 0.5 ms an objective, 1.6 ms with
its gradient, at a state error of 1e-6; 20 starts in 4 CPU s after compilation, the best at most 138.2221.

Peers: AMICI with pyPESTO, where `benchmarks/.envs/amici` holds them (`pip install amici "pypesto[fides]" petab swig`, some
minutes); else figures measured elsewhere are printed, and said to be such. Those of 20 starts with fides always are. Run:
`python benchmarks/petab.py`.
"""

import os
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
from _harness import ENVIRONMENTS, HERE, compare

import simkit

FOLDER = HERE.parent / "data" / "petab" / "Boehm_JProteomeRes2014"
FILE = FOLDER / "Boehm_JProteomeRes2014.yaml"
PUBLISHED = -138.22199693517703
STARTS, KEYS = 20, (0, 1, 2, 3, 4)
# Measured on two shared cores, CPU: AMICI 1.1, pyPESTO 0.7, fides 0.8 (docs/performance.md).
ELSEWHERE = {"objective": 1.00, "gradient": 8.2, "20 starts": 18.9}
PEER = """
import sys, time, numpy, pypesto.petab, pypesto.optimize
importer = pypesto.petab.PetabImporter.from_yaml(sys.argv[1])
problem = importer.create_problem()
x = importer.petab_problem.x_nominal_free_scaled
for order in (0, 1):
    best = 1e9
    for _ in range(15):
        begin = time.process_time()
        problem.objective(numpy.asarray(x), sensi_orders=tuple(range(order + 1)))
        best = min(best, time.process_time() - begin)
    print("took", 1e3 * best)
"""


def state_error(read, theta) -> float:
    """The largest relative error of the states against Radau at 1e-11."""
    setups, trajectories = jax.jit(lambda theta, problem: problem.model.solve(theta, problem.times))(
        theta, read.problem
    )
    own = jax.tree.map(lambda x: x[0], (setups, trajectories))
    setup, trajectory = own
    names = sorted(trajectory.ys)
    slopes = lambda t, y: setup.system.vector_field(t, dict(zip(names, y, strict=True)), setup.inputs)
    field = jax.jit(lambda t, y: jnp.stack([slopes(t, y)[name] for name in names]))
    jacobian = jax.jit(jax.jacfwd(lambda y, t: field(t, y)))
    times, start = np.unique(np.asarray(trajectory.times)), np.array([trajectory.ys[name][0] for name in names])
    truth = scipy.integrate.solve_ivp(
        lambda t, y: np.asarray(field(t, y)),
        (0.0, times[-1]),
        start,
        "Radau",
        times,
        rtol=1e-11,
        atol=1e-11,
        jac=lambda t, y: np.asarray(jacobian(y, t)),
    )
    found = np.array([np.asarray(trajectory.ys[name])[1:] for name in names])
    return float(np.max(np.abs(found - truth.y) / (np.abs(truth.y) + 1e-3)))


def first_gradient() -> float:
    """Wall seconds from a new process to the first gradient, without a cache of compiled programs."""
    code = (
        "import jax; jax.config.update('jax_enable_x64', True); import simkit; "
        f"r = simkit.petab.load({str(FILE)!r}); p = r.problem.lean(); "
        "f = lambda theta, p: jax.jacfwd(lambda theta: p.log_likelihood(theta)[0])(theta); "
        "print(jax.jit(f)(r.nominal, p))"
    )
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - begin


def fits(problem: simkit.Problem) -> dict[str, np.ndarray]:
    """20 starts, the best of 60 draws, from each of several keys; the first one more, which compiles."""
    method = simkit.GaussNewton(max_steps=80, tolerance=1e-3)
    seconds, best, near = [], [], []
    for key in (KEYS[0], *KEYS):
        begin = time.process_time()
        found = simkit.fit(problem, starts=STARTS, key=jax.random.key(key), horizons=(1.0,), method=method, screen=3)
        objective = np.asarray(found.objective)
        seconds.append(time.process_time() - begin)
        best.append(objective.min())
        near.append(int((objective < -PUBLISHED + 0.1).sum()))
    return {"seconds": np.array(seconds[1:]), "best": np.array(best[1:]), "near": np.array(near[1:])}


def peers() -> dict[str, float]:
    """CPU ms of objective and gradient by AMICI through pyPESTO; where that is not installed, what was measured elsewhere."""
    python = ENVIRONMENTS / "amici" / "bin" / "python"
    if not python.exists():
        print("AMICI is not installed in benchmarks/.envs/amici: its figures were measured elsewhere.")
        return ELSEWHERE
    surroundings = os.environ | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}  # which holds swig
    with tempfile.TemporaryDirectory() as folder:  # where the C++ of the model is made
        words = [python, "-c", PEER, str(FILE)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder, env=surroundings)
    objective, gradient = (float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("took "))
    return {**ELSEWHERE, "objective": objective, "gradient": gradient}


def main() -> dict[str, float]:
    jax.config.update("jax_enable_x64", True)
    cold = first_gradient()
    read = simkit.petab.load(FILE, step=simkit.Adaptive(5e-7, 1e-6))
    # States are of the size of 100: an absolute tolerance of 1e-6 suits them, and the error is checked.
    lean = read.problem.lean()
    value = lambda theta: lean.log_likelihood(theta)[0]
    doubled = lambda theta: (value(theta),) * 2
    objective, gradient = jax.jit(value), jax.jit(jax.jacfwd(doubled, has_aux=True))
    error = state_error(read, read.nominal)
    found = float(objective(read.nominal))
    assert abs(found - PUBLISHED) < 1e-3, found
    assert error < 1e-6, error
    timings = compare({"objective": lambda: objective(read.nominal), "gradient": lambda: gradient(read.nominal)})
    them = peers()
    print(f"log likelihood {found:.6f} (published {PUBLISHED:.6f}), state error {error:.1e} against Radau")
    print(f"new process to first gradient: {cold:.1f} s wall")
    for name, timing in timings.items():
        print(
            f"{name:10s} {1e3 * timing.minimum:6.2f} ms least, {1e3 * timing.median:6.2f} median of CPU; "
            f"AMICI {them[name]:5.2f} ms; compiled in {timing.first:.1f} s"
        )
    fitted = fits(simkit.petab.read(FILE))
    for key, *row in zip(KEYS, *fitted.values(), strict=True):
        print(f"20 starts, key {key}: {row[0]:5.2f} CPU s, best {row[1]:.5f}, {row[2]} within 0.1 of the optimum")
    print(f"pyPESTO with fides: {ELSEWHERE['20 starts']} CPU s, best 138.2224, 3 within 0.1 (measured elsewhere)")
    middle = int(np.argsort(fitted["seconds"])[len(KEYS) // 2])
    return {
        "boehm_objective_ms": 1e3 * timings["objective"].minimum,
        "boehm_gradient_ms": 1e3 * timings["gradient"].minimum,
        "boehm_state_error": error,
        "boehm_first_gradient_s": cold,
        "boehm_20_starts_cpu_s": float(fitted["seconds"][middle]),
        "boehm_20_starts_best": float(np.median(fitted["best"])),
        "boehm_20_starts_near": float(np.median(fitted["near"])),
        "amici_objective_ms": them["objective"],
        "amici_gradient_ms": them["gradient"],
        "pypesto_20_starts_cpu_s": ELSEWHERE["20 starts"],
    }


if __name__ == "__main__":
    for name, figure in main().items():
        print(f"{name:26s} {figure:.6g}")
