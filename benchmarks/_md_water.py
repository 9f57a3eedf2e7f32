"""Rigid SPC/E water with particle-mesh Ewald beside OpenMM and LAMMPS, 3,000 and 24,000 atoms, for `md.py`.

Lengths in nm, times in ps, masses in dalton, energies in kJ/mol; cutoff 0.9, steps of 2 fs at constant energy, lists included.
Damping and splines are those that OpenMM takes for its default tolerance of 5e-4, the mesh is ours, in all three programs. Energies
and forces of one configuration are compared before anything is timed. Times are CPU seconds a step, the least of several; peers run
before and after. Compilation is apart.

**Source:** Berendsen, Grigera & Straatsma (1987), doi:10.1021/j100308a038.
"""

import functools
import math
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import md

H, CUTOFF, TOLERANCE = 0.002, 0.9, 5e-4
BOND, ANGLE = 0.1, math.radians(109.47)
CHARGE, SIGMA, EPSILON = 0.4238, 0.3166, 0.650
MASS = (15.9994, 1.008, 1.008)
EDGES = {"water3000": 10, "water24000": 20}
STEPS = {"water3000": 100, "water24000": 25}
SKIN = 0.1
OPENMM = ["openmm", "numpy"]
LAMMPS = ["lammps", "mpich", "numpy"]


def box(molecules: int) -> tuple[Any, Any, float]:
    """System, in Langevin's dynamics, and start of molecules on a cubic lattice, turned at random, at 0.997 g/cm^3."""
    along = round(molecules ** (1 / 3))
    length = (molecules * (sum(MASS) / 602.214) / 0.997) ** (1 / 3)
    random = np.random.default_rng(0)
    turns, _ = np.linalg.qr(random.normal(size=(molecules, 3, 3)))
    half = ANGLE / 2
    shape = BOND * np.array([[0, 0, 0], [math.sin(half), math.cos(half), 0], [-math.sin(half), math.cos(half), 0]])
    places = np.stack(np.meshgrid(*[np.arange(along)] * 3, indexing="ij"), -1).reshape(-1, 1, 3) * (length / along)
    position = (places + np.einsum("mij,aj->mai", turns, shape)).reshape(-1, 3)
    return system(position, length, md.Langevin(300.0, 10.0)), position, length


def system(position: np.ndarray, length: float, dynamics: Any, precision: str | None = None) -> Any:
    count = len(position) // 3
    atoms = np.arange(3 * count).reshape(count, 3)
    space = md.Orthorhombic(np.full(3, length))
    excluded = np.concatenate([atoms[:, [0, 1]], atoms[:, [0, 2]], atoms[:, [1, 2]]])
    waves = md.particle_mesh_ewald(space, CUTOFF, tolerance=TOLERANCE, constant=md.GROMACS.coulomb, excluded=excluded)
    return md.Particles(
        md.LennardJones(np.array([SIGMA, SIGMA]), np.array([EPSILON, 0.0]), cutoff=CUTOFF) + waves,
        space,
        np.tile(MASS, count),
        dynamics,
        species=jnp.asarray(np.tile([0, 1, 1], count), jnp.int32),
        charge=jnp.asarray(np.tile([-2 * CHARGE, CHARGE, CHARGE], count)),
        constraints=md.RigidWater(atoms, BOND, ANGLE),
        units=md.GROMACS,
        skin=SKIN,
        precision=precision,
        exclusions=excluded,
    )


