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
from ._plan import planned

WRITTEN = 64
"""Weights up to which their sums are written out, one operation each."""

IN_BOUNDS = "promise_in_bounds"


class Held(NamedTuple):
    """What lanes hold, lanes last."""

    values: Array
    weights: Array  # of the slots, and of that behind the last
    coefficients: Array  # with a 0 behind the last


class Weighed(NamedTuple):
    """Weights of the tops, their sums, and those of the blocks."""

    tops: Array
    passed: list[Array]
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
        factors = jnp.concatenate([y, one])[plan.factor]
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
        plan = self.plan
        if others is not None:
            sound = jnp.where(others >= 0, others, jnp.nan).astype(self.dtype)
            weights = jax.lax.dynamic_update_slice(held.weights, sound, (plan.free[0], 0))
            held = held._replace(weights=weights)
        slots = held.weights[: plan.slots].reshape(plan.tops * plan.blocks, plan.width, -1)
        blocks = jnp.sum(slots, axis=1)
        tops = held.values[: plan.tops] * jnp.sum(blocks.reshape(plan.tops, plan.blocks, -1), axis=1)
        passed = sums(tops)
        negative = jnp.any(held.coefficients < 0, axis=0)
        total = jnp.where(self.missing(held.values) | negative, jnp.nan, passed[-1])
        return held, Weighed(tops, passed, blocks), total

    def moved(self, held: Held, weighed: Weighed, target: Array, jumped: Array) -> Held:
        """What lanes hold after the reaction on which the target falls."""
        plan, lane = self.plan, self.lane
        top, rest = picked(list(weighed.tops), weighed.passed, target)
        rest = rest / held.values.at[top, lane[0]].get(mode=IN_BOUNDS)
        block, rest = self._within(weighed.blocks, top, plan.blocks, rest)
        slot, _ = self._within(held.weights, block, plan.width, rest)
        slot = jax.lax.optimization_barrier(jnp.where(jumped, slot, plan.slots))
        look = lambda table: jnp.asarray(table).at[slot].get(mode=IN_BOUNDS).T
        at = lambda array, rows: array.at[rows, lane].get(mode=IN_BOUNDS)
        amounts = look(plan.amounts.astype(self.dtype))
        values = held.values.at[look(plan.changed), lane].add(amounts, mode=IN_BOUNDS)
        if not plan.dependents.shape[1]:
            return held._replace(values=values)
        new = at(held.coefficients, look(plan.coefficient[plan.dependents].astype(np.int32)))
        for rows in plan.rows.T:
            new = new * jnp.maximum(at(values, look(rows[plan.dependents])), 0)
        weights = held.weights.at[look(plan.dependents), lane].set(new, mode=IN_BOUNDS)
        return held._replace(values=values, weights=weights)

    def _within(self, weights: Array, group: Array, width: int, target: Array) -> tuple[Array, Array]:
        """The place, among all, of the weight on which the target falls, in groups of equal width; and what is left of the target."""
        rows = group[None] * width + jnp.arange(width, dtype=jnp.int32)[:, None]
        found = jax.lax.optimization_barrier(weights.at[rows, self.lane].get(mode=IN_BOUNDS))
        place, rest = picked(list(found), sums(found), target)
        return group * width + place, rest


def sums(weights: Array) -> list[Array]:
    """The sums of the first weights."""
    if len(weights) > WRITTEN:
        return list(jnp.cumsum(weights, axis=0))
    return list(itertools.accumulate(weights, jnp.add))


def picked(weights: Sequence[Array], passed: Sequence[Array], target: Array) -> tuple[Array, Array]:
    """The weight on which a target falls, and how far it is behind the one before.

    Sums of parts, rounded, may be less than the sum of all that the target was made of: the last weight that is none 0 is taken then.
    """
    stacked = jnp.stack(passed)
    below = stacked <= target[None]
    count = jnp.sum(below, axis=0, dtype=jnp.int32)
    last = jnp.max(jnp.where(jnp.stack(weights) > 0, jnp.arange(len(weights), dtype=jnp.int32)[:, None], 0), axis=0)
    before = jnp.max(jnp.where(below, stacked, 0), axis=0)
    return jnp.minimum(count, last), target - before
