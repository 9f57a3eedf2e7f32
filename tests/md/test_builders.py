"""Crystals by their coordination shells, liquids by their distances, momenta by their distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.md import METAL, crystal, degrees_of_freedom, kinetic_energy, liquid, maxwell_boltzmann, temperature


def distances(configuration):
    """All distances of nearest images, without those of atoms to themselves."""
    q, (n, _) = configuration.position, configuration.position.shape
    apart = configuration.space.displacement(q[:, None, :], q[None, :, :])
    r = np.array(jnp.linalg.norm(apart, axis=-1))
    r[np.arange(n), np.arange(n)] = np.inf
    return r


# Nearest and second distance in lattice constants with how many neighbours, and atoms in a cell.
SHELLS = {
    "sc": (1.0, 6, np.sqrt(2), 12, 1),
    "bcc": (np.sqrt(0.75), 8, 1.0, 6, 2),
    "fcc": (np.sqrt(0.5), 12, 1.0, 6, 4),
    "hcp": (1.0, 12, np.sqrt(2), 6, 4),
    "diamond": (np.sqrt(3) / 4, 4, np.sqrt(0.5), 12, 8),
    "zincblende": (np.sqrt(3) / 4, 4, np.sqrt(0.5), 12, 8),
    "rocksalt": (0.5, 6, np.sqrt(0.5), 12, 8),
    "cesium chloride": (np.sqrt(0.75), 8, 1.0, 6, 2),
    "square": (1.0, 4, np.sqrt(2), 4, 1),
    "hexagonal": (1.0, 6, np.sqrt(3), 6, 2),
}


@pytest.mark.parametrize("lattice", sorted(SHELLS))
def test_coordination(lattice):
    first, near, second, next_near, cell = SHELLS[lattice]
    built = crystal(lattice, 3.6, 4)
    d = built.space.dimensions
    assert built.position.shape == (cell * 4**d, d)
    r = distances(built) / 3.6
    # sites are products of a few numbers: 1e-12 is far above rounding and far below any difference of shells
    assert (np.abs(r - first) < 1e-12).sum(axis=1).tolist() == [near] * len(r)
    assert (np.abs(r - second) < 1e-12).sum(axis=1).tolist() == [next_near] * len(r)
    assert r.min() > first - 1e-12
    assert not ((r > first + 1e-12) & (r < second - 1e-12)).any()
    np.testing.assert_array_equal(built.position[0], 0.0)
    np.testing.assert_allclose(built.space.wrap(built.position), built.position, atol=1e-12)


@pytest.mark.parametrize("lattice", ["zincblende", "rocksalt", "cesium chloride"])
def test_neighbours_are_of_the_other_species(lattice):
    built = crystal(lattice, 1.0, 3)
    r = distances(built)
    near = np.abs(r - r.min()) < 1e-12
    species = np.asarray(built.species)
    assert (species[:, None] != species[None, :])[near].all()
    assert species.mean() == 0.5
    assert built.species.dtype == jnp.int32


def test_repeats_and_ratio():
    built = crystal("hcp", jnp.float32(3.2), (2, 3, 4), ratio=1.6)
    assert built.position.shape == (96, 3)
    assert built.position.dtype == built.space.lengths.dtype == jnp.float32
    np.testing.assert_allclose(built.space.lengths, [6.4, 3 * 3.2 * np.sqrt(3), 4 * 1.6 * 3.2], rtol=1e-6)
    stretched = lambda a: crystal("fcc", a, 2).space.volume()
    np.testing.assert_allclose(jax.grad(stretched)(2.0), 3 * 8 * 2.0**2, rtol=1e-12)


@pytest.mark.parametrize(
    ("atoms", "density", "dimensions"), [(1, 0.5, 3), (108, 0.8442, 3), (500, 1.2, 3), (700, 0.01, 3), (90, 0.7, 2)]
)
def test_a_liquid_has_no_overlaps(atoms, density, dimensions):
    built = liquid(jax.random.key(1), atoms, density, dimensions=dimensions)
    assert built.position.shape == (atoms, dimensions)
    np.testing.assert_allclose(atoms / built.space.volume(), density, rtol=1e-12)
    if atoms > 1:
        nearest = distances(built).min()
        # The widest lattice: its spacing is at least that of a simple cubic one with one more layer of sites.
        assert nearest > 0.9 * density ** (-1 / dimensions) * atoms ** (1 / dimensions) / (
            atoms ** (1 / dimensions) + 1
        )
    again = liquid(jax.random.key(1), atoms, density, dimensions=dimensions)
    other = liquid(jax.random.key(2), atoms, density, dimensions=dimensions)
    np.testing.assert_array_equal(built.position, again.position)
    assert not np.array_equal(built.position, other.position)


def test_a_liquid_keeps_its_distance_and_its_mixture():
    built = liquid(jax.random.key(1), 500, 0.8442, least_distance=0.95, fractions=(0.3, 0.7))
    nearest = distances(built).min()
    assert 0.95 <= nearest < 1.02
    assert np.bincount(built.species).tolist() == [150, 350]
    assert np.bincount(liquid(jax.random.key(1), 7, 0.1, fractions=(1 / 3, 2 / 3)).species).tolist() == [2, 5]
    with pytest.raises(simkit.ArgumentError, match=r"`least_distance` must be between 0 and 1.188"):
        liquid(jax.random.key(1), 500, 0.8442, least_distance=1.2)
    with pytest.raises(simkit.ArgumentError, match=r"`fractions` must be at least 0 and add up to 1"):
        liquid(jax.random.key(1), 500, 0.8442, fractions=(0.3, 0.6))


def test_momenta_have_the_distribution():
    """Each component over its width is a standard normal number but for the constraint, 1/N of its variance."""
    n, t = 4000, 94.4
    mass = METAL.inside(jnp.where(jnp.arange(n) < n // 2, 39.948, 4.0026), "mass")
    p = maxwell_boltzmann(jax.random.key(3), mass, t, boltzmann=METAL.boltzmann)
    scaled = np.asarray(p) / np.sqrt(np.asarray(mass) * METAL.boltzmann * t)[:, None]
    assert abs((scaled**2).mean() - 1.0) < 5 * np.sqrt(2 / (3 * n))  # five standard errors of a mean square
    assert abs((scaled**4).mean() - 3.0) < 5 * np.sqrt(96 / (3 * n))
    for half in (scaled[: n // 2], scaled[n // 2 :]):  # equipartition
        assert abs((half**2).mean() - 1.0) < 5 * np.sqrt(4 / (3 * n))
    # 4000 numbers of about 0.04 each, summed with rounding
    np.testing.assert_allclose(p.sum(axis=0), 0.0, atol=1e-13)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_exact_temperature(dimensions):
    mass = jnp.array([1.0, 2.0, 5.0])
    p = maxwell_boltzmann(jax.random.key(3), mass, 0.7, dimensions=dimensions, exact=True)
    np.testing.assert_allclose(temperature(p, mass), 0.7, rtol=1e-14)
    np.testing.assert_allclose(p.sum(axis=0), 0.0, atol=1e-15)
    slope = jax.grad(lambda t: kinetic_energy(maxwell_boltzmann(jax.random.key(3), mass, t, exact=True), mass))(0.7)
    np.testing.assert_allclose(slope, degrees_of_freedom(3) / 2, rtol=1e-12)
    cold = maxwell_boltzmann(jax.random.key(3), mass, 0.0, exact=True)
    np.testing.assert_array_equal(cold, 0.0)


def test_float32():
    p = maxwell_boltzmann(jax.random.key(3), jnp.ones(50, jnp.float32), 0.7, exact=True)
    assert p.dtype == jnp.float32
    np.testing.assert_allclose(temperature(p, jnp.ones(50, jnp.float32)), 0.7, rtol=1e-6)


def test_kinetic_energy_of_frames():
    p, mass = jax.random.normal(jax.random.key(0), (5, 7, 2)), jnp.linspace(1.0, 2.0, 7)
    expected = (np.asarray(p) ** 2 / (2 * np.asarray(mass))[:, None]).sum(axis=(1, 2))
    np.testing.assert_allclose(kinetic_energy(p, mass), expected, rtol=1e-14)
    np.testing.assert_allclose(jax.jit(temperature)(p[0], mass), 2 * expected[0] / 12, rtol=1e-14)
    np.testing.assert_allclose(temperature(p, mass, freedom=14, boltzmann=2.0), expected / 14, rtol=1e-14)


def test_errors():
    with pytest.raises(simkit.UnknownNameError, match=r"lattice `ffc`.*`fcc`"):
        crystal("ffc", 1.0, 2)
    for lattice, constant, repeats, ratio, message in (
        ("fcc", -1.0, 2, None, "`constant` must be a positive number"),
        ("fcc", 1.0, 0, None, "`repeats` must be a whole number of at least 1, or 3 of them"),
        ("fcc", 1.0, (2, 2), None, "`repeats`"),
        ("square", 1.0, (2, 2, 2), None, "`repeats`.* or 2 of them"),
        ("fcc", 1.0, 2, 1.6, "`ratio` must be left out"),
        ("hcp", 1.0, 2, 0.0, "`ratio` must be a positive number"),
    ):
        with pytest.raises(simkit.ArgumentError, match=message):
            crystal(lattice, constant, repeats, ratio=ratio)
    key = jax.random.key(0)
    with pytest.raises(simkit.ArgumentError, match=r"`target` must be at least 0"):
        maxwell_boltzmann(key, jnp.ones(3), -1.0)
    with pytest.raises(simkit.ArgumentError, match=r"`mass` must be positive and finite, but there is 0.0"):
        maxwell_boltzmann(key, jnp.array([1.0, 0.0]), 1.0)
    with pytest.raises(simkit.ArgumentError, match=r"a single atom rests"):
        maxwell_boltzmann(key, jnp.ones(1), 1.0, exact=True)
    with pytest.raises(simkit.ArgumentError, match=r"at least one degree of freedom"):
        degrees_of_freedom(1)
    with pytest.raises(simkit.ArgumentError, match=r"one entry for each atom"):
        kinetic_energy(jnp.ones((3, 2)), jnp.ones(2))
