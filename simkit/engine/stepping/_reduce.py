"""Reducers in a solve: piece by piece of the save times, so that no more than the rows of one piece are ever held."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ..._types import State, Time
from ...core import Events, Status
from ...reducers import Reducer
from ..batching._mesh import alike_arrays
from ._checkpointed import DEFAULT_MEMORY, segment_schemes
from ._fixed_grid import checkpointed_scan

MOST_ROWS = 64
"""Number of rows that are solved before they are reduced."""

ROW_BYTES = 2**23
"""Rows of large states are fewer, so that together they take no more than this."""


class Pieces(NamedTuple):
    """Save times in pieces, the first save time apart. A solve of a piece begins where that of the one before ended."""

    points: Array  # (pieces, columns): the start, the times of the rows, perhaps the end
    times: Array  # (pieces, rows)
    counted: Array  # (pieces, rows): whether a row is one of a save time


class Carry(NamedTuple):
    """Loop carry from one piece to the next."""

    state: State  # at its end; of a failed member where the failed piece began
    length: Any  # of the next step, 0 where it is to be chosen; of fixed steps with events the memory of these
    totals: Mapping[str, Any]
    status: Array
    accepted: Array
    rejected: Array
    ended: Array  # by an event
    events: Events | None = None  # of encoded states


class Solved(NamedTuple):
    """Result of a piece."""

    states: State  # at its points
    status: Array
    counts: tuple[Array, Array]
    length: Any  # of the step that would come next, or the memory of events
    end: Array | None = None  # the time at which an event ended it; infinite where none did
    events: Events | None = None


Solve = Callable[[State, Array, Any], Solved]
"""State at the first of some points, the points, length of the first step -> what becomes of them."""


def cut(times: Array, counted: Array, state: State) -> Pieces:
    """Times and whether they count, in pieces; the last is filled up with repeats of the end, which do not count."""
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    most = max(1, min(MOST_ROWS, ROW_BYTES // max(size, 1)))
    rows = times.shape[0] - 1
    pieces = -(-rows // most)
    each = -(-rows // pieces)
    missing = pieces * each - rows
    filled = lambda x, value: jnp.concatenate([x[1:], jnp.broadcast_to(value, (missing,))]).reshape(pieces, each)
    table = filled(times, times[-1])
    start = jnp.concatenate([times[:1], table[:-1, -1]])
    return Pieces(jnp.concatenate([start[:, None], table], axis=1), table, filled(counted, False))


def cut_at(times: Array, jumps: Array | None, state: State) -> Pieces:
    """Pieces of save times and jumps together: fixed steps end on both."""
    if jumps is None:
        return cut(times, jnp.ones(times.shape, bool), state)
    points = jnp.concatenate([times, jnp.clip(jumps.astype(times.dtype), times[0], times[-1])])
    order = jnp.argsort(points, stable=True)
    return cut(points[order], order < times.shape[0], state)


def cut_between(times: Array, jumps: Array | None, state: State, *, eventful: bool = False) -> Pieces:
    """Pieces that do not end where an input jumps: the derivative by the time of a jump is that of a step that ends on it.

    With events no piece but the last ends on a save time, so that none lies between two pieces.
    """
    pieces = cut(times, jnp.ones(times.shape, bool), state)
    if jumps is None and not eventful:
        return pieces
    last = pieces.times[:, -1]
    following = jnp.concatenate([pieces.times[1:, 0], last[-1:]])
    on_jump = (
        jnp.array(True)
        if jumps is None or eventful
        else jnp.any(last[:, None] == jumps[None].astype(times.dtype), axis=1)
    )
    # Any place between two save times would do; this one is hardly that of the next jump.
    end = last + jnp.where(on_jump, 0.381966, 0.0).astype(times.dtype) * (following - last)
    start = jnp.concatenate([times[:1], end[:-1]])
    return pieces._replace(points=jnp.concatenate([start[:, None], pieces.times, end[:, None]], axis=1))


def reduce_rows(
    solve: Solve,
    system: Any,
    state: State,
    pieces: Pieces,
    reducers: Mapping[str, Reducer],
    *,
    max_steps: int | None = None,
    memory: int | None = None,
    events: Events | None = None,
    sides: Any = None,
) -> Carry:
    """Solve piece by piece and reduce the rows; the carry at the end, its totals finished.

    A failed member keeps the state at which the failed piece began and stands still from there on, so that no later piece costs
    anything; its results are NaN. One that an event ended stands still as well; rows after its end do not count. Reverse mode keeps
    what pieces begin with, and solves each of them again. `events` is an empty list with room for those of the run, and `sides` the
    memory of events at its start, where steps are fixed.
    """
    start = pieces.points[0, 0]
    totals = first_totals(system, start, state, reducers)
    zero = jnp.zeros_like(start, jnp.int32)
    each = pieces.times.shape[1]

    def reduced(totals: PyTree, row: PyTree) -> Any:
        t, state, counted = row
        return _where(counted, next_totals(system, t, state, reducers, totals), totals), None

    def piece(carry: Carry, i: Array) -> Carry:
        lost = (carry.status != Status.OK) | carry.ended
        points = pieces.points[i]
        if max_steps is not None:  # fixed steps take as long wherever they lead
            points = points.at[-1].set(jnp.where(lost, points[0], points[-1]))
        found = solve(carry.state, points, carry.length)
        states, status, (accepted, rejected) = found.states, found.status, found.counts
        counted, ended, events = pieces.counted[i], carry.ended, carry.events
        if found.end is not None:
            after = pieces.points[i] > found.end
            counted, ended = counted & ~after[1 : 1 + each], ended | jnp.isfinite(found.end)
            states = jax.tree.map(lambda x, y: jnp.where(_over(after, x), y[None], x), states, carry.state)
        if events is not None and found.events is not None:
            events = appended(events, found.events, ~lost)
        status = jnp.where((status == Status.OK) & ~_finite(states), int(Status.NON_FINITE), status)
        accepted, rejected = carry.accepted + accepted, carry.rejected + rejected
        if max_steps is not None:
            status = jnp.where(
                (status == Status.OK) & (accepted + rejected > max_steps), int(Status.STEP_LIMIT), status
            )
        status = jnp.where(lost, carry.status, status)
        good = (status == Status.OK) & ~lost
        # Rows that are not finite would make derivatives of the others NaN that are multiplied by zero later.
        rows = jax.tree.map(lambda x, y: jnp.where(good, x[1 : 1 + each], y[None]), states, carry.state)
        totals, _ = jax.lax.scan(reduced, carry.totals, (pieces.times[i], rows, counted & ~lost))
        end = jax.tree.map(lambda x, y: jnp.where(good, x[-1], y), states, carry.state)
        counts = _counts(lost, carry, accepted, rejected)
        length = _where(good, found.length, carry.length)
        return Carry(end, length, totals, status, *counts, jnp.where(lost, carry.ended, ended), events)

    length = jnp.zeros_like(start) if sides is None else sides
    carry = alike_arrays(Carry(state, length, totals, zero, zero, zero, zero != 0, events))
    counts = _segments(pieces.times.shape[0], carry, state, memory)
    carry = checkpointed_scan(piece, carry, pieces.times.shape[0], jnp.int32, counts)
    return carry._replace(totals=results_of(carry.totals, reducers, carry.status))


def no_events(names: tuple[str, ...], room: int, t: Array, state: State) -> Events:
    """An empty list of events with room for so many."""
    times = jnp.full(room, jnp.inf, t.dtype)
    rows = jax.tree.map(lambda x: jnp.full((room, *x.shape), jnp.nan, x.dtype), state)
    return Events(names, jnp.zeros((), jnp.int32), times, jnp.full(room, -1, jnp.int32), rows, rows)


def appended(events: Events, more: Events, real: Array) -> Events:
    """A list with more events at its end, where they are real, as far as it has room."""
    places = events.count + jnp.arange(more.room, dtype=events.count.dtype)
    places = jnp.where(more.happened & real, places, events.room)
    put = lambda old, new: old.at[places].set(new.astype(old.dtype), mode="drop")
    return Events(
        events.names,
        events.count + jnp.where(real, more.count, 0).astype(events.count.dtype),
        put(events.times, more.times),
        put(events.which, more.which),
        jax.tree.map(put, events.before, more.before),
        jax.tree.map(put, events.after, more.after),
    )


def first_totals(system: Any, t: Array, state: State, reducers: Mapping[str, Reducer]) -> dict[str, Any]:
    """The totals after the first row."""
    first = {name: _row(reducer, system, t, state) for name, reducer in reducers.items()}
    totals = {name: _arrays(reducer.start(t, first[name])) for name, reducer in reducers.items()}
    return {name: _updated(name, reducers[name], totals[name], t, row) for name, row in first.items()}


def next_totals(
    system: Any, t: Array, state: State, reducers: Mapping[str, Reducer], totals: Mapping[str, Any]
) -> dict[str, Any]:
    """The totals with one more row."""
    rows = {name: _row(reducer, system, t, state) for name, reducer in reducers.items()}
    return {name: _updated(name, reducers[name], totals[name], t, row) for name, row in rows.items()}


def results_of(totals: Mapping[str, Any], reducers: Mapping[str, Reducer], status: Array) -> dict[str, Any]:
    """The results; NaN where a solve failed."""
    results = {name: _arrays(reducer.finish(totals[name])) for name, reducer in reducers.items()}
    return jax.tree.map(lambda x: _or_nan(status == Status.OK, x), results)


def reduce_saved(
    system: Any, times: Array, states: State, end: Array, status: Array, reducers: Mapping[str, Reducer]
) -> dict[str, Any]:
    """Results of rows that are saved already; those after an end do not count."""
    row = lambda i: jax.tree.map(lambda x: x[i], states)

    def one(totals: PyTree, entry: tuple[Array, State]) -> tuple[PyTree, None]:
        t, state = entry
        there = t <= end
        # A row that is NaN must not touch derivatives.
        state = _where(there, state, row(0))
        return _where(there, next_totals(system, t, state, reducers, totals), totals), None

    totals = first_totals(system, times[0], row(0), reducers)
    totals, _ = jax.lax.scan(one, totals, (times[1:], jax.tree.map(lambda x: x[1:], states)))
    return results_of(totals, reducers, status)


def reduce_static(system: Any, y: State, predictors: Array, reducers: Mapping[str, Reducer]) -> dict[str, Any]:
    """Results of a system without dynamics: its rows are over predictors, which take the place of times."""
    first = {name: _row(reducer, system, predictors[0], y) for name, reducer in reducers.items()}
    totals = {name: _arrays(reducer.start(predictors[0], first[name])) for name, reducer in reducers.items()}
    reduced = lambda totals, x: (next_totals(system, x, y, reducers, totals), None)
    totals, _ = jax.lax.scan(reduced, totals, predictors)
    return {name: _arrays(reducer.finish(totals[name])) for name, reducer in reducers.items()}


def _counts(lost: Array, carry: Carry, accepted: Array, rejected: Array) -> tuple[Array, Array]:
    return jnp.where(lost, carry.accepted, accepted), jnp.where(lost, carry.rejected, rejected)


def _row(reducer: Reducer, system: Any, t: Array, state: State) -> Any:
    floating = lambda x: x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(t.dtype)
    return jax.tree.map(floating, _arrays(reducer.row(system, t, system.decode(state))))


def _arrays(tree: PyTree) -> Any:
    return jax.tree.map(jnp.asarray, tree)


def _updated(name: str, reducer: Reducer, total: PyTree, t: Time, row: PyTree) -> Any:
    """The next total, of the form of the one before."""
    found = _arrays(reducer.update(total, t, row))
    form = lambda tree: (jax.tree.structure(tree), [(x.shape, x.dtype) for x in jax.tree.leaves(tree)])
    if form(found) != form(total):
        raise ArgumentError(
            f"`update` of the reducer `{name}` must return a total of the form that `start` returns, but it makes "
            f"{_text(found)} of {_text(total)}. Let both have the same structure, shapes and types."
        )
    return found


def _text(tree: PyTree) -> str:
    return str(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree))


def _where(where: Array, new: PyTree, old: PyTree) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(where, a, b), new, old)


def _over(rows: Array, x: Array) -> Array:
    return rows.reshape(*rows.shape, *(1,) * (x.ndim - 1))


def _finite(tree: PyTree) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def _or_nan(good: Array, x: Array) -> Array:
    return jnp.where(good, x, jnp.nan) if jnp.issubdtype(x.dtype, jnp.inexact) else x


def _segments(pieces: int, carry: Carry, state: State, memory: int | None) -> tuple[int, ...]:
    """Segments of pieces of which reverse mode keeps the starts: the least to compute again that fits, else the smallest."""
    size = sum(leaf.size * jnp.result_type(leaf).itemsize for leaf in jax.tree.leaves(carry))
    schemes = segment_schemes(1, pieces)
    fitting = [counts for counts, held in schemes.items() if held * size <= (memory or DEFAULT_MEMORY)]
    return fitting[0] if fitting else min(schemes, key=lambda counts: schemes[counts])