@functools.cache
def relaxed(along: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Positions, velocities and the edge of a box that has left its lattice, or of eight copies of it."""
    start, position, length = box(1000)
    masses = np.tile(MASS, len(position) // 3)
    momentum = md.maxwell_boltzmann(jax.random.key(0), jnp.asarray(masses), 300 * md.GROMACS.boltzmann)
    y0 = as_type(md.Atoms(jnp.asarray(position), momentum), "float32")
    run = simkit.simulate(as_type(start, "float32"), y0, [0.0, 0.4], step=0.001, key=jax.random.key(1))
    end = run.final()
    position, velocity = np.asarray(end.position, float), np.asarray(end.momentum, float) / masses[:, None]
    copies = along // 10
    shifts = np.stack(np.meshgrid(*[np.arange(copies)] * 3, indexing="ij"), -1).reshape(-1, 1, 3) * length
    position, velocity = (position[None] + shifts).reshape(-1, 3), np.tile(velocity, (copies**3, 1))
    return position, velocity, copies * length


def as_type(tree: Any, dtype: str) -> Any:
    return simkit.cast(tree, jnp.dtype(dtype))


class Ours:
    """A run that goes on from where the last ended."""

    def __init__(self, name: str, dtype: str, precision: str | None = None):
        position, velocity, length = relaxed(EDGES[name])
        momentum = velocity * np.tile(MASS, len(position) // 3)[:, None]
        self.y = as_type(md.Atoms(jnp.asarray(position), jnp.asarray(momentum)), dtype)
        self.system = as_type(system(position, length, md.NVE(), precision), dtype)
        self.system = self.system.prepared(self.y)
        self.times = np.array([0.0, STEPS[name] * H])

    def __call__(self) -> Any:
        run = simkit.simulate(self.system, self.y, self.times, step=H)
        self.y = run.final()
        return self.y.position

    @functools.cached_property
    def found(self) -> Any:
        return self.system.gradients(self.y)


def peer(script: str, packages: list[str], name: str) -> tuple[np.ndarray, float, np.ndarray]:
    """CPU seconds a step, energy in kJ/mol, and forces in kJ/mol/nm."""
    position, velocity, length = relaxed(EDGES[name])
    waves = md.particle_mesh_ewald(md.Orthorhombic(np.full(3, length)), CUTOFF, tolerance=TOLERANCE).terms[1]
    options = {
        "length": length,
        "cutoff": CUTOFF,
        "step": H,
        "steps": STEPS[name],
        "samples": 5,
        "damping": float(waves.damping),
        "mesh": waves.mesh,
        "bond": BOND,
        "angle": ANGLE,
        "charge": CHARGE,
        "sigma": SIGMA,
        "epsilon": EPSILON,
        "mass": MASS,
    }
    found, figures = _harness.run_peer(
        script, packages, f"{script}_water.py", {"position": position, "velocity": velocity}, options
    )
    return found["spent"], figures["energy"], found["force"]


def water(name: str) -> dict[str, float]:
    """One size, in a table."""
    before = {"openmm": peer("openmm", OPENMM, name), "lammps": peer("lammps", LAMMPS, name)}
    kinds = {"float32": ("float32", None), "mixed": ("float64", "float32"), "float64": ("float64", None)}
    functions = {label: Ours(name, *kind) for label, kind in kinds.items()}
    check(name, functions, before)
    timings = _harness.compare(functions, samples=5)
    after = {"openmm": peer("openmm", OPENMM, name), "lammps": peer("lammps", LAMMPS, name)}
    least = {who: float(np.min([before[who][0], after[who][0]])) for who in before}
    rows, table = {}, [[f"{who}", f"{1e3 * spent:.4g}", "", "", ""] for who, spent in least.items()]
    for label, timing in timings.items():
        step = timing.minimum / STEPS[name]
        ratios = {who: spent / step for who, spent in least.items()}
        rows |= {f"{name}_{label}_vs_{who}": ratio for who, ratio in ratios.items()}
        table.append([label, f"{1e3 * step:.4g}", *(f"{r:.2f}" for r in ratios.values()), f"{timing.first:.1f}"])
    _harness.print_table(name, ["", "CPU ms a step", "x OpenMM", "x LAMMPS", "first call, CPU s"], table)
    return rows


def check(name: str, functions: dict[str, Ours], peers: dict[str, Any]) -> None:
    """That energies and forces agree with the peers': the same sums, by other splines and roundings."""
    sharp = functions["float64"].found
    size = float(jnp.sqrt(jnp.mean(sharp.forces**2)))
    for label, (energy, force) in {
        **{who: found[1:] for who, found in peers.items()},
        **{
            label: (float(ours.found.energy), np.asarray(ours.found.forces, float)) for label, ours in functions.items()
        },
    }.items():
        apart = float(np.sqrt(np.mean((force - np.asarray(sharp.forces)) ** 2))) / size
        print(f"{name} {label}: energy {energy:.4f} kJ/mol, forces {apart:.1e} from those of float64", flush=True)
        if not (abs(energy / float(sharp.energy) - 1) < 1e-4 and apart < 1e-3):
            raise AssertionError(f"{label} does not agree with simkit in float64 on {name}.")
