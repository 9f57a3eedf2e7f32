"""Surfaces that cut the links between cells: where they do, and what comes back from them (interpolated bounce-back)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from ..._doors import check_function, shown
from ..._errors import ArgumentError
from ...core import traced
from ..grids._boundary import Boundaries, FixedPressure, Inflow
from ..grids._grid import Grid
from ..grids._images import periods_of
from ..staggered._obstacle import Obstacle, check_body, with_images
from ._collision import Populations
from ._lattice import Lattice
from ._streaming import face, freely, walls

SURFACES = ("cells", "cut")


class Cut(NamedTuple):
    """A surface on a lattice.

    - `solid`: the cells whose centres lie inside.
    - `links`: bit k of a cell where population k would come out of the body, or a wall of the box (see `links` in `_streaming`).
    - `shares`: the share of each such link that lies in the fluid, `(velocities, *shape)`; 1/2 elsewhere.
    """

    solid: Bool[Array, "..."]
    links: UInt32[Array, "..."]
    shares: Float[Array, "..."]


def cut(lattice: Lattice, boundaries: Boundaries, distance: Float[Array, "..."]) -> Cut:
    """The links that a body cuts, of its signed distances at the centres.

    Along a link the distance is taken for linear, which is exact for a plane and of order 2 in the width of cells else. All is an
    array, so that the body may be traced: shares have derivatives by it as long as no centre changes sides.
    """
    solid, axes = distance < 0, tuple(range(lattice.dimensions))
    found, shares = jnp.zeros(distance.shape, jnp.uint32), []
    for k, c in enumerate(lattice.velocities):
        behind, inside = (jnp.roll(x, c, axes) for x in (distance, solid))
        blocked, own = solid != inside, ~solid & inside
        for axis, side, _ in walls(boundaries):
            if c[axis] == side:
                place = face(axis, side)
                blocked, own = blocked.at[place].set(True), own.at[place].set(False)
        found = found | (blocked.astype(jnp.uint32) << k)
        shares.append(jnp.where(own, distance / jnp.where(own, distance - behind, 1), 0.5))
    return Cut(solid, found, jnp.stack(shares))


def returned(
    lattice: Lattice,
    k: int,
    after: Populations,
    moved: Sequence[Array],
    links: UInt32[Array, "..."],
    share: Float[Array, "..."],
) -> Array:
    r"""Population k that comes back from a surface which cuts its link after the share q of it:

    $$q < \tfrac12:\quad 2 q f_i(x) + (1 - 2 q) f_i(x - c_i), \qquad
    q \ge \tfrac12:\quad \frac{1}{2 q} f_i(x) + \Big(1 - \frac{1}{2 q}\Big) f_k(x)$$

    of the populations after a collision, with i opposite to k. `moved` are those that streamed freely. Where the cell behind is no
    fluid either, as in a gap of one cell, the link is taken for cut in its middle.

    Bouzidi, Firdaouss and Lallemand (2001), Phys. Fluids 13:3452, doi:10.1063/1.1399290, equations 5.
    """
    i = lattice.opposite[k]
    behind = jnp.where((links >> i) & 1 != 0, after[i], moved[i])
    near = 2 * share * after[i] + (1 - 2 * share) * behind
    half = 0.5 / jnp.maximum(share, 0.5)
    return jnp.where(share < 0.5, near, half * after[i] + (1 - half) * after[k])


def stream_cut(
    lattice: Lattice, after: Populations, links: UInt32[Array, "..."], shares: Float[Array, "..."]
) -> list[Array]:
    """Populations at the end of a step, from those after its collision, with surfaces that cut links."""
    moved = freely(lattice, after)
    back = lambda k: jnp.where((links >> k) & 1 != 0, returned(lattice, k, after, moved, links, shares[k]), moved[k])
    return [back(k) if any(c) else moved[k] for k, c in enumerate(lattice.velocities)]


def signed_distance(grid: Grid, boundaries: Boundaries, obstacle: Any) -> Float[Array, "..."]:
    """The signed distances of a body at the centres of the cells.

    **Raises:** an `ArgumentError` for a body that is no signed distance, and for known ones that fill the box, cover no centre or
    touch an open end.
    """
    function = obstacle.distance if isinstance(obstacle, Obstacle) else obstacle
    if not callable(function):
        raise ArgumentError(
            'Argument `obstacle` must be a signed distance with `surface="cut"`, such as `fluids.Disk([0.5, 0.5], 0.1)`, but it is '
            'no function: booleans do not say where a surface cuts links. Take `surface="cells"` for them.'
        )
    distance = at_centres(grid, boundaries, function)
    if not jnp.issubdtype(distance.dtype, jnp.floating):
        raise ArgumentError(f"Argument `obstacle` must return distances, but returns {distance.dtype}.")
    if traced(distance):
        return distance
    with jax.ensure_compile_time_eval():
        solid = distance < 0
        if bool(solid.all()) or not bool(solid.any()):
            raise ArgumentError(
                f"Argument `obstacle` must cover the centres of some cells, but covers {'all' if bool(solid.all()) else 'none'}. "
                "Is its sign right, negative inside, and is it larger than a cell?"
            )
        check_open_ends(boundaries, np.asarray(solid))
    return distance


def check_open_ends(boundaries: Boundaries, solid: np.ndarray) -> None:
    """Refuse a body at an end through which fluid goes.

    **Raises:** an `ArgumentError`.
    """
    for axis, side, end in walls(boundaries):
        if isinstance(end, Inflow | FixedPressure) and solid[face(axis, side)].any():
            raise ArgumentError(
                f"Argument `obstacle` must not touch an open end, but it does at the {'lower' if side > 0 else 'upper'} end of "
                f"axis {axis}. Move the body, or make the box longer there."
            )


def at_centres(grid: Grid, boundaries: Boundaries, function: Callable[..., Any]) -> Array:
    """The numbers of a signed distance at the centres of the cells, of a `Disk` or `Box` with its images at periodic axes.

    **Raises:** an `ArgumentError` for a function of other arguments, results of another shape or that are no numbers, and a known
    body without size or place.
    """
    check_function("obstacle", function, ("x",))
    check_body(function)
    given = with_images(function, periods_of(grid, boundaries))(tuple(jnp.asarray(x) for x in grid.mesh()))
    if not isinstance(given, int | float | np.ndarray | np.generic | jax.Array) or np.shape(given) != grid.shape:
        raise ArgumentError(
            f"Argument `obstacle` must return distances of the shape {grid.shape} of the grid, but returns {shown(given)}. Write "
            "`lambda x: ...` of the tuple x of coordinates at the centres, which have that shape."
        )
    distance = jnp.asarray(given)
    if not traced(distance) and np.isnan(np.asarray(distance)).any():
        place = tuple(int(i) for i in np.argwhere(np.isnan(np.asarray(distance)))[0])
        raise ArgumentError(
            f"Argument `obstacle` must return numbers, but is not a number at the centre of the cell {place}."
        )
    return distance


def check_surface(surface: Any, obstacle: Any) -> None:
    """Refuse another word than those for a surface, and a surface that cuts links where there is no body.

    **Raises:** an `ArgumentError`.
    """
    if surface == "cut" and obstacle is None:
        raise ArgumentError(
            'Argument `surface` says "cut", but there is no `obstacle` whose surface it could be. Give one, such as '
            "`obstacle=fluids.Disk([0.5, 0.5], 0.1)`, or leave `surface` out."
        )
    if surface not in SURFACES:
        raise ArgumentError(f'Argument `surface` must be "cells" or "cut", but it is {surface!r}.')
