"""The accepted steps of a solve once more, as a function with derivatives of any order."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import greatest
from ..batching._mesh import origin
from ._loop import Mesh, Row, saved
from ._overlap import take_overlapping
from ._posed import Posed, empty, take
from ._ring import Ring, count_zero, put

SEGMENT = 64
"""Least number of steps in a segment. Reverse mode keeps the starts of segments, and what it needs of the steps of one."""


class _State(NamedTuple):
    i: Array
    t: Array
    y: Array
    ring: Ring
    ys: Array


def replayed(posed: Posed, times: Array, kept: int, mesh: Mesh) -> Array:
    """States at save times, by the steps of a mesh.

    The ends of steps are held, but those on breaking points, which move with the lags: without that the derivative by a lag would
    miss what the solution does where its derivatives jump.
    """
    zero = origin(posed.flat, times, posed.points)
    y, begin = posed.flat, posed.begin
    ring = empty(posed, kept, zero)
    ys = jnp.broadcast_to(y, (times.shape[0], y.size)) + zero.astype(y.dtype)
    state = _State(count_zero(zero), begin + zero, y + zero.astype(y.dtype), ring, ys)

    def step(s: _State, _: None) -> tuple[_State, Row]:
        live = s.i < mesh.size
        place = jnp.minimum(s.i, mesh.ends.shape[0] - 1)
        tie = mesh.ties[place]
        point = posed.points[jnp.maximum(tie, 0)]
        moved = jnp.where(tie >= 0, point - jax.lax.stop_gradient(point), 0)
        t1 = jnp.where(live, mesh.ends[place] + moved, s.t)
        length = t1 - s.t
        if posed.overlaps:
            found = take_overlapping(posed, s.ring, s.t, t1, length, s.y, derived=True)[0]
        else:
            found = take(posed, s.ring, s.t, t1, length, s.y)
        real = live & (jax.lax.stop_gradient(length) > 0)
        row = Row(s.t, jnp.where(real, t1, s.t), length, jnp.concatenate([s.y[None], found.increments]))
        ring = put(s.ring, s.t, length, s.y, found.increments, real)
        return _State(s.i + 1, t1, jnp.where(live, found.y, s.y), ring, s.ys), row

    most = mesh.ends.shape[0]
    size = min(most, max(SEGMENT, math.isqrt(most)))

    def segment(s: _State) -> _State:
        s, rows = jax.lax.scan(step, s, None, length=size)
        return s._replace(ys=saved(times, rows, s.ys))

    def looked(s: _State, _: None) -> tuple[_State, None]:
        return jax.lax.cond(greatest(s.i < mesh.size), segment, lambda s: s, s), None

    return jax.lax.scan(jax.checkpoint(looked), state, None, length=-(-most // size))[0].ys
