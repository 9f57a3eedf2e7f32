"""Flows through `simkit.simulate`, beside exponax, jax-cfd and NumPy with pyFFTW: decaying turbulence from one start.

Fields are compared before anything is timed. Times are CPU seconds a step, the least of several, so that they hold on a machine
with other work; ratios above one say that simkit takes less. jax-cfd takes five evaluations of its right side a step and we
four: its row is by evaluation.

Run all: `python benchmarks/run.py fluids`. Some: `ROWS=256,gradient python benchmarks/run.py fluids`, of 256, 512, 3d, scan,
gradient, long, volumes, pressure, compressible and layers.
"""

import functools
import os
from typing import Any

import _fluids_layers
import _fluids_long
import _fluids_volumes
import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids

EXPONAX = ["exponax==0.2.0", "numpy"]
JAX_CFD = ["jax-cfd==0.2.1", "numpy"]
PYFFTW = ["pyfftw", "numpy"]
VISCOSITY, DRAG = 1e-3, 0.1
EVALUATIONS = {"ours": 4, "jax_cfd": 5}
Rows = dict[str, float]


@functools.cache
def start(cells: int, dimensions: int = 2) -> np.ndarray:
    """A random vorticity, or Taylor and Green's velocity."""
    grid = fluids.Grid((cells,) * dimensions)
    if dimensions == 3:
        return np.asarray(fluids.taylor_green(grid))
    return np.asarray(fluids.vorticity(grid, fluids.random_velocity(grid, jax.random.key(0), peak=6.0)))


def flow(cells: int, dtype: str, dimensions: int = 2) -> tuple[Any, Any]:
    """System and start."""
    grid = fluids.Grid((cells,) * dimensions)
    build = fluids.SpectralFlow2D if dimensions == 2 else fluids.SpectralFlow3D
    options = {"viscosity": VISCOSITY, "drag": DRAG} if dimensions == 2 else {"viscosity": 1 / 1600}
    return simkit.cast((build(grid, **options), build.State(start(cells, dimensions))), jnp.dtype(dtype))


def beside_exponax(cells: int, dtype: str, step: float, steps: int, dimensions: int = 2) -> Rows:
    """CPU seconds a step of simkit and its peers, which run before and after."""
    system, y0 = flow(cells, dtype, dimensions)
    times = np.array([0.0, step * steps])
    run = lambda: simkit.simulate(system, y0, times, step=step)
    given = {"start": np.asarray(start(cells, dimensions))}
    options = {"precision": dtype, "viscosity": VISCOSITY if dimensions == 2 else 1 / 1600, "drag": DRAG, "step": step}
    options |= {"steps": steps, "samples": 5}
    peers = {"exponax": (EXPONAX, "exponax_flow.py")}
    if dimensions == 2:
        peers |= {"jax_cfd": (JAX_CFD, "jax_cfd_flow.py"), "pyfftw": (PYFFTW, "pyfftw_flow.py")}
    spent: dict[str, list[np.ndarray]] = {name: [] for name in peers}
    ours: list[np.ndarray] = []
    field = np.asarray(jax.tree.leaves(run().final())[0])
    for _ in range(3):
        for name, (packages, script) in peers.items():
            found, _ = _harness.run_peer(name, packages, script, given, options)
            spent[name].append(found["spent"])
            off = np.abs(field - found["end"]).max() / np.abs(found["end"]).max()
            print(f"{cells}^{dimensions} {dtype}: {name} differs by {off:.1e} of the largest value", flush=True)
            if not off < (3e-2 if name == "jax_cfd" else 1e-2):  # other filters, other schemes, and turbulence
                raise AssertionError(f"simkit and {name} do not agree.")
        ours.append(_harness.compare({"simkit": run}, samples=5)["simkit"].cpu / steps)
    least = {name: float(np.min(np.concatenate(x))) for name, x in {**spent, "ours": ours}.items()}
    rows: Rows = {}
    table = [["simkit", f"{1e3 * least['ours']:.4g}", f"{1e3 * least['ours'] / 4:.4g}", "1.00"]]
    for name in peers:
        evaluations = EVALUATIONS.get(name, 4)
        ratio = least[name] / evaluations / (least["ours"] / 4)
        rows[name] = ratio
        table.append([name, f"{1e3 * least[name]:.4g}", f"{1e3 * least[name] / evaluations:.4g}", f"{ratio:.2f}"])
    title = f"{cells}^{dimensions} {dtype}, {steps} steps"
    _harness.print_table(title, ["", "CPU ms a step", "CPU ms an evaluation", "x simkit an evaluation"], table)
    return rows


