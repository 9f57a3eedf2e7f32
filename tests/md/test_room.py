"""Lists without room for all pairs: what stands in for them, inside every transformation, and what outside makes more room."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec
from md_runs import H, fluid
from md_systems import configuration, species_and_charges

import simkit
from simkit import md

TIMES = [0.0, 0.03]


def tight(plan, **less):
    """A plan with less room."""
    capacity = plan.pairs.capacity._replace(**less)
    return dataclasses.replace(plan, pairs=dataclasses.replace(plan.pairs, capacity=capacity))


@eqx.filter_jit
def everything(potential, space, x, plan, species, charge, second):
    """Energy, forces and virial; derivatives by all there is, also of the forces."""
    neighbours = plan.build(space, x)
    kinds = {"species": species, "charge": charge}
    energy = lambda potential, space, x: md.energy(potential, space, x, neighbours, plan, **kinds)
    work = lambda potential, space, x: jnp.vdot(
        jnp.sin(jnp.arange(x.size)), md.forces(potential, space, x, neighbours, plan, **kinds)
    )
    point = potential, space, x
    slopes = eqx.filter_grad(lambda p: (work if second else energy)(*p))(point)
    return md.gradients(potential, space, x, neighbours, plan, **kinds), slopes, plan.fits(neighbours.need)


@pytest.mark.parametrize(
    ("kind", "counts", "less"),
    [
        pytest.param("open", (4, 4, 5), {"clusters": 8}, marks=pytest.mark.slow),
        pytest.param("triclinic", (4, 4, 5), {"clusters": 8}, marks=pytest.mark.slow),  # several images
        pytest.param("orthorhombic", (9, 9), {"window": 1}, marks=pytest.mark.slow),
    ],
)
def test_all_pairs_are_those_of_a_list_with_room(kind, counts, less):
    space, x = configuration(kind, counts)
    species, charge = species_and_charges(len(x))
    potential = md.LennardJones([1.0, 1.1], cutoff=2.2) + md.CoulombDSF(damping=0.4, cutoff=2.0)
    exclusions = np.array([[0, 1], [3, 2], [5, 9]]) if kind == "open" else None
    plan = md.plan_neighbours(potential, space, x, method="clusters", exclusions=exclusions)
    expected = everything(potential, space, x, plan, species, charge, kind == "open")
    found = everything(potential, space, x, tight(plan, **less), species, charge, kind == "open")
    assert expected[2]
    assert found[2]
    need = eqx.filter_jit(lambda plan: plan.build(space, x).need)(plan.limited())
    assert not tight(plan, **less).limited().fits(need)
    # Sums in another order, of terms of both signs.
    for a, b in zip(jax.tree.leaves(found[:2]), jax.tree.leaves(expected[:2]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11 * float(jnp.abs(b).max()) + 1e-13)


@pytest.fixture(scope="module")
def systems():
    """A system with room, one with too little, and a start."""
    system, y0 = fluid(cells=3)
    plan = md.plan_neighbours(system.potential, system.space, y0.position, method="clusters")
    return dataclasses.replace(system, plan=plan), dataclasses.replace(system, plan=tight(plan, clusters=8)), y0


def moved(system, y0, sigma):
    put = simkit.core.Setup(system, y0, None).put({"potential.sigma": sigma})
    return simkit.simulate(put.system, y0, TIMES, step=H, on_failure="mark")


@eqx.filter_jit
def ended(system, y0, sigma):
    """The end of a run, its status, and a derivative through it."""
    measured = lambda sigma: jnp.sum(moved(system, y0, sigma).final().position[:, 0] ** 2)
    run = moved(system, y0, sigma)
    return run.final(), run.status, jax.grad(measured)(sigma)


@pytest.mark.slow
def test_a_run_inside_jit_and_its_gradient(systems):
    roomy, small, y0 = systems
    expected, found = ended(roomy, y0, jnp.asarray(1.0)), ended(small, y0, jnp.asarray(1.0))
    assert found[1] == 0
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_a_run_outside_is_done_again_with_more_room(systems):
    roomy, small, y0 = systems
    assert simkit.simulate(small, y0, TIMES, step=H).status == 0
    tally = jax.jit(lambda y: moved(small.limited(), y, 1.0))(y0)
    assert tally.status == int(simkit.Status.NO_ROOM)
    assert small.enlarged(tally.lists).plan.pairs.capacity.units >= int(tally.lists.need.pairs.units)
    assert small.enlarged(tally.lists).plan.pairs.capacity.clusters >= 14 > small.plan.pairs.capacity.clusters
    np.testing.assert_allclose(
        simkit.simulate(small, y0, TIMES, step=H).final().position,
        simkit.simulate(roomy, y0, TIMES, step=H).final().position,
        atol=1e-11,
    )


@pytest.mark.slow
def test_a_run_goes_on_from_where_it_had_room(systems):
    """Room for the start and for the first row, not for all."""
    system, y0 = fluid(cells=4, temperature=3.0)
    plan = md.plan_neighbours(system.potential, system.space, y0.position, method="clusters")
    fine = dataclasses.replace(plan.pairs, chunk=8, capacity=plan.pairs.capacity._replace(units=96))
    times = np.linspace(0.0, 0.3, 7)
    expected = simkit.simulate(dataclasses.replace(system, plan=plan), y0, times, step=H)
    small = dataclasses.replace(system, plan=dataclasses.replace(plan, pairs=fine))
    found = simkit.simulate(small, y0, times, step=H)
    assert found.status == 0
    assert int(found.steps) == int(expected.steps)
    np.testing.assert_array_equal(found.times, expected.times)
    # A list made elsewhere sums in another order, which chaos enlarges.
    np.testing.assert_allclose(found.ys.position, expected.ys.position, atol=1e-9)


@pytest.fixture(scope="module")
def pair():
    """A cell and one a fifth wider; room for the neighbours in the wide one alone; runs with room for both."""
    system, y0 = fluid(cells=3)
    scale = jnp.array([1.0, 1.2])
    wide = dataclasses.replace(system, space=md.Orthorhombic(1.2 * system.space.lengths))
    dense = md.plan_neighbours(system.potential, system.space, y0.position, method="clusters")
    plan = md.plan_neighbours(system.potential, wide.space, 1.2 * y0.position, method="clusters")
    assert plan.pairs.width[0] > dense.pairs.width[0]  # its columns are too wide for the narrow cell

    def one(scale, tightness):
        space = md.Orthorhombic(scale * system.space.lengths)
        put = dataclasses.replace(system, space=space, plan=tightness)
        run = simkit.simulate(put, md.Atoms(scale * y0.position, y0.momentum), TIMES, step=H, on_failure="mark")
        return run.final().position, run.status

    runs = jax.jit(jax.vmap(lambda s: one(s, dense.limited())))(scale)
    assert runs[1].tolist() == [0, 0]
    return plan, one, scale, runs[0]


def test_members_that_need_it_alone(pair):
    plan, one, scale, alone = pair
    position, status = jax.jit(jax.vmap(lambda s: one(s, plan)))(scale)
    assert status.tolist() == [0, 0]
    np.testing.assert_allclose(position, alone, atol=1e-10)


@pytest.mark.slow
def test_shards_that_need_it_alone(pair):
    plan, one, scale, alone = pair
    mesh = jax.make_mesh((2,), ("members",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("members")
    over = jax.vmap(lambda s: one(s, plan))
    position, status = jax.jit(jax.shard_map(over, mesh=mesh, in_specs=spec, out_specs=spec))(scale)
    assert status.tolist() == [0, 0]
    np.testing.assert_allclose(position, alone, atol=1e-10)


@pytest.mark.slow
def test_a_cell_that_shrinks_below_two_cutoffs():
    """All pairs at their nearest images stop being enough: several images stand in."""
    system, y0 = fluid(cells=3)
    thin = dataclasses.replace(system, space=md.Orthorhombic(0.85 * system.space.lengths))
    atoms = md.Atoms(0.85 * y0.position, y0.momentum)
    wide = system.prepared(y0).plan
    assert wide.pairs.images is None
    found, own = (dataclasses.replace(thin, plan=plan).gradients(atoms) for plan in (wide, thin.prepared(atoms).plan))
    for a, b in zip(found, own, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)
