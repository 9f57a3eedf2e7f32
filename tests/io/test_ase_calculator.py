"""Our potentials as calculators of ASE, beside ASE's own Lennard-Jones."""

import numpy as np
import pytest

import simkit
from simkit import md

ase = pytest.importorskip("ase")
from ase.build import bulk  # noqa: E402
from ase.calculators.lj import LennardJones  # noqa: E402

ARGON = md.LennardJones(sigma=3.405, epsilon=0.0103, cutoff=8.5, truncation=md.Shifted())


def rattled(cell=(1, 1, 1), kind="Ar"):
    atoms = bulk(kind, "fcc", a=5.3, cubic=True) * cell
    atoms.rattle(0.1, seed=1)
    atoms.set_cell(atoms.cell @ np.array([[1.0, 0.0, 0.0], [0.03, 1.02, 0.0], [0.0, -0.02, 0.98]]), scale_atoms=True)
    return atoms


def test_energy_forces_and_stress_are_those_of_ase():
    """In a small skewed cell, seen through several images; ASE's own calculator is shifted at the cutoff alike."""
    ours = rattled()
    ours.calc = simkit.io.ase_calculator(ARGON)
    theirs = rattled()
    theirs.calc = LennardJones(sigma=3.405, epsilon=0.0103, rc=8.5, smooth=False)
    for atoms in (ours, theirs):
        atoms.set_cell(atoms.cell * 1.01, scale_atoms=True)
    np.testing.assert_allclose(ours.get_potential_energy(), theirs.get_potential_energy(), rtol=1e-12)
    np.testing.assert_allclose(ours.get_forces(), theirs.get_forces(), atol=1e-13)
    np.testing.assert_allclose(ours.get_stress(), theirs.get_stress(), atol=1e-13)
    denser = ours.copy()
    denser.calc = ours.calc
    denser.set_cell(ours.cell * 0.8, scale_atoms=True)  # more neighbours than there was room for
    theirs.set_cell(denser.cell, scale_atoms=True)
    np.testing.assert_allclose(denser.get_potential_energy(), theirs.get_potential_energy(), rtol=1e-12)


@pytest.mark.slow
def test_species_by_symbol():
    atoms = rattled()
    atoms.symbols[0] = "Kr"
    with pytest.raises(simkit.ArgumentError, match=r"\['Kr'\] are not among \['Ar'\]"):
        simkit.io.ase_calculator(ARGON, symbols=["Ar"]).get_potential_energy(atoms)
    mixture = md.LennardJones([3.405, 3.65], [0.0103, 0.0141], cutoff=8.5)
    found = simkit.io.ase_calculator(mixture, symbols=["Ar", "Kr"]).get_potential_energy(atoms)
    swapped = md.LennardJones([3.65, 3.405], [0.0141, 0.0103], cutoff=8.5)
    np.testing.assert_allclose(
        simkit.io.ase_calculator(swapped, symbols=["Kr", "Ar"]).get_potential_energy(atoms), found
    )
