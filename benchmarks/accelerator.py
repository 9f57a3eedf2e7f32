"""The default device of JAX, which is a GPU where there is one: wall seconds, beside the peers that run there.

Answers are compared before anything is timed; compilation is apart. Times are wall seconds, the least of several, since the work is
not the processor's. Peers are those that run in one JAX with us: Diffrax; and jax-md and exponax, in processes of their own between
ours. Where nothing can be installed, `PEERS_PYTHON` names a Python that has them.

Run all: `python benchmarks/run.py accelerator`. Some: `ROWS=md,ensembles python benchmarks/run.py accelerator`, of fixed, adaptive,
stochastic, ensembles, gradients, md, flows and fits. `SIZES=4000,32000` chooses the numbers of atoms. No group of rows begins once
`WITHIN` seconds have passed (600). What was measured stands in `accelerator.json` and, as a page, `accelerator.md`, in the folder
that `OUT` names (`results-accelerator`), after each group, so that a run that is cut off leaves what it had.
"""

import json
import os
import pathlib
import subprocess
import time
from collections.abc import Callable
from typing import Any

import _accelerator_kernels as kernels
import _ensemble_gradients
import _ensemble_peers as peers
import _ensemble_problems as problems
import _fluids_volumes
import _harness
import diffrax
import fluids as flows
import jax
import jax.numpy as jnp
import md as particles
import numpy as np
from _ensemble_problems import Case

import simkit

CELLS = {500: 5, 4000: 10, 32000: 20, 256_000: 40, 1_048_576: 64}
Rows = dict[str, float]


def print_row(name: str, ours: float, others: dict[str, float]) -> None:
    beside = ", ".join(f"{label} {1e3 * value:.4g} ms ({value / ours:.2f}x)" for label, value in others.items())
    print(f"{name}: simkit {1e3 * ours:.4g} ms; {beside}", flush=True)


def least(functions: dict[str, Callable[[], Any]], samples: int = 5) -> dict[str, float]:
    return {name: float(np.min(timing.wall)) for name, timing in _harness.compare(functions, samples=samples).items()}


def peer(name: str, packages: list[str], script: str, arrays: Any, options: Any) -> tuple[Any, Any]:
    try:
        return _harness.run_peer(name, packages, script, arrays, options)
    except subprocess.CalledProcessError as error:
        print(f"{name} did not run here ({error}): left out.", flush=True)
        return {}, {}


def md() -> Rows:
    """The Lennard-Jones fluid of `md.py`, milliseconds a step."""
    rows: Rows = {}
    chosen = [int(word) for word in os.environ.get("SIZES", "").split(",") if word] or list(CELLS)
    for count in chosen:
        steps = int(np.clip(4_000_000 / count, 20, 400))
        position, velocity, length = particles.melted(CELLS[count])
        ours, energies = {}, {}
        for label, dtype, precision in (
            ("float32", "float32", None),
            ("float64", "float64", None),
            ("mixed", "float64", "float32"),
        ):
            run = particles.Ours(CELLS[count], dtype, steps, precision)
            energies[label] = float(run.system.energy(run.y)) / count
            ours[label] = least({label: run})[label] / steps
        for label, energy in energies.items():
            if not abs(energy / energies["float64"] - 1) < 1e-5:
                raise AssertionError(f"The energy an atom in {label} is {energy}, in float64 {energies['float64']}.")
        for precision in ("float32", "float64"):
            arrays = {"lj.position": position, "lj.velocity": velocity}
            options = {"lengths": {"lj": length}, "steps": {"lj": steps}, "samples": 3, "precision": precision}
            found, energy = peer("jax_md", particles.JAX_MD, "jax_md_fluid.py", arrays, options)
            others = {"jax-md": float(np.min(found["lj"]))} if found else {}
            if energy:  # it switches its energy off before the cutoff
                print(f"{count} atoms: energy an atom {energies[precision]:.6f}, jax-md {energy['lj']:.6f}")
            print_row(f"{count} atoms, {precision}, a step", ours[precision], others)
            rows |= {f"lj{count}_{precision}_vs_{name}": value / ours[precision] for name, value in others.items()}
        print_row(f"{count} atoms, mixed, a step", ours["mixed"], {})
        rows |= {f"lj{count}_{label}_us_a_step": 1e6 * value for label, value in ours.items()}
    return rows


