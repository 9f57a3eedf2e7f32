"""The `table` styles against LAMMPS, which computed energies, forces and pressures from the same small tables."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, DataError, md
from simkit.md.potentials._pair_terms import pair_terms

KNOWN = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_tables.json").read_text())
ATMOSPHERES = 68568.415  # of a kcal/mol in a cubic angstrom, LAMMPS' constant


def read(commands, folder, data=None, **texts):
    for name, text in {"chain.data": data or KNOWN["data"], **KNOWN["files"], **texts}.items():
        (folder / name).write_text(text)
        commands = commands.replace(f" {name} ", f" {folder / name} ")
    return md.read_lammps(folder / "chain.data", commands)


@pytest.mark.parametrize("name", KNOWN["cases"])
def test_values_of_lammps(name, tmp_path):
    case = KNOWN["cases"][name]
    model = read(case["commands"], tmp_path)
    found = model.system.prepared(model.start).gradients(model.start)
    assert float(found.energy) == pytest.approx(case["energy"], rel=1e-13)
    np.testing.assert_allclose(found.forces, case["forces"], atol=1e-13 * np.abs(case["forces"]).max())
    virial = np.asarray(found.virial) / 16**3 * ATMOSPHERES
    pressure = [-virial[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(pressure, case["pressure"], atol=1e-7 * np.abs(case["pressure"]).max())


X = jnp.linspace(0.8**2, 2.5**2, 30)
TABLES = {
    "lines": md.TabulatedPairs(X[None] ** -3 - X[None] ** -1, -3 * X[None] ** -4, 0.8, 2.5),
    "splines": md.TabulatedPairs(
        jnp.stack([X**-3, X**-1]),
        jnp.stack([-3 * X**-4, X**-2]),
        [0.8, 0.8],
        [2.5, 2.2],
        table=[[0, 1], [1, -1]],
        end_slopes=[[29.0, 0.1], [2.0, 0.3]],
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_forces_are_those_of_the_slopes_and_derivatives_those_of_the_tables(name):
    """A table is linear in its numbers; the force has those of the slopes alone, also by the derivative of the energy."""
    potential = TABLES[name]
    start = md.Atoms(jnp.array([[0.0, 0, 0], [1.3, 0.1, 0], [0.2, 1.7, 0.3]]), jnp.zeros((3, 3)))
    species = None if potential.table is None else jnp.array([0, 1, 0], jnp.int32)
    particles = md.Particles(potential, md.OpenSpace(), species=species).prepared(start)
    energy = lambda p, x: eqx.tree_at(lambda s: s.potential, particles, p).energy(md.Atoms(x, start.momentum))
    value, (slope, by_place) = jax.value_and_grad(energy, (0, 1))(potential, start.position)
    parts = jax.tree.map(lambda a, b: jnp.sum(a * b), slope, potential)
    assert float(sum(jax.tree.leaves(parts))) == pytest.approx(float(value), rel=1e-12)
    np.testing.assert_allclose(by_place, -particles.gradients(start).forces, atol=1e-13)
    direction = eqx.tree_at(lambda p: p.slopes, jax.tree.map(jnp.zeros_like, potential), potential.slopes)
    if potential.end_slopes is not None:
        direction = eqx.tree_at(lambda p: p.end_slopes, direction, potential.end_slopes)
    whole, change = jax.jvp(lambda p: jax.grad(energy, 1)(p, start.position), (potential,), (direction,))
    np.testing.assert_allclose(change, whole, rtol=1e-10, atol=1e-13)


def test_below_and_beyond_the_table():
    """Below the first knot the energy is a straight line in r^2, beyond the last there is none; in single precision, too."""
    (term,) = pair_terms((simkit.cast(TABLES["lines"], "float32"),))
    r2 = jnp.array([0.3, 2.6**2], jnp.float32)
    u, slope = term.pair(r2, (term.coefficients, term.constants))
    first, steep = 0.64**-3 - 0.64**-1, -3 * 0.64**-4
    np.testing.assert_allclose(u, [first + (0.3 - 0.64) * steep, 0], rtol=1e-5)
    np.testing.assert_allclose(slope, [steep, 0], rtol=1e-6)
    assert u.dtype == slope.dtype == jnp.float32


CASE = KNOWN["cases"]["linear"]["commands"]
MIXED = "dihedral_style table spline 36\ndihedral_coeff 1 dihedral.table NONE"
REFUSED = {
    "lookup": ("pair_style table linear", "pair_style table lookup", "goes in steps"),
    "bitmap": ("pair_style table linear", "pair_style table bitmap", "bits of a single number"),
    "a word": ("bond_style table linear 50", "bond_style table line 50", "linear or spline"),
    "a cutoff beyond": ("SQUARES 4.0", "SQUARES 7.0", "cutoff within the table"),
    "a pair without": ("pair_coeff 1 2", "# pair_coeff 1 2", "types 1 and 2"),
    "a type without": ("angle_coeff 2", "# angle_coeff 2", "type 2"),
    "mixed forces": ("dihedral_style table linear 36\ndihedral_coeff 1 dihedral.table D1", MIXED, "all give forces"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_commands(name, tmp_path):
    old, new, match = REFUSED[name]
    assert old in CASE
    with pytest.raises(ArgumentError, match=match):
        read(CASE.replace(old, new), tmp_path)


FILES = {
    "no section": ("B2\n", "B3\n", "must hold the section B2"),
    "a cut section": ("N 13 FP -220 -110", "N 14 FP -220 -110", "cut short|must hold"),
    "a setting": ("EQ 1.2", "RSQ 1.2", "settings of a bond table"),
    "a number": ("1 0.7 ", "1 x ", "as a number"),
    "no order": ("1 0.7 ", "1 1.7 ", "increase"),
    "other units": ("# made", "# UNITS: metal made", "unit system of the commands"),
}


@pytest.mark.parametrize("name", FILES)
def test_refused_files(name, tmp_path):
    old, new, match = FILES[name]
    text = KNOWN["files"]["bond.table"]
    assert old in text
    with pytest.raises(DataError, match=match):
        read(CASE, tmp_path, **{"bond.table": text.replace(old, new)})


def test_refused_arguments():
    one = jnp.ones((1, 3))
    with pytest.raises(ArgumentError, match="shape"):
        md.TabulatedPairs(one, jnp.ones((1, 4)), 0.5, 1.0)
    with pytest.raises(ArgumentError, match="behind `starts`"):
        md.TabulatedPairs(one, one, 1.5, 1.0)
    with pytest.raises(ArgumentError, match="symmetric table"):
        md.TabulatedPairs(one, one, 0.5, 1.0, table=[[0, 0], [1, 0]])
    with pytest.raises(ArgumentError, match="distance to each"):
        md.TabulatedTerms([[0, 1]], one, one)
    with pytest.raises(ArgumentError, match="end_slopes"):
        md.TabulatedTerms([[0, 1, 2]], one, one, spline=True)
