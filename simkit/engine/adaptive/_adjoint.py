"""The discrete adjoint of a solve: cotangents of saved states back to initial states and parameters.

Members are taken in groups of one lane each, sorted by the attempts that they need, so that no lane waits long. A group is
solved again with a record of its attempts, indexed by the common iteration (an index of its own for every lane would make XLA
copy the record at each attempt), and the record is walked back. What does not fit the record is solved again from a snapshot,
so the memory is that of one group, whatever the number of steps.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import State
from ...core import scaled
from ..batching._mesh import origin
from ._attempt import RUNNING, Lanes, attempt, moved, select
from ._block import fraction, targets
from ._flow import Flow, Operands
from ._queue import Held, Layout, loader
from ._sizes import Numerics


class Record(NamedTuple):
    """Attempts of all lanes by common iteration. A step that was not accepted has length zero.

    Of a method of several steps also what it remembered, whether that was a start, and the state at the end of the step: to take
    the step again is then to look its result up.
    """

    t: Array  # (rows, lanes)
    t1: Array
    y: Any  # (rows, ..., lanes)
    past: Any = None
    fresh: Array | None = None
    solved: Any = None


def adjoint(
    flow: Flow,
    layout: Layout,
    ops: Operands,
    fixed: PyTree,
    times: Array,
    cost: Array,
    cotangents: Sequence[Array | None],
    active: Sequence[int],
    numerics: Numerics,
    directions: int,
) -> list[Array]:
    """Cotangents of the operands `active`, from those of the saved states.

    `cotangents` has for each leaf of the states `(directions, members, times, ...)` or None; what comes back has
    the shape of an operand with the directions in front. `cost` is the number of attempts of each member.
    """
    members, lanes = cost.shape[0], numerics.lanes
    groups = -(-members // lanes)
    zero = origin(ops, times)
    order = jnp.argsort(-cost).astype(jnp.int32) + zero.astype(jnp.int32)  # JAX forgets that it varies over a mesh
    index = jnp.concatenate([order, jnp.broadcast_to(order[-1:], (groups * lanes - members,))]).reshape(groups, lanes)
    extra = (jnp.arange(groups * lanes) >= members).reshape(groups, lanes)
    leaves = jax.tree.leaves(ops)
    load = loader(flow, layout, ops, fixed, times, members)
    _, shapes = jax.eval_shape(load, index[0])
    record = _empty_record(flow, shapes, numerics, zero)
    snapshots = _empty_snapshots(shapes, numerics, zero)
    common = [i for i in active if layout.ops[i] is None]
    own = [i for i in active if layout.ops[i] is not None]
    spread = lambda x: jnp.zeros((directions, *x.shape), x.dtype) + zero.astype(x.dtype)
    total = [spread(leaves[i]) for i in common]

    def one(carry: PyTree, group: Any) -> Any:
        record, snapshots, total = carry
        index, extra = group
        held, s = load(index)
        picked = [None if c is None else _group_cotangents(c, index, extra) for c in cotangents]
        record, snapshots, g_common, g_own = _group(
            flow, layout, held, s, times, index, picked, active, numerics, directions, record, snapshots
        )
        total = [a + b for a, b in zip(total, g_common, strict=True)]
        return (record, snapshots, total), g_own

    (_, _, total), found = jax.lax.scan(one, (record, snapshots, total), (index, extra))
    result = dict(zip(common, total, strict=True))
    for i, g in zip(own, found, strict=True):  # (groups, directions, ..., lanes)
        g = jnp.moveaxis(g, -1, 1)
        g = g.reshape(groups * lanes, *g.shape[2:])[:members]
        g = jnp.zeros_like(g).at[order].set(g)
        result[i] = jnp.moveaxis(g, 0, 1 + (layout.ops[i] or 0))
    return [result[i] for i in active]


def _group_cotangents(g: Array, index: Array, extra: Array) -> Array:
    """(directions, members, times, ...) -> (lanes, times, directions, ...), none for lanes that only fill up a group."""
    picked = jnp.moveaxis(jnp.take(g, index, axis=1), (1, 2), (0, 1))
    return jnp.where(extra.reshape(-1, *(1,) * (picked.ndim - 1)), 0, picked)


def _empty_record(flow: Flow, shapes: Lanes, numerics: Numerics, zero: Array) -> Record:
    def full(x: Any) -> Array:
        varying = zero != zero if x.dtype == bool else zero.astype(x.dtype)
        return jnp.broadcast_to(varying, (numerics.rows, *x.shape))

    return jax.tree.map(full, _row(flow, shapes, shapes.t, shapes.y))


def _row(flow: Flow, s: Lanes, t1: PyTree, y1: PyTree) -> Record:
    more = (s.memory.moving, s.memory.fresh, y1) if flow.multistep else ()
    return Record(s.t, t1, s.y, *more)


def _empty_snapshots(shapes: Lanes, numerics: Numerics, zero: Array) -> Lanes | None:
    count = segments(numerics)
    if count == 1:
        return None

    def full(x: Any) -> Array:
        varying = zero != zero if x.dtype == bool else zero.astype(x.dtype)
        return jnp.broadcast_to(varying, (count, *x.shape))

    return jax.tree.map(full, shapes)


def segments(numerics: Numerics) -> int:
    """Return the number of records that the longest possible solve fills."""
    return math.ceil(numerics.max_steps / numerics.rows)


def _group(
    flow: Flow,
    layout: Layout,
    held: Held,
    s: Lanes,
    times: Array,
    member: Array,
    cotangents: Sequence[Array | None],
    active: Sequence[int],
    numerics: Numerics,
    directions: int,
    record: Record,
    snapshots: Lanes | None,
) -> tuple[Record, Lanes | None, list[Array], list[Array]]:
    """The cotangents of one group: of the operands that all share, summed, and of its members' own."""
    blocks = numerics.rows // numerics.block  # in a record
    record, snapshots, s, used = _recorded(flow, held, s, numerics, record, snapshots)
    ok = s.status == 0
    last = times.shape[-1] - 1
    packed = [jnp.zeros((directions, *y.shape), y.dtype) + origin(y).astype(y.dtype) for y in flow.pack(s.y)]
    for i, g in enumerate(cotangents):
        if g is not None:
            g_end = jnp.moveaxis(g[:, last], 0, -1)
            packed[i] = jnp.where(widened(ok, g_end), g_end, 0)
    unpacked = jax.vmap(flow.unpack)
    g_y = unpacked(packed)
    # A failed member did not get to all of its save times.
    column = jnp.broadcast_to(jnp.arange(1, last, dtype=jnp.int32)[:, None], (last - 1, *member.shape))
    cursor = jnp.sum(targets(times, member, column) <= s.t[None], axis=0, dtype=jnp.int32)
    asked, lost = _asked(cotangents, cursor, ok)
    walk = _Walk(flow, layout, held, times, member, cotangents, active, packed, asked)
    moving = walk.moving(held.ops)
    g_p = [jnp.zeros((directions, *x.shape), x.dtype) + origin(s.t).astype(x.dtype) for x in moving]

    def back_through(record: Record, count: Array, carry: PyTree) -> Any:
        def block(c: PyTree) -> Any:
            b, carry = c
            rows = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, b * numerics.block, numerics.block), record)
            return b - 1, jax.lax.scan(walk.back, carry, rows, reverse=True)[0]

        return jax.lax.while_loop(lambda c: c[0] >= 0, block, (count - 1, carry))[1]

    # Of what a method of several steps remembers at the end nothing is asked; a one-step method remembers nothing to the purpose.
    spread = lambda x: jnp.zeros((directions, *x.shape), x.dtype) + origin(x).astype(x.dtype)
    g_m = jax.tree.map(spread, s.memory.moving) if flow.multistep else None
    carry = g_y, g_m, g_p, cursor
    if snapshots is None:
        carry = back_through(record, used, carry)
    else:
        final = (used - 1) // blocks

        def segment(c: PyTree) -> Any:
            k, record, carry = c
            again = lambda: _refilled(flow, held, numerics, record, jax.tree.map(lambda x: x[k], snapshots))
            record = jax.lax.cond(k == final, lambda: record, again)
            carry = back_through(record, jnp.where(k == final, used - k * blocks, blocks), carry)
            return k - 1, record, carry

        _, record, carry = jax.lax.while_loop(lambda c: c[0] >= 0, segment, (final, record, carry))
    g_y, _, g_p, cursor = carry
    # What is left was saved at the start: the first column, and others of the same time.
    left = jnp.arange(last + 1, dtype=jnp.int32)[None] <= cursor[:, None]
    begun = [jnp.zeros_like(x) for x in packed]
    for i, g in enumerate(cotangents):
        if g is not None:
            first = jnp.where(left.reshape(*left.shape, *(1,) * (g.ndim - 2)), g, 0)
            begun[i] = jnp.moveaxis(jnp.sum(first, axis=1), 0, -1)
    g_y = jax.tree.map(jnp.add, g_y, unpacked(begun))
    _, pull = jax.vjp(lambda moving: flow.begin(walk.filled(held.ops, moving)), moving)
    g_p = [a + b for a, b in zip(g_p, jax.vmap(pull)(g_y)[0], strict=True)]
    shared = [layout.ops[i] is None for i in active]
    g_p = [_with_lost(lost, g, common) for g, common in zip(g_p, shared, strict=True)]
    of = lambda kind: [g for g, common in zip(g_p, shared, strict=True) if common == kind]
    return record, snapshots, of(True), of(False)


