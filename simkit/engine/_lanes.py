"""Lanes with refill: one loop that solves an ensemble, in which no member waits for another.

W lanes step together. Every few attempts the finished ones write out and take the next member of the queue. Save times use
the method's own dense output: an attempt writes up to `saves` of them, and a lane with more takes the same step again, so that no
lane waits for another's save times and nothing but the saved states is stored.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._attempt import RUNNING, Attempt, Lanes, attempt, moved, select, started
from ._flow import Flow, Operands


class Numerics(NamedTuple):
    """Sizes of the loops."""

    lanes: int
    block: int  # attempts between refills
    saves: int  # save times written in one attempt
    rows: int  # attempts that the gradient's record holds
    max_steps: int


class Layout(NamedTuple):
    """Where the members stand: the axis of every leaf of the operands, None where all members share it."""

    ops: tuple[int | None, ...]
    fixed: tuple[int | None, ...]


class Solution(NamedTuple):
    """What a solve finds, members first."""

    ys: Any  # leaves (members, times, ...); NaN where a failed member did not arrive
    status: Array
    steps: Array
    rejected: Array


def solve(
    flow: Flow, layout: Layout, ops: Operands, fixed: Any, times: Array, numerics: Numerics, members: int
) -> Solution:
    """The states of all members at their save times; `times` is `(times,)` or `(members, times)`, the start first."""
    lanes = numerics.lanes
    refill = members > lanes
    zero = origin(ops, times)
    count = zero.astype(jnp.int32)
    load = functools.partial(loaded, flow, layout, ops, fixed, times, members)

    def attempts(held: Any, s: Lanes, cursor: Array, ys: Any, member: Array) -> tuple[Lanes, Array, Any]:
        def one(carry: Any, _: None) -> tuple[Any, None]:
            s, cursor, ys = carry
            found = attempt(flow, held.ops, held.fixed, held.end, numerics.max_steps, s)
            accept, again = found.accurate, None
            if times.shape[-1] > 2:
                ys, cursor, more = _write(flow, held, times, numerics, s, found, cursor, ys, member)
                accept, again = found.accurate & ~more, found.accurate & more
            return (moved(flow, held.ops, held.fixed, s, found, accept, again), cursor, ys), None

        return jax.lax.scan(one, (s, cursor, ys), None, length=numerics.block)[0]

    def body(carry: Any) -> Any:
        queue, member, held, s, cursor, out = carry
        s, cursor, ys = attempts(held, s, cursor, out.ys, member)
        done = (s.status != RUNNING) & (member < members)
        row = jnp.where(done, member, members)
        arrived = jnp.where(s.status == 0, row, members)
        put = lambda a, x: a.at[arrived, -1].set(jnp.moveaxis(x, -1, 0), mode="drop")
        ys = jax.tree.map(put, ys, flow.pack(s.y))
        figures = (a.at[row].set(x, mode="drop") for a, x in zip(out[1:], (s.status, s.steps, s.rejected), strict=True))
        out = Solution(ys, *figures)
        if not refill:
            return queue, jnp.where(done, members, member), held, s, cursor, out
        rank = jnp.cumsum(done, dtype=jnp.int32) - 1
        member = jnp.where(done, jnp.minimum(queue + rank, members), member)
        queue = jnp.minimum(queue + jnp.sum(done, dtype=jnp.int32), members)
        held, fresh = load(member)
        return queue, member, held, select(done, fresh, s), jnp.where(done, 1, cursor), out

    member = jnp.arange(lanes, dtype=jnp.int32) + count
    held, s = load(member)
    empty = lambda x: jnp.zeros((members, times.shape[-1], *x.shape[:-1]), x.dtype) + jnp.nan
    begin = jax.tree.map(empty, flow.pack(s.y))
    begin = jax.tree.map(lambda x: x + zero.astype(x.dtype), begin)
    first = jax.tree.map(lambda a, x: a.at[:, 0].set(x), begin, _initial(flow, layout, ops, members))
    full = lambda value: jnp.full(members, value, jnp.int32) + count
    out = Solution(first, full(RUNNING), full(0), full(0))
    carry = (count + lanes, member, held, s, jnp.ones_like(member), out)
    return jax.lax.while_loop(lambda c: jnp.any(c[1] < members), body, carry)[-1]


class Held(NamedTuple):
    """What the members now in the lanes are made of."""

    ops: Operands
    fixed: Any
    start: Array
    end: Array


def loaded(
    flow: Flow, layout: Layout, ops: Operands, fixed: Any, times: Array, members: int, member: Array
) -> tuple[Held, Lanes]:
    """Members taken into lanes, at their initial states; a lane without one is finished."""
    ops = take(ops, layout.ops, member)
    fixed = take(fixed, layout.fixed, member)
    ends = [times[..., i] if times.ndim > 1 else jnp.broadcast_to(times[i], (members,)) for i in (0, -1)]
    start, end = (jnp.take(x, member, mode="clip") for x in ends)
    status = jnp.where(member < members, RUNNING, 0).astype(jnp.int32)
    held = Held(ops, fixed, start, end)
    return held, started(flow, ops, fixed, start, end, status)


def take(tree: Any, axes: Sequence[int | None], member: Array) -> Any:
    """Members -> lanes: the leaves' member axis picked and moved to the end."""
    leaves, structure = jax.tree.flatten(tree)
    picked = [
        x if axis is None else jnp.moveaxis(jnp.take(x, member, axis=axis, mode="clip"), axis, -1)
        for x, axis in zip(leaves, axes, strict=True)
    ]
    return jax.tree.unflatten(structure, picked)


