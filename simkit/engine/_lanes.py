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
        put = lambda a, x: a.at[arrived, times.shape[-1] - 1].set(jnp.moveaxis(x, -1, 0), mode="drop")
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
    columns = times.shape[-1] + (numerics.saves if times.shape[-1] > 2 else 0)  # room for the last window
    empty = lambda x: jnp.zeros((members + 1, columns, *x.shape[:-1]), x.dtype) + jnp.nan
    begin = jax.tree.map(empty, flow.pack(s.y))
    begin = jax.tree.map(lambda x: x + zero.astype(x.dtype), begin)
    first = jax.tree.map(lambda a, x: a.at[:members, 0].set(x), begin, _initial(flow, layout, ops, members))
    full = lambda value: jnp.full(members, value, jnp.int32) + count
    out = Solution(first, full(RUNNING), full(0), full(0))
    carry = (count + lanes, member, held, s, jnp.ones_like(member), out)
    out = jax.lax.while_loop(lambda c: jnp.any(c[1] < members), body, carry)[-1]
    return out._replace(ys=jax.tree.map(lambda x: x[:members, : times.shape[-1]], out.ys))


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
    zeros = [jnp.zeros_like(x.reshape(-1)[0]).real.astype(leaves[-1].real.dtype) for x in leaves]
    return functools.reduce(jnp.add, zeros)


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


def horner(y: Array, increments: Sequence[Array], theta: Array) -> Array:
    """y + sum_j theta**(j + 1) increments[j]."""
    return y + theta * functools.reduce(lambda total, q: q + theta * total, reversed(increments))


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
    ahead = jnp.arange(numerics.saves, dtype=cursor.dtype)[:, None]

    def due_at(cursor: Array) -> tuple[Array, Array]:
        column = cursor[None] + ahead
        target = targets(times, member, jnp.minimum(column, last))
        return target, a.accurate[None] & (column <= last) & (target <= a.reached[None])

    def written(values: Any, cursor: Array, ys: Any) -> tuple[Any, Array]:
        y, increments = values
        target, due = due_at(cursor)
        theta = fraction(target, s.t[None], a.t1[None])

        def windows(y: Array, *increments: Array) -> Array:
            over = lambda x: x.reshape(numerics.saves, *(1,) * (y.ndim - 1), -1)
            value = horner(y[None], [q[None] for q in increments], over(theta))
            return jnp.moveaxis(jnp.where(over(due), value, jnp.nan), -1, 0)

        row = jnp.where(due[0], member, jax.tree.leaves(ys)[0].shape[0] - 1)
        put = lambda a, y, *increments: _put_windows(a, row, cursor, windows(y, *increments))
        ys = jax.tree.map(put, ys, y, *increments)
        return ys, cursor + jnp.sum(due, axis=0, dtype=cursor.dtype)

    def packed(y: Any, dense: Any) -> Any:
        increments = flow.polynomial(held.ops, held.fixed, dense)
        return jax.lax.optimization_barrier((flow.pack(y), [flow.pack(q) for q in increments]))

    def more(cursor: Array) -> Array:
        return due_at(cursor)[1][0]

    if member.shape[0] > 1:
        ys, cursor = written(packed(s.y, a.dense), cursor, ys)
        return ys, cursor, more(cursor)

    def alone(operand: Any) -> Any:
        y, dense, cursor, ys = operand
        values = packed(y, dense)
        step = lambda c: written(values, c[1], c[0])
        return jax.lax.while_loop(lambda c: jnp.any(more(c[1])), step, (ys, cursor))

    skip = lambda operand: (operand[3], operand[2])
    ys, cursor = jax.lax.cond(jnp.any(more(cursor)), alone, skip, (s.y, a.dense, cursor, ys))
    return ys, cursor, jnp.zeros_like(a.accurate)


def _put_windows(buffer: Array, row: Array, column: Array, windows: Array) -> Array:
    """`buffer[row, column : column + saves] = windows` in every lane, none where the row is past the end.

    One window of consecutive save times a lane costs little more than one save time.
    """
    numbers = jax.lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, windows.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0, 1),
    )
    mode = jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return jax.lax.scatter(buffer, jnp.stack([row, column], axis=-1), windows, numbers, mode=mode)
