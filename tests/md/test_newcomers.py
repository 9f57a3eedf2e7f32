"""Lists are stale when a pair that none holds may be within the cutoff, and not before: against all pairs and images."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_systems import configuration
from scipy.spatial import cKDTree

from simkit import md
from simkit.md.neighbours._newcomers import Moves, newcomers

CUTOFF, SKIN = 1.6, 0.3
FLUID = md.LennardJones(cutoff=CUTOFF)
build = eqx.filter_jit(lambda plan, space, position: plan.build(space, position))
stale = eqx.filter_jit(lambda plan, neighbours, space, position: plan.stale(neighbours, space, position))


def came(space, before, after, cutoff, slack=0.0):
    """Whether a pair is within the cutoff that was cutoff + skin apart, over all images; with some slack in both."""
    x, y = np.asarray(before), np.asarray(after)
    spans = [range(-1, 2) if space.periodic else range(1)] * x.shape[1]
    images = np.array(list(itertools.product(*spans)), float) @ np.asarray(space.vectors())
    copies = lambda a: (a[None] + images[:, None]).reshape(-1, a.shape[1])
    near = cKDTree(y).query_ball_tree(cKDTree(copies(y)), cutoff * (1 + slack))
    own, others = np.repeat(np.arange(len(y)), [len(row) for row in near]), np.concatenate(near).astype(int)
    return bool((np.linalg.norm(copies(x)[others] - x[own], axis=1) >= (cutoff + SKIN) * (1 - slack)).any())


def draws(shape, count):
    """Displacements of which a few are long, none as long as the skin: as many as may be looked at of so few atoms."""
    random = np.random.default_rng(5)
    for _ in range(count):
        u = random.normal(0, 0.02, shape)
        far = random.choice(shape[0], 30, replace=False)
        u[far] *= (random.uniform(0.13, 0.29, 30) / np.linalg.norm(u[far], axis=1))[:, None]
        yield u


@pytest.mark.parametrize(
    ("kind", "counts"),
    [("orthorhombic", (6, 7, 6)), ("triclinic", (8, 8, 8)), ("open", (6, 6, 6)), ("triclinic", (15, 14))],
)
def test_stale_where_a_pair_came_and_nowhere_else(kind, counts):
    space, x = configuration(kind, counts)
    # Far from the cell, as atoms are that diffuse.
    away = np.zeros(x.shape)
    if space.periodic:
        away = np.random.default_rng(1).integers(-2, 3, x.shape) @ np.asarray(space.vectors())
    plan = md.plan_neighbours(FLUID, space, x + away, method="clusters").limited()
    neighbours, seen = build(plan, space, x + away), []
    for u in draws(x.shape, 24):
        found = bool(stale(plan, neighbours, space, x + away + u))
        if came(space, x, x + u, CUTOFF):
            assert found
        elif not came(space, x, x + u, CUTOFF, 3e-4):  # twice what is allowed for rounding, and a half
            assert not found
        seen.append(found)
    assert {True, False} == set(seen)


def test_a_narrow_cell_goes_by_half_a_skin_and_so_do_more_atoms_than_can_be_looked_at():
    space, x = configuration("orthorhombic", (4, 4, 4))
    plan = md.plan_neighbours(FLUID, space, x, method="clusters").limited()
    neighbours = build(plan, space, x)
    assert not stale(plan, neighbours, space, x.at[3, 1].add(0.149))
    assert stale(plan, neighbours, space, x.at[3, 1].add(0.151))
    space, x = configuration("orthorhombic", (6, 7, 6))
    plan = md.plan_neighbours(FLUID, space, x, method="clusters").limited()
    neighbours = build(plan, space, x)
    assert not stale(plan, neighbours, space, x + 0.08)  # all, by less than half a skin
    assert stale(plan, neighbours, space, x + 0.1)
    assert stale(plan, neighbours, space, x.at[3, 1].add(0.301))
    assert stale(plan, neighbours, space, x.at[3, 1].set(jnp.nan))


def test_members_of_a_batch_are_judged_each_by_itself():
    space, x = configuration("orthorhombic", (6, 7, 6))
    plan = md.plan_neighbours(FLUID, space, x, method="clusters").limited()
    neighbours = build(plan, space, x)
    moved = jnp.stack([x + u for u in draws(x.shape, 12)] + [x])
    one_by_one = [bool(stale(plan, neighbours, space, member)) for member in moved]
    together = jax.jit(jax.vmap(lambda position: plan.stale(neighbours, space, position)))(moved)
    assert one_by_one == together.tolist()
    assert len(set(one_by_one)) == 2


def test_lists_of_two_ranges_are_judged_by_both():
    """A pair that comes within the shorter cutoff counts, though the longer list has held it all the time."""
    space = md.OpenSpace()
    x = jnp.asarray(np.array([[0.0, 0, 0], [1.32, 0, 0], [50, 50, 50]]))
    u = jnp.asarray(np.array([[0.2, 0, 0], [-0.15, 0, 0], [0, 0, 0]]))
    for ranges, expected in (((1.9,), False), ((1.9, 1.3), True)):
        assert newcomers(ranges, SKIN, space, Moves(x + u, u), jnp.array(True)) == expected