def scan() -> Rows:
    """A run of `simulate` and a bare scan of the same step."""
    system, y0 = flow(256, "float64")
    step, steps = 2e-3, 100
    stepper = simkit.solvers.ETDRK4()
    term = simkit.core.SystemTerm(system, None)
    h = jnp.asarray(step)

    @jax.jit
    def bare(y0: Any) -> Any:
        weights = stepper.weights(term, h)
        one = lambda y, i: (stepper.weighted(weights, term, i * h, i * h + h, h, y)[0], None)
        end, _ = jax.lax.scan(one, system.encode(y0), jnp.arange(float(steps)))
        return system.decode(end)

    times = np.array([0.0, step * steps])
    run = lambda: simkit.simulate(system, y0, times, step=step, on_failure="mark")
    np.testing.assert_allclose(run().final().vorticity, bare(y0).vorticity, rtol=1e-9)
    timings = _harness.compare({"bare scan": lambda: bare(y0), "simulate": run}, samples=7)
    _harness.print_timings(f"{steps} steps at 256^2 float64", timings, reference="bare scan")
    return {"simulate_vs_scan": timings["simulate"].minimum / timings["bare scan"].minimum}


def gradient() -> Rows:
    """Memory and time of a gradient through 200 steps at 256^2 float32."""
    system, y0 = flow(256, "float32")
    steps, step = 200, 2e-3
    times = np.array([0.0, step * steps], np.float32)

    def loss(y0: Any, memory: Any) -> Any:
        gradient = None if memory is None else simkit.Checkpointed(memory)
        run = simkit.simulate(system, y0, times, step=step, gradient=gradient, on_failure="mark")
        return jnp.mean(run.final().vorticity ** 2)

    mib = lambda compiled: compiled.memory_analysis().temp_size_in_bytes / 2**20
    schemes = {"recursive": None, "every step": "64 MiB"}
    compiled = {
        name: jax.jit(jax.value_and_grad(lambda y, m=memory: loss(y, m))).lower(y0).compile()
        for name, memory in schemes.items()
    }
    forward = jax.jit(lambda y: loss(y, None)).lower(y0).compile()
    functions = {"forward": lambda: forward(y0), **{name: lambda c=c: c(y0) for name, c in compiled.items()}}
    timings = _harness.compare(functions, samples=3)
    _harness.print_timings(f"{steps} steps at 256^2 float32", timings, reference="forward")
    rows = {"gradient_mib": mib(compiled["recursive"]), "gradient_step_mib": mib(compiled["every step"])}
    rows["gradient_vs_forward"] = timings["recursive"].minimum / timings["forward"].minimum
    rows["gradient_step_vs_forward"] = timings["every step"].minimum / timings["forward"].minimum
    options = {"precision": "float32", "viscosity": VISCOSITY, "drag": DRAG, "step": step}
    options |= {"steps": 1, "samples": 0, "gradient": steps}
    _, about = _harness.run_peer("exponax", EXPONAX, "exponax_flow.py", {"start": start(256)}, options)
    rows["exponax_gradient_mib"] = about["gradient_mib"]
    print(", ".join(f"{name} {value:.3g}" for name, value in rows.items()), flush=True)
    return rows


def main() -> Rows:
    jax.config.update("jax_enable_x64", True)
    wanted = os.environ.get("ROWS", "256,512,3d,scan,gradient,long,volumes,pressure,compressible,layers").split(",")
    rows: Rows = {}
    if "256" in wanted:
        found = beside_exponax(256, "float64", 2e-3, 40)
        rows |= {f"spectral2d_vs_{name}": ratio for name, ratio in found.items()}
    if "512" in wanted:
        found = beside_exponax(512, "float32", 1e-3, 20)
        rows |= {f"spectral2d_512_vs_{name}": ratio for name, ratio in found.items()}
    if "3d" in wanted:
        rows["spectral3d_vs_exponax"] = beside_exponax(64, "float32", 0.01, 20, 3)["exponax"]
    if "scan" in wanted:
        rows |= scan()
    if "gradient" in wanted:
        rows |= gradient()
    for name, benchmark in (
        ("long", _fluids_long.long_gradient),
        ("volumes", _fluids_volumes.incompressible),
        ("pressure", _fluids_volumes.pressure),
        ("compressible", _fluids_volumes.compressible),
        ("layers", _fluids_layers.layers),
    ):
        if name in wanted:
            rows |= benchmark()
    return rows
