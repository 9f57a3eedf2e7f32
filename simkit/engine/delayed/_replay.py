"""The accepted steps of a solve once more, as a function with derivatives of any order."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import Events, greatest
from ..batching._mesh import origin
from ._crossing import Landing, room_of, shift
from ._jumps import Entry, Note, events_of, moved_with_time, past_of, replayed_event, served_last
from ._loop import Mesh, Row, listed_more, no_list, saved
from ._overlap import take_overlapping
from ._posed import Cells, Posed, empty, take
from ._ring import Ring, count_zero, put, valued

SEGMENT = 64
"""Least number of steps in a segment. Reverse mode keeps the starts of segments, and what it needs of the steps of one."""


class _State(NamedTuple):
    i: Array
    t: Array
    y: Array
    ring: Ring
    ys: Array
    points: Array | None  # breaking points that lags that vary, or events, make
    opened: Array  # whether the last step ended with an event
    events: Events | None


def replayed(posed: Posed, times: Array, kept: int, mesh: Mesh, listed: int) -> tuple[Array, Events | None]:
    """States at save times, by the steps of a mesh, and the events.

    The ends of steps are held, but those on breaking points, which move with the lags: without that the derivative by a lag would
    miss what the solution does where its derivatives jump. The end of a step that was found by a lag's crossing moves along the
    dense output of the step.
    """
    zero = origin(posed.flat, times, posed.points)
    y, begin = posed.flat, posed.begin
    ring = empty(posed, kept, zero)
    ys = jnp.broadcast_to(y, (times.shape[0], y.size)) + zero.astype(y.dtype)
    points, grid, none = None, events_of(posed, ring), count_zero(zero)
    if mesh.landings is not None:
        points = jnp.full(room_of(posed), jnp.inf, zero.dtype) + zero
    if points is not None and not posed.constant:
        points = points.at[: posed.base.size].set(posed.base)
    begun = none, begin + zero, y + zero.astype(y.dtype), ring, ys, points
    state = _State(*begun, none != none, no_list(posed, listed, zero))

    def step(s: _State, _: None) -> tuple[_State, tuple[Row, Entry | None]]:
        live = s.i < mesh.size
        place = jnp.minimum(s.i, mesh.ends.shape[0] - 1)
        tie = mesh.ties[place]
        point = posed.points[jnp.maximum(tie, 0)]
        moved = jnp.where(tie >= 0, point - jax.lax.stop_gradient(point), 0)
        landing = None if mesh.landings is None else Landing(*(x[place] for x in mesh.landings))
        note = None if mesh.notes is None else Note(*(x[place] for x in mesh.notes))
        hit = live & (note.which >= 0) if note is not None else live != live
        if note is not None and grid is not None:
            moved = moved + moved_with_time(posed, grid, note, hit)
        if posed.constant and landing is not None and s.points is not None and posed.lags.size:
            image = s.points[landing.origin] + posed.lags[jnp.maximum(landing.bound, 0)]
            image = jnp.where(landing.bound >= 0, image, 0)
            moved = moved + jnp.where(live, image - jax.lax.stop_gradient(image), 0)
        t1 = jnp.where(live, mesh.ends[place] + moved, s.t)
        length = t1 - s.t
        cells: Cells | None = jax.tree.map(lambda x: x[place], mesh.cells)
        behind = None if mesh.behind is None else mesh.behind[place]
        if posed.overlaps:
            found = take_overlapping(posed, s.ring, s.t, t1, length, s.y, cells, behind, derived=True)[0]
        else:
            found = take(posed, s.ring, s.t, t1, length, s.y, cells=cells, behind=behind)
        rows = jnp.concatenate([s.y[None], found.increments])
        y1, known, entry, row = found.y, s.points, None, Row(s.t, t1, length, rows)
        time, after, reached = t1, y1, t1
        if note is not None and grid is not None:
            note = note._replace(time=jnp.where(hit, note.time, jax.lax.stop_gradient(t1)))
            reached = note.time
        real = live & (jax.lax.stop_gradient(reached) > jax.lax.stop_gradient(s.t))
        ring = put(s.ring, s.t, length, s.y, found.increments, real)
        if note is not None and grid is not None:
            own = grid.seeing(past_of(posed, ring, s.t, t1))
            time, before, after = replayed_event(posed, own, note, hit, (s.t, s.y), (t1, length, y1, rows))
            row = row._replace(opens=s.opened & (jax.lax.stop_gradient(s.t) > begin), closes=hit)
            entry = Entry(jnp.where(hit, note.which, -1), time, before, after)
        row = row._replace(t1=jnp.where(real, time, s.t))
        if known is not None and landing is not None:
            if not posed.constant:
                # A point that is known in advance moves by itself.
                landing = landing._replace(bound=jnp.where(real & ~hit & (tie < 0), landing.bound, -1))
                delta = shift(posed, landing, known[landing.origin], s.t, t1, rows)
                share = delta / jnp.where(real, length, 1)
                after = after + (valued(rows, 1 + share) - valued(rows, jnp.ones_like(share)))
                time = time + delta
            known = known.at[jnp.where(live, landing.place, known.size)].set(time, mode="drop")
        opened, last = jnp.where(live, hit | (s.opened & ~real), s.opened), jnp.where(live, after, s.y)
        return _State(s.i + 1, jnp.where(live, time, s.t), last, ring, s.ys, known, opened, s.events), (row, entry)

    most = mesh.ends.shape[0]
    size = min(most, max(SEGMENT, math.isqrt(most)))

    def segment(s: _State) -> _State:
        s, (rows, entries) = jax.lax.scan(step, s, None, length=size)
        return s._replace(ys=saved(times, rows, s.ys), events=listed_more(s.events, entries))

    def looked(s: _State, _: None) -> tuple[_State, None]:
        return jax.lax.cond(greatest(s.i < mesh.size), segment, lambda s: s, s), None

    s, _ = jax.lax.scan(jax.checkpoint(looked), state, None, length=-(-most // size))
    if grid is None:
        return s.ys, None
    return served_last(posed, s.ring, times, s.t, s.y, s.opened, s.ys), s.events
