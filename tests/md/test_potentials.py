"""Every pair potential and truncation against finite differences: force, and derivatives by each of its numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md
from simkit.md.potentials._pair_terms import pair_terms

KNOTS = jnp.linspace(0.7, 2.5, 181)
NETWORK = simkit.md.PairFunction(
    jax.tree_util.Partial(lambda a, r: jnp.sum(a * jnp.sin(a * r)) / r**2, jnp.array([1.0, 1.7])), 2.5
)
POTENTIALS = {
    "Lennard-Jones": md.LennardJones(1.02, 0.9),
    "WCA": md.WeeksChandlerAndersen(1.02, 0.9),
    "Morse": md.Morse(),
    "Buckingham": md.Buckingham(100.0, 0.3, 1.5),
    "Born-Mayer": md.Buckingham(100.0, 0.3),
    "soft core": md.SoftCoreLennardJones(coupling=0.6),
    "soft sphere": md.SoftSphere(),
    "soft sphere, odd": md.SoftSphere(exponent=9.5),
    "Yukawa": md.Yukawa(-1.2, 0.8),
    "Gaussian": md.GaussianCore(1.3, 0.7),
    "Coulomb": md.CoulombCut(1.4, cutoff=3.0),
    "DSF": md.CoulombDSF(1.4, 0.5, cutoff=3.0),
    "table": md.Tabulated(KNOTS**-6 - KNOTS**-3, -6 * KNOTS**-7 + 3 * KNOTS**-4, start=0.7, cutoff=2.5),
    "function": NETWORK,
    "shifted": md.LennardJones(truncation=md.Shifted()),
    "force-shifted": md.Morse(truncation=md.ForceShifted()),
    "switched": md.LennardJones(truncation=md.Switched(1.1)),
}
DISTANCES = jnp.array([0.91, 1.05, 1.31, 1.77, 2.21])


def energies(potential, r):
    (term,) = pair_terms((potential,))
    return term.pair(r**2, (term.coefficients, term.constants))[0]


@pytest.mark.parametrize("potential", POTENTIALS.values(), ids=POTENTIALS)
def test_derivatives_by_distance_and_parameters(potential):
    (term,) = pair_terms((potential,))
    h = 1e-5
    slope = term.pair(DISTANCES**2, (term.coefficients, term.constants))[1] * 2 * DISTANCES
    difference = (energies(potential, DISTANCES + h) - energies(potential, DISTANCES - h)) / (2 * h)
    # Truncation h^2 u''' / 6, about 1e-8 of the slope where it is steepest, and rounding 1e-16 / h.
    scale = float(jnp.abs(slope).max())
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-9 * scale)
    leaves, tree = jax.tree.flatten(potential)
    forward = jax.jacfwd(energies)(potential, DISTANCES)
    reverse = jax.jacrev(energies)(potential, DISTANCES)
    for k, (a, b) in enumerate(zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        direction = jnp.asarray(np.random.default_rng(k).normal(size=leaves[k].shape))

        def moved(s, k=k, direction=direction):
            return energies(
                jax.tree.unflatten(tree, [*leaves[:k], leaves[k] + s * direction, *leaves[k + 1 :]]), DISTANCES
            )

        slopes = a @ direction if direction.ndim == 1 else a * direction
        exact = (moved(h) - moved(-h)) / (2 * h)
        np.testing.assert_allclose(slopes, exact, rtol=1e-6, atol=1e-8 * float(jnp.abs(exact).max()) + 1e-10)


def test_switched_and_force_shifted_end_smoothly():
    r = jnp.array([2.5 - 1e-6])
    assert jnp.abs(energies(POTENTIALS["switched"], r)).max() < 1e-15
    assert jnp.abs(energies(POTENTIALS["force-shifted"], r)).max() < 1e-11


def test_a_table_equals_its_function_between_the_knots():
    r = jnp.linspace(0.75, 2.45, 1000)
    # Hermite: h^4 u'''' / 384 with h = 0.01 and u'''' = 3024 r^-10 at most.
    np.testing.assert_allclose(energies(POTENTIALS["table"], r), r**-6 - r**-3, atol=5e-6)


def test_a_species_without_a_part_gives_no_nan():
    potential = md.LennardJones([1.0, 1.0], [1.0, 0.0])
    slopes = jax.grad(lambda p: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(p.coefficients())))(potential)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(slopes))


def test_bad_parameters():
    with pytest.raises(simkit.ArgumentError, match="Argument `sigma` must be a number, or have shape"):
        md.LennardJones(jnp.ones((2, 3))).coefficients()
    with pytest.raises(simkit.ArgumentError, match="Argument `inner` must lie between 0 and the cutoff"):
        pair_terms((md.LennardJones(truncation=md.Switched(3.0)),))
