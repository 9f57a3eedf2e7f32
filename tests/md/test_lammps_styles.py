"""Styles of LAMMPS one by one, against LAMMPS itself: pairs at some distances, and a chain whose terms are of many styles."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md
from simkit.md.files._lammps_commands import Commands
from simkit.md.files._lammps_data import LammpsData
from simkit.md.files._lammps_pair_terms import Near, pair_terms
from simkit.md.potentials import _pair_terms as swept
from simkit.md.potentials._potential import BySpecies, parts

KNOWN = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_more_styles.json").read_text())
CHAIN = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_styles.json").read_text())["data"]
R = np.array(KNOWN["distances"])
# LAMMPS has Coulomb's constant with eight digits, and takes erfc of some styles from a polynomial with an error of 1.5e-7.
WITHIN = {"dsf": 1e-6, "coul": 1e-7, "zbl": 1e-7}


def potentials(commands):
    """The terms of the commands for two types of atoms in a wide cell."""
    none = np.zeros((0, 3), int)
    data = LammpsData(
        np.zeros(3), np.eye(3), np.arange(2), np.ones(2), np.zeros((2, 3)), None, np.ones(2), {"bond": none}, {}
    )
    space = md.Orthorhombic(jnp.full(3, 40.0))
    return [
        term
        for _, term in pair_terms(
            data, Commands("\n".join(commands)), md.REAL, space, Near([], True), (none[:, :2], np.zeros(0))
        )
    ]


def energies(potential, r2, i, j):
    """Energies and forces of a pair of types by their squared distance, as the sweep over pairs computes them."""
    (term,) = swept.pair_terms([potential])
    of_pair = lambda leaf: leaf.table[i, j] if isinstance(leaf, BySpecies) else leaf
    values = jax.tree.map(
        of_pair, (term.coefficients, term.constants), is_leaf=lambda leaf: isinstance(leaf, BySpecies)
    )
    u, slope = (np.asarray(part) for part in term.pair(jnp.asarray(r2), values))
    factor = np.prod(KNOWN["charges"]) if potential.charged else 1.0
    inside = r2 < potential.cutoff**2
    return np.where(inside, factor * u, 0), np.where(inside, -2 * factor * np.sqrt(r2) * slope, 0)


@pytest.mark.parametrize("name", KNOWN["pairs"])
def test_pair_styles_are_those_of_lammps(name):
    case = KNOWN["pairs"][name]
    terms = potentials(case["commands"])
    self_energy = sum(float(term.self_energy(jnp.asarray(KNOWN["charges"]))) for term in terms)
    found = [energies(term, R**2, 0, 1) for term in terms]
    within = next((tolerance for part, tolerance in WITHIN.items() if part in name), 1e-12)
    for k, what in enumerate(("energy", "force")):
        known = np.array(case[what]) - (self_energy if k == 0 else 0.0)
        np.testing.assert_allclose(sum(one[k] for one in found), known, rtol=within, atol=within * np.abs(known).max())


def test_terms_of_many_styles_are_those_of_lammps(tmp_path):
    """Bonds of 2 styles, angles of 5, dihedrals of 3 and impropers of 8, as hybrid styles."""
    case = KNOWN["bonded"]
    path = tmp_path / "many.data"
    path.write_text(case["data"])
    model = md.read_lammps(path, "units real\npair_style zero 6.0\n" + "\n".join(case["commands"]))
    energies, forces = dict.fromkeys(case["energies"], 0.0), np.zeros((14, 3))
    for name, term in zip(model.names, parts(model.system.potential), strict=True):
        energy = lambda x, term=term: jnp.sum(term.term(model.system.space, x[term.atoms]))
        each, pull = jax.vjp(energy, model.start.position)
        energies[next(kind for kind in energies if name.startswith(kind))] += float(each)
        forces -= np.asarray(pull(jnp.ones_like(each))[0])
    for kind, known in case["energies"].items():
        np.testing.assert_allclose(energies[kind], known, rtol=1e-12, err_msg=kind)
    known = np.array(case["forces"])
    np.testing.assert_allclose(forces, known, atol=1e-12 * np.abs(known).max())


def test_cells_narrower_than_two_cutoffs_are_those_of_lammps(tmp_path):
    """Pairs near along bonds keep their weights at the nearest image alone: each atom sees other images of its neighbours."""
    case = KNOWN["narrow"]
    path = tmp_path / "chain.data"
    path.write_text(CHAIN)
    bare = "units real\nbond_style zero\nangle_style zero\ndihedral_style zero\nimproper_style zero\n"
    model = md.read_lammps(path, bare + "\n".join(case["commands"]))
    found = model.system.prepared(model.start).gradients(model.start)
    forces = np.array(case["forces"])
    np.testing.assert_allclose(found.energy, case["energy"], rtol=1e-7)
    np.testing.assert_allclose(found.forces, forces, atol=1e-7 * np.abs(forces).max())
    single = md.read_lammps(path, bare + "\n".join(case["commands"]), precision="float32")
    with pytest.raises(simkit.ArgumentError, match="wider than two cutoffs"):  # too much would cancel
        single.system.prepared(single.start)


def test_two_resolutions_of_a_pair():
    """`lj/relres` by its manual: fine up to a constant, coarse as it is, energy and force without steps, nothing at the end.
    LAMMPS' own test of it is among the suites: equal to 4e-15."""
    commands = ["pair_style lj/relres 4.0 5.0 7.0 8.0", "pair_coeff * * 0.3 3.1 0.2 3.9"]
    (term,) = potentials(commands)
    at = lambda r: energies(term, np.asarray(r, float) ** 2, 0, 1)
    plain = lambda epsilon, sigma, r: 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6)
    near, middle = np.linspace(2.9, 3.99, 7), np.linspace(5.01, 6.99, 7)
    lost = at(near)[0] - plain(0.3, 3.1, near)
    np.testing.assert_allclose(lost, lost[0], rtol=1e-11)
    assert abs(lost[0]) > 0.01
    np.testing.assert_allclose(at(middle)[0], plain(0.2, 3.9, middle), rtol=1e-12)
    for r in (4.0, 5.0, 7.0):
        for below, above in zip(at([r - 1e-9]), at([r + 1e-9]), strict=True):
            np.testing.assert_allclose(below, above, atol=1e-8)  # of slopes below 1
    assert np.abs(at([8.0 - 1e-9])[1]) < 1e-8
    every = np.linspace(3.0, 7.99, 401)
    slope = (at(every + 1e-5)[0] - at(every - 1e-5)[0]) / 2e-5
    np.testing.assert_allclose(-slope, at(every)[1], atol=1e-7)
    with pytest.raises(simkit.ArgumentError, match="cutoffs in order"):
        potentials(["pair_style lj/relres 5.0 5.0 7.0 8.0", commands[1]])
    with pytest.raises(simkit.ArgumentError, match="numbers to types 1 and 2"):
        potentials([commands[0], "pair_coeff 1 1 0.3 3.1 0.2 3.9", "pair_coeff 2 2 0.3 3.1 0.2 3.9"])
