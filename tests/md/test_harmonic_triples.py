"""Harmonic angles of neighbours (LAMMPS' own test: test_lammps_force_styles): closed forms, mixed triples, files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md
from simkit.md.files._three_body_files import read_nb3b
from simkit.md.potentials._harmonic_triples import HarmonicTriples

CORNER = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.1, 0.0]])


def energy(potential, position, species=None, units=1.0):
    atoms = md.Atoms(position * units, jnp.zeros_like(position))
    system = md.Particles(potential, md.OpenSpace(position.shape[1]), species=species).prepared(atoms)
    return system.gradients(atoms)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_right_angle(dimensions):
    """One angle of 90 degrees: k (pi/2 - theta0)^2; forces are those of the angle, at right angles to the arms."""
    found = energy(HarmonicTriples(3.0, 2.0, 1.2), CORNER[:, :dimensions])
    off = np.pi / 2 - 2.0
    assert float(found.energy) == pytest.approx(3.0 * off**2, rel=1e-12)
    expected = np.array(
        [[2 * 3.0 * off / 1.1, 2 * 3.0 * off, 0.0], [0.0, 2 * 3.0 * off, 0], [2 * 3.0 * off / 1.1, 0, 0]]
    )
    expected[0] *= -1
    np.testing.assert_allclose(found.forces, expected[:, :dimensions], rtol=1e-12, atol=1e-12)


def test_of_species_the_two_orders_count_as_their_mean_and_reach_is_of_pairs():
    stiffness, reach = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    stiffness[0, 0, 1], stiffness[0, 1, 0] = 2.0, 4.0
    reach[0, 0, 0], reach[0, 1, 1], reach[0, 0, 1] = 1.05, 1.15, 9.0
    potential = HarmonicTriples(stiffness, np.full((2, 2, 2), 1.0), reach)
    assert potential.cutoff == 1.15  # the entry of no pair says nothing
    species = jnp.array([0, 0, 1], jnp.int32)
    assert float(energy(potential, CORNER, species).energy) == pytest.approx(3.0 * (np.pi / 2 - 1) ** 2, rel=1e-12)
    # The other way round the atom of species 1 lies within the reach of species 0 no more.
    assert float(energy(potential, CORNER, jnp.array([0, 1, 0], jnp.int32)).energy) == 0.0


@pytest.mark.parametrize("units", [1.0, 1e-10])
def test_atoms_in_a_row_have_finite_forces(units):
    row = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    found = energy(HarmonicTriples(1.0, np.pi, 1.5 * units), row, units=units)
    assert float(found.energy) == pytest.approx(0.0, abs=1e-24)
    np.testing.assert_array_equal(found.forces, 0.0)
    bent = row.at[0, 1].add(1e-5)
    tried = HarmonicTriples(1.0, np.pi, 1.5 * units)
    by_differences = lambda d: energy(tried, bent.at[0, 1].add(d), units=units).energy
    slope = (by_differences(1e-8) - by_differences(-1e-8)) / (2e-8 * units)
    np.testing.assert_allclose(-energy(tried, bent, units=units).forces[0, 1], slope, rtol=1e-5)


def test_a_fit_sees_its_numbers():
    slopes = jax.grad(lambda p: energy(p, CORNER).energy)(HarmonicTriples(3.0, 2.0, 1.2))
    off = np.pi / 2 - 2.0
    assert float(slopes.stiffness) == pytest.approx(off**2, rel=1e-12)
    assert float(slopes.theta0) == pytest.approx(-6.0 * off, rel=1e-12)


def test_files(tmp_path):
    path = tmp_path / "a.nb3b"
    path.write_text("# UNITS: real\nO O O 1.5 110.0 2.0\n")
    potential = HarmonicTriples.from_table(read_nb3b(path, ["O"]))
    assert float(potential.theta0) == pytest.approx(np.deg2rad(110.0))
    assert potential.cutoff == 2.0
    path.write_text("O O O 1.5 -110.0 2.0\n")
    with pytest.raises(simkit.DataError, match="theta0"):
        read_nb3b(path, ["O"])
    path.write_text("O O O 1.5 110.0 2.0\nO O H 0 0 0\nO H O 0 0 0\n")
    with pytest.raises(simkit.DataError, match="O H H"):
        read_nb3b(path, ["O", "H"])
