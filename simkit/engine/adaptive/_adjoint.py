"""The discrete adjoint of a solve: cotangents of saved states back to initial states and parameters.

Members are taken in groups of one lane each, sorted by the attempts that they need, so that no lane waits long. A group is
solved again with a record of its attempts, indexed by the common iteration (an index of its own for every lane would make XLA
copy the record at each attempt), and the record is walked back. What does not fit the record is solved again from a snapshot,
so the memory is that of one group, whatever the number of steps.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import State
from ...core import scaled
from ..batching._mesh import origin
from ._attempt import Lanes, select
from ._block import fraction, targets
from ._carried import restored
from ._flow import Flow, Operands
from ._queue import Held, Layout, loader
from ._record import Met, Record, empty_record, empty_snapshots, known_or_recorded, recorded, refilled
from ._sizes import Numerics


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
    kept: Sequence[Array] = (),
) -> list[Array]:
    """Cotangents of the operands `active`, from those of the saved states.

    `cotangents` has for each leaf of the states `(directions, members, times, ...)` or None; what comes back has
    the shape of an operand with the directions in front. `cost` is the number of attempts of each member; `kept`, where all
    members are one group, the record that the solve made.
    """
    members, lanes = cost.shape[0], numerics.lanes
    groups = -(-members // lanes)
    zero = origin(ops, times)
    order = jnp.arange(members, dtype=jnp.int32) if kept else jnp.argsort(-cost).astype(jnp.int32)
    order = order + zero.astype(jnp.int32)  # JAX forgets that it varies over a mesh
    index = jnp.concatenate([order, jnp.broadcast_to(order[-1:], (groups * lanes - members,))]).reshape(groups, lanes)
    extra = (jnp.arange(groups * lanes) >= members).reshape(groups, lanes)
    leaves = jax.tree.leaves(ops)
    load = loader(flow, layout, ops, fixed, times, members)
    shapes_of_held, shapes = jax.eval_shape(load, index[0])
    empty = lambda: (
        empty_record(flow, shapes_of_held, shapes, numerics, zero),
        empty_snapshots(shapes, numerics, zero),
    )
    given = restored(flow, shapes, kept) if kept else None
    if given is None:
        solved = lambda record, snapshots, held, s: recorded(flow, held, s, numerics, record, snapshots)
    else:
        solved = lambda record, snapshots, held, s: known_or_recorded(flow, held, s, numerics, given, empty)
    common = [i for i in active if layout.ops[i] is None]
    own = [i for i in active if layout.ops[i] is not None]
    spread = lambda x: jnp.zeros((directions, *x.shape), x.dtype) + zero.astype(x.dtype)
    total = [spread(leaves[i]) for i in common]

    def one(carry: PyTree, group: Any) -> Any:
        record, snapshots, total = carry
        index, extra = group
        held, s = load(index)
        picked = [None if c is None else _group_cotangents(c, index, extra) for c in cotangents]
        record, snapshots, s, used = solved(record, snapshots, held, s)
        record, snapshots, g_common, g_own = _group(
            flow, layout, held, s, times, index, picked, active, numerics, directions, record, snapshots, used
        )
        total = [a + b for a, b in zip(total, g_common, strict=True)]
        return (record, snapshots, total), g_own

    if given is None:
        (_, _, total), found = jax.lax.scan(one, (*empty(), total), (index, extra))
    else:
        (_, _, total), found = one((None, None, total), (index[0], extra[0]))
        found = [x[None] for x in found]
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
    used: Array,
) -> tuple[Record, Lanes | None, list[Array], list[Array]]:
    """The cotangents of one group: of the operands that all share, summed, and of its members' own.

    `s` are its lanes at the end; the record has their last attempts, of `used` blocks in all.
    """
    blocks = numerics.rows // numerics.block  # in a record
    ok = s.status == 0
    if flow.events is not None:  # one may have ended it before its last time
        ok = ok & (s.t >= held.end)
    last = times.shape[-1] - 1
    before = [None if g is None else g[:, last + 1 :] for g in cotangents]  # of the states before events
    cotangents = [None if g is None else g[:, : last + 1] for g in cotangents]
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
    if s.happening is not None:
        met, missed = _asked_before(before, s.happening.total)
        asked, lost = asked | met, lost | missed
    walk = _Walk(flow, layout, held, times, member, cotangents, before, active, packed, asked)
    moving = walk.moving(held.ops)
    g_p = [jnp.zeros((directions, *x.shape), x.dtype) + origin(s.t).astype(x.dtype) for x in moving]

    def back_through(record: Record, count: Array, carry: PyTree) -> Any:
        def block(c: PyTree) -> Any:
            b, carry = c
            if record.met is not None:
                met = jax.tree.map(lambda x: x[b], record.met)
                carry = jax.lax.cond(jnp.any(met.path[0] >= 0), walk.back_met, lambda carry, _: carry, carry, met)
            cut = lambda x: jax.lax.dynamic_slice_in_dim(x, b * numerics.block, numerics.block)
            rows = jax.tree.map(cut, record._replace(met=None))
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
            again = lambda: refilled(flow, held, numerics, record, jax.tree.map(lambda x: x[k], snapshots))
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


def _asked_before(cotangents: Sequence[Array | None], total: Array) -> tuple[Array, Array]:
    """The same for cotangents of the states before events, of which `total` happened."""
    given = [g for g in cotangents if g is not None]  # (lanes, room, directions, ...)
    real = jnp.arange(given[0].shape[1], dtype=total.dtype)[None] < total[:, None]
    seen = [jnp.any(g != 0, axis=tuple(range(3, g.ndim))) for g in given]
    seen = functools.reduce(jnp.logical_or, seen)
    return jnp.any(seen & real[:, :, None], axis=(1, 2)), jnp.any(seen & ~real[:, :, None], axis=1).T


def _with_lost(lost: Array, g: Array, shared: bool) -> Array:
    """Cotangents of an operand, lanes last unless shared: NaN where a state was asked for that does not exist."""
    lost = jnp.any(lost, axis=1) if shared else lost
    lost = lost.reshape(lost.shape[0], *(1,) * (g.ndim - lost.ndim), *lost.shape[1:])
    return jnp.where(lost, jnp.nan, 1).astype(g.dtype) * g


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
        before: Sequence[Array | None],
        active: Sequence[int],
        packed: Sequence[Array],
        asked: Array,
    ):
        self.before = before
        self.asked = asked
        self.flow, self.held, self.times, self.member = flow, held, times, member
        self.cotangents, self.active, self.packed = cotangents, active, packed
        self.saving = times.shape[-1] > 2
        self.steps_to_events = flow.events is not None and len(flow.events.found) > 0
        self.axes = layout.ops
        self.shared = any(layout.ops[i] is None for i in active)

    def state(self, row: Record | Met) -> Any:
        """The state at the start of a step."""
        return self.flow.unpack(row.y)

    def moving(self, ops: Operands) -> list[Array]:
        leaves = jax.tree.leaves(ops)
        return [leaves[i] for i in self.active]

    def filled(self, ops: Operands, moving: Sequence[Array]) -> Operands:
        leaves, structure = jax.tree.flatten(ops)
        for i, value in zip(self.active, moving, strict=True):
            leaves[i] = value
        return jax.tree.unflatten(structure, leaves)

    def back(self, carry: PyTree, row: Record) -> tuple[Any, None]:
        g_y, g_m, _, cursor = carry
        used = (row.t1 > row.t) & self.asked
        direct, g_q = None, None
        if self.saving:
            cursor, direct, g_q = self._saved(row, cursor, row.t1 > row.t)
        ops = self.held.ops
        if self.shared:
            ops, row = self._healthy(ops, row, used)
        _, pull = jax.vjp(functools.partial(self._replay, ops, row), self.state(row), row.past, self.moving(ops))
        held = select(used, (g_y, g_m), jax.tree.map(jnp.zeros_like, (g_y, g_m)))
        d_y, d_m, d_p = self._by_direction(lambda g, q: pull((*g, q)), held, g_q)
        return self._added(carry, cursor, used, direct, (d_y, d_m, d_p)), None

    def _by_direction(self, function: Callable[..., Any], *cotangents: PyTree) -> Any:
        """A function of cotangents for all directions.

        A single one has no axis for a method of several steps: with one, loops that solve equations would select in every turn.
        Without loops XLA makes one kernel of what has no axis, and computes in it again and again what several results read.
        """
        if not self.flow.multistep or jax.tree.leaves(cotangents)[0].shape[0] > 1:
            return jax.vmap(function)(*cotangents)
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], cotangents)))

    def _added(self, carry: PyTree, cursor: Array, used: Array, direct: Any, found: Any) -> Any:
        """The cotangents after a row, from those that came back through it."""
        (g_y, g_m, g_p, _), (d_y, d_m, d_p) = carry, found
        if direct is not None:
            d_y = jax.tree.map(jnp.add, d_y, direct)
        g_y, g_m = select(used, (d_y, d_m), (g_y, g_m))
        updated, any_used = [], jnp.any(used)
        for i, a, b in zip(self.active, d_p, g_p, strict=True):
            updated.append(jnp.where(any_used, a + b, b) if self.axes[i] is None else select(used, a + b, b))
        return g_y, g_m, updated, cursor

    def back_met(self, carry: PyTree, met: Met) -> Any:
        """Back through the events at the end of a block, and the steps up to them."""
        g_y, g_m, g_p, cursor = carry
        happened = met.path[0] >= 0
        used, tree, direct, g_q = happened & self.asked, jax.vmap(self.flow.unpack), None, None
        if self.saving:
            cursor, saved = self._saved_after(met, cursor, happened)
            g_y = jax.tree.map(jnp.add, g_y, tree(saved))
            if self.steps_to_events:
                cursor, direct, g_q = self._saved(met, cursor, happened)
        room = next(g.shape[1] for g in self.before if g is not None)
        place = jnp.clip(met.first, 0, room - 1)
        g_b = tree(self._picked(self.before, place, used & (met.first < room)))
        ops = self.held.ops
        if self.shared:
            ops, met = self._healthy(ops, met, used)
        _, pull = jax.vjp(functools.partial(self._replay_met, ops, met), self.state(met), met.past, self.moving(ops))
        after = select(used, g_y, jax.tree.map(jnp.zeros_like, g_y))
        nothing = jax.tree.map(jnp.zeros_like, g_m)
        found = self._by_direction(lambda b, a, m, q: pull((b, a, m, q)), g_b, after, nothing, g_q)
        return self._added((g_y, g_m, g_p, cursor), cursor, used, direct, found)

    def _saved_after(self, met: Met, cursor: Array, happened: Array) -> tuple[Array, list[Array]]:
        """Cotangents of the states after events that were saved at their time."""

        def here(cursor: Array) -> Array:
            target = targets(self.times, self.member, jnp.maximum(cursor, 0))
            return happened & (cursor >= 1) & (target >= met.time) & (target <= met.on)

        def body(c: PyTree) -> Any:
            cursor, total = c
            picked = self._picked(self.cotangents, jnp.maximum(cursor, 0), here(cursor))
            total = [a + b for a, b in zip(total, picked, strict=True)]
            return cursor - here(cursor).astype(cursor.dtype), total

        begin = cursor, [jnp.zeros_like(x) for x in self.packed]
        return jax.lax.while_loop(lambda c: jnp.any(here(c[0])), body, begin)

    def _replay_met(self, ops: Operands, met: Met, y: State, past: PyTree, moving: Sequence[Array]) -> Any:
        """The states before and after the events of a row, what the step before remembers, and its dense output."""
        before, past1, increments = y, past, None
        if self.steps_to_events:
            y1, past1, increments = self._replay(ops, met, y, past, moving)
            before = select(met.still, y, y1)
        after = self.flow.leap(self.filled(ops, moving), self.held.fixed, met.time, before, met.path, met.numbers)
        return before, after, past1, increments

    def _picked(self, cotangents: Sequence[Array | None], column: Array, where: Array) -> list[Array]:
        """The cotangents of one column of each lane, lanes last; zero in the others."""
        lane, found = jnp.arange(column.shape[0]), []
        for g, like in zip(cotangents, self.packed, strict=True):
            picked = jnp.zeros_like(like) if g is None else jnp.moveaxis(g[lane, column], 0, -1)
            found.append(jnp.where(widened(where, picked), picked, 0))
        return found

    def _replay(self, ops: Operands, row: Record | Met, y: State, past: PyTree, moving: Sequence[Array]) -> Any:
        """The step of a row: its end, what it remembers where that is more than its end, and its dense output."""
        flow, ops, fixed, past1 = self.flow, self.filled(ops, moving), self.held.fixed, None
        if flow.again is not None:
            solved = flow.unpack(row.solved)
            y1, past1, dense = flow.again(ops, fixed, row.t, row.t1, y, past, row.fresh, solved)
        else:
            y1, _, dense, *_ = flow.step(ops, fixed, row.t, row.t1, y, flow.start(ops, fixed, row.t, y))
        return y1, past1, flow.polynomial(ops, fixed, dense) if self.saving else None

    def _healthy(self, ops: Operands, row: Record | Met, used: Array) -> Any:
        """Unused lanes made copies of a used one: zero times what a failed member makes of its numbers would be NaN.

        Only where all members share an operand, whose cotangent is a sum over the lanes.
        """
        good = jnp.argmax(used)

        def replaced(x: Array, axis: int | None = 0) -> Array:
            return x if axis is None else jnp.where(widened(used, x), x, x[..., good][..., None])

        leaves, structure = jax.tree.flatten(ops)
        ops = jax.tree.unflatten(structure, [replaced(x, a) for x, a in zip(leaves, self.axes, strict=True)])
        return ops, jax.tree.map(replaced, row)

    def _saved(self, row: Record | Met, cursor: Array, taken: Array) -> tuple[Array, Any, Any]:
        """Cotangents that enter at the save times within a step: of its first state, and of its dense output's increments.

        `taken` are the lanes that took the step.
        """
        lane = jnp.arange(cursor.shape[0])
        replay = functools.partial(self._replay, self.held.ops, row)
        degree = len(jax.eval_shape(replay, self.state(row), row.past, self.moving(self.held.ops))[-1])

        def due_at(cursor: Array) -> tuple[Array, Array]:
            target = targets(self.times, self.member, jnp.maximum(cursor, 0))
            return target, (cursor >= 1) & (target > row.t) & taken

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
