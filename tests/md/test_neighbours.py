"""Plans and lists: overflow is a value and plans grow; when a list is stale; float types; shards."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from md_systems import configuration, species_and_charges

import simkit
from simkit import md

FLUID = md.LennardJones(cutoff=2.2)
energy, forces, gradients = eqx.filter_jit(md.energy), eqx.filter_jit(md.forces), eqx.filter_jit(md.gradients)
build = eqx.filter_jit(lambda plan, space, position: plan.build(space, position))


def fluid(counts=(4, 4, 5)):
    space, x = configuration("orthorhombic", counts)
    return space, x, md.plan_neighbours(FLUID, space, x, method="clusters").limited()


def test_every_capacity_overflows_as_a_value_and_grows_back():
    space, x, plan = fluid()
    expected = energy(FLUID, space, x, build(plan, space, x), plan)
    small = plan.pairs.capacity._replace(window=2, clusters=8, pairs=512, units=64)
    grown = dataclasses.replace(plan, pairs=dataclasses.replace(plan.pairs, capacity=small))
    tried = 0
    while True:
        need = build(grown, space, x).need
        if grown.fits(need):
            break
        grown, tried = grown.grown(need), tried + 1
    assert 0 < tried < 12
    np.testing.assert_allclose(energy(FLUID, space, x, build(grown, space, x), grown), expected, rtol=1e-13)


def test_a_cell_that_shrinks_voids_the_plan_and_a_new_one_fits():
    space, x, plan = fluid()
    thin = md.Orthorhombic(space.lengths * jnp.array([0.9, 1.0, 1.0]))
    need = build(plan, thin, x * jnp.array([[0.9, 1.0, 1.0]])).need
    assert not plan.fits(need)
    assert plan.grown(need).pairs.width[0] < plan.pairs.width[0]


def test_stale_after_half_a_skin_or_when_the_cell_changes():
    space, x, plan = fluid()
    neighbours, stale = build(plan, space, x), jax.jit(plan.stale)
    assert not stale(neighbours, space, x)
    assert not stale(neighbours, space, x.at[3, 1].add(0.149))
    assert stale(neighbours, space, x.at[3, 1].add(0.151))
    assert stale(neighbours, space, x.at[3, 1].set(jnp.nan))
    # An affine deformation alone: what counts is how much a distance of cutoff + skin may shrink.
    for scale, expected in ((1.01, False), (0.99, False), (0.9, True)):
        assert stale(neighbours, md.Orthorhombic(scale * space.lengths), scale * x) == expected


def test_a_list_that_is_not_stale_gives_the_energy_of_a_fresh_one():
    space, x, plan = fluid()
    old = build(plan, space, x)
    moved = x + jnp.asarray(np.random.default_rng(4).uniform(-0.08, 0.08, x.shape))
    assert not plan.stale(old, space, moved)
    fresh = build(plan, space, moved)
    np.testing.assert_allclose(
        forces(FLUID, space, moved, old, plan), forces(FLUID, space, moved, fresh, plan), atol=1e-10
    )


@pytest.mark.parametrize(("kind", "precision", "tolerance"), [("float32", None, 3e-6), ("float64", "float32", 3e-6)])
def test_float_types(kind, precision, tolerance):
    """Single precision has 6e-8; sums of a few hundred terms of both signs lose a digit or two."""
    space, x, plan = fluid()
    species, charge = species_and_charges(len(x))
    potential = md.LennardJones([1.0, 1.1], cutoff=2.2) + md.CoulombDSF(damping=0.4, cutoff=2.2)
    expected = gradients(potential, space, x, build(plan, space, x), plan, species=species, charge=charge)
    low = jax.tree.map(lambda a: a.astype(kind), (potential, space, x, charge))
    plan = md.plan_neighbours(low[0], low[1], low[2], method="clusters", precision=precision)
    found = gradients(*low[:3], build(plan, *low[1:3]), plan, species=species, charge=low[3])
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(kind)}
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(jnp.abs(b).max()))


@pytest.mark.slow
def test_inside_shard_map_with_checked_variance():
    space, x, plan = fluid()
    mesh = jax.make_mesh((2,), ("members",), axis_types=(AxisType.Auto,))
    batch = jnp.stack([x, x + 0.01]), jnp.array([1.0, 1.02])

    def one(member):
        x, sigma = member
        potential = md.LennardJones(sigma, sigma**0, cutoff=2.2)
        value = jax.value_and_grad(lambda p, x: md.energy(p, space, x, plan.build(space, x), plan), (0, 1))(
            potential, x
        )
        # A parameter that the devices share gets the sum of their derivatives, once.
        shared = jax.grad(lambda p: md.energy(p, space, x, plan.build(space, x), plan))(FLUID)
        return value, shared, jax.grad(lambda x: jnp.vdot(x, md.forces(FLUID, space, x, plan.build(space, x), plan)))(x)

    spec = PartitionSpec("members")
    sharded = jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=True)
    found = jax.jit(sharded)(jax.device_put(batch, NamedSharding(mesh, spec)))
    single = jax.jit(one)
    expected = jax.tree.map(lambda *a: jnp.stack(a), *(single((batch[0][k], batch[1][k])) for k in range(2)))
    total = jax.tree.map(lambda a: jnp.broadcast_to(a.sum(0), a.shape), expected[1])
    expected = expected[0], total, expected[2]
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)


def test_bad_input():
    space, x, plan = fluid()
    with pytest.raises(simkit.ArgumentError, match="Argument `position` must have shape"):
        md.plan_neighbours(FLUID, space, x[:, :2])
    with pytest.raises(simkit.ArgumentError, match="Argument `position` must be finite"):
        md.plan_neighbours(FLUID, space, x.at[0, 0].set(jnp.nan))
    with pytest.raises(simkit.ArgumentError, match="Argument `charge` must be given"):
        md.energy(md.CoulombCut(), space, x, plan.build(space, x), plan)
    with pytest.raises(simkit.ArgumentError, match="Argument `species` must be given"):
        md.energy(md.LennardJones([1.0, 1.1]), space, x, plan.build(space, x), plan)
