"""Lanes with refill: one loop that solves an ensemble, in which no member waits for another.

W lanes step together. Every few attempts the finished ones write out and take the next member of the queue.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import Status
from ..batching._mesh import origin
from ._attempt import RUNNING, WAITING, Lanes, select
from ._block import attempts, saved_until
from ._flow import Flow, Operands
from ._occur import as_saving, occurrence
from ._queue import MOST_TURNS, Held, Layout, initial_states, loader, longest_first
from ._record import Kept, empty_kept, row_of
from ._sizes import Numerics


class Solution(NamedTuple):
    """Result of a solve, members first."""

    ys: Any  # leaves (members, times and room, ...): at save times and before events; NaN where a member did not arrive
    status: Array
    steps: Array
    rejected: Array
    length: Array  # of the step that would come next
    end: Array  # the time at which it ended
    log: "Log | None" = None
    kept: Kept | None = None


class Log(NamedTuple):
    """Events that happened, members first; entries that hold none are infinite and -1."""

    total: Array
    times: Array  # (members, room)
    codes: Array  # (members, room): see `code_of`


def code_of(events: int, which: Array, number: Array, follows: Array) -> Array:
    """One integer for the place of an event, its number, and whether an event of the same time set it off."""
    return (number * 2 + follows.astype(number.dtype)) * events + which


def solve(
    flow: Flow,
    layout: Layout,
    ops: Operands,
    fixed: PyTree,
    times: Array,
    numerics: Numerics,
    members: int,
    room: int = 0,
    keeps: bool = False,
) -> Solution:
    """The states of all members at their save times; `times` is `(times,)` or `(members, times)`, the start first.

    With `keeps`, which asks for a lane for each member and for no events, also a record of the attempts.
    """
    lanes = numerics.lanes
    refill = members > lanes
    zero = origin(ops, times)
    count = zero.astype(jnp.int32)
    load = loader(flow, layout, ops, fixed, times, members)

    def hand_over(turn: _Turn, out: _Out) -> tuple[_Turn, _Out]:
        """Write what the lanes found that are done, and refill them."""
        # A loop of one turn at most: XLA makes one kernel of it, where a hundred small operations each take their time to start.
        take = functools.partial(_taken, flow, load if refill else None, order, members)
        turn = jax.lax.while_loop(lambda t: jnp.any(_done(t, members)), take, turn)
        put = lambda a, x: a.at[turn.found.row, ..., times.shape[-1] - 1].set(x, mode="drop")
        ys = jax.tree.map(put, out.ys, turn.found.final)
        set_rows = lambda a, x: a.at[turn.found.row].set(x, mode="drop")
        log = out.log
        if log is not None:
            log = log._replace(total=set_rows(log.total, turn.found.total))
        figures, ends = set_rows(out.figures, turn.found.figures), set_rows(out.ends, turn.found.ends)
        return turn, _Out(ys, figures, ends, log, out.kept)

    def stepped(carry: PyTree) -> Any:
        turn, out = carry
        place = turn.held, turn.s, turn.cursor, out.ys, turn.member
        row = functools.partial(row_of, flow) if keeps else lambda s, t1, y1: None
        s, cursor, ys, rows = attempts(flow, times, numerics, members, *place, row)
        kept = out.kept and out.kept.written(rows, s, numerics.block)
        return hand_over(turn._replace(s=s, cursor=cursor), out._replace(ys=ys, kept=kept))

    def happened(carry: PyTree) -> Any:
        turn, out = carry
        happen = functools.partial(_happen, flow, times, numerics, members, columns, turn.held, turn.member)
        met = lambda c: jnp.any(c[0].status == WAITING)
        s, cursor, ys, log = jax.lax.while_loop(met, happen, (turn.s, turn.cursor, out.ys, out.log))
        return hand_over(turn._replace(s=s, cursor=cursor), out._replace(ys=ys, log=log))

    def live(carry: PyTree) -> Array:
        return jnp.any(carry[0].member < members)

    def between(carry: PyTree) -> Any:
        """Step until a lane waits for its events; a loop of its own, which costs nothing more than one without events."""
        steps = lambda c: live(c) & ~jnp.any(c[0].s.status == WAITING)
        return happened(jax.lax.while_loop(steps, stepped, carry))

    order = longest_first(load, members, lanes) if lanes < members <= MOST_TURNS * lanes else None
    member = (jnp.arange(lanes, dtype=jnp.int32) if order is None else order[:lanes]) + count
    held, s = load(member)
    columns = times.shape[-1] + (numerics.saves if times.shape[-1] > 2 else 0)  # room for the last window
    empty = lambda x: jnp.zeros((members + 1, *x.shape[:-1], columns + room), x.dtype) + zero.astype(x.dtype)
    begin = jax.tree.map(empty, flow.pack(s.y))
    initial = initial_states(flow, layout, ops, members)
    figures = jnp.zeros((members, 4), jnp.int32) + count
    log = _empty_log(s, members, room, zero)
    kept = empty_kept(flow, held, s, numerics, zero) if keeps else None
    out = _Out(begin, figures, jnp.zeros((members, 2), s.h.dtype) + zero.astype(s.h.dtype), log, kept)
    final = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), flow.pack(s.y))
    ends = jnp.stack([s.h, s.t], axis=-1)
    found = _Found(jnp.full_like(member, members), final, jnp.zeros((lanes, 4), jnp.int32) + count, ends, _total(s))
    turn = _Turn(count + lanes, member, held, s, jnp.ones_like(member), found)
    _, out = jax.lax.while_loop(live, stepped if flow.events is None else between, (turn, out))
    status, steps, rejected, reached = jnp.moveaxis(out.figures, -1, 0)
    whole = status == 0
    if out.log is not None:  # an event may have ended it before
        whole = whole & (out.ends[:, 1] >= times[..., -1])
    arrived = jnp.where(whole, times.shape[-1], reached)
    ys = jax.tree.map(functools.partial(_kept, arrived, times.shape[-1]), out.ys, initial)
    solution = Solution(ys, status, steps, rejected, out.ends[:, 0], out.ends[:, 1], kept=out.kept)
    return solution if out.log is None else _with_log(solution, out, columns, room)


def _done(turn: "_Turn", members: int) -> Array:
    """Flags of the lanes whose member has ended."""
    return (turn.s.status != RUNNING) & (turn.s.status != WAITING) & (turn.member < members)


def _taken(
    flow: Flow, load: Callable[[Array], Any] | None, order: Array | None, members: int, turn: "_Turn"
) -> "_Turn":
    """Let the lanes that are done hand over what they found, and give them the next members where there are any to `load`."""
    queue, member, held, s, cursor, _ = turn
    done = _done(turn, members)
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
        _total(s),
    )
    if load is None:
        return turn._replace(member=jnp.where(done, members, member), found=found)
    rank = jnp.cumsum(done, dtype=jnp.int32) - 1
    following = jnp.minimum(queue + rank, members)
    if order is not None:
        following = jnp.take(order, following, mode="fill", fill_value=members)
    member = jnp.where(done, following, member)
    queue = jnp.minimum(queue + jnp.sum(done, dtype=jnp.int32), members)
    held, fresh = load(member)
    return _Turn(queue, member, held, select(done, fresh, s), jnp.where(done, 1, cursor), found)


def _total(s: Lanes) -> Array | None:
    return None if s.happening is None else s.happening.total


def _empty_log(s: Lanes, members: int, room: int, zero: Array) -> Log | None:
    if s.happening is None:
        return None
    never = jnp.full((members + 1, room), jnp.inf, s.t.dtype) + zero.astype(s.t.dtype)
    none = jnp.zeros((members + 1, room), jnp.int32) + zero.astype(jnp.int32)
    return Log(none[:members, 0], never, none - 1)


def _with_log(solution: Solution, out: "_Out", columns: int, room: int) -> Solution:
    """A solution with its events, and with the states before them behind those at save times."""
    assert out.log is not None
    members = solution.status.shape[0]
    log = Log(out.log.total, out.log.times[:members], out.log.codes[:members])
    ys = jax.tree.map(functools.partial(_with_events, log.total, columns, room), solution.ys, out.ys)
    return solution._replace(ys=ys, log=log)


def _happen(
    flow: Flow,
    times: Array,
    numerics: Numerics,
    members: int,
    columns: int,
    held: Held,
    member: Array,
    carry: tuple[Lanes, Array, Any, Log],
) -> tuple[Lanes, Array, Any, Log]:
    """Let events happen in the lanes that wait, and write down what was."""
    s, cursor, ys, log = carry
    assert flow.events is not None
    found, after = occurrence(flow, held.ops, held.fixed, held.end, s)
    cursor, ys = saved_until(flow, times, numerics, members, held, as_saving(found, s), cursor, ys, member)
    room, order = log.times.shape[1], jnp.arange(found.path.shape[0], dtype=jnp.int32)[:, None]
    place = found.first[None] + order
    real = (found.path >= 0) & (place < room)
    row, column = jnp.where(real, member[None], members), jnp.minimum(place, room - 1)
    codes = code_of(len(flow.events.ends), found.path, found.numbers, jnp.broadcast_to(order > 0, found.path.shape))
    put = lambda a, x, row, column: a.at[row, ..., column].set(x, mode="drop")
    before = [jnp.moveaxis(x, -1, 0) for x in flow.pack(found.before)]
    ys = jax.tree.map(lambda a, x: put(a, x, row[0], columns + column[0]), ys, before)
    log_times = put(log.times, jnp.broadcast_to(found.time, row.shape), row, column)
    return after, cursor, ys, log._replace(times=log_times, codes=put(log.codes, codes, row, column))


class _Found(NamedTuple):
    """Results of the lanes that finished last, lanes first."""

    row: Array  # the member, past the end for a lane that was not done
    final: Any
    figures: Array  # (lanes, 4): status, steps, rejected, save times passed before the last
    ends: Array  # (lanes, 2): length of the next step, time
    total: Array | None = None  # of events


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

    ys: Any  # leaves (members + 1, ..., times, room for the last window, room for states before events)
    figures: Array
    ends: Array
    log: Log | None = None  # with a row more
    kept: Kept | None = None


def _kept(arrived: Array, count: int, ys: Array, initial: Array) -> Array:
    """Members' states from the buffer: NaN where a failed one did not arrive. In one pass, for it may be large."""
    members = arrived.shape[0]
    column = jnp.arange(count, dtype=jnp.int32)[None]
    over = lambda x: x.reshape(*x.shape[:1], *(1,) * (ys.ndim - 2), *x.shape[1:])
    ys = jnp.where(over(column < arrived[:, None]), ys[:members, ..., :count], jnp.nan)
    return jnp.moveaxis(jnp.where(over(column == 0), initial[..., None], ys), -1, 1)


def _with_events(total: Array, columns: int, room: int, ys: Array, buffer: Array) -> Array:
    """Members' states, with those before events behind them; NaN where none happened."""
    before = jnp.moveaxis(buffer[: ys.shape[0], ..., columns : columns + room], -1, 1)
    real = jnp.arange(room, dtype=total.dtype)[None] < total[:, None]
    return jnp.concatenate([ys, jnp.where(real.reshape(*real.shape, *(1,) * (ys.ndim - 2)), before, jnp.nan)], axis=1)
