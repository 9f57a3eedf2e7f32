"""Lanes with refill: one loop that solves an ensemble, in which no member waits for another.

W lanes step together. Every few attempts the finished ones write out and take the next member of the queue. Save times use
the method's own dense output: an attempt writes up to `saves` of them, and a lane with more takes the same step again, so that no
lane waits for another's save times and nothing but the saved states is stored.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._attempt import RUNNING, Attempt, Lanes, attempt, moved, select, started
from ._flow import Flow, Operands

MOST_TURNS = 64
"""With more members a lane the last one is too small a part of the work to be worth sorting them."""


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
    length: Array  # of the step that would come next


def solve(
    flow: Flow, layout: Layout, ops: Operands, fixed: Any, times: Array, numerics: Numerics, members: int
) -> Solution:
    """The states of all members at their save times; `times` is `(times,)` or `(members, times)`, the start first."""
    lanes = numerics.lanes
    refill = members > lanes
    zero = origin(ops, times)
    count = zero.astype(jnp.int32)
    load = loader(flow, layout, ops, fixed, times, members)

    last = times.shape[-1] - 2  # the final state is written where it is exact, at the end
    saving = last > 0

    def attempts(held: Any, s: Lanes, cursor: Array, ys: Any, member: Array) -> tuple[Lanes, Array, Any]:
        """As many attempts in every lane as a block has."""
        due = functools.partial(_due, flow, held, times, numerics.saves, members)
        advance = functools.partial(attempt, flow, held.ops, held.fixed, held.end, numerics.max_steps)
        go = functools.partial(moved, flow, held.ops, held.fixed)

        def final_only(s: Lanes, _: None) -> tuple[Lanes, None]:
            found = advance(s)
            return go(s, found, found.accurate), None

        def windowed(carry: Any, _: None) -> tuple[Any, Any]:
            s, cursor = carry
            found = advance(s)
            place, values, cursor, more = due(s, found, member, cursor)
            s = go(s, found, found.accurate & ~more, found.accurate & more)
            return (s, cursor), (place, values)

        def alone(carry: Any, _: None) -> tuple[Any, None]:
            s, cursor, ys = carry
            found = advance(s)

            def write(carry: Any) -> Any:
                cursor, ys, _ = carry
                place, values, cursor, more = due(s, found, member, cursor)
                return cursor, _written(ys, place, values), more

            any_due = targets(times, member, jnp.minimum(cursor, last)) <= found.reached
            carry = cursor, ys, found.accurate & (cursor <= last) & any_due
            cursor, ys, _ = jax.lax.while_loop(lambda c: jnp.any(c[2]), write, carry)
            return (go(s, found, found.accurate), cursor, ys), None

        scan = functools.partial(jax.lax.scan, length=numerics.block)
        if not saving:
            return scan(final_only, s, None)[0], cursor, ys
        if lanes == 1:
            return scan(alone, (s, cursor, ys), None)[0]
        (s, cursor), windows = scan(windowed, (s, cursor), None)
        # Without the large buffer XLA makes one kernel of all attempts.
        return s, cursor, jax.lax.scan(lambda ys, found: (_written(ys, *found), None), ys, windows)[0]

    def body(carry: Any) -> Any:
        queue, member, held, s, cursor, out = carry
        s, cursor, ys = attempts(held, s, cursor, out.ys, member)
        done = (s.status != RUNNING) & (member < members)
        row = jnp.where(done, member, members)
        arrived = jnp.where(s.status == 0, row, members)
        put = lambda a, x: a.at[arrived, ..., times.shape[-1] - 1].set(jnp.moveaxis(x, -1, 0), mode="drop")
        ys = jax.tree.map(put, ys, flow.pack(s.y))
        figures = jnp.stack([s.status, s.steps, s.rejected, cursor], axis=-1)
        out = _Out(ys, out.figures.at[row].set(figures, mode="drop"), out.h.at[row].set(s.h, mode="drop"))
        if not refill:
            return queue, jnp.where(done, members, member), held, s, cursor, out
        queue, member, held, s, cursor, _ = jax.lax.while_loop(
            lambda c: jnp.any(c[-1]), take, (queue, member, held, s, cursor, done)
        )
        return queue, member, held, s, cursor, out

    def take(carry: Any) -> Any:
        """Give the next members to the lanes that are done: a loop of at most one turn, which XLA makes one kernel of."""
        queue, member, held, s, cursor, done = carry
        rank = jnp.cumsum(done, dtype=jnp.int32) - 1
        following = jnp.minimum(queue + rank, members)
        if order is not None:
            following = jnp.take(order, following, mode="fill", fill_value=members)
        member = jnp.where(done, following, member)
        queue = jnp.minimum(queue + jnp.sum(done, dtype=jnp.int32), members)
        held, fresh = load(member)
        return queue, member, held, select(done, fresh, s), jnp.where(done, 1, cursor), jnp.zeros_like(done)

    order = _longest_first(load, members, lanes) if lanes < members <= MOST_TURNS * lanes else None
    member = (jnp.arange(lanes, dtype=jnp.int32) if order is None else order[:lanes]) + count
    held, s = load(member)
    columns = times.shape[-1] + (numerics.saves if saving else 0)  # room for the last window
    empty = lambda x: jnp.zeros((members + 1, *x.shape[:-1], columns), x.dtype) + zero.astype(x.dtype)
    begin = jax.tree.map(empty, flow.pack(s.y))
    initial = _initial(flow, layout, ops, members)
    figures = jnp.broadcast_to(jnp.array([RUNNING, 0, 0, 1], jnp.int32), (members, 4)) + count
    out = _Out(begin, figures, jnp.zeros(members, s.h.dtype) + zero.astype(s.h.dtype))
    carry = (count + lanes, member, held, s, jnp.ones_like(member), out)
    out = jax.lax.while_loop(lambda c: jnp.any(c[1] < members), body, carry)[-1]
    status, steps, rejected, reached = jnp.moveaxis(out.figures, -1, 0)
    arrived = jnp.where(status == 0, times.shape[-1], reached)
    ys = jax.tree.map(functools.partial(_kept, arrived, times.shape[-1]), out.ys, initial)
    return Solution(ys, status, steps, rejected, out.h)


def _longest_first(load: Callable[[Array], tuple[Any, Lanes]], members: int, lanes: int) -> Array:
    """The order in which members are taken: those first whose first step is the shortest part of their span.

    They are likely to need the most steps, and one that is taken last has all other lanes wait for it.
    """
    groups = -(-members // lanes)
    member = jnp.arange(groups * lanes, dtype=jnp.int32).reshape(groups, lanes)

    def part(member: Array) -> Array:
        held, s = load(member)
        return s.h / (held.end - held.start)

    parts = jax.lax.map(part, member).reshape(-1)[:members]
    return jax.lax.sort((parts, member.reshape(-1)[:members] + (0 * parts).astype(jnp.int32)), num_keys=1)[1]


class _Out(NamedTuple):
    """Where finished members write: few arrays, for each is an operation more in every turn."""

    ys: Any  # leaves (members + 1, ..., times and room for the last window)
    figures: Array  # (members, 4): status, steps, rejected, save times passed before the last
    h: Array


def _kept(arrived: Array, count: int, ys: Array, initial: Array) -> Array:
    """Members' states from the buffer: NaN where a failed one did not arrive. In one pass, for it may be large."""
    members = arrived.shape[0]
    column = jnp.arange(count, dtype=jnp.int32)[None]
    over = lambda x: x.reshape(*x.shape[:1], *(1,) * (ys.ndim - 2), *x.shape[1:])
    ys = jnp.where(over(column < arrived[:, None]), ys[:members, ..., :count], jnp.nan)
    return jnp.moveaxis(jnp.where(over(column == 0), initial[..., None], ys), -1, 1)


