"""The accepted steps of a solve once more, as a function with derivatives of any order."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import greatest
from ..batching._mesh import origin
from ._crossing import Landing, room_of, shift
from ._loop import Mesh, Row, saved
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
    points: Array | None  # where lags vary, the breaking points that they cross and make


def replayed(posed: Posed, times: Array, kept: int, mesh: Mesh) -> Array:
    """States at save times, by the steps of a mesh.

    The ends of steps are held, but those on breaking points, which move with the lags: without that the derivative by a lag would
    miss what the solution does where its derivatives jump. The end of a step that was found by a lag's crossing moves along the
    dense output of the step.
    """
    zero = origin(posed.flat, times, posed.points)
    y, begin = posed.flat, posed.begin
    ring = empty(posed, kept, zero)
    ys = jnp.broadcast_to(y, (times.shape[0], y.size)) + zero.astype(y.dtype)
    points = None
    if mesh.landings is not None:
        points = jnp.full(room_of(posed), jnp.inf, zero.dtype).at[: posed.base.size].set(posed.base) + zero
    state = _State(count_zero(zero), begin + zero, y + zero.astype(y.dtype), ring, ys, points)

    def step(s: _State, _: None) -> tuple[_State, Row]:
        live = s.i < mesh.size
        place = jnp.minimum(s.i, mesh.ends.shape[0] - 1)
        tie = mesh.ties[place]
        point = posed.points[jnp.maximum(tie, 0)]
        moved = jnp.where(tie >= 0, point - jax.lax.stop_gradient(point), 0)
        t1 = jnp.where(live, mesh.ends[place] + moved, s.t)
        length = t1 - s.t
        cells: Cells | None = jax.tree.map(lambda x: x[place], mesh.cells)
        if posed.overlaps:
            found = take_overlapping(posed, s.ring, s.t, t1, length, s.y, cells, derived=True)[0]
        else:
            found = take(posed, s.ring, s.t, t1, length, s.y, cells=cells)
        real = live & (jax.lax.stop_gradient(length) > 0)
        rows = jnp.concatenate([s.y[None], found.increments])
        row = Row(s.t, jnp.where(real, t1, s.t), length, rows)
        ring = put(s.ring, s.t, length, s.y, found.increments, real)
        y1, known = found.y, s.points
        if known is not None and mesh.landings is not None:
            landing = Landing(*(x[place] for x in mesh.landings))
            # A point that is known in advance moves by itself.
            landing = landing._replace(bound=jnp.where(real & (tie < 0), landing.bound, -1))
            delta = shift(posed, landing, known[landing.origin], s.t, t1, rows)
            share = delta / jnp.where(real, length, 1)
            y1, t1 = y1 + (valued(rows, 1 + share) - valued(rows, jnp.ones_like(share))), t1 + delta
            known = known.at[jnp.where(live, landing.place, known.size)].set(t1, mode="drop")
        return _State(s.i + 1, t1, jnp.where(live, y1, s.y), ring, s.ys, known), row

    most = mesh.ends.shape[0]
    size = min(most, max(SEGMENT, math.isqrt(most)))

    def segment(s: _State) -> _State:
        s, rows = jax.lax.scan(step, s, None, length=size)
        return s._replace(ys=saved(times, rows, s.ys))

    def looked(s: _State, _: None) -> tuple[_State, None]:
        return jax.lax.cond(greatest(s.i < mesh.size), segment, lambda s: s, s), None

    return jax.lax.scan(jax.checkpoint(looked), state, None, length=-(-most // size))[0].ys
