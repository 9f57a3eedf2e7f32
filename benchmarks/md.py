"""Molecular dynamics through `simkit.simulate`, beside LAMMPS, OpenMM and jax-md, each on one core.

The Lennard-Jones fluid at density 0.8442 and temperature 0.72, cutoff 2.5, skin 0.3, steps of 0.005, rebuilds included. All
programs start from one melted configuration; potential energies are compared before anything is timed. Times are CPU seconds a
step, the least of several; peers run before and after. Compilation is apart.

Run all: `python benchmarks/run.py md`. Some: `ROWS=lj500,gradient python benchmarks/run.py md`, of lj500, lj4000, lj32000, scaling,
gradient, crystals, batches, sizes, molecules, average_gradient, water3000, water24000.
"""

import dataclasses
import functools
import os
import subprocess
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np
from _md_batches import batches, sizes
from _md_crystals import crystals
from _md_gradients import average_gradient
from _md_molecules import molecules
from _md_water import EDGES, water

import simkit
from simkit import md

H, DENSITY = 0.005, 0.8442
CELLS = {"lj500": 5, "lj4000": 10, "lj32000": 20}
STEPS = {"lj500": 800, "lj4000": 200, "lj32000": 40}
LAMMPS = ["lammps", "mpich", "numpy"]
JAX_MD = ["jax-md", "numpy"]
OPENMM = ["openmm", "numpy"]
Rows = dict[str, float]


