"""Lanes with refill: one loop that solves an ensemble, in which no member waits for another.

W lanes step together. Every few attempts the finished ones write out and take the next member of the queue.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import Status
from ..batching._mesh import origin
from ._attempt import RUNNING, Lanes, select
from ._block import attempts
from ._flow import Flow, Operands
from ._queue import MOST_TURNS, Held, Layout, initial_states, loader, longest_first
from ._sizes import Numerics


class Solution(NamedTuple):
    """Result of a solve, members first."""

    ys: Any  # leaves (members, times, ...); NaN where a failed member did not arrive
    status: Array
    steps: Array
    rejected: Array
    length: Array  # of the step that would come next; below zero of one that would pass an event
    end: Array  # the time at which it ended
    past: Array | None = None  # what a method of several steps remembers before an event


def solve(
    flow: Flow, layout: Layout, ops: Operands, fixed: PyTree, times: Array, numerics: Numerics, members: int
) -> Solution:
    """The states of all members at their save times; `times` is `(times,)` or `(members, times)`, the start first."""
    lanes = numerics.lanes
    refill = members > lanes
    zero = origin(ops, times)
    count = zero.astype(jnp.int32)
    load = loader(flow, layout, ops, fixed, times, members)

    def waiting(turn: _Turn) -> Array:
        return (turn.s.status != RUNNING) & (turn.member < members)

    def take(turn: _Turn) -> _Turn:
        """Let the lanes that are done hand over what they found, and give them the next members."""
        queue, member, held, s, cursor, _ = turn
        done = waiting(turn)
        final = flow.pack(s.y)
        # A state that is infinite makes every error nothing beside it, and stays infinite.
        finite = jnp.all(jnp.isfinite(final[0]), axis=0)
        status = jnp.where((s.status == 0) & ~finite, int(Status.NON_FINITE), s.status)
        figures = jnp.stack([status, s.steps, s.rejected, cursor], axis=-1)
        found = _Found(
            jnp.where(done, member, members),
            jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), final),
            figures,
            jnp.stack([s.h, s.t], axis=-1),
            _handed(flow, s),
        )
        if not refill:
            return turn._replace(member=jnp.where(done, members, member), found=found)
        rank = jnp.cumsum(done, dtype=jnp.int32) - 1
        following = jnp.minimum(queue + rank, members)
        if order is not None:
            following = jnp.take(order, following, mode="fill", fill_value=members)
        member = jnp.where(done, following, member)
        queue = jnp.minimum(queue + jnp.sum(done, dtype=jnp.int32), members)
        held, fresh = load(member)
        return _Turn(queue, member, held, select(done, fresh, s), jnp.where(done, 1, cursor), found)

    def body(carry: PyTree) -> Any:
        turn, out = carry
        s, cursor, ys = attempts(flow, times, numerics, members, turn.held, turn.s, turn.cursor, out.ys, turn.member)
        # A loop of one turn at most: XLA makes one kernel of it, where a hundred small operations each take their time to start.
        turn = jax.lax.while_loop(lambda t: jnp.any(waiting(t)), take, turn._replace(s=s, cursor=cursor))
        put = lambda a, x: a.at[turn.found.row, ..., times.shape[-1] - 1].set(x, mode="drop")
        ys = jax.tree.map(put, ys, turn.found.final)
        set_rows = lambda a, x: a.at[turn.found.row].set(x, mode="drop")
        past = jax.tree.map(set_rows, out.past, turn.found.past)
        return turn, _Out(ys, set_rows(out.figures, turn.found.figures), set_rows(out.ends, turn.found.ends), past)

    order = longest_first(load, members, lanes) if lanes < members <= MOST_TURNS * lanes else None
    member = (jnp.arange(lanes, dtype=jnp.int32) if order is None else order[:lanes]) + count
    held, s = load(member)
    columns = times.shape[-1] + (numerics.saves if times.shape[-1] > 2 else 0)  # room for the last window
    empty = lambda x: jnp.zeros((members + 1, *x.shape[:-1], columns), x.dtype) + zero.astype(x.dtype)
    begin = jax.tree.map(empty, flow.pack(s.y))
    initial = initial_states(flow, layout, ops, members)
    figures = jnp.zeros((members, 4), jnp.int32) + count
    handed = _handed(flow, s)
    past = jax.tree.map(lambda x: jnp.broadcast_to(zero.astype(x.dtype), (members, x.shape[1])), handed)
    out = _Out(begin, figures, jnp.zeros((members, 2), s.h.dtype) + zero.astype(s.h.dtype), past)
    final = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), flow.pack(s.y))
    ends = jnp.stack([s.h, s.t], axis=-1)
    found = _Found(jnp.full_like(member, members), final, jnp.zeros((lanes, 4), jnp.int32) + count, ends, handed)
    turn = _Turn(count + lanes, member, held, s, jnp.ones_like(member), found)
    _, out = jax.lax.while_loop(lambda c: jnp.any(c[0].member < members), body, (turn, out))
    status, steps, rejected, reached = jnp.moveaxis(out.figures, -1, 0)
    arrived = jnp.where(status == 0, times.shape[-1], reached)
    ys = jax.tree.map(functools.partial(_kept, arrived, times.shape[-1]), out.ys, initial)
    return Solution(ys, status, steps, rejected, out.ends[:, 0], out.ends[:, 1], out.past)


def _handed(flow: Flow, s: Lanes) -> Array | None:
    """Return what a method of several steps remembers where a solve ends before an event, lanes first."""
    if flow.passes is None or not flow.multistep:
        return None
    lanes = s.t.shape[0]
    return jnp.concatenate([x.reshape(-1, lanes).T for x in jax.tree.leaves(s.memory.moving)], axis=1)


class _Found(NamedTuple):
    """Results of the lanes that finished last, lanes first."""

    row: Array  # the member, past the end for a lane that was not done
    final: Any
    figures: Array  # (lanes, 4): status, steps, rejected, save times passed before the last
    ends: Array  # (lanes, 2): length of the next step, time
    past: Any = None


class _Turn(NamedTuple):
    """Loop state of a solve."""

    queue: Array  # the first member that no lane has taken
    member: Array  # in every lane; past the end in a lane without one
    held: Held
    s: Lanes
    cursor: Array  # the next save time
    found: _Found


class _Out(NamedTuple):
    """Output buffers of finished members: few arrays, for each is one more operation in every turn."""

    ys: Any  # leaves (members + 1, ..., times and room for the last window)
    figures: Array
    ends: Array
    past: Any = None


def _kept(arrived: Array, count: int, ys: Array, initial: Array) -> Array:
    """Members' states from the buffer: NaN where a failed one did not arrive. In one pass, for it may be large."""
    members = arrived.shape[0]
    column = jnp.arange(count, dtype=jnp.int32)[None]
    over = lambda x: x.reshape(*x.shape[:1], *(1,) * (ys.ndim - 2), *x.shape[1:])
    ys = jnp.where(over(column < arrived[:, None]), ys[:members, ..., :count], jnp.nan)
    return jnp.moveaxis(jnp.where(over(column == 0), initial[..., None], ys), -1, 1)
