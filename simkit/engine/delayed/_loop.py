"""The loop of a solve with delays: attempts with error control, in blocks after which save times are served."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ...core import Events, Status, greatest
from ..adaptive._attempt import RUNNING, grown, too_short
from ..adaptive._flow import first_length
from ..adaptive._occur import STALLED
from ..batching._mesh import alike_arrays, origin
from ..stepping._event_steps import EventGrid
from ..stepping._reduce import appended, no_events
from ._breaking import flat_lags
from ._crossing import (
    Crossed,
    Landing,
    Watched,
    crossings,
    first_watched,
    jumped_to,
    moved_on,
    room_of,
    roundings,
)
from ._jumps import (
    Entry,
    Happening,
    Image,
    Note,
    events_of,
    first_happening,
    followed,
    happen,
    next_image,
    past_of,
    searched,
    served_last,
    state_at,
)
from ._overlap import take_overlapping
from ._posed import ALL, Cells, Posed, Taken, empty, take, within
from ._ring import Ring, count_zero, put, valued

BLOCK = 8
"""Attempts after which save times are served."""

ROUNDINGS = 8
"""Number of roundings of a time by which a lag that vanishes may be negative."""

FAR_OFF = 1e6
"""Square of the error over its tolerance of a step that does not stand: the next is a quarter as long at order 5."""


FAILED = 3
"""Number of attempts in a row that are not accurate from which on a derivative is taken to jump between them and the solve."""

STRICTER = 0.03
"""Share of the tolerance that a step must keep there: its error is as large as the estimate, that of a smooth one a hundredth."""


class Mesh(NamedTuple):
    """The accepted steps of a solve."""

    ends: Array  # (most,): where they end
    ties: Array  # (most,): the breaking point on which they end, -1 for none
    size: Array
    cells: Cells | None = None  # (most, lags): where lags vary, the breaking points between which they look
    landings: Landing | None = None  # (most,): the breaking points that they make
    notes: Note | None = None  # (most,): the events at their ends
    behind: Array | None = None  # (most, lags): which lags look in front of a jump


class Looped(NamedTuple):
    """Results of a loop."""

    ys: Array  # (times, n); the start after an event that ends the run
    status: Array
    steps: Array
    rejected: Array
    mesh: Mesh | None
    end: Array  # the time of the event that ended it; infinite where none did
    events: Events | None  # of flat states


class _State(NamedTuple):
    t: Array
    h: Array  # of the next attempt
    y: Array
    ring: Ring
    cursor: Array  # the breaking point that comes next
    steps: Array
    rejected: Array
    status: Array
    mesh: Mesh | None
    failed: Array  # how many attempts were not accurate before the solve was past where they ended
    suspect: Array  # the end of the shortest of them
    watched: Watched | None = None
    happening: Happening | None = None


class Row(NamedTuple):
    """A step as save times see it."""

    t0: Array
    t1: Array  # equal to t0 where nothing was accepted
    length: Array
    rows: Array  # (1 + degree, n)
    opens: Array | None = None  # whether it follows an event at its start
    closes: Array | None = None  # whether an event is at its end


def looped(posed: Posed, times: Array, kept: int, most: Array, room: int, listed: int) -> Looped:
    """Solve without derivatives.

    `most` is the largest number of attempts; the mesh has room for as many steps as `room`, the list of events for `listed`.
    """
    zero = origin(posed.flat, times, posed.points)
    ring = empty(posed, kept, zero)
    grid = events_of(posed, ring)
    s = _started(posed, ring, grid, room, zero)
    ys, events = _initial_rows(posed, times, zero), no_list(posed, listed, zero)

    def body(carry: tuple[_State, Array, Events | None]) -> tuple[_State, Array, Events | None]:
        s, ys, events = carry
        s, (rows, entries) = jax.lax.scan(lambda s, _: _attempt(posed, grid, most, s), s, None, length=BLOCK)
        return s, saved(times, rows, ys), listed_more(events, entries)

    s, ys, events = jax.lax.while_loop(lambda c: greatest(c[0].status == RUNNING), body, (s, ys, events))
    arrived, end = (times <= s.t) | (s.status == Status.OK), jnp.inf + zero
    ys = jnp.where(arrived[:, None], ys, jnp.nan)
    if s.happening is not None:
        ys, end = served_last(posed, s.ring, times, s.t, s.y, s.happening.opened, ys), s.happening.end
    return Looped(ys, _explained(posed, s), s.steps, s.rejected, s.mesh, end, events)


def no_list(posed: Posed, room: int, zero: Array) -> Events | None:
    """An empty list of events of flat states."""
    if posed.events is None:
        return None
    return alike_arrays((no_events(posed.events.names, room, posed.begin, posed.flat), zero))[0]


def listed_more(events: Events | None, entries: Entry | None) -> Events | None:
    """A list of events with those of some steps."""
    if events is None or entries is None:
        return events
    count = jnp.sum(entries.which >= 0, dtype=events.count.dtype)
    order = jnp.argsort(entries.which < 0, stable=True)
    more = Events(
        events.names, count, *(x[order] for x in (entries.time, entries.which, entries.before, entries.after))
    )
    return appended(events, more, count == count)


def _initial_rows(posed: Posed, times: Array, zero: Array) -> Array:
    return jnp.broadcast_to(posed.flat, (times.shape[0], posed.flat.size)) + zero.astype(posed.flat.dtype)


def _started(posed: Posed, ring: Ring, grid: EventGrid | None, room: int, zero: Array) -> _State:
    begin, y, system = posed.begin, posed.flat, posed.term.system
    term = within(posed, ring, begin, posed.end)
    scale = posed.atol + posed.rtol * jnp.abs(y)
    field = lambda t, y: ravel_pytree(term.vf(t, posed.unravel(y)))[0]
    h = first_length(field, begin, posed.end - begin, y, scale, posed.solver.order)
    none = count_zero(zero)
    earliest = system.earliest()
    known = jnp.all(begin - posed.lags >= (-jnp.inf if earliest is None else earliest))
    status = jnp.where(known, RUNNING, int(Status.HISTORY_SHORT))
    fine = posed.lags > 0 if posed.constant else posed.lags >= 0  # a lag may vanish on the way
    status = jnp.where(jnp.all(fine), status, int(Status.BAD_LAG))
    mesh = None
    if room:
        mesh = _empty_mesh(posed, room, zero)
    watched = None if posed.constant else first_watched(posed, field(begin, y), zero)
    begun = begin + zero, h + zero, y + zero.astype(y.dtype), ring, none, none, none
    happening = None if grid is None else first_happening(posed, grid, room_of(posed), zero)
    return _State(*begun, status.astype(jnp.int32) + none, mesh, none, zero - jnp.inf, watched, happening)


def _empty_mesh(posed: Posed, room: int, zero: Array) -> Mesh:
    none = count_zero(zero)
    numbers, places = jnp.full(room, jnp.inf, zero.dtype) + zero, jnp.full(room, -1, jnp.int32) + none
    mesh, off = Mesh(numbers, places, none), places > 0
    if posed.events is not None:
        mesh = mesh._replace(notes=Note(places, places, off, off, numbers), landings=Landing(places, places, places))
    if posed.constant:
        behind = None if posed.events is None else jnp.zeros((room, posed.lags.size), bool) | off[:, None]
        return mesh._replace(behind=behind)
    bounds = jnp.zeros((room, posed.lags.size), zero.dtype) + zero
    return mesh._replace(cells=Cells(bounds, bounds), landings=Landing(places, places, places))


def _attempt(posed: Posed, grid: EventGrid | None, most: Array, s: _State) -> tuple[_State, tuple[Row, Entry | None]]:
    """Try a step: the rule of the length is that of other adaptive solves, and a step is no longer than the shortest lag."""
    live, w = s.status == RUNNING, s.watched
    epsilon = float(jnp.finfo(s.t.dtype).eps)
    known, image = posed.points[s.cursor], None
    goal = known if w is None else jnp.minimum(known, w.aim)
    if s.happening is not None:
        goal = jnp.minimum(goal, s.happening.sides.due)
        if s.happening.jumps is not None:
            image = next_image(posed, s.happening.jumps, goal)
            goal = jnp.minimum(goal, image.time)
    h = s.h if posed.overlaps else jnp.minimum(s.h, jnp.min(posed.lags, initial=jnp.inf))
    reaches = live & (s.t + h * (1 + 4 * epsilon) >= goal)
    t1 = jnp.where(live, jnp.where(reaches, goal, s.t + h), s.t)
    length = t1 - s.t
    behind = None if image is None else image.behind
    found, solved = _tried(posed, s, t1, length, behind)
    lags = posed.lags if posed.constant else flat_lags(posed.term, t1, posed.unravel(found.y))
    square, finite = _measured(posed, s, t1, lags, found, solved)
    accurate = live & (square < 1)
    h = length * grown(square, posed.solver.order)
    h = jnp.where(accurate & reaches, jnp.maximum(h, s.h), h)  # a breaking point may have cut the step short
    missed = live & ~accurate
    accepted, crossed, rows = accurate, None, jnp.concatenate([s.y[None], found.increments])
    if w is not None:
        crossed = crossings(posed, w, s.t, t1, rows, accurate)
        accepted = accurate & ~crossed.again
        h = jnp.where(crossed.again, s.h, h)
    h = jnp.where(live, h, s.h)
    step = Stepped(s.t, t1, length, s.y, found, accepted, crossed, rows)
    ended = _ended(posed, grid, s, step, reaches & (goal >= known), image)
    status = _status(posed, most, s, ended, h, lags, accepted, accurate, finite)
    status = jnp.where(ended.tied & (known >= posed.end), int(Status.OK), status)
    now = ended.happening
    if s.happening is not None and now is not None:
        status = jnp.where(accepted & (now.stalled >= STALLED), int(Status.ENDLESS_EVENTS), status)
        status = jnp.where(accepted & jnp.isfinite(now.end), int(Status.OK), status)
        status = jnp.where(accepted & ~jnp.all(jnp.isfinite(ended.y)), int(Status.NON_FINITE), status)
    row = Row(s.t, jnp.where(ended.real, ended.t, s.t), length, rows)
    if s.happening is not None:
        row = row._replace(opens=s.happening.opened & (s.t > posed.begin), closes=ended.hit)
    mesh = s.mesh
    if mesh is not None:
        tie = jnp.where(ended.tied, s.cursor, -1)
        mesh = _recorded(mesh, (t1, tie, None if w is None else w.cells, ended.landing, ended.note, behind), accepted)
    after = _State(
        jnp.where(accepted, ended.t, s.t),
        h,
        jnp.where(accepted, ended.y, s.y),
        ended.ring,
        s.cursor + ended.tied.astype(s.cursor.dtype),
        s.steps + accepted.astype(s.steps.dtype),
        s.rejected + (live & ~accepted).astype(s.rejected.dtype),
        jnp.where(live, status, s.status),
        mesh,
        jnp.where(missed, s.failed + 1, jnp.where(accepted & (t1 >= s.suspect), 0, s.failed)),
        jnp.where(missed, jnp.where(s.failed > 0, jnp.minimum(t1, s.suspect), t1), s.suspect),
        ended.watched,
        ended.happening,
    )
    return after, (row, ended.entry)


class Stepped(NamedTuple):
    """An attempted step."""

    t0: Array
    t1: Array
    length: Array
    y0: Array
    found: Taken
    accepted: Array
    crossed: Crossed | None
    rows: Array


class Ended(NamedTuple):
    """The end of an attempted step: at an event, on a breaking point, or where it was to end."""

    t: Array
    y: Array
    hit: Array  # whether an event is there
    tied: Array  # whether it is on the known breaking point that comes next
    real: Array  # whether it is accepted and has a length
    ring: Ring
    watched: Watched | None
    landing: Landing | None
    happening: Happening | None
    note: Note | None
    entry: Entry | None


def _ended(
    posed: Posed, grid: EventGrid | None, s: _State, step: Stepped, reached: Array, image: Image | None
) -> Ended:
    """The end of an attempt; `reached` tells whether it goes up to the known breaking point, `image` is that of events."""
    t0, t1, length, y0, found, accepted, crossed, rows = step
    w, was, hit = s.watched, s.happening, jnp.zeros_like(accepted)
    t, y, rate, tied = t1, found.y, None, accepted & reached
    put_in = lambda: put(s.ring, t0, length, y0, found.increments, accepted & (t > t0))
    note = entry = happening = landing = None
    if was is None or grid is None:
        ring = put_in()
    else:
        within_step = past_of(posed, s.ring, t0, t1, rows if posed.overlaps else None)
        event, marks = searched(grid.seeing(within_step), posed, was.sides, (t0, t1), length, rows)
        hit = event.hit & accepted
        event = event._replace(hit=hit)
        t, tied = jnp.where(hit, event.time, t1), tied & ~hit
        ring = put_in()
        before = jnp.where(t < t1, state_at(rows, t0, t, length), found.y)
        onwards = grid.seeing(past_of(posed, ring, t, posed.end))
        y, sides, rate = happen(onwards, posed, was.sides, event, t, before, hit)
        quiet = grid.passed(was.sides, marks)
        sides = _chosen(hit, sides, _chosen(accepted, quiet, was.sides))
        which = jnp.where(hit, event.which, -1)
        note, entry = Note(which, event.number, event.sloped, event.start, t), Entry(which, t, before, y)
        ends = hit & grid.ends[event.which]
        stalled = jnp.where(t - was.since > roundings(t, t0), 0, was.stalled + 1)
        happening = Happening(
            sides,
            was.jumps,
            jnp.where(ends, t, was.end),
            # A step without length, up to a breaking point at the time of an event, leaves the event last.
            jnp.where(accepted, hit | (was.opened & (t <= t0)), was.opened),
            jnp.where(hit, stalled, was.stalled),
            jnp.where(hit, t, was.since),
        )
        if was.jumps is not None and image is not None:
            changes = [event.change is not None for event in grid.functions.kinds]
            jumped = hit & jnp.array(changes)[event.which]
            met = accepted & ~hit & ~tied & (t1 >= image.time)
            jumps, landing = followed(posed, was.jumps, t, image, jumped, met)
            happening = happening._replace(jumps=jumps)
    watched = w
    if w is not None and crossed is not None:
        crossed = crossed._replace(landed=crossed.landed & ~hit)
        watched, landing = moved_on(posed, w, crossed, t1, found.y, _rate(rows, length), accepted, tied)
        if rate is not None:
            watched, place = jumped_to(posed, watched, t, y, rate, hit)
            landing = landing._replace(place=jnp.where(hit, place, landing.place))
    return Ended(t, y, hit, tied, accepted & (t > t0), ring, watched, landing, happening, note, entry)


def _chosen(flag: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(flag, a, b), new, old)


def _rate(rows: Array, length: Array) -> Array:
    """The rate at the end of a dense output; zero where the step has no length."""
    one = jnp.ones_like(length)
    return jax.jvp(lambda share: valued(rows, share), (one,), (one,))[1] / jnp.where(length > 0, length, 1)


def _tried(posed: Posed, s: _State, t1: Array, length: Array, behind: Array | None) -> tuple[Taken, Array]:
    """The step up to a time, and whether its equations were solved."""
    cells = None if s.watched is None else s.watched.cells
    if posed.overlaps:
        return take_overlapping(posed, s.ring, s.t, t1, length, s.y, cells, behind, derived=False)
    return take(posed, s.ring, s.t, t1, length, s.y, unknown=ALL, cells=cells, behind=behind), s.status == RUNNING


def _measured(posed: Posed, s: _State, t1: Array, lags: Array, found: Taken, solved: Array) -> tuple[Array, Array]:
    """The square of the error of a step over its tolerance, large where the step does not stand, and whether it is finite."""
    scale = posed.atol + posed.rtol * jnp.maximum(jnp.abs(s.y), jnp.abs(found.y))
    square = jnp.mean(jnp.square(jnp.abs(found.error) / scale)) if s.y.size else jnp.zeros_like(s.t)
    square = jnp.where(s.failed >= FAILED, square / STRICTER**2, square)
    finite, shorter = jnp.isfinite(square), ~solved
    if not posed.constant:
        shorter = shorter | ~jnp.all(lags >= -ROUNDINGS * float(jnp.finfo(t1.dtype).eps) * jnp.abs(t1))
    return jnp.where(finite & shorter, FAR_OFF, square), finite


def _recorded(mesh: Mesh, step: tuple[Any, ...], accepted: Array) -> Mesh:
    """A mesh with one more step, where that is accepted."""
    place = jnp.where(accepted, mesh.size, mesh.ends.shape[0])
    whole = mesh.ends, mesh.ties, mesh.cells, mesh.landings, mesh.notes, mesh.behind
    ends, ties, *more = jax.tree.map(lambda x, new: x.at[place].set(new, mode="drop"), whole, step)
    return Mesh(ends, ties, mesh.size + accepted.astype(mesh.size.dtype), *more)


def _status(
    posed: Posed,
    most: Array,
    s: _State,
    ended: Ended,
    h: Array,
    lags: Array,
    accepted: Array,
    accurate: Array,
    finite: Array,
) -> Array:
    """The status after an attempt of a lane that runs."""
    ring, t1 = ended.ring, ended.t
    status = jnp.full_like(s.status, RUNNING)
    status = jnp.where(s.steps + s.rejected + 1 >= most.astype(s.steps.dtype), int(Status.STEP_LIMIT), status)
    tiny = too_short(h, s.t, posed.end)
    bad = jnp.any(lags < 0)
    stuck = jnp.where(bad, int(Status.BAD_LAG), jnp.where(finite, int(Status.STEP_TOO_SMALL), int(Status.NON_FINITE)))
    status = jnp.where(tiny & ~accurate, stuck, status)
    longest = t1 - jnp.max(lags, initial=0)
    full = (ring.total > ring.kept) & (ring.oldest > longest)
    status = jnp.where(accepted & full, int(Status.HISTORY_FULL), status)
    earliest = posed.term.system.earliest()
    if earliest is None:
        return status
    return jnp.where(accepted & (longest < earliest), int(Status.HISTORY_SHORT), status)


REASONS = Status.HISTORY_FULL, Status.HISTORY_SHORT, Status.BAD_LAG
"""Status of each way in which a past may not be known."""


def _explained(posed: Posed, s: _State) -> Array:
    """The status of a lane that ended; where it could not go on since `past` was asked for what is not known, it says so."""

    def is_finite(unknown: Array) -> Array:
        term = within(posed, s.ring, s.t, s.t, unknown=unknown)
        return jnp.all(jnp.isfinite(ravel_pytree(term.vf(s.t, posed.unravel(s.y)))[0]))

    found = jax.vmap(is_finite)(jnp.concatenate([jnp.zeros((1, len(ALL)), bool), jnp.eye(len(ALL), dtype=bool)]))
    failed = (s.status != RUNNING) & (s.status != Status.OK) & found[0]
    status = s.status
    for i, reason in enumerate(REASONS):
        status = jnp.where(failed & ~found[1 + i], int(reason), status)
    return status


def saved(times: Array, rows: Row, ys: Array) -> Array:
    """Rows `ys` with the states at the save times within some steps; at an event that after it, of the next step."""
    at, t0, t1 = jax.lax.stop_gradient((times[:, None], rows.t0[None], rows.t1[None]))
    within = (t0 < at) & (at <= t1)  # (times, steps)
    if rows.opens is not None and rows.closes is not None:
        begins, ends = rows.opens[None] & (t0 == at), ~rows.closes[None] & (at == t1)
        within = (t0 < t1) & ((t0 < at) | begins) & ((at < t1) | ends)

    def serve(ys: Array) -> Array:
        place, here = jnp.argmax(within, axis=1), jnp.any(within, axis=1)
        length = jnp.where(rows.t1 > rows.t0, rows.length, 1)
        share = jnp.where(here, (times - rows.t0[place]) / length[place], 0)
        return jnp.where(here[:, None], jax.vmap(valued)(rows.rows[place], share), ys)

    return jax.lax.cond(greatest(jnp.any(within)), serve, lambda ys: ys, ys)