def ensemble(case: Case, times: int) -> Rows:
    """One ensemble beside `vmap(diffeqsolve)`, seconds a solve."""
    exact = problems.truth(case, times)

    def solve(over: Any) -> Any:
        step = simkit.Adaptive(case.rtol, case.atol, max_steps=1_000_000)
        return simkit.ensemble(case.system, case.start, case.times(times), over=over, solver=case.solver, step=step)

    solver = diffrax.Kvaerno5() if case.name == "robertson" else diffrax.Tsit5()
    over = {path: jnp.asarray(values) for path, values in case.over.items()}
    ours, theirs = jax.jit(solve), jax.jit(peers.stock(case, times, solver, max_steps=100_000))
    y0, p = jnp.asarray(case.y0), jnp.asarray(case.p)
    found = ours(over)
    y = np.stack([np.asarray(leaf) for leaf in jax.tree.leaves(found.ys)], axis=-1)[case.checked]
    error = case.error(y[:, -1], exact[:, -1])[0]
    other = case.error(np.asarray(theirs(y0, p)[0])[case.checked][:, -1], exact[:, -1])[0]
    print(f"{case.name}, {case.members} members: errors {error:.1e}, Diffrax {other:.1e}", flush=True)
    if not (error < 1e3 * case.rtol and np.all(np.asarray(found.status) == 0)):
        raise AssertionError(f"simkit fails on {case.name}.")
    spent = least({"simkit": lambda: ours(over), "Diffrax": lambda: theirs(y0, p)}, samples=3)
    print_row(f"{case.name}, {case.members} members, {times} times", spent["simkit"], {"Diffrax": spent["Diffrax"]})
    rows = {f"{case.name}_{case.members}_{times}_vs_diffrax": spent["Diffrax"] / spent["simkit"]}
    return rows | {f"{case.name}_{case.members}_{times}_ms": 1e3 * spent["simkit"]}


def repeated(case: Case, members: int) -> Case:
    """The case with its members over and over."""
    return case._replace(over={path: np.resize(values, members) for path, values in case.over.items()})


def ensembles() -> Rows:
    rows: Rows = {}
    for case in (problems.lorenz(), problems.lotka_volterra(), problems.van_der_pol(), problems.robertson()):
        rows |= ensemble(case, 2)
        if case.name != "robertson":
            rows |= ensemble(repeated(case, 200_000), 2)
    return rows | ensemble(problems.lorenz(), problems.SAVED)


def flow(cells: int, dtype: str, dimensions: int) -> Rows:
    """ETDRK4 beside exponax, seconds a step."""
    system, y0 = flows.flow(cells, dtype, dimensions)
    step, steps = (5e-4, 40) if dimensions == 2 else (5e-3, 20)
    run = lambda: simkit.simulate(system, y0, np.array([0.0, step * steps]), step=step, on_failure="mark")
    field = np.asarray(jax.tree.leaves(run().final())[0])
    ours = least({"simkit": run})["simkit"] / steps
    viscosity = flows.VISCOSITY if dimensions == 2 else 1 / 1600
    options = {"precision": dtype, "viscosity": viscosity, "drag": flows.DRAG, "step": step}
    options |= {"steps": steps, "samples": 5}
    arrays = {"start": np.asarray(flows.start(cells, dimensions))}
    found, _ = peer("exponax", flows.EXPONAX, "exponax_flow.py", arrays, options)
    others = {}
    if found:
        others["exponax"] = float(np.min(found["spent"]))
        off = np.abs(field - found["end"]).max() / np.abs(found["end"]).max()
        print(f"{cells}^{dimensions} {dtype}: exponax differs by {off:.1e} of the largest value")
        if not off < 1e-2:
            raise AssertionError("simkit and exponax do not agree.")
    name = f"spectral_{cells}^{dimensions}_{dtype}"
    print_row(f"{name}, a step", ours, others)
    return {f"{name}_us": 1e6 * ours} | {f"{name}_vs_{label}": value / ours for label, value in others.items()}


def flows_rows() -> Rows:
    rows: Rows = {}
    for cells, dtype, dimensions in (
        (256, "float64", 2),
        (512, "float32", 2),
        (2048, "float32", 2),
        (64, "float32", 3),
        (256, "float32", 3),
    ):
        rows |= flow(cells, dtype, dimensions)
    return rows | _fluids_volumes.compressible(1024) | _fluids_volumes.pressure(1024)


ROWS = {
    "fixed": kernels.fixed,
    "adaptive": kernels.adaptive,
    "stochastic": kernels.stochastic,
    "ensembles": ensembles,
    "gradients": _ensemble_gradients.adaptive,
    "md": md,
    "flows": flows_rows,
    "fits": kernels.fits,
}


def write(machine: str, rows: Rows, spent: Rows) -> None:
    """Leave the figures as JSON and as a page."""
    folder = pathlib.Path(os.environ.get("OUT", "results-accelerator"))
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "machine": machine,
        "seconds": spent,
        "rows": {name: float(f"{value:.6g}") for name, value in rows.items()},
    }
    (folder / "accelerator.json").write_text(json.dumps(found, indent=1) + "\n")
    table = "".join(f"| {name} | {value:.4g} |\n" for name, value in rows.items())
    (folder / "accelerator.md").write_text(f"# {machine}\n\n| row | figure |\n|---|---|\n{table}")


def main() -> Rows:
    jax.config.update("jax_enable_x64", True)
    device, began = jax.devices()[0], time.monotonic()
    machine = f"{device.platform} {device.device_kind}, JAX {jax.__version__}"
    print(machine, flush=True)
    found: Rows = {}
    spent: Rows = {}
    for name in [name for name in os.environ.get("ROWS", "").split(",") if name] or list(ROWS):
        if time.monotonic() - began > float(os.environ.get("WITHIN", "600")):
            print(f"\n== {name}: no time left", flush=True)
            continue
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        found |= ROWS[name]()
        spent[name] = time.monotonic() - start
        write(machine, found, spent)
    return found