@functools.cache
def melted(cells: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Positions in the cell, velocities and the edge of a fluid that has forgotten its lattice."""
    start = md.crystal("fcc", (4 / DENSITY) ** (1 / 3), (cells,) * 3)
    count = len(start.position)
    momentum = md.maxwell_boltzmann(jax.random.key(0), jnp.ones(count), 1.44, exact=True)
    system = as_type(md.Particles(md.LennardJones(), start.space), "float32")
    end = simkit.simulate(system, as_type(md.Atoms(start.position, momentum), "float32"), [0.0, 2.0], step=H).final()
    length = float(np.asarray(start.space.lengths)[0])
    return np.asarray(end.position, float) % length, np.asarray(end.momentum, float), length


def as_type(tree: Any, dtype: str) -> Any:
    return simkit.cast(tree, jnp.dtype(dtype))


def fluid(cells: int, dtype: str, precision: str | None = None) -> tuple[Any, Any]:
    """System and start."""
    position, velocity, length = melted(cells)
    system = md.Particles(md.LennardJones(), md.Orthorhombic(jnp.full(3, length)), precision=precision)
    y0 = as_type(md.Atoms(jnp.asarray(position), jnp.asarray(velocity)), dtype)
    return as_type(system, dtype).prepared(y0), y0


class Ours:
    """A run that goes on from where the last ended."""

    def __init__(self, cells: int, dtype: str, steps: int, precision: str | None = None):
        self.system, self.y = fluid(cells, dtype, precision)
        self.times = np.array([0.0, steps * H])
        self.start = self.y

    def __call__(self) -> Any:
        run = simkit.simulate(self.system, self.y, self.times, step=H)
        self.y = run.final()
        return self.y.position


def peers(
    names: list[str], precision: str = "float64"
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, float]]:
    """CPU seconds a step of LAMMPS by name, of jax-md by name, and LAMMPS' energies an atom."""
    arrays, lengths = {}, {}
    for name in names:
        position, velocity, lengths[name] = melted(CELLS[name])
        arrays |= {f"{name}.position": position, f"{name}.velocity": velocity}
    options = {"lengths": lengths, "steps": STEPS, "samples": 5, "styles": ["lj/cut"]}
    lammps, energies = _harness.run_peer("lammps", LAMMPS, "lammps_fluid.py", arrays, options)
    small = [name for name in names if name != "lj32000"]
    chosen = options | {"lengths": {name: lengths[name] for name in small}, "samples": 3, "precision": precision}
    chosen["steps"] = {name: steps // 4 for name, steps in STEPS.items()}
    try:
        other, _ = _harness.run_peer("jax_md", JAX_MD, "jax_md_fluid.py", arrays, chosen) if small else ({}, {})
    except subprocess.CalledProcessError as error:
        print(f"jax-md did not run here ({error}): its rows are left out.", flush=True)
        other = {}
    return lammps, other, energies


def openmm(name: str) -> tuple[np.ndarray, float]:
    """CPU seconds a step of OpenMM's CPU platform, which is in single precision, and its energy an atom."""
    position, velocity, length = melted(CELLS[name])
    arrays = {f"{name}.position": position, f"{name}.velocity": velocity}
    options = {"lengths": {name: length}, "steps": STEPS, "samples": 5}
    spent, energies = _harness.run_peer("openmm", OPENMM, "openmm_fluid.py", arrays, options)
    return spent[name], energies[name]


def beside_peers(name: str) -> Rows:
    lammps, other, energies = peers([name])
    single, energy = openmm(name)
    print(f"{name} OpenMM: energy an atom {energy:.9f}", flush=True)
    if not abs(energy / energies[f"{name}.lj/cut"] - 1) < 1e-5:
        raise AssertionError(f"OpenMM and LAMMPS do not agree on the energy of {name}.")
    rows: Rows = {}
    table = []
    functions = {}
    for label, dtype, precision in (
        ("float32", "float32", None),
        ("float64", "float64", None),
        ("mixed", "float64", "float32"),
    ):
        ours = Ours(CELLS[name], dtype, STEPS[name], precision)
        count = len(ours.y.position)
        found = float(ours.system.energy(ours.y)) / count
        expected = energies[f"{name}.lj/cut"]
        allowed = 1e-9 if label == "float64" else 1e-5
        print(f"{name} {label}: energy an atom {found:.9f}, LAMMPS {expected:.9f}", flush=True)
        if not abs(found / expected - 1) < allowed:
            raise AssertionError(f"simkit and LAMMPS do not agree on the energy of {name} in {label}.")
        functions[label] = ours
    timings = _harness.compare(functions, samples=5)
    again = peers([name])
    least = lambda arrays: float(np.min(np.concatenate(arrays)))
    theirs = least([lammps[f"{name}.lj/cut"], again[0][f"{name}.lj/cut"]])
    table.append(["LAMMPS lj/cut, double", f"{1e3 * theirs:.4g}", f"{count / theirs / 1e6:.3g}", "1.00", ""])
    single = least([single, openmm(name)[0]])
    line = [f"{1e3 * single:.4g}", f"{count / single / 1e6:.3g}", f"{theirs / single:.2f}"]
    table.append(["OpenMM, CPU platform, single", *line, ""])
    rows[f"{name}_float32_vs_openmm"] = single / (timings["float32"].minimum / STEPS[name])
    if name in other:
        slow = least([other[name], again[1][name]])
        table.append(
            [
                "jax-md, ordered sparse, float64",
                f"{1e3 * slow:.4g}",
                f"{count / slow / 1e6:.3g}",
                f"{theirs / slow:.3f}",
                "",
            ]
        )
    for label, timing in timings.items():
        step = timing.minimum / STEPS[name]
        rows[f"{name}_{label}_vs_lammps"] = theirs / step
        if name in other:
            rows[f"{name}_{label}_vs_jax_md"] = slow / step
        table.append(
            [
                f"simkit, {label}",
                f"{1e3 * step:.4g}",
                f"{count / step / 1e6:.3g}",
                f"{theirs / step:.2f}",
                f"{timing.first:.1f}",
            ]
        )
    head = ["", "CPU ms a step", "million atom-steps a second", "x LAMMPS", "first call, CPU s"]
    _harness.print_table(f"{name}, {count} atoms", head, table)
    return rows


def scaling() -> Rows:
    """Cost an atom and step from 4,000 to 256,000 atoms, float32, in runs of 100 steps: the first list and force count."""
    costs, steps = {}, 100
    for cells in (10, 40):
        ours = Ours(cells, "float32", steps)
        timing = _harness.compare({"simkit": ours}, samples=3)["simkit"]
        costs[cells] = timing.minimum / steps / len(ours.y.position)
        print(f"{len(ours.y.position)} atoms: {1e9 * costs[cells]:.0f} ns an atom and step", flush=True)
    return {"cost_an_atom_256000_vs_4000": costs[40] / costs[10]}


def gradient() -> Rows:
    """A mean squared displacement after 100 steps, by sigma: value and gradient beside the value alone."""
    rows: Rows = {}
    for dtype in ("float32", "float64"):
        for cells in (5, 10):
            rows |= gradient_of(cells, dtype)
    smooth()
    rows["gradient_vs_forward"] = rows["gradient_vs_forward_float32_4000"]
    rows["gradient_bytes_per_atom_step"] = rows["gradient_bytes_per_atom_step_float32_4000"]
    return rows


def smooth() -> None:
    """That the derivative equals central differences where the force has no jump at the cutoff; the fluid above has one."""
    system, y0 = fluid(5, "float64")
    times = np.array([0.0, 100 * H])
    system = dataclasses.replace(system, potential=md.LennardJones(truncation=md.Switched(0.4))).prepared(y0)
    put = simkit.core.Setup(system, y0, None).put

    def loss(sigma):
        end = simkit.simulate(put({"potential.sigma": sigma}).system, y0, times, step=H).final()
        return jnp.mean(jnp.sum((end.position - y0.position) ** 2, -1))

    value = jax.jit(loss)
    found, difference = float(jax.jit(jax.grad(loss))(1.0)), float((value(1 + 1e-6) - value(1 - 1e-6)) / 2e-6)
    print(f"500 atoms, force switched off smoothly: derivative {found:.10g}, differences {difference:.10g}", flush=True)
    assert abs(found / difference - 1) < 1e-6


def gradient_of(cells: int, dtype: str) -> Rows:
    system, y0 = fluid(cells, dtype)
    steps, count = 100, len(y0.position)

    def loss(sigma):
        put = simkit.core.Setup(system, y0, None).put({"potential.sigma": sigma})
        run = simkit.simulate(put.system, put.y0, np.array([0.0, steps * H]), step=H, on_failure="mark")
        return jnp.mean(jnp.sum((run.final().position - y0.position) ** 2, -1))

    sigma = jnp.ones((), dtype)
    forward = jax.jit(loss).lower(sigma).compile()
    both = jax.jit(jax.value_and_grad(loss)).lower(sigma).compile()
    h = 1e-5 if dtype == "float64" else 3e-3
    found, difference = both(sigma)[1], (forward(sigma + h) - forward(sigma - h)) / (2 * h)
    print(f"{count} atoms, {dtype}: derivative {found:.8g}, differences {difference:.8g}", flush=True)
    timings = _harness.compare({"value": lambda: forward(sigma), "value and gradient": lambda: both(sigma)}, samples=5)
    extra = both.memory_analysis().temp_size_in_bytes - forward.memory_analysis().temp_size_in_bytes
    ratio, size = timings["value and gradient"].minimum / timings["value"].minimum, extra / count / steps
    print(f"  {ratio:.2f} times its forward, {size:.1f} bytes an atom and step", flush=True)
    label = f"{dtype}_{count}"
    return {f"gradient_vs_forward_{label}": ratio, f"gradient_bytes_per_atom_step_{label}": size}


ROWS = {name: functools.partial(beside_peers, name) for name in CELLS} | {
    "scaling": scaling,
    "gradient": gradient,
    "crystals": crystals,
    "batches": batches,
    "sizes": sizes,
    "molecules": molecules,
    "average_gradient": average_gradient,
    **{name: functools.partial(water, name) for name in EDGES},
}


def main() -> Rows:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, for the peers too
    simkit.enable_x64()
    chosen = [name for name in os.environ.get("ROWS", "").split(",") if name] or list(ROWS)
    found: Rows = {}
    for name in chosen:
        print(f"\n== {name}: load {os.getloadavg()[0]:.1f}", flush=True)
        found |= ROWS[name]()
    return found
