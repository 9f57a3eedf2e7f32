"""Structure: distances, scattering and bond order beside sums written out, known crystals and finite differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.md import (
    OpenSpace,
    Orthorhombic,
    Triclinic,
    bond_order,
    crystal,
    liquid,
    radial_distribution,
    structure_factor,
    wave_indices,
)
from simkit.md.observables import StructureFactor
from simkit.testing import check_gradients

GAS = liquid(jax.random.key(4), 60, 0.6, least_distance=0.0)
CELL = Triclinic([[5.0, 0.0, 0.0], [1.0, 4.5, 0.0], [-0.7, 0.9, 5.2]])
SKEWED = jax.random.uniform(jax.random.key(5), (40, 3)) @ CELL.vectors()


def all_distances(space, q):
    apart = np.asarray(space.displacement(q[:, None, :], q[None, :, :]))
    return np.linalg.norm(apart, axis=-1)[~np.eye(len(q), dtype=bool)]


@pytest.mark.parametrize(("space", "q"), [(GAS.space, GAS.position), (CELL, SKEWED)], ids=["box", "skewed"])
def test_g_is_a_histogram(space, q):
    cutoff = 2.0
    found = radial_distribution(space, q, cutoff=cutoff, bins=25)
    counts, edges = np.histogram(all_distances(space, q), 25, (0.0, cutoff))
    n, shells = len(q), 4 / 3 * np.pi * np.diff(edges**3)
    np.testing.assert_allclose(found.g, counts * float(space.volume()) / (n * (n - 1) * shells), rtol=1e-12)
    np.testing.assert_allclose(found.coordination, np.cumsum(counts) / n, rtol=1e-12)
    np.testing.assert_allclose(found.distance, (edges[1:] + edges[:-1]) / 2, rtol=1e-12)


def test_g_of_blocks_is_g_at_once(monkeypatch):
    whole = radial_distribution(GAS.space, GAS.position, cutoff=2.0, bins=25)
    monkeypatch.setattr("simkit.md.observables._pairs.PAIRS_AT_ONCE", 7 * 60)
    split = radial_distribution(GAS.space, GAS.position, cutoff=2.0, bins=25)
    np.testing.assert_allclose(split.g, whole.g, rtol=1e-13)


def test_g_of_an_ideal_gas_is_one():
    q = jax.random.uniform(jax.random.key(0), (20, 200, 2)) * 10.0
    found = radial_distribution(Orthorhombic([10.0, 10.0]), q, cutoff=5.0, bins=10)
    pairs = 20 * 200 * 199 / 2 * np.pi * np.diff(np.linspace(0, 5, 11) ** 2) / 100
    assert (np.abs(np.asarray(found.g) - 1) < 5 / np.sqrt(pairs)).all()  # five standard errors of a count


def test_g_of_species():
    species = jnp.asarray(np.arange(60) % 3)
    q, r = GAS.position, {}
    for a in range(3):
        for b in range(3):
            r[a, b] = radial_distribution(GAS.space, q, cutoff=2.0, bins=5, species=species, pair=(a, b)).g
    whole = radial_distribution(GAS.space, q, cutoff=2.0, bins=5).g
    weights = {(a, b): 20 * (19 if a == b else 20) for a, b in r}
    mixed = sum(weights[key] * r[key] for key in r) / (60 * 59)
    np.testing.assert_allclose(mixed, whole, rtol=1e-12)
    np.testing.assert_allclose(r[0, 1], r[1, 0], rtol=1e-12)


def test_smooth_g():
    """It keeps the number of pairs, tends to the histogram, and has derivatives by positions and cell."""
    plain = radial_distribution(GAS.space, GAS.position, cutoff=2.0, bins=20)
    narrow = radial_distribution(GAS.space, GAS.position, cutoff=2.0, bins=20, smoothing=1e-6)
    np.testing.assert_allclose(narrow.g, plain.g, rtol=1e-9)
    smooth = functools.partial(radial_distribution, cutoff=1.8, bins=20, smoothing=0.06)
    wide = smooth(GAS.space, GAS.position)
    # 60 atoms, some 14 neighbours up to the cutoff: only pairs near it can leave or enter
    r = all_distances(GAS.space, GAS.position)
    expected = np.mean([np.sum(0.5 * (1 - jax.scipy.special.erf((r - 1.8) / (0.06 * np.sqrt(2)))))]) / 60
    np.testing.assert_allclose(wide.coordination[-1], expected, rtol=1e-7)  # the kernel is cut at 2e-9
    assert np.all(np.isfinite(jax.jacrev(lambda q: smooth(GAS.space, q).g)(GAS.position)))
    curve = jnp.linspace(0.0, 1.0, 20)
    loss = lambda lengths, q: jnp.vdot(curve, smooth(Orthorhombic(lengths), q).g)
    # erf over windows: the cut of the window at 6 widths leaves jumps of 2e-9 in differences
    check_gradients(loss, (GAS.space.lengths, GAS.position), tolerance=1e-4)


def test_g_of_trajectories():
    q = jnp.stack([GAS.position, GAS.position * 0.9])
    lengths = jnp.stack([GAS.space.lengths, GAS.space.lengths * 0.9])
    g = lambda space, q: radial_distribution(space, q, cutoff=1.9, bins=7)
    each = [g(Orthorhombic(a), b) for a, b in zip(lengths, q, strict=True)]
    both = g(Orthorhombic(lengths), q)
    np.testing.assert_allclose(both.g, (each[0].g + each[1].g) / 2, rtol=1e-13)
    same = g(GAS.space, q)
    np.testing.assert_allclose(same.g, (g(GAS.space, q[0]).g + g(GAS.space, q[1]).g) / 2, rtol=1e-13)


def test_atoms_in_one_place_give_no_nan():
    q = GAS.position.at[1].set(GAS.position[0])
    slope = jax.grad(lambda q: radial_distribution(GAS.space, q, cutoff=1.5, smoothing=0.05).g.sum())(q)
    assert np.isfinite(slope).all()
    assert np.isfinite(jax.grad(lambda q: bond_order(GAS.space, q, cutoff=1.5, width=0.1).q.sum())(q)).all()


@pytest.mark.parametrize(("space", "q"), [(GAS.space, GAS.position), (CELL, SKEWED)], ids=["box", "skewed"])
def test_structure_factor(space, q):
    indices = wave_indices(space, 4.0)
    found = structure_factor(space, q, indices)
    waves = 2 * np.pi * indices @ np.linalg.inv(np.asarray(space.vectors())).T
    np.testing.assert_allclose(found.wave_number, np.linalg.norm(waves, axis=1), rtol=1e-12)
    assert found.wave_number[-1] <= 4.0
    assert (np.diff(found.wave_number) > -1e-9).all()
    expected = np.abs(np.exp(-1j * np.asarray(q) @ waves.T).sum(axis=0)) ** 2 / len(q)
    np.testing.assert_allclose(found.s, expected, rtol=1e-9, atol=1e-10)
    images = structure_factor(space, q + 3 * space.vectors()[:1], indices)
    np.testing.assert_allclose(images.s, found.s, rtol=1e-8, atol=1e-10)


def test_wave_indices_are_half_of_all():
    indices = wave_indices(CELL, 5.0)
    all_of_them = {tuple(n) for n in np.concatenate([indices, -indices]).tolist()}
    inverse = np.linalg.inv(np.asarray(CELL.vectors()))
    grid = np.stack(np.meshgrid(*[np.arange(-9, 10)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    short = grid[np.linalg.norm(2 * np.pi * grid @ inverse.T, axis=1) <= 5.0]
    assert all_of_them == {tuple(n) for n in short.tolist() if any(n)}
    assert len(all_of_them) == 2 * len(indices)


def test_structure_factor_weights_and_derivatives():
    solid = crystal("rocksalt", 1.0, 2)
    indices = np.array([[2, 2, 2], [4, 0, 0]])  # (111), where the species cancel, and (200), where they add up
    np.testing.assert_allclose(structure_factor(solid.space, solid.position, indices).s, [0, 64], atol=1e-9)
    charge = 1.0 - 2.0 * solid.species.astype(float)
    weighted = structure_factor(solid.space, solid.position, indices, weight=charge)
    np.testing.assert_allclose(weighted.s, [64, 0], atol=1e-9)
    loss = lambda lengths, q: structure_factor(Orthorhombic(lengths), q, np.array([[1, 0, 2], [2, 1, 0]])).s.sum()
    check_gradients(loss, (GAS.space.lengths, GAS.position))


def test_shell_average():
    curve = StructureFactor(jnp.array([0.5, 1.0, 1.5, 9.0]), jnp.array([1.0, 2.0, 4.0, 7.0]))
    found = curve.shells([0.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found, [1.0, 3.0, np.nan])


# Mickel et al. (2013), J. Chem. Phys. 138:044501, table I, and Steinhardt et al. (1983), of perfect crystals: q4, q6, w4, w6.
ORDER = {
    ("fcc", 0.85): (0.19094, 0.57452, -0.159317, -0.013161),
    ("hcp", 1.2): (0.09722, 0.48476, 0.134097, -0.012442),
    ("bcc", 1.2): (0.03637, 0.51069, 0.159317, 0.013161),
    ("sc", 1.2): (0.76376, 0.35355, 0.159317, 0.013161),
}


@pytest.mark.parametrize(("lattice", "cutoff"), sorted(ORDER))
def test_bond_order_of_crystals(lattice, cutoff):
    solid = crystal(lattice, 1.0, 4)
    q4, q6, w4, w6 = ORDER[lattice, cutoff]
    four, six = (bond_order(solid.space, solid.position, degree, cutoff=cutoff) for degree in (4, 6))
    found = [float(x) for x in (four.q[0], six.q[0], four.w[0], six.w[0])]
    np.testing.assert_allclose(found, [q4, q6, w4, w6], atol=6e-6)  # printed to five or six digits
    np.testing.assert_allclose(six.q, six.whole_q, rtol=1e-10)
    np.testing.assert_allclose(six.w, six.whole_w, rtol=1e-8)
    averaged = bond_order(solid.space, solid.position, 6, cutoff=cutoff, averaged=True)
    np.testing.assert_allclose(averaged.q, six.q, rtol=1e-10)


@pytest.mark.slow
def test_bond_order_does_not_turn():
    q = jax.random.normal(jax.random.key(0), (15, 3))
    turn, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(1), (3, 3)))
    for degree in (1, 4, 8):
        a, b = (bond_order(OpenSpace(), x, degree, cutoff=2.0, width=0.3, averaged=degree == 4) for x in (q, q @ turn))
        np.testing.assert_allclose(a.q, b.q, rtol=1e-9)
        np.testing.assert_allclose(a.w, b.w, rtol=1e-7, atol=1e-10)
        assert (a.whole_q > 0) == (degree % 2 == 0)  # to and fro, a bond's odd harmonics cancel


def test_bond_order_by_the_addition_theorem():
    r"""q_l^2 is the mean of the Legendre polynomial P_l over all pairs of bonds of an atom."""
    q = np.random.default_rng(0).normal(size=(12, 3))
    found = bond_order(OpenSpace(), jnp.asarray(q), 5, cutoff=100.0)
    bonds = q[1:] - q[0]
    bonds /= np.linalg.norm(bonds, axis=1)[:, None]
    legendre = np.polynomial.legendre.Legendre.basis(5)(np.clip(bonds @ bonds.T, -1, 1))
    np.testing.assert_allclose(found.q[0], np.sqrt(legendre.mean()), rtol=1e-10)
    np.testing.assert_array_equal(found.neighbours, 11)


@pytest.mark.slow
def test_bond_order_derivatives_and_lone_atoms():
    q = crystal("fcc", 1.5, 2).position + 0.05 * jax.random.normal(jax.random.key(0), (32, 3))
    space = Orthorhombic([3.0, 3.0, 3.0])
    loss = lambda q: (lambda o: jnp.sum(o.q) + 10 * jnp.sum(o.w) + o.whole_q)(
        bond_order(space, q, 4, cutoff=1.3, width=0.1, averaged=True)
    )
    check_gradients(loss, (q,))
    lone = jnp.concatenate([q, jnp.full((1, 3), 50.0)])
    found = bond_order(OpenSpace(), lone, 6, cutoff=1.3)
    assert found.q[-1] == found.w[-1] == found.neighbours[-1] == 0
    assert np.isfinite(jax.grad(lambda q: bond_order(OpenSpace(), q, 6, cutoff=1.3).q.sum())(lone)).all()


def test_float32():
    q, space = GAS.position.astype(jnp.float32), Orthorhombic(GAS.space.lengths.astype(jnp.float32))
    g = radial_distribution(space, q, cutoff=2.0, bins=10, smoothing=0.05).g
    s = structure_factor(space, q, wave_indices(space, 3.0)).s
    order = bond_order(space, q, cutoff=1.5)
    assert g.dtype == s.dtype == order.q.dtype == order.w.dtype == jnp.float32
    expected = radial_distribution(GAS.space, GAS.position, cutoff=2.0, bins=10, smoothing=0.05).g
    np.testing.assert_allclose(g, expected, rtol=1e-4, atol=1e-5)


def test_errors():
    g = functools.partial(radial_distribution, GAS.space, GAS.position)
    for call, message in (
        (lambda: g(cutoff=3.0), r"`cutoff` must be at most 2.32"),
        (lambda: g(cutoff=2.3, smoothing=0.1), r"`cutoff` must be at most 2.32.* reaches to 2.9"),
        (lambda: g(cutoff=-1.0), "`cutoff` must be positive"),
        (lambda: g(cutoff=1.0, bins=0), "`bins` must be at least 1"),
        (lambda: g(cutoff=1.0, smoothing=0.0), "`smoothing` must be positive"),
        (lambda: g(cutoff=1.0, pair=(0, 1)), "must be given together"),
        (lambda: g(cutoff=1.0, pair=(0, 1), species=jnp.zeros(3, int)), r"`species` must have the shape \(60,\)"),
        (lambda: radial_distribution(OpenSpace(), GAS.position, cutoff=1.0), "must have a volume"),
        (lambda: structure_factor(OpenSpace(), GAS.position, np.ones((1, 3), int)), "must be periodic"),
        (lambda: structure_factor(GAS.space, GAS.position, np.ones((1, 2), int)), r"shape \(vectors, 3\)"),
        (lambda: structure_factor(GAS.space, GAS.position, np.ones((1, 3), int), weight=jnp.ones(2)), "`weight`"),
        (lambda: wave_indices(GAS.space, 0.1), r"is 0.1, and one is 1.35"),
        (lambda: bond_order(GAS.space, GAS.position, 13, cutoff=1.0), "from 1 to 12"),
        (lambda: bond_order(GAS.space, GAS.position[:, :2], cutoff=1.0), r"shape \(atoms, 3\)"),
        (lambda: bond_order(GAS.space, GAS.position, cutoff=4.0), "half the smallest distance"),
    ):
        with pytest.raises(simkit.ArgumentError, match=message):
            call()