def _asked(cotangents: Sequence[Array | None], cursor: Array, ok: Array) -> tuple[Array, Array]:
    """Return a mask of the lanes with a cotangent of a state that they reached, and, `(directions, lanes)`, of one that they
    did not reach.

    A zero cotangent asks for nothing: it must not meet an infinite slope of a failed member.
    """
    given = [g for g in cotangents if g is not None]  # (lanes, times, directions, ...)
    last = given[0].shape[1] - 1
    column = jnp.arange(last + 1, dtype=jnp.int32)[None]
    reached = (column <= cursor[:, None]) & (column < last) | (column == 0) | (column == last) & ok[:, None]
    seen = [jnp.any(g != 0, axis=tuple(range(3, g.ndim))) for g in given]
    seen = functools.reduce(jnp.logical_or, seen)
    lost = jnp.any(seen & ~reached[:, :, None], axis=1)
    return jnp.any(seen & reached[:, :, None], axis=(1, 2)), lost.T


def _with_lost(lost: Array, g: Array, shared: bool) -> Array:
    """Cotangents of an operand, lanes last unless shared: NaN where a state was asked for that does not exist."""
    lost = jnp.any(lost, axis=1) if shared else lost
    lost = lost.reshape(lost.shape[0], *(1,) * (g.ndim - lost.ndim), *lost.shape[1:])
    return jnp.where(lost, jnp.nan, 1).astype(g.dtype) * g


