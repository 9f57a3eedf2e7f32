"""Sums over pairs against the plain sum over all pairs and images: energy, gradient by everything, Hessian products."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_systems import configuration, plain_energy, reach_of, species_and_charges

from simkit.md import (
    CoulombDSF,
    ForceShifted,
    LennardJones,
    Morse,
    Orthorhombic,
    Switched,
    energy,
    forces,
    gradients,
    plan_neighbours,
)

FLUID = LennardJones(1.02, 0.9, cutoff=2.5)
MIXTURE = (
    LennardJones([1.0, 1.08], [1.0, 0.7], cutoff=2.2, truncation=ForceShifted())
    + Morse(depth=[[0.3, 0.5], [0.5, 0.2]], cutoff=1.9, truncation=Switched(1.6))
    + CoulombDSF(constant=0.8, damping=0.4, cutoff=2.5)
)
CASES = {
    "large box": ("orthorhombic", (5, 5, 7), "clusters"),
    "shorter than a cutoff": ("orthorhombic", (3, 2, 4), "clusters"),
    "skewed": ("triclinic", (4, 6, 5), "clusters"),
    "skewed and thin": ("triclinic", (2, 3, 3), "clusters"),
    "open": ("open", (4, 3, 7), "clusters"),
    "plane": ("orthorhombic", (7, 9), "clusters"),
    "skewed plane": ("triclinic", (3, 4), "clusters"),
    "open plane": ("open", (5, 7), "clusters"),
    "dense": ("orthorhombic", (5, 5, 5), "dense"),
    "dense, several images": ("orthorhombic", (3, 2, 3), "dense"),
    "dense and skewed": ("triclinic", (6, 6, 6), "dense"),
    "dense and thin": ("triclinic", (2, 3, 2), "dense"),
    "dense and open": ("open", (3, 3, 4), "dense"),
    "dense plane": ("triclinic", (2, 3), "dense"),
}


def close(a, b, tolerance):
    for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        scale = max(float(jnp.abs(q).max()), 1e-3)
        np.testing.assert_allclose(np.asarray(p), np.asarray(q), rtol=0, atol=tolerance * scale)


def setup(case, potential):
    kind, counts, method = CASES[case]
    space, x = configuration(kind, counts)
    species, charge = species_and_charges(len(x))
    plan = plan_neighbours(potential, space, x, method=method)
    neighbours = jax.jit(plan.build)(space, x)
    assert plan.fits(neighbours.need)

    def ours(z):
        return energy(z[0], z[1], z[2], neighbours, plan, species=species, charge=z[3])

    reach = reach_of(space, 2.5)

    def plain(z):
        return plain_energy(z[0], z[1], z[2], species, z[3], reach=reach)

    z = potential, space, x, charge
    return ours, plain, z, (plan, neighbours, species)


def direction_of(z, seed=7):
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda a: jnp.asarray(random.normal(size=a.shape)), z)


@functools.cache
def orders(function):
    """Energy, gradient and Hessian product, compiled once."""

    def both(z, direction):
        return function(z), jax.grad(function)(z), jax.jvp(jax.grad(function), (z,), (direction,))[1]

    return jax.jit(both)


MIXED = {"shorter than a cutoff", "skewed", "open plane", "dense", "dense and thin", "dense and open"}


SLOW = {"shorter than a cutoff": pytest.mark.slow, "dense and thin": pytest.mark.slow, "open plane": pytest.mark.slow}
EVERY = [pytest.param(case, marks=SLOW.get(case, pytest.mark.long)) for case in CASES]


@pytest.mark.parametrize("case", EVERY)
def test_energy_gradient_and_hessian_product(case):
    ours, plain, z, (plan, neighbours, species) = setup(case, MIXTURE if case in MIXED else FLUID)
    direction = direction_of(z)
    found, expected = orders(ours)(z, direction), orders(plain)(z, direction)
    # Rounding: some hundred terms of both signs; the gradients' largest entries set their scale.
    for a, b, tolerance in zip(found, expected, (1e-12, 1e-11, 1e-10), strict=True):
        close(a, b, tolerance)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(found))
    one = jax.jit(lambda z: gradients(z[0], z[1], z[2], neighbours, plan, species=species, charge=z[3]))(z)
    close(one.forces, -expected[1][2], 1e-11)
    alone = jax.jit(lambda z: forces(z[0], z[1], z[2], neighbours, plan, species=species, charge=z[3]))(z)
    close(alone, -expected[1][2], 1e-11)
    d = z[1].dimensions
    strained = jax.jit(jax.grad(lambda e: plain((z[0], z[1].scaled(e), z[2] + z[2] @ e.T, z[3]))))
    virial = strained(jnp.zeros((d, d)))
    close(one.virial, virial, 1e-10)


@pytest.mark.parametrize("case", [pytest.param("shorter than a cutoff", marks=pytest.mark.long), "dense"])
def test_reverse_over_reverse_and_third_order(case):
    ours, plain, z, _ = setup(case, FLUID)
    direction = direction_of(z)

    def inner(function, z):
        return sum(map(jnp.vdot, jax.tree.leaves(jax.grad(function)(z)), jax.tree.leaves(direction)))

    expected = jax.jit(lambda z: jax.jvp(jax.grad(plain), (z,), (direction,))[1])(z)
    close(jax.jit(jax.grad(lambda z: inner(ours, z)))(z), expected, 1e-10)

    def third(function, z):
        return jax.jvp(lambda y: jax.jvp(jax.grad(function), (y,), (direction,))[1], (z,), (direction,))[1]

    close(jax.jit(lambda z: third(ours, z))(z), jax.jit(lambda z: third(plain, z))(z), 1e-9)


@pytest.mark.slow
def test_forces_differentiate_like_the_gradient_of_the_energy():
    ours, _, z, (plan, neighbours, species) = setup("shorter than a cutoff", MIXTURE)
    weight = direction_of(z)[2]

    def by_forces(z):
        return jnp.vdot(weight, forces(z[0], z[1], z[2], neighbours, plan, species=species, charge=z[3]))

    close(
        jax.jit(jax.grad(by_forces))(z), jax.jit(jax.grad(lambda z: -jnp.vdot(weight, jax.grad(ours)(z)[2])))(z), 1e-11
    )


@pytest.mark.slow
def test_vmap_equals_a_loop():
    ours, _, z, _ = setup("shorter than a cutoff", FLUID)
    sigmas = jnp.array([1.0, 1.02, 1.05])

    def one(sigma):
        return jax.grad(ours)((eqx.tree_at(lambda p: p.sigma, z[0], sigma), *z[1:]))

    batch, single = jax.jit(jax.vmap(one))(sigmas), jax.jit(one)
    close(batch, jax.tree.map(lambda *a: jnp.stack(a), *map(single, sigmas)), 1e-12)


@pytest.mark.slow
def test_a_pair_exactly_at_the_cutoff_does_not_count_and_gives_no_nan():
    space, x = Orthorhombic([20.0, 20.0, 20.0]), jnp.array([[1.0, 1, 1], [3.5, 1, 1], [1.0, 2.2, 1]])
    potential = LennardJones(cutoff=2.5, truncation=ForceShifted())
    for method in ("dense", "clusters"):
        plan = plan_neighbours(potential, space, x, method=method)
        found = jax.grad(lambda p, x, plan=plan: energy(p, space, x, plan.build(space, x), plan), (0, 1))(potential, x)
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(found))
        assert jnp.abs(found[1][1]).max() == 0
