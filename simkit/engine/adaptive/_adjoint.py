"""The discrete adjoint of a solve: cotangents of saved states back to initial states and parameters.

A solve whose members are all in lanes at once keeps a record of its attempts (`_carried.py`), which is walked back. Of more
members, groups of one lane each are taken, sorted by the attempts that they need, so that no lane waits long; a group is solved
again with a record. Rows of a record are indexed by the common iteration: an index of its own for every lane would make XLA copy
the record at each attempt. What does not fit the record is solved again from a snapshot, so the memory is that of one group,
whatever the number of steps.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..batching._mesh import origin
from ._attempt import Lanes
from ._block import targets
from ._carried import restored
from ._flow import Flow, Operands
from ._queue import Held, Layout, loader
from ._record import Kept, Record, empty_record, empty_snapshots, filled
from ._sizes import Numerics
from ._walk import Carry, Walk, widened


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
    given = restored(flow, shapes, kept) if kept else None
    record = empty_record(flow, shapes_of_held, shapes, numerics, zero) if given is None else given.record
    # A record that was kept may have no content, whatever its size: then the solve is made again from the start.
    snapshots = empty_snapshots(shapes, numerics, zero, 1 if given is None else 0)
    common = [i for i in active if layout.ops[i] is None]
    own = [i for i in active if layout.ops[i] is not None]
    spread = lambda x: jnp.zeros((directions, *x.shape), x.dtype) + zero.astype(x.dtype)
    total = [spread(leaves[i]) for i in common]

    def one(carry: PyTree, group: Any) -> Any:
        record, snapshots, total = carry
        index, extra = group
        held, s = load(index)
        picked = [None if c is None else _picked(c, index, extra) for c in cotangents]
        group = _Group(flow, layout, held, s, times, index, picked, active, numerics, directions)
        record, snapshots, g_common, g_own = group.cotangents(record, snapshots, given)
        total = [a + b for a, b in zip(total, g_common, strict=True)]
        return (record, snapshots, total), g_own

    if given is None:
        (_, _, total), found = jax.lax.scan(one, (record, snapshots, total), (index, extra))
    else:
        (_, _, total), found = one((record, snapshots, total), (index[0], extra[0]))
        found = [x[None] for x in found]
    result = dict(zip(common, total, strict=True))
    for i, g in zip(own, found, strict=True):  # (groups, directions, ..., lanes)
        g = jnp.moveaxis(g, -1, 1)
        g = g.reshape(groups * lanes, *g.shape[2:])[:members]
        g = jnp.zeros_like(g).at[order].set(g)
        result[i] = jnp.moveaxis(g, 0, 1 + (layout.ops[i] or 0))
    return [result[i] for i in active]


def _picked(g: Array, index: Array, extra: Array) -> Array:
    """(directions, members, times, ...) -> (lanes, times, directions, ...), none for lanes that only fill up a group."""
    picked = jnp.moveaxis(jnp.take(g, index, axis=1), (1, 2), (0, 1))
    return jnp.where(extra.reshape(-1, *(1,) * (picked.ndim - 1)), 0, picked)


class _End(NamedTuple):
    """The end of the lanes of a group."""

    status: Array
    t: Array
    events: Array | None  # how many happened


class _Group:
    """Members that are walked back together, one in each lane."""

    def __init__(
        self,
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
    ):
        self.flow, self.held, self.s, self.times, self.member = flow, held, s, times, member
        self.numerics, self.blocks = numerics, numerics.rows // numerics.block  # in a record
        last = self.last = times.shape[-1] - 1
        self.before = [None if g is None else g[:, last + 1 :] for g in cotangents]  # of the states before events
        self.given = [None if g is None else g[:, : last + 1] for g in cotangents]
        spread = self.spread = lambda x: jnp.zeros((directions, *x.shape), x.dtype) + origin(x).astype(x.dtype)
        self.packed = [spread(y) for y in flow.pack(s.y)]
        self.walk = Walk(flow, layout, held, times, member, self.given, self.before, active, self.packed)
        self.shared = [layout.ops[i] is None for i in active]

    def cotangents(
        self, record: Record, snapshots: Lanes | None, kept: Kept | None
    ) -> tuple[Record, Lanes | None, list[Array], list[Array]]:
        """Cotangents of the operands that all share, summed, and of the members' own.

        With what a solve `kept`, the record holds its attempts if there is room for them.
        """
        if snapshots is None:  # a record has room for all
            record, _, s, used = filled(self.flow, self.held, self.numerics, record, None, self.s)
            end = self._end(s)
            carry = self._back(record, used, self._entered(end)[0])
        else:
            record, snapshots, end, carry = self._part_by_part(record, snapshots, kept)
        g_common, g_own = self._left(carry, self._entered(end)[1])
        return record, snapshots, g_common, g_own

    def _part_by_part(self, record: Record, snapshots: Lanes, kept: Kept | None) -> tuple[Record, Lanes, _End, Carry]:
        """Solve to the end, walk back over the last attempts, and solve again what is before, from snapshot to snapshot."""
        blocks, no = self.blocks, origin(self.s.t) != origin(self.s.t)
        zero, most = no.astype(jnp.int32), jnp.iinfo(jnp.int32).max
        solved, used, end = no, zero, self._end(self.s)
        if kept is not None:
            end, used = _End(kept.status, kept.t, None), kept.used[0]
            solved = used <= blocks
        part = jnp.where(solved, (used - 1) // blocks, 0)

        def turn(c: PyTree) -> Any:
            solved, part, most, record, snapshots, used, end, carry = c
            pick = lambda x, begun: jnp.where(solved, x[part], begun)
            begin = jax.tree.map(pick, snapshots, self.s)
            record, snapshots, s, found = filled(
                self.flow, self.held, self.numerics, record, snapshots, begin, part, most
            )
            used, end = _where(solved, (used, end), (found, self._end(s)))
            part = jnp.where(solved, part, (used - 1) // blocks)
            carry = _where(solved, carry, self._entered(end)[0])
            last = part == (used - 1) // blocks
            carry = self._back(record, jnp.where(last, used - part * blocks, blocks), carry)
            return solved | True, part - 1, zero + blocks, record, snapshots, used, end, carry

        begin = solved, part, jnp.where(solved, 0, most), record, snapshots, used, end, self._entered(end)[0]
        found = jax.lax.while_loop(lambda c: c[1] >= 0, turn, begin)
        return found[3], found[4], found[6], found[7]

    def _end(self, s: Lanes) -> _End:
        return _End(s.status, s.t, None if s.happening is None else s.happening.total)

    def _entered(self, end: _End) -> tuple[Carry, Array]:
        """Cotangents at the end of the lanes; also a mask `(directions, lanes)` of those of states that were not reached."""
        ok = end.status == 0
        if self.flow.events is not None:  # one may have ended it before its last time
            ok = ok & (end.t >= self.held.end)
        packed = list(self.packed)
        for i, g in enumerate(self.given):
            if g is not None:
                g_end = jnp.moveaxis(g[:, self.last], 0, -1)
                packed[i] = jnp.where(widened(ok, g_end), g_end, 0)
        # A failed member did not get to all of its save times.
        column = jnp.arange(1, self.last, dtype=jnp.int32)[:, None]
        column = jnp.broadcast_to(column, (self.last - 1, *self.member.shape))
        cursor = jnp.sum(targets(self.times, self.member, column) <= end.t[None], axis=0, dtype=jnp.int32)
        asked, lost = asked_of(self.given, cursor, ok)
        if end.events is not None:
            met, missed = _asked_before(self.before, end.events)
            asked, lost = asked | met, lost | missed
        # Nothing is asked of what is remembered at the end; where steps are not linked, it is made again from the state.
        remembers = self.flow.multistep or self.flow.linked
        memory = jax.tree.map(self.spread, self.s.memory.moving) if remembers else None
        operands = [self.spread(x) + origin(self.s.t).astype(x.dtype) for x in self.walk.moving(self.held.ops)]
        return Carry(jax.vmap(self.flow.unpack)(packed), memory, operands, cursor, asked), lost

    def _back(self, record: Record, count: Array, carry: Carry) -> Carry:
        """Walk back over the first `count` blocks of a record."""
        walk, block = self.walk, self.numerics.block

        def over(c: PyTree) -> Any:
            b, carry = c
            if record.met is not None:
                met = jax.tree.map(lambda x: x[b], record.met)
                carry = jax.lax.cond(jnp.any(met.path[0] >= 0), walk.back_met, lambda carry, _: carry, carry, met)
            cut = lambda x: jax.lax.dynamic_slice_in_dim(x, b * block, block)
            rows = jax.tree.map(cut, record._replace(met=None))
            return b - 1, jax.lax.scan(walk.back, carry, rows, reverse=True)[0]

        return jax.lax.while_loop(lambda c: c[0] >= 0, over, (count - 1, carry))[1]

    def _left(self, carry: Carry, lost: Array) -> tuple[list[Array], list[Array]]:
        """Cotangents of operands, with those of the start and of what was saved there: the first column, others of that time."""
        left = jnp.arange(self.last + 1, dtype=jnp.int32)[None] <= carry.cursor[:, None]
        begun = [jnp.zeros_like(x) for x in self.packed]
        for i, g in enumerate(self.given):
            if g is not None:
                first = jnp.where(left.reshape(*left.shape, *(1,) * (g.ndim - 2)), g, 0)
                begun[i] = jnp.moveaxis(jnp.sum(first, axis=1), 0, -1)
        g_y = jax.tree.map(jnp.add, carry.y, jax.vmap(self.flow.unpack)(begun))
        ops, walk = self.held.ops, self.walk
        flow, fixed, t = self.flow, self.held.fixed, self.s.t

        def begin(moving: Sequence[Array]) -> Any:
            filled = walk.filled(ops, moving)
            y = flow.begin(filled)
            return y, flow.start(filled, fixed, t, y).moving if flow.linked else None

        _, pull = jax.vjp(begin, walk.moving(ops))
        found = jax.vmap(pull)((g_y, carry.memory if flow.linked else None))[0]
        g_p = [a + b for a, b in zip(carry.operands, found, strict=True)]
        g_p = [with_lost(lost, g, common) for g, common in zip(g_p, self.shared, strict=True)]
        of = lambda kind: [g for g, common in zip(g_p, self.shared, strict=True) if common == kind]
        return of(True), of(False)


def _where(condition: Array, a: PyTree, b: PyTree) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def asked_of(cotangents: Sequence[Array | None], cursor: Array, ok: Array) -> tuple[Array, Array]:
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


def with_lost(lost: Array, g: Array, shared: bool) -> Array:
    """Cotangents of an operand, lanes last unless shared: NaN where a state was asked for that does not exist."""
    lost = jnp.any(lost, axis=1) if shared else lost
    lost = lost.reshape(lost.shape[0], *(1,) * (g.ndim - lost.ndim), *lost.shape[1:])
    return jnp.where(lost, jnp.nan, 1).astype(g.dtype) * g
