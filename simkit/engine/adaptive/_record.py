"""The record of a solve: its attempts and events, which reverse mode walks back over."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..batching._mesh import origin
from ._attempt import RUNNING, WAITING, Lanes, attempt, moved
from ._flow import Flow
from ._occur import occurrence
from ._queue import Held
from ._sizes import Numerics


class Record(NamedTuple):
    """Attempts of all lanes by common iteration, and the events of their blocks. A step that was not accepted has length zero.

    Of a method of several steps also what it remembered, whether that was a start, and the state at the end of the step: to take
    the step again is then to look its result up. Where the steps of a method of one are linked, what it remembered. States are
    packed: see `Flow.pack`.
    """

    t: Array  # (rows, lanes)
    t1: Array
    y: list[Array]  # (rows, ..., lanes)
    past: Any = None
    fresh: Array | None = None
    solved: Any = None
    met: "Met | None" = None


class Met(NamedTuple):
    """Events at the ends of blocks; a lane that holds none has -1 for the path."""

    t: Array  # (blocks, lanes)
    t1: Array
    still: Array
    y: list[Array]
    time: Array
    on: Array
    path: Array  # (blocks, rounds, lanes)
    numbers: Array
    first: Array
    past: Any = None
    fresh: Array | None = None
    solved: Any = None


class Kept(NamedTuple):
    """A record that a solve keeps from the start, without events, and where its lanes are."""

    record: Record
    used: Array  # (1,): blocks of attempts; those that the record has no room for are not in it
    status: Array  # (lanes,)
    t: Array

    def written(self, rows: Record, s: Lanes, block: int) -> "Kept":
        """The same with one block of attempts more."""
        # Too late a block is written over the last one; the record counts for nothing then.
        return Kept(_put(self.record, rows, self.used[0], block), self.used + 1, s.status, s.t)


def empty_kept(flow: Flow, held: Held, s: Lanes, numerics: Numerics, zero: Array) -> Kept:
    """The record of a solve before its first attempt."""
    used = jnp.zeros(1, jnp.int32) + zero.astype(jnp.int32)
    return Kept(empty_record(flow, held, s, numerics, zero), used, s.status, s.t)


def empty_record(flow: Flow, held: Held, shapes: Lanes, numerics: Numerics, zero: Array) -> Record:
    """A record without attempts."""
    row = jax.eval_shape(lambda s: row_of(flow, s, s.t, s.y), shapes)
    rows = jax.tree.map(_full(zero, numerics.rows), row)
    if flow.events is None:
        return rows
    met = jax.eval_shape(lambda held, s: _met(flow, held, s)[1], held, shapes)
    return rows._replace(met=jax.tree.map(_full(zero, numerics.rows // numerics.block), met))


def _full(zero: Array, count: int) -> Any:
    def full(x: Any) -> Array:
        varying = zero != zero if x.dtype == bool else zero.astype(x.dtype)
        return jnp.broadcast_to(varying, (count, *x.shape))

    return full


def row_of(flow: Flow, s: Lanes, t1: Array, y1: PyTree) -> Record:
    """A row of a record: an attempt from the state of the lanes to a time, and the state there."""
    row = Record(s.t, t1, flow.pack(s.y))
    if flow.linked:
        return row._replace(past=s.memory.moving)
    return row._replace(past=s.memory.moving, fresh=s.memory.fresh, solved=flow.pack(y1)) if flow.multistep else row


def empty_snapshots(shapes: Lanes, numerics: Numerics, zero: Array, spared: int = 1) -> Lanes | None:
    """Snapshots of where each record begins; None where there would be no more than are `spared`."""
    count = segments(numerics)
    if count <= spared:
        return None

    return jax.tree.map(_full(zero, count), shapes)


def segments(numerics: Numerics) -> int:
    """Return the number of records that the longest possible solve fills."""
    return math.ceil(numerics.blocks * numerics.block / numerics.rows)


def _rows(flow: Flow, held: Held, numerics: Numerics, s: Lanes) -> tuple[Lanes, Record]:
    """A block of attempts and their rows."""

    def one(s: Lanes, _: None) -> tuple[Lanes, Record]:
        found = attempt(flow, held.ops, held.fixed, held.end, s)
        row = row_of(flow, s, jnp.where(found.accurate, found.t1, s.t), found.y1)
        return moved(flow, held.ops, held.fixed, s, found, found.accurate), row

    s, rows = jax.lax.scan(one, s, None, length=numerics.block)
    if flow.events is None:
        return s, rows
    none = lambda s: (s, _nothing_met(flow, held, s))
    s, met = jax.lax.cond(jnp.any(s.status == WAITING), functools.partial(_met, flow, held), none, s)
    return s, rows._replace(met=met)


def _met(flow: Flow, held: Held, s: Lanes) -> tuple[Lanes, Met]:
    """The events of the lanes that wait."""
    found, after = occurrence(flow, held.ops, held.fixed, held.end, s)
    where = found.time, found.on, found.path, found.numbers, found.first
    met = Met(found.t, found.t1, found.still, flow.pack(found.y), *where)
    if not flow.multistep:
        return after, met
    return after, met._replace(past=s.memory.moving, fresh=s.memory.fresh, solved=flow.pack(found.before))


def _nothing_met(flow: Flow, held: Held, s: Lanes) -> Met:
    shapes = jax.eval_shape(lambda held, s: _met(flow, held, s)[1], held, s)
    met = jax.tree.map(lambda x: _full(origin(s.t), 1)(x)[0], shapes)
    return met._replace(path=met.path - 1)


def _put(record: Record, rows: Record, b: Array, block: int) -> Record:
    write = lambda a, x: jax.lax.dynamic_update_slice_in_dim(a, x, b * block, axis=0)
    attempts = jax.tree.map(write, record._replace(met=None), rows._replace(met=None))
    return attempts._replace(met=jax.tree.map(lambda a, x: a.at[b].set(x), record.met, rows.met))


def filled(
    flow: Flow,
    held: Held,
    numerics: Numerics,
    record: Record,
    snapshots: Lanes | None,
    s: Lanes,
    part: Array | int = 0,
    most: Array | int = np.iinfo(np.int32).max,
) -> tuple[Record, Lanes | None, Lanes, Array]:
    """Solve a group on from `s` to the end, or for `most` blocks: the record with the last attempts, snapshots of where each record
    begins, the lanes at the end, and the number of blocks. The first record is the one of number `part`.
    """
    blocks = numerics.rows // numerics.block

    def body(c: PyTree) -> Any:
        b, s, record, snapshots = c
        place = b % blocks
        if snapshots is not None:
            save = lambda: jax.tree.map(lambda a, x: a.at[part + b // blocks].set(x), snapshots, s)
            snapshots = jax.lax.cond(place == 0, save, lambda: snapshots)
        s, rows = _rows(flow, held, numerics, s)
        return b + 1, s, _put(record, rows, place, numerics.block), snapshots

    alive = lambda c: jnp.any(c[1].status == RUNNING) & (c[0] < most)
    used, s, record, snapshots = jax.lax.while_loop(alive, body, (origin(s.t).astype(jnp.int32), s, record, snapshots))
    return record, snapshots, s, used