def origin(*trees: Any) -> Array:
    """A zero that varies over a mesh as the operands do, which loop carries must."""
    leaves = jax.tree.leaves(trees)
    return sum(jnp.zeros_like(x.reshape(-1)[0]).real.astype(leaves[-1].dtype) for x in leaves)


def _initial(flow: Flow, layout: Layout, ops: Operands, members: int) -> Any:
    """The initial states of all members, members first."""
    y = flow.begin(take(ops, layout.ops, jnp.arange(members, dtype=jnp.int32)))
    return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), flow.pack(y))


def targets(times: Array, member: Array, column: Array) -> Array:
    """The save times of the members in the lanes; `column` is `(..., lanes)`."""
    if times.ndim == 1:
        return times[column]
    return times[jnp.broadcast_to(jnp.minimum(member, times.shape[0] - 1), column.shape), column]


def fraction(target: Array, t: Array, t1: Array) -> Array:
    """Where in a step a time stands, from 0 to 1; 0 in a step of length zero."""
    h = t1 - t
    return jnp.where(h > 0, (target - t) / jnp.where(h > 0, h, 1), 0)


def horner(y: Any, increments: Sequence[Any], theta: Array) -> Any:
    """y + sum_j theta**(j + 1) increments[j]; `theta` has the lanes last."""

    def evaluated(y: Array, *increments: Array) -> Array:
        s = theta.reshape((1,) * (y.ndim - 1) + theta.shape)
        return y + s * functools.reduce(lambda total, q: q + s * total, reversed(increments))

    return jax.tree.map(evaluated, y, *increments)


def _write(
    flow: Flow,
    held: Held,
    times: Array,
    numerics: Numerics,
    s: Lanes,
    a: Attempt,
    cursor: Array,
    ys: Any,
    member: Array,
) -> tuple[Any, Array, Array]:
    """Write the save times that an accurate step passed; also the lanes that have more of them."""
    last = times.shape[-1] - 2  # the final state is written where it is exact, at the end

    def due_at(cursor: Array) -> tuple[Array, Array, Array]:
        column = jnp.minimum(cursor, last)
        target = targets(times, member, column)
        return column, target, a.accurate & (cursor <= last) & (target <= a.reached)

    def passes(y: Any, increments: Any, cursor: Array, ys: Any, count: int) -> tuple[Any, Array]:
        for _ in range(count):
            column, target, due = due_at(cursor)
            value = horner(y, increments, fraction(target, s.t, a.t1))
            row = jnp.where(due, member, jax.tree.leaves(ys)[0].shape[0])
            put = lambda a, x, row=row, column=column: a.at[row, column].set(jnp.moveaxis(x, -1, 0), mode="drop")
            ys = jax.tree.map(put, ys, flow.pack(value))
            cursor = cursor + due.astype(cursor.dtype)
        return ys, cursor

    if member.shape[0] > 1:
        y, increments = jax.lax.optimization_barrier((s.y, flow.polynomial(held.ops, held.fixed, a.dense)))
        ys, cursor = passes(y, increments, cursor, ys, numerics.saves)
        return ys, cursor, due_at(cursor)[2]

    def alone(operand: Any) -> Any:
        y, dense, cursor, ys = operand
        increments = flow.polynomial(held.ops, held.fixed, dense)
        step = lambda c: passes(y, increments, c[1], c[0], 1)
        return jax.lax.while_loop(lambda c: jnp.any(due_at(c[1])[2]), step, (ys, cursor))

    skip = lambda operand: (operand[3], operand[2])
    ys, cursor = jax.lax.cond(jnp.any(due_at(cursor)[2]), alone, skip, (s.y, a.dense, cursor, ys))
    return ys, cursor, jnp.zeros_like(a.accurate)