def _rows(flow: Flow, held: Held, numerics: Numerics, s: Lanes) -> tuple[Lanes, Record]:
    """A block of attempts and their rows."""

    def one(s: Lanes, _: None) -> tuple[Lanes, Record]:
        found = attempt(flow, held.ops, held.fixed, held.end, s)
        row = _row(flow, s, jnp.where(found.accurate, found.t1, s.t), found.y1)
        return moved(flow, held.ops, held.fixed, s, found, found.accurate), row

    return jax.lax.scan(one, s, None, length=numerics.block)


def _put(record: Record, rows: Record, b: Array, block: int) -> Record:
    put = lambda a, x: jax.lax.dynamic_update_slice_in_dim(a, x, b * block, axis=0)
    return jax.tree.map(put, record, rows)


def _recorded(
    flow: Flow, held: Held, s: Lanes, numerics: Numerics, record: Record, snapshots: Lanes | None
) -> tuple[Record, Lanes | None, Lanes, Array]:
    """Solve a group; the record holds its last attempts, the snapshots where each record begins. Also the number of blocks."""
    blocks = numerics.rows // numerics.block

    def body(c: PyTree) -> Any:
        b, s, record, snapshots = c
        place = b % blocks
        if snapshots is not None:
            save = lambda: jax.tree.map(lambda a, x: a.at[b // blocks].set(x), snapshots, s)
            snapshots = jax.lax.cond(place == 0, save, lambda: snapshots)
        s, rows = _rows(flow, held, numerics, s)
        return b + 1, s, _put(record, rows, place, numerics.block), snapshots

    alive = lambda c: jnp.any(c[1].status == RUNNING)
    used, s, record, snapshots = jax.lax.while_loop(alive, body, (origin(s.t).astype(jnp.int32), s, record, snapshots))
    return record, snapshots, s, used


def _refilled(flow: Flow, held: Held, numerics: Numerics, record: Record, s: Lanes) -> Record:
    """A whole record from the snapshot at its beginning."""

    def body(c: PyTree) -> Any:
        b, s, record = c
        s, rows = _rows(flow, held, numerics, s)
        return b + 1, s, _put(record, rows, b, numerics.block)

    blocks = numerics.rows // numerics.block
    return jax.lax.while_loop(lambda c: c[0] < blocks, body, (origin(s.t).astype(jnp.int32), s, record))[2]


class _Walk:
    """The way back through one row of a record."""

    def __init__(
        self,
        flow: Flow,
        layout: Layout,
        held: Held,
        times: Array,
        member: Array,
        cotangents: Sequence[Array | None],
        active: Sequence[int],
        packed: Sequence[Array],
        asked: Array,
    ):
        self.asked = asked
        self.flow, self.held, self.times, self.member = flow, held, times, member
        self.cotangents, self.active, self.packed = cotangents, active, packed
        self.saving = times.shape[-1] > 2
        self.axes = layout.ops
        self.shared = any(layout.ops[i] is None for i in active)

    def moving(self, ops: Operands) -> list[Array]:
        leaves = jax.tree.leaves(ops)
        return [leaves[i] for i in self.active]

    def filled(self, ops: Operands, moving: Sequence[Array]) -> Operands:
        leaves, structure = jax.tree.flatten(ops)
        for i, value in zip(self.active, moving, strict=True):
            leaves[i] = value
        return jax.tree.unflatten(structure, leaves)

    def back(self, carry: PyTree, row: Record) -> tuple[Any, None]:
        g_y, g_m, g_p, cursor = carry
        used = (row.t1 > row.t) & self.asked
        any_used = jnp.any(used)
        direct, g_q = None, None
        if self.saving:
            cursor, direct, g_q = self._saved(row, cursor)
        ops = self.held.ops
        if self.shared:
            ops, row = self._healthy(ops, row, used)
        _, pull = jax.vjp(functools.partial(self._replay, ops, row), row.y, row.past, self.moving(ops))
        held = select(used, (g_y, g_m), jax.tree.map(jnp.zeros_like, (g_y, g_m)))
        d_y, d_m, d_p = jax.vmap(lambda g, q: pull((*g, q)))(held, g_q)
        if direct is not None:
            d_y = jax.tree.map(jnp.add, d_y, direct)
        g_y, g_m = select(used, (d_y, d_m), (g_y, g_m))
        updated = []
        for i, a, b in zip(self.active, d_p, g_p, strict=True):
            updated.append(jnp.where(any_used, a + b, b) if self.axes[i] is None else select(used, a + b, b))
        return (g_y, g_m, updated, cursor), None

    def _replay(self, ops: Operands, row: Record, y: State, past: PyTree, moving: Sequence[Array]) -> Any:
        """The step of a row: its end, what it remembers where that is more than its end, and its dense output."""
        flow, ops, fixed, past1 = self.flow, self.filled(ops, moving), self.held.fixed, None
        if flow.again is not None:
            y1, past1, dense = flow.again(ops, fixed, row.t, row.t1, y, past, row.fresh, row.solved)
        else:
            y1, _, dense, *_ = flow.step(ops, fixed, row.t, row.t1, y, flow.start(ops, fixed, row.t, y))
        return y1, past1, flow.polynomial(ops, fixed, dense) if self.saving else None

    def _healthy(self, ops: Operands, row: Record, used: Array) -> Any:
        """Unused lanes made copies of a used one: zero times what a failed member makes of its numbers would be NaN.

        Only where all members share an operand, whose cotangent is a sum over the lanes.
        """
        good = jnp.argmax(used)

        def replaced(x: Array, axis: int | None = 0) -> Array:
            return x if axis is None else jnp.where(widened(used, x), x, x[..., good][..., None])

        leaves, structure = jax.tree.flatten(ops)
        ops = jax.tree.unflatten(structure, [replaced(x, a) for x, a in zip(leaves, self.axes, strict=True)])
        return ops, jax.tree.map(replaced, row)

    def _saved(self, row: Record, cursor: Array) -> tuple[Array, Any, Any]:
        """Cotangents that enter at the save times within a step: of its first state, and of its dense output's increments."""
        lane = jnp.arange(cursor.shape[0])
        replay = functools.partial(self._replay, self.held.ops, row)
        degree = len(jax.eval_shape(replay, row.y, row.past, self.moving(self.held.ops))[-1])

        def due_at(cursor: Array) -> tuple[Array, Array]:
            target = targets(self.times, self.member, jnp.maximum(cursor, 0))
            return target, (cursor >= 1) & (target > row.t) & (row.t1 > row.t)

        def body(c: PyTree) -> Any:
            cursor, g_0, g_q = c
            target, due = due_at(cursor)
            theta = fraction(target, row.t, row.t1)
            found = []
            for g in self.cotangents:
                if g is None:
                    found.append(None)
                    continue
                picked = jnp.moveaxis(g[lane, jnp.maximum(cursor, 0)], 0, -1)
                found.append(jnp.where(widened(due, picked), picked, 0))
            powers = [theta]
            for _ in range(degree - 1):
                powers.append(powers[-1] * theta)
            add = lambda total, g, p=None: (
                total if g is None else total + (g if p is None else scaled(widened(p, g), g))
            )
            g_0 = [add(a, g) for a, g in zip(g_0, found, strict=True)]
            g_q = [[add(a, g, p) for a, g in zip(q, found, strict=True)] for q, p in zip(g_q, powers, strict=True)]
            return cursor - due.astype(cursor.dtype), g_0, g_q

        zeros = [jnp.zeros_like(x) for x in self.packed]
        begin = (cursor, zeros, [list(zeros) for _ in range(degree)])
        cursor, g_0, g_q = jax.lax.while_loop(lambda c: jnp.any(due_at(c[0])[1]), body, begin)
        tree = jax.vmap(self.flow.unpack)
        return cursor, tree(g_0), tuple(tree(q) for q in g_q)


def widened(mask: Array, like: Array) -> Array:
    """An array over lanes with axes in front, to meet one that has more."""
    return mask.reshape((1,) * (like.ndim - 1) + mask.shape)