class Held(NamedTuple):
    """What the members now in the lanes are made of."""

    ops: Operands
    fixed: Any
    start: Array
    end: Array


def loader(
    flow: Flow, layout: Layout, ops: Operands, fixed: Any, times: Array, members: int
) -> Callable[[Array], tuple[Held, Lanes]]:
    """What takes members into lanes, at their initial states; a lane without one is finished."""
    own = times.ndim > 1
    pick = _picker(
        (ops, fixed, (times[..., 0], times[..., -1])), (*layout.ops, *layout.fixed, *(0 if own else None,) * 2)
    )

    def load(member: Array) -> tuple[Held, Lanes]:
        ops, fixed, ends = pick(member)
        start, end = ends if own else (jnp.broadcast_to(x, member.shape) for x in ends)
        status = jnp.where(member < members, RUNNING, 0).astype(jnp.int32)
        return Held(ops, fixed, start, end), started(flow, ops, fixed, start, end, status)

    return load


def _picker(tree: Any, axes: Sequence[int | None]) -> Callable[[Array], Any]:
    """Members -> lanes: their parts of all leaves, lanes last.

    What a member has of its own stands in one row: to pick a row costs as much as to pick a number. And XLA's CPU runtime
    hands operations to another thread, which takes longer than they do, once more than eight are ready at the same time.
    """
    leaves, structure = jax.tree.flatten(tree)
    first = {i: jnp.moveaxis(leaves[i], axis, 0) for i, axis in enumerate(axes) if axis is not None}
    kinds = {x.dtype: [i for i in first if first[i].dtype == x.dtype] for x in first.values()}
    rows = {
        kind: jnp.concatenate([first[i].reshape(first[i].shape[0], -1) for i in own], axis=1)
        for kind, own in kinds.items()
    }

    def pick(member: Array) -> Any:
        picked = list(leaves)
        for kind, own in kinds.items():
            columns = jnp.take(rows[kind], member, axis=0, mode="clip").T
            ends = np.cumsum([math.prod(first[i].shape[1:]) for i in own])
            for i, part in zip(own, jnp.split(columns, ends[:-1]), strict=True):
                picked[i] = part.reshape(*first[i].shape[1:], *member.shape)
        return jax.tree.unflatten(structure, picked)

    return pick


