"""Silicon by Stillinger and Weber and copper by Mishin's embedded-atom potential, 4,096 atoms, beside LAMMPS, for `md.py`.

Crystals at 600 K in double precision, steps of 1 fs, through `simkit.simulate`, lists included. Energies are compared before
anything is timed. Times are CPU seconds a step, the least of several; LAMMPS runs before and after. Compilation is apart.
"""

import pathlib
import tempfile
from typing import Any

import _harness
import jax
import numpy as np

import simkit
from simkit import md

H, STEPS, SKIN = 0.001, 50, 0.5
LAMMPS = ["lammps", "mpich", "numpy"]
MASS = 1.0364269e-4  # of 1 g/mol in eV ps^2 / Angstrom^2
CRYSTALS = {
    "stillinger_weber": ("diamond", 5.431, (8, 8, 8), 28.085, {"style": "sw", "file": "Si.sw Si"}),
    "eam": ("fcc", 3.615, (8, 8, 16), 63.546, {"style": "eam/alloy", "file": "Cu_mishin1.eam.alloy Cu"}),
}


class Ours:
    """A run that goes on from where the last ended."""

    def __init__(self, system: Any, y0: Any):
        self.y, self.system = y0, system.prepared(y0)

    def __call__(self) -> Any:
        self.y = simkit.simulate(self.system, self.y, np.array([0.0, STEPS * H]), step=H).final()
        return self.y.position


def starts() -> dict[str, tuple[Any, Any, Any]]:
    """Space, mass, and atoms that are displaced at random from their places, with momenta at random."""
    found = {}
    for name, (lattice, edge, counts, mass, _) in CRYSTALS.items():
        crystal = md.crystal(lattice, edge, counts)
        random = np.random.default_rng(0)
        position = np.asarray(crystal.position) + random.normal(0, 0.06, crystal.position.shape)
        momentum = md.maxwell_boltzmann(
            jax.random.key(0), np.full(len(position), mass * MASS), 600 * md.METAL.boltzmann, exact=True
        )
        found[name] = crystal.space, mass, md.Atoms(position, np.asarray(momentum))
    return found


def peers(given: dict[str, tuple[Any, Any, Any]]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    arrays, crystals = {}, {}
    for name, (space, mass, atoms) in given.items():
        arrays |= {f"{name}.position": np.asarray(atoms.position)}
        arrays |= {f"{name}.velocity": np.asarray(atoms.momentum) / (mass * MASS)}
        setup = CRYSTALS[name][4] | {"mass": mass}
        crystals[name] = {"lengths": np.asarray(space.lengths, float).tolist(), "setup": setup}
    options = {"crystals": crystals, "steps": STEPS, "samples": 5, "skin": SKIN}
    return _harness.run_peer("lammps", LAMMPS, "lammps_crystals.py", arrays, options)


def crystals() -> dict[str, float]:
    """Both, in one table."""
    given = starts()
    theirs, energies = peers(given)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "copper.eam.alloy")
        path.write_bytes(theirs["tables"].astype(np.uint8).tobytes())
        copper = md.EAM.from_tables(md.read_setfl(path))
    functions = {}
    for name, (space, mass, atoms) in given.items():
        potential = md.StillingerWeber() if name == "stillinger_weber" else copper
        functions[name] = Ours(md.Particles(potential, space, mass * MASS, units=md.METAL, skin=SKIN), atoms)
        found = float(functions[name].system.energy(atoms)) / len(atoms.position)
        print(f"{name}: energy an atom {found:.9f}, LAMMPS {energies[name]:.9f}", flush=True)
        if not abs(found / energies[name] - 1) < 1e-9:
            raise AssertionError(f"simkit and LAMMPS do not agree on the energy of {name}.")
    timings = _harness.compare(functions, samples=5)
    again, _ = peers(given)
    rows, table = {}, []
    for name, timing in timings.items():
        least = float(np.min([theirs[name], again[name]]))
        step = timing.minimum / STEPS
        rows[f"{name}_vs_lammps"] = least / step
        table.append([name, f"{1e3 * step:.3g}", f"{1e3 * least:.3g}", f"{least / step:.2f}", f"{timing.first:.1f}"])
    head = ["4,096 atoms", "simkit, CPU ms a step", "LAMMPS", "x LAMMPS", "first call, CPU s"]
    _harness.print_table("Many-body potentials, float64", head, table)
    return rows
