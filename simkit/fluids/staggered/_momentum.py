"""Advection and diffusion of momentum and scalars on a staggered grid."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..grids._boundary import Boundaries, Periodic
from ..grids._ghost import cells
from ..grids._parts import Seam, exchanged
from ..grids._reconstruction import limited
from ._staggered import Components, Staggered, along_walls, held, of_scalar, onwards, over, with_ghosts


class Surrounded(NamedTuple):
    """A velocity, and its components with one ghost more at both ends of every axis, each in one array that is computed once."""

    velocity: Components
    wide: Components


def surrounded(at: Staggered, boundaries: Boundaries, velocity: Components) -> Surrounded:
    """A velocity with what the boundaries put around it."""
    wide = []
    for i, u in enumerate(velocity):
        for axis in range(at.dimensions):
            u = with_ghosts(u, axis, boundaries[axis], onwards if axis == i else along_walls(at, i, axis))
        wide.append(u)
    return Surrounded(velocity, held(tuple(wide)))


def _kept(at: Staggered, flow: Surrounded, i: int, *axes: int) -> Array:
    """Component i with its ghosts along these axes only."""
    u = flow.wide[i]
    for axis in range(at.dimensions):
        if axis not in axes:
            u = cells(u, axis, 1, u.shape[axis] - 1)
    return u


def advection(at: Staggered, boundaries: Boundaries, flow: Surrounded, i: int, flux: str) -> Array:
    """The divergence of u u_i, where the component i stands; on faces of boundaries it means nothing."""
    total = None
    for j in range(at.dimensions):
        carried = _carried_along if i == j else _carried_across
        part = carried(at, boundaries, flow, i, j, flux)
        total = part if total is None else total + part
    assert total is not None
    return total


def _carried_along(at: Staggered, boundaries: Boundaries, flow: Surrounded, i: int, j: int, flux: str) -> Array:
    """d(u_i u_i)/dx_i, by its values at the centres."""
    u, m, wide = flow.velocity[i], at.faces(i), _kept(at, flow, i, i)
    mean = 0.5 * (cells(wide, i, 0, m + 1) + cells(wide, i, 1, m + 2))
    ends = 2 * at.walls[i]  # the values next to the last faces lie between one that stands there and a place holder
    carried = mean if flux == "central" else _between(flux, _wider(u, wide, i, boundaries), i, mean, ends)
    through = mean * carried
    return over(cells(through, i, 1, m + 1) - cells(through, i, 0, m), at.spans(i, u))


def _carried_across(at: Staggered, boundaries: Boundaries, flow: Surrounded, i: int, j: int, flux: str) -> Array:
    """d(u_j u_i)/dx_j, by its values at the edges where faces across both axes meet."""
    u, n, wide = flow.velocity[i], at.grid.shape[j], _kept(at, flow, i, j)
    carrier = at_edges(at, flow, j, i)
    mean = 0.5 * (cells(wide, j, 0, n + 1) + cells(wide, j, 1, n + 2))
    ends = int(at.walls[j])
    carried = mean if flux == "central" else _between(flux, _wider(u, wide, j, boundaries), j, carrier, ends)
    through = carrier * carried
    return over(cells(through, j, 1, n + 1) - cells(through, j, 0, n), at.widths(j, u))


def at_edges(at: Staggered, flow: Surrounded, j: int, i: int) -> Array:
    """Component j at the edges where faces across j and i meet: faces 0 to n along j, those with values along i."""
    m, other = at.faces(i), cells(_kept(at, flow, j, i, j), j, 1, at.grid.shape[j] + 2)
    lower, upper = at.shares(i, other)
    return lower * cells(other, i, 0, m) + upper * cells(other, i, 1, m + 1)


def _wider(u: Array, wide: Array, axis: int, boundaries: Boundaries) -> Array:
    """Values with two ghosts at each end, given those with one."""
    ends = boundaries[axis]
    if isinstance(ends[0], Seam):
        return exchanged([u], axis, 2, ends)[0]  # pyright: ignore[reportArgumentType]
    if not isinstance(ends[0], Periodic):
        return with_ghosts(wide, axis, boundaries[axis], onwards)
    n = u.shape[axis]
    return jnp.concatenate([cells(u, axis, n - 2, n), u, cells(u, axis, 0, 2)], axis)


def _between(flux: str, wider: Array, axis: int, carrier: Array, ends: int) -> Array:
    """Return values between cell values, which have two more at both ends: upwind along a limited line, or by a cubic.

    `ends` is how many of them, at both ends of an axis, have too few neighbours for a cubic, and stay means.
    """
    n = wider.shape[axis] - 3
    a, b, c, d = (cells(wider, axis, k, k + n) for k in range(4))
    if flux == "central4":
        places = np.arange(n)
        full = (places >= ends) & (places < n - ends)
        share = jnp.asarray(np.where(full, 1 / 16, 0).reshape([-1 if k == axis else 1 for k in range(b.ndim)]), b.dtype)
        return 0.5 * (b + c) + share * ((b + c) - (a + d))
    return jnp.where(carrier > 0, b + 0.5 * limited(b - a, c - b), c - 0.5 * limited(c - b, d - c))


def diffusion(
    at: Staggered, boundaries: Boundaries, flow: Surrounded, i: int, viscosity: Array | float, turbulent: Array | None
) -> Array:
    """The viscous slope of component i; with a turbulent viscosity at the centres the divergence of its whole stress."""
    if turbulent is not None:
        return _stressed(at, boundaries, flow, i, viscosity + turbulent)
    u, m = flow.velocity[i], at.faces(i)
    total = None
    for j in range(at.dimensions):
        if i == j:
            slope = stretching(at, flow, i)
            part = over(cells(slope, i, 1, m + 1) - cells(slope, i, 0, m), at.spans(i, u))
        else:
            n, slope = at.grid.shape[j], _sideways(at, _kept(at, flow, i, j), j)
            part = over(cells(slope, j, 1, n + 1) - cells(slope, j, 0, n), at.widths(j, u))
        total = part if total is None else total + part
    assert total is not None
    return viscosity * total


def stretching(at: Staggered, flow: Surrounded, i: int) -> Array:
    """du_i/dx_i at the centres on both sides of all faces with values."""
    m, n, wide = at.faces(i), at.grid.shape[i], _kept(at, flow, i, i)
    difference = cells(wide, i, 1, m + 2) - cells(wide, i, 0, m + 1)
    widths = at.widths(i, wide)
    if jnp.ndim(widths):  # beyond the ends nothing changes
        widths = jnp.concatenate([cells(widths, i, 0, 1), widths, cells(widths, i, n - 1, n)], i)
    return over(difference, widths)


def _sideways(at: Staggered, wide: Array, j: int) -> Array:
    """The derivative along axis j, at the edges, of a component with ghosts along that axis."""
    n = at.grid.shape[j]
    return over(cells(wide, j, 1, n + 2) - cells(wide, j, 0, n + 1), at.between(j, wide, ends=True))


def strain(at: Staggered, flow: Surrounded) -> Array:
    """The rate of strain (2 S:S)^(1/2) at the centres; off-diagonal parts are means of the four edges around."""
    total: Any = 0.0
    for i in range(at.dimensions):
        n = at.grid.shape[i]
        total = total + 2 * cells(stretching(at, flow, i), i, 1, n + 1) ** 2
        for j in range(i):
            edges = shear(at, flow, i, j)
            for axis, count in ((i, at.grid.shape[i]), (j, at.grid.shape[j])):
                edges = 0.5 * (cells(edges, axis, 0, count) + cells(edges, axis, 1, count + 1))
            total = total + edges**2
    tiny = jnp.finfo(total.dtype).tiny
    return jnp.sqrt(jnp.maximum(total, tiny))


def shear(at: Staggered, flow: Surrounded, i: int, j: int) -> Array:
    """du_i/dx_j + du_j/dx_i at all edges, faces 0 to n along both axes."""
    parts = [cells(_sideways(at, _kept(at, flow, a, a, b), b), a, 1, at.grid.shape[a] + 2) for a, b in ((i, j), (j, i))]
    return parts[0] + parts[1]


def _stressed(at: Staggered, boundaries: Boundaries, flow: Surrounded, i: int, viscosity: Array) -> Array:
    """The divergence of nu (grad u + grad u^T) for a viscosity at the centres."""
    u, m = flow.velocity[i], at.faces(i)
    beyond = lambda last, boundary, side: last
    total = None
    for j in range(at.dimensions):
        wide = with_ghosts(viscosity, i, boundaries[i], beyond)
        if i == j:
            stress = 2 * cells(wide, i, 0, m + 1) * stretching(at, flow, i)
            part = over(cells(stress, i, 1, m + 1) - cells(stress, i, 0, m), at.spans(i, u))
        else:
            n = at.grid.shape[j]
            both = with_ghosts(wide, j, boundaries[j], beyond)
            for axis, count in ((i, at.grid.shape[i]), (j, n)):
                both = 0.5 * (cells(both, axis, 0, count + 1) + cells(both, axis, 1, count + 2))
            stress = cells(both * shear(at, flow, i, j), i, 0, m)
            part = over(cells(stress, j, 1, n + 1) - cells(stress, j, 0, n), at.widths(j, u))
        total = part if total is None else total + part
    assert total is not None
    return total


def scalar_slope(
    at: Staggered,
    boundaries: Boundaries,
    scalar_boundaries: Boundaries,
    velocity: Components,
    scalar: Array,
    diffusivity: Array | float,
    flux: str,
) -> Array:
    """Return the advection and diffusion of a scalar into each cell."""
    total = None
    for axis, u in enumerate(velocity):
        n = at.grid.shape[axis]
        wide = held(with_ghosts(scalar, axis, scalar_boundaries[axis], of_scalar(at, axis)))
        through = u if at.walls[axis] else cells(with_ghosts(u, axis, boundaries[axis], onwards), axis, 1, n + 2)
        lower, upper = at.shares(axis, scalar)
        if jnp.ndim(lower):
            carried = upper * cells(wide, axis, 0, n + 1) + lower * cells(wide, axis, 1, n + 2)
        else:
            carried = 0.5 * (cells(wide, axis, 0, n + 1) + cells(wide, axis, 1, n + 2))
        if flux != "central":
            wider, ends = _wider(scalar, wide, axis, boundaries), int(at.walls[axis])
            carried = _between(flux, wider, axis, through, ends)
        slope = over(cells(wide, axis, 1, n + 2) - cells(wide, axis, 0, n + 1), at.between(axis, scalar, ends=True))
        flow = diffusivity * slope - through * carried
        part = over(cells(flow, axis, 1, n + 1) - cells(flow, axis, 0, n), at.widths(axis, scalar))
        total = part if total is None else total + part
    assert total is not None
    return total
