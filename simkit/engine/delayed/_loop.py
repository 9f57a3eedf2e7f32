"""The loop of a solve with delays: attempts with error control, in blocks after which save times are served."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ...core import Status, greatest
from ..adaptive._attempt import RUNNING, grown, too_short
from ..adaptive._flow import first_length
from ..batching._mesh import origin
from ._breaking import flat_lags
from ._crossing import Landing, Watched, crossings, first_watched, moved_on
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


class Looped(NamedTuple):
    """Results of a loop."""

    ys: Array  # (times, n)
    status: Array
    steps: Array
    rejected: Array
    mesh: Mesh | None


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


class Row(NamedTuple):
    """A step as save times see it."""

    t0: Array
    t1: Array  # equal to t0 where nothing was accepted
    length: Array
    rows: Array  # (1 + degree, n)


def looped(posed: Posed, times: Array, kept: int, most: Array, room: int) -> Looped:
    """Solve without derivatives. `most` is the largest number of attempts; the mesh has room for as many steps as `room`."""
    zero = origin(posed.flat, times, posed.points)
    s = _started(posed, kept, room, zero)
    ys = _initial_rows(posed, times, zero)

    def body(carry: tuple[_State, Array]) -> tuple[_State, Array]:
        s, ys = carry
        s, rows = jax.lax.scan(lambda s, _: _attempt(posed, most, s), s, None, length=BLOCK)
        return s, saved(times, rows, ys)

    s, ys = jax.lax.while_loop(lambda c: greatest(c[0].status == RUNNING), body, (s, ys))
    arrived = (times <= s.t) | (s.status == Status.OK)
    ys = jnp.where(arrived[:, None], ys, jnp.nan)
    return Looped(ys, _explained(posed, s), s.steps, s.rejected, s.mesh)


def _initial_rows(posed: Posed, times: Array, zero: Array) -> Array:
    return jnp.broadcast_to(posed.flat, (times.shape[0], posed.flat.size)) + zero.astype(posed.flat.dtype)


def _started(posed: Posed, kept: int, room: int, zero: Array) -> _State:
    begin, y, system = posed.begin, posed.flat, posed.term.system
    ring = empty(posed, kept, zero)
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
    return _State(*begun, status.astype(jnp.int32) + none, mesh, none, zero - jnp.inf, watched)


def _empty_mesh(posed: Posed, room: int, zero: Array) -> Mesh:
    none = count_zero(zero)
    numbers, places = jnp.full(room, jnp.inf, zero.dtype) + zero, jnp.full(room, -1, jnp.int32) + none
    mesh = Mesh(numbers, places, none)
    if posed.constant:
        return mesh
    bounds = jnp.zeros((room, posed.lags.size), zero.dtype) + zero
    return mesh._replace(cells=Cells(bounds, bounds), landings=Landing(places, places, places))


def _attempt(posed: Posed, most: Array, s: _State) -> tuple[_State, Row]:
    """Try a step: the rule of the length is that of other adaptive solves, and a step is no longer than the shortest lag."""
    live, w = s.status == RUNNING, s.watched
    epsilon = float(jnp.finfo(s.t.dtype).eps)
    known = posed.points[s.cursor]
    goal = known if w is None else jnp.minimum(known, w.aim)
    h = s.h if posed.overlaps else jnp.minimum(s.h, jnp.min(posed.lags, initial=jnp.inf))
    reaches = live & (s.t + h * (1 + 4 * epsilon) >= goal)
    t1 = jnp.where(live, jnp.where(reaches, goal, s.t + h), s.t)
    length = t1 - s.t
    found, solved = _tried(posed, s, t1, length)
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
    real = accepted & (length > 0)
    ring = put(s.ring, s.t, length, s.y, found.increments, real)
    tied = accepted & reaches & (goal >= known)
    status = _status(posed, most, s, ring, t1, h, lags, accepted, accurate, finite)
    status = jnp.where(tied & (known >= posed.end), int(Status.OK), status)
    row = Row(s.t, jnp.where(real, t1, s.t), length, rows)
    watched, landing = w, None
    if w is not None and crossed is not None:
        watched, landing = moved_on(posed, w, crossed, t1, found.y, _rate(rows, length), accepted, tied)
    mesh = s.mesh
    if mesh is not None:
        tie = jnp.where(tied, s.cursor, -1)
        mesh = _recorded(mesh, (t1, tie, None if w is None else w.cells, landing), accepted)
    after = _State(
        jnp.where(accepted, t1, s.t),
        h,
        jnp.where(accepted, found.y, s.y),
        ring,
        s.cursor + tied.astype(s.cursor.dtype),
        s.steps + accepted.astype(s.steps.dtype),
        s.rejected + (live & ~accepted).astype(s.rejected.dtype),
        jnp.where(live, status, s.status),
        mesh,
        jnp.where(missed, s.failed + 1, jnp.where(accepted & (t1 >= s.suspect), 0, s.failed)),
        jnp.where(missed, jnp.where(s.failed > 0, jnp.minimum(t1, s.suspect), t1), s.suspect),
        watched,
    )
    return after, row


def _rate(rows: Array, length: Array) -> Array:
    """The rate at the end of a dense output; zero where the step has no length."""
    one = jnp.ones_like(length)
    return jax.jvp(lambda share: valued(rows, share), (one,), (one,))[1] / jnp.where(length > 0, length, 1)


def _tried(posed: Posed, s: _State, t1: Array, length: Array) -> tuple[Taken, Array]:
    """The step up to a time, and whether its equations were solved."""
    cells = None if s.watched is None else s.watched.cells
    if posed.overlaps:
        return take_overlapping(posed, s.ring, s.t, t1, length, s.y, cells, derived=False)
    return take(posed, s.ring, s.t, t1, length, s.y, unknown=ALL, cells=cells), s.status == RUNNING


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
    whole = mesh.ends, mesh.ties, mesh.cells, mesh.landings
    ends, ties, cells, landings = jax.tree.map(lambda x, new: x.at[place].set(new, mode="drop"), whole, step)
    return Mesh(ends, ties, mesh.size + accepted.astype(mesh.size.dtype), cells, landings)


def _status(
    posed: Posed,
    most: Array,
    s: _State,
    ring: Ring,
    t1: Array,
    h: Array,
    lags: Array,
    accepted: Array,
    accurate: Array,
    finite: Array,
) -> Array:
    """The status after an attempt of a lane that runs."""
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
    """Rows `ys` with the states at the save times within some steps."""
    held = jax.lax.stop_gradient((times, rows.t0, rows.t1))
    within = (held[1][None] < held[0][:, None]) & (held[0][:, None] <= held[2][None])  # (times, steps)

    def serve(ys: Array) -> Array:
        place, here = jnp.argmax(within, axis=1), jnp.any(within, axis=1)
        length = jnp.where(rows.t1 > rows.t0, rows.length, 1)
        share = jnp.where(here, (times - rows.t0[place]) / length[place], 0)
        return jnp.where(here[:, None], jax.vmap(valued)(rows.rows[place], share), ys)

    return jax.lax.cond(greatest(jnp.any(within)), serve, lambda ys: ys, ys)
