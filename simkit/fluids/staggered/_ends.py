"""Velocities and their slopes on the faces at the ends of axes: given, carried out, or pushed by a pressure."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ..grids._boundary import Boundaries, Boundary, FixedPressure, Inflow, Outflow, Piecewise, pieces_of
from ..grids._cells import cells
from ..grids._values import varies
from ._staggered import Components, Staggered, across, blended, closed, on_end


def slopes_at_ends(
    at: Staggered, boundaries: Boundaries, rates: Boundaries | None, velocity: Components, slope: Components
) -> Components:
    """Slopes with those of faces at boundaries, before the pressure.

    They are 0 where the flow is given and steady, else its `rates`; what the flow carries out where it leaves; and what the given
    pressure pushes at open ends.
    """
    kinds = (Outflow, FixedPressure)
    if rates is None and not any(isinstance(end, kinds) for pair in boundaries for end in pair):
        return tuple(at.inner(i, s) for i, s in enumerate(slope))
    out = []
    for axis, s in enumerate(slope):
        if not at.walls[axis]:
            out.append(s)
            continue
        u, n = velocity[axis], s.shape[axis]
        ends = []
        for side, boundary in enumerate(boundaries[axis]):
            last, near = (0, 1) if side == 0 else (n - 1, n - 2)
            here, inside = cells(u, axis, last, last + 1), cells(u, axis, near, near + 1)
            width = float(at.grid.widths(axis)[0 if side == 0 else -1])
            if isinstance(boundary, Outflow):
                speed = _leaving(here, side, boundary)
                ends.append(speed * (inside - here) / width)
            elif isinstance(boundary, FixedPressure):
                push = _pressure(at, boundary, velocity, axis, side) * ((-2 if side else 2) / width)
                ends.append(cells(s, axis, last, last + 1) + push)
            elif rates is not None:
                ends.append(_across_end(at, rates[axis][side], here, axis, side))
            else:
                ends.append(jnp.zeros_like(here))
        out.append(jnp.concatenate([ends[0], cells(s, axis, 1, n - 1), ends[1]], axis))
    return balanced(at, boundaries, tuple(out))


def _pressure(at: Staggered, boundary: FixedPressure, velocity: Components, axis: int, side: int) -> Array:
    """The pressure at an open end: that which is given, less half the square of the velocity where a total one is and fluid enters.

    Squares of components along the end are means of those at both faces, with which the energy that the scheme carries in is exact.
    """
    here = _end(velocity[axis], axis, side)
    pressure = on_end(at, boundary.pressure, axis, here)
    if not boundary.total:
        return pressure
    square = here**2
    for other in range(at.dimensions):
        if other != axis:
            u, n = _end(velocity[other], axis, side), at.grid.shape[other]
            u = u if at.walls[other] else closed(u, other, 1)
            square = square + 0.5 * (cells(u, other, 0, n) ** 2 + cells(u, other, 1, n + 1) ** 2)
    enters = here < 0 if side else here > 0
    return pressure - jnp.where(enters, 0.5 * square, 0)


def _across_end(at: Staggered, boundary: Boundary, here: Array, axis: int, side: int) -> Array:
    """The velocity through an end that a boundary gives: that of an inflow, 0 of a wall."""
    if isinstance(boundary, Piecewise):
        parts = (_across_end(at, part, here, axis, side) for part in (boundary.first, boundary.second))
        return blended(at, boundary, axis, None, *parts)
    if isinstance(boundary, Inflow):
        return across(at, boundary.velocity, axis, here, side == 0)
    return jnp.zeros_like(here)


def _leaving(here: Array, side: int, boundary: Outflow) -> Array:
    outward = jnp.mean(here) * (1 if side else -1)
    speed = outward if boundary.speed is None else jnp.asarray(boundary.speed, here.dtype)
    return jnp.maximum(speed, 0)


def balanced(at: Staggered, boundaries: Boundaries, velocity: Components) -> Components:
    """A field that lets as much out as in: what is too much is taken from the faces where fluid leaves, evenly.

    Through ends with a given pressure all may pass.
    """
    if at.open is not None:
        return velocity
    grid, total, area = at.grid, jnp.zeros((), velocity[0].dtype), 0.0
    for axis, side, boundary in _ends(at, boundaries):
        faces = _areas(at, axis, velocity[axis])
        flow = jnp.sum(faces * _end(velocity[axis], axis, side))
        total = total + (flow if side else -flow)
        if isinstance(boundary, Outflow):
            area += float(np.prod([n for i, n in enumerate(grid.lengths) if i != axis]))
    if not area:
        return velocity
    found = list(velocity)
    for axis, side, boundary in _ends(at, boundaries):
        if isinstance(boundary, Outflow):
            change = total / area * (-1 if side else 1)
            end = _end(found[axis], axis, side) + change
            n = found[axis].shape[axis]
            parts = (cells(found[axis], axis, 0, n - 1), end) if side else (end, cells(found[axis], axis, 1, n))
            found[axis] = jnp.concatenate(parts, axis)
    return tuple(found)


def _ends(at: Staggered, boundaries: Boundaries) -> list[tuple[int, int, Any]]:
    pairs = [(axis, pair) for axis, pair in enumerate(boundaries) if at.walls[axis]]
    return [(axis, side, boundary) for axis, pair in pairs for side, boundary in enumerate(pair)]


def _areas(at: Staggered, axis: int, like: Array) -> Array:
    area = np.ones([1 if i == axis else n for i, n in enumerate(at.grid.shape)])
    for other in range(at.grid.dimensions):
        if other != axis:
            shape = [-1 if i == other else 1 for i in range(at.grid.dimensions)]
            area = area * at.grid.widths(other).reshape(shape)
    return jnp.asarray(area, like.dtype)


def given_ends(at: Staggered, boundaries: Boundaries, velocity: Components) -> Components:
    """Return a velocity with what boundaries give at the ends of its axes.

    **Raises:** an `ArgumentError` where a component has another shape than its faces.
    """
    for axis, u in enumerate(velocity):
        if u.shape != at.shape(axis):
            raise ArgumentError(
                f"Component {axis} of the velocity must have the shape {at.shape(axis)} of the faces across its axis, but it has "
                f"{u.shape}. `start` makes a state from values at the centres."
            )
    return tuple(with_ends(at, boundaries, u, axis) for axis, u in enumerate(velocity))


def with_ends(at: Staggered, boundaries: Boundaries, u: Array, axis: int) -> Array:
    """A component with the values that the boundaries give it; where the flow leaves, or with a given pressure, as it is.

    An inflow that changes with time is as it is, too: no time is known.
    """
    if not at.walls[axis]:
        return u
    n = u.shape[axis]
    ends = []
    for side, boundary in enumerate(boundaries[axis]):
        here = _end(u, axis, side)
        known = not any(isinstance(piece, Inflow) and varies(piece.velocity) for piece in pieces_of(boundary))
        if known and not isinstance(boundary, Outflow | FixedPressure):
            here = _across_end(at, boundary, here, axis, side)
        ends.append(here)
    return jnp.concatenate([ends[0], cells(u, axis, 1, n - 1), ends[1]], axis)


def _end(u: Array, axis: int, side: int) -> Array:
    n = u.shape[axis]
    return cells(u, axis, n - 1, n) if side else cells(u, axis, 0, 1)