def origin(*trees: Any) -> Array:
    """A zero that varies over a mesh as the operands do, which loop carries must."""
    leaves = jax.tree.leaves(trees)
    zeros = [jnp.zeros_like(x.reshape(-1)[0]).real.astype(leaves[-1].real.dtype) for x in leaves]
    return functools.reduce(jnp.add, zeros)


def _initial(flow: Flow, layout: Layout, ops: Operands, members: int) -> Any:
    """The initial states of all members, members first."""
    leaves, structure = jax.tree.flatten(ops)
    last = [x if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in zip(leaves, layout.ops, strict=True)]
    y = flow.begin(jax.tree.unflatten(structure, last))
    return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), flow.pack(y))


def targets(times: Array, member: Array, column: Array) -> Array:
    """The save times of the members in the lanes; `column` is `(..., lanes)`."""
    if times.ndim == 1:
        return times.at[column].get(mode="promise_in_bounds")
    row = jnp.broadcast_to(jnp.minimum(member, times.shape[0] - 1), column.shape)
    return times.at[row, column].get(mode="promise_in_bounds")


def fraction(target: Array, t: Array, t1: Array) -> Array:
    """Where in a step a time stands, from 0 to 1; 0 in a step of length zero."""
    h = t1 - t
    return (target - t) * jnp.where(h > 0, 1 / jnp.where(h > 0, h, 1), 0)


def horner(y: Array, increments: Sequence[Array], theta: Array) -> Array:
    """y + sum_j theta**(j + 1) increments[j]."""
    return y + theta * functools.reduce(lambda total, q: q + theta * total, reversed(increments))


def _due(
    flow: Flow,
    held: Held,
    times: Array,
    saves: int,
    nowhere: int,
    s: Lanes,
    a: Attempt,
    member: Array,
    cursor: Array,
) -> tuple[Array, Any, Array, Array]:
    """The states at the next save times, of which an accurate step passed some; where the next begin; the lanes with more.

    The place is row and column of every lane, the states have shape `(lanes, ..., saves)`.
    """
    last = times.shape[-1] - 2
    ahead = jnp.arange(saves + 1, dtype=cursor.dtype)[:, None]
    column = cursor[None] + ahead
    target = targets(times, member, jnp.minimum(column, last))
    due = a.accurate[None] & (column <= last) & (target <= a.reached[None])
    theta = fraction(target, s.t[None], a.t1[None])[:-1]
    increments = flow.polynomial(held.ops, held.fixed, a.dense)

    def window(y: Array, *increments: Array) -> Array:
        value = horner(
            y[..., None, :], [q[..., None, :] for q in increments], theta.reshape((1,) * (y.ndim - 1) + theta.shape)
        )
        return jnp.moveaxis(value, -1, 0)

    values = jax.tree.map(window, flow.pack(s.y), *[flow.pack(q) for q in increments])
    place = jnp.stack([jnp.where(due[0], member, nowhere), cursor], axis=-1)
    return place, values, cursor + jnp.sum(due[:-1], axis=0, dtype=cursor.dtype), due[-1]


def _written(ys: Any, place: Array, values: Any) -> Any:
    """`ys[row, ..., column : column + saves] = values` in every lane; `place` is `(lanes, 2)`, values `(lanes, ..., saves)`.

    One window of consecutive save times a lane costs little more than one save time. What stands in it past the last
    one that is due is written over, by the lane's next window or at the end.
    """

    def put(buffer: Array, values: Array) -> Array:
        numbers = jax.lax.ScatterDimensionNumbers(
            update_window_dims=tuple(range(1, values.ndim)),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0, buffer.ndim - 1),
        )
        mode = jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
        return jax.lax.scatter(buffer, place, values, numbers, mode=mode)

    return jax.tree.map(put, ys, values)
