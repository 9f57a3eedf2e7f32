"""Rows of many-body potentials without room: rows made of all atoms stand in for them, inside every transformation."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec
from md_systems import configuration

import simkit
from simkit import md


def heard(view):
    """Messages: what atoms hear of the crowds around their neighbours."""
    near = jnp.where(view.mask, (1 - (view.distance / 2.0) ** 2) ** 3, 0.0)
    state = near.sum(1)
    return jnp.sum(jnp.tanh(jnp.sum(near * jnp.tanh(view.gather(state)), 1)))


POTENTIALS = {
    "blocks": md.StillingerWeber(epsilon=0.5, sigma=1.0),
    "messages": md.ManyBodyFunction(heard, cutoff=2.0),
}


def tight(plan, **less):
    return dataclasses.replace(plan, lists=dataclasses.replace(plan.lists, **less))


@eqx.filter_jit
def everything(potential, space, x, plan, slopes):
    """Energy, forces and virial; where they are asked for, derivatives of energy and forces by all there is."""
    neighbours = plan.build(space, x)
    sums = md.gradients(potential, space, x, neighbours, plan), plan.fits(neighbours.need)
    if not slopes:
        return sums
    energy = lambda potential, space, x: md.energy(potential, space, x, neighbours, plan)
    work = lambda potential, space, x: jnp.vdot(
        jnp.sin(jnp.arange(x.size)), md.forces(potential, space, x, neighbours, plan)
    )
    point = potential, space, x
    return *sums, eqx.filter_grad(lambda p: energy(*p) + work(*p))(point)


@pytest.mark.parametrize(
    ("kind", "counts", "name", "less"),
    [
        ("open", (4, 4, 5), "blocks", {"row": 3}),
        pytest.param("orthorhombic", (6, 6, 6), "blocks", {"row": 3}, marks=pytest.mark.slow),
        pytest.param("triclinic", (3, 4, 3), "blocks", {"row": 3}, marks=pytest.mark.slow),  # several images
        pytest.param("triclinic", (3, 4, 3), "messages", {"cell": 2}, marks=pytest.mark.slow),
        pytest.param("open", (5, 4, 5), "messages", {"row": 3}, marks=pytest.mark.slow),
    ],
)
def test_rows_of_all_atoms_are_those_of_a_list_with_room(kind, counts, name, less):
    space, x = configuration(kind, counts)
    potential = POTENTIALS[name]
    plan = md.plan_neighbours(potential, space, x)
    small = tight(plan, **less)
    slopes = kind != "open" or name != "blocks"
    expected, found = everything(potential, space, x, plan, slopes), everything(potential, space, x, small, slopes)
    assert expected[1]
    assert found[1]
    assert not small.limited().fits(eqx.filter_jit(lambda plan: plan.build(space, x).need)(small.limited()))
    # Sums in another order, of terms of both signs.
    for a, b in zip(jax.tree.leaves((found[0], found[2:])), jax.tree.leaves((expected[0], expected[2:])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11 * float(jnp.abs(b).max()) + 1e-13)


@pytest.fixture(scope="module")
def silicon():
    """A system with room, one with too little, and a start."""
    start = md.crystal("diamond", 5.431, 2)
    position = start.position + 0.1 * jax.random.normal(jax.random.key(2), start.position.shape)
    system = md.Particles(md.StillingerWeber(), start.space, 28.085 * 1.0364269e-4, units=md.METAL)
    y0 = md.Atoms(position, jnp.zeros_like(position))
    roomy = system.prepared(y0)
    return roomy, dataclasses.replace(roomy, plan=tight(roomy.plan, row=3)), y0


def moved(system, y0, epsilon):
    put = simkit.core.Setup(system, y0, None).put({"potential.epsilon": epsilon})
    return simkit.simulate(put.system, y0, [0.0, 0.01], step=0.001, on_failure="mark")


@eqx.filter_jit
def ended(system, y0, epsilon):
    """The end of a run, its status, and a derivative through it."""
    measured = lambda epsilon: jnp.sum(moved(system, y0, epsilon).final().position[:, 0] ** 2)
    run = moved(system, y0, epsilon)
    return run.final(), run.status, jax.grad(measured)(epsilon)


@pytest.mark.slow
def test_a_run_inside_jit_and_its_gradient(silicon):
    roomy, small, y0 = silicon
    expected, found = ended(roomy, y0, jnp.asarray(2.2)), ended(small, y0, jnp.asarray(2.2))
    assert found[1] == 0
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_members_and_shards_that_need_it_alone(silicon):
    """A member on a wide lattice has room, one on a narrow lattice has not."""
    roomy, _, y0 = silicon
    plan = tight(roomy.plan, row=4 + 1)
    scale = jnp.array([1.25, 1.0])

    def one(scale, plan):
        system = dataclasses.replace(roomy, space=md.Orthorhombic(scale * roomy.space.lengths), plan=plan)
        atoms = dataclasses.replace(y0, position=scale * y0.position)
        run = simkit.simulate(system, atoms, [0.0, 0.005], step=0.001, on_failure="mark")
        return run.final().position, run.status

    expected = jax.jit(jax.vmap(lambda s: one(s, roomy.plan.limited())))(scale)
    over = jax.vmap(lambda s: one(s, plan))
    assert jax.jit(jax.vmap(lambda s: one(s, plan.limited())))(scale)[1].tolist() == [0, int(simkit.Status.NO_ROOM)]
    mesh, spec = jax.make_mesh((2,), ("members",), axis_types=(AxisType.Auto,)), PartitionSpec("members")
    for run in (over, jax.shard_map(over, mesh=mesh, in_specs=spec, out_specs=spec)):
        position, status = jax.jit(run)(scale)
        assert status.tolist() == [0, 0]
        np.testing.assert_allclose(position, expected[0], atol=1e-10)
