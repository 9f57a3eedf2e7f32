"""Jumps of a process whose propensities are products: after a jump those alone are computed that it changes."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core import KnownProducts, jump_matrix
from ._plan import GROUP, MANY, planned

WRITTEN = 64
"""Weights up to which their sums are written out, one operation each."""

IN_BOUNDS = "promise_in_bounds"


class Held(NamedTuple):
    """Contents of lanes, lanes last."""

    values: Array
    weights: Array  # of the slots, and of that behind the last
    coefficients: Array  # with a 0 behind the last


class Weighed(NamedTuple):
    """Weights of the groups of tops (of the tops where these are few), their sums, and the weights of tops and blocks."""

    groups: Array
    passed: list[Array]
    tops: Array
    blocks: Array


class Sparse:
    """The choice of reactions and the changes of states, by tables."""

    def __init__(self, system: KnownProducts, y0: Any, dtype: Any, lanes: int):
        self.dtype = dtype
        self.plan = planned(system.products(), jump_matrix(system, y0))
        self.lane = jnp.arange(lanes, dtype=jnp.int32)[None]
        self.back = np.argsort(self.plan.order) + self.plan.tops

    def begun(self, y: Array, coefficients: Array) -> Held:
        """The values and weights of states."""
        plan, lanes = self.plan, y.shape[1]
        one, zero = jnp.ones((1, lanes), self.dtype), jnp.zeros((1, lanes), self.dtype)
        factors = jnp.concatenate([y, one])[np.where(plan.factor < 0, len(y), plan.factor)]
        parts = [factors, y[plan.order]]
        if plan.taken:
            number, less = np.array(plan.taken).T
            parts.append(y[number] - jnp.asarray(less, self.dtype)[:, None])
        values = jnp.concatenate([*parts, one])
        held = jnp.concatenate([coefficients.astype(self.dtype), zero])
        weights = held[plan.coefficient]
        for rows in plan.rows.T:
            weights = weights * jnp.maximum(values[rows], 0)
        return Held(values, weights, held)

    def numbers(self, held: Held) -> Array:
        """The numbers of the states."""
        return held.values[self.back]

    def missing(self, values: Array) -> Array:
        """Tell the lanes in which a number is negative that propensities read."""
        first = self.plan.tops
        return jnp.any(values[first : first + self.plan.read] < 0, axis=0)

    def weighed(self, held: Held, others: Array | None) -> tuple[Held, Weighed, Array]:
        """The weights of all, and their sum; NaN where one is negative or no number."""
        plan, lanes = self.plan, held.weights.shape[1]
        if others is not None:
            sound = jnp.where(others >= 0, others, jnp.nan).astype(self.dtype)
            first, count = plan.free
            whole = jnp.pad(sound, ((0, -count % plan.width), (0, 0))).reshape(-1, plan.width, lanes)
            into = held.weights.reshape(plan.width, -1, lanes)
            weights = jax.lax.dynamic_update_slice(into, jnp.swapaxes(whole, 0, 1), (0, first, 0))
            held = held._replace(weights=weights.reshape(-1, lanes))
        blocks = added(held.weights.reshape(plan.width, -1, lanes))
        parts = [blocks[: plan.small]] if plan.small else []
        if plan.small < plan.tops:
            parts.append(added(blocks[plan.small : -1].reshape(plan.blocks, -1, lanes)))
        tops = held.values[: plan.tops] * jnp.concatenate(parts)
        groups = tops
        if plan.tops > MANY:
            empty = jnp.zeros((-plan.tops % GROUP, lanes), self.dtype)
            tops = jnp.concatenate([tops, empty])
            groups = jnp.sum(tops.reshape(-1, GROUP, lanes), axis=1)
        passed = sums(groups)
        negative = jnp.any(held.coefficients < 0, axis=0)
        total = jnp.where(self.missing(held.values) | negative, jnp.nan, passed[-1])
        return held, Weighed(groups, passed, tops, blocks), total

    def moved(self, held: Held, weighed: Weighed, target: Array, jumped: Array) -> Held:
        """Contents of the lanes after the reaction on which the target falls."""
        plan = self.plan
        top, rest = picked(list(weighed.groups), weighed.passed, target)
        if plan.tops > MANY:
            top, rest = self._within(weighed.tops, top * GROUP, GROUP, 1, rest)
        rest = rest / held.values.at[top, self.lane[0]].get(mode=IN_BOUNDS)
        block, large = top, plan.tops - plan.small
        if large:
            first = jnp.maximum(top, plan.small)
            found, within = self._within(weighed.blocks, first, plan.blocks, large, rest)
            block = jnp.where(top < plan.small, top, found)
            rest = jnp.where(top < plan.small, rest, within)
        slot, _ = self._within(held.weights, block, plan.width, plan.all_blocks, rest)
        slot = jnp.where(jumped, slot, plan.none)
        look = lambda table: jnp.asarray(table).at[slot].get(mode=IN_BOUNDS)
        # One index an element: pairs of a row and a lane would be written out first.
        lanes, lane = len(slot), self.lane.T
        at = lambda array, rows: array.reshape(-1).at[rows * lanes + lane]
        amounts = look(plan.amounts.astype(self.dtype))
        values = at(held.values, look(plan.changed)).add(amounts, mode=IN_BOUNDS).reshape(held.values.shape)
        if not plan.dependents.shape[1]:
            return held._replace(values=values)
        coefficients = look(plan.coefficient[plan.dependents].astype(np.int32))
        new = at(held.coefficients, coefficients).get(mode=IN_BOUNDS)
        for rows in plan.rows.T:
            new = new * jnp.maximum(at(values, look(rows[plan.dependents])).get(mode=IN_BOUNDS), 0)
        weights = at(held.weights, look(plan.dependents)).set(new, mode=IN_BOUNDS).reshape(held.weights.shape)
        return held._replace(values=values, weights=weights)

    def _within(self, weights: Array, first: Array, count: int, apart: int, target: Array) -> tuple[Array, Array]:
        """The place of the weight on which the target falls, of `count` with equal distances, and what is left of the target."""
        rows = first[None] + apart * jnp.arange(count, dtype=jnp.int32)[:, None]
        found = weights.reshape(-1).at[rows * rows.shape[1] + self.lane].get(mode=IN_BOUNDS)
        place, rest = picked(list(found), sums(found), target)
        return first + apart * place, rest


def added(rows: Array) -> Array:
    """The sum along the first axis, as additions of whole rows."""
    return functools.reduce(jnp.add, list(rows))


def sums(weights: Array) -> list[Array]:
    """The sums of the first weights."""
    if len(weights) > WRITTEN:
        return list(jnp.cumsum(weights, axis=0))
    return list(itertools.accumulate(weights, jnp.add))


def picked(weights: Sequence[Array], passed: Sequence[Array], target: Array) -> tuple[Array, Array]:
    """The weight on which a target falls, and how far it is behind the one before.

    Rounded sums of parts may be less than the sum of all, of which the target is a share: then the last weight is taken that is
    not 0.
    """
    stacked = jnp.stack(passed)
    below = stacked <= target[None]
    count = jnp.sum(below, axis=0, dtype=jnp.int32)
    last = jnp.max(jnp.where(jnp.stack(weights) > 0, jnp.arange(len(weights), dtype=jnp.int32)[:, None], 0), axis=0)
    before = jnp.max(jnp.where(below, stacked, 0), axis=0)
    return jnp.minimum(count, last), target - before
