"""Forces of a flow on a body, and pressures on its surface."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..grids._images import nearest_image
from ._obstacle import Obstacle, seen_from, with_images
from ._staggered import Components, Staggered


def force_on(lost: Components) -> Array:
    """The force on a body, from the momentum that each face loses to it in a unit of time."""
    return jnp.stack([jnp.sum(part) for part in lost])


def loads(
    at: Staggered, obstacle: Obstacle, lost: Components, pressure: Array, centre: Array | None = None
) -> dict[str, Array]:
    """Force, lift and torque, and the difference of pressure between the two taps of a body that has them.

    `centre` is that of a body that moves, beside which faces over a periodic end are.
    """
    force = force_on(lost)
    found = {"drag": force, "lift": force[1], "torque": _torque(at, obstacle, lost, centre)}
    if obstacle.taps is not None:
        first, second = (_on_surface(at, obstacle, place, pressure) for place in obstacle.taps)
        found["pressure_difference"] = first - second
    return found


def _torque(at: Staggered, obstacle: Obstacle, lost: Components, centre: Array | None) -> Array:
    """About the pivot: one number in two dimensions, three in three. Faces of a body over a periodic end are beside each other."""
    d, dtype, pivot = at.dimensions, lost[0].dtype, obstacle.pivot
    if centre is None:
        seen = lambda x: seen_from(obstacle.distance, x, at.periods)
    else:
        seen = lambda x: tuple(map(nearest_image, x, centre, at.periods))
    places = [seen(at.mesh(i, dtype)) for i in range(d)]
    arm = lambda i, j: places[i][j] - (0 if pivot is None else pivot[j])
    about = lambda i, j: jnp.sum(arm(j, i) * lost[j]) - jnp.sum(arm(i, j) * lost[i])
    return about(0, 1) if d == 2 else jnp.stack([about(1, 2), about(2, 0), about(0, 1)])


NEAR, FAR = 1.5, 2.5
"""The distances from the surface, in diagonals over root d of a cell, between which a pressure is continued to the surface."""


def _on_surface(at: Staggered, obstacle: Obstacle, place: Array, pressure: Array) -> Array:
    """The pressure on the surface closest to a place, on a line through two points outside."""
    level = lambda x: with_images(obstacle.distance, at.periods)(tuple(x))
    normal = jax.grad(level)(place)
    size = jnp.sqrt(jnp.sum(normal**2))
    normal = normal / size
    foot = place - level(place) / size * normal
    width = max(at.grid.spacing(axis) for axis in range(at.dimensions))
    near, far = (_between(at, pressure, foot + reach * width * normal) for reach in (NEAR, FAR))
    return near - NEAR * (far - near) / (FAR - NEAR)


def _between(at: Staggered, field: Array, point: Array) -> Array:
    """A field of the centres at a point, linear between them along each axis, around a periodic one."""
    for axis in range(at.dimensions):  # each product takes the first axis away
        centres, period = at.grid.centres(axis), at.periods[axis]
        if period is not None:
            centres = np.concatenate([centres[-1:] - period, centres, centres[:1] + period])
            field = jnp.concatenate([field[-1:], field, field[:1]])
            place = nearest_image(point[axis], at.grid.origin[axis] + 0.5 * period, period)
            point = point.at[axis].set(place)
        centres = jnp.asarray(centres, field.dtype)
        n = centres.shape[0]
        k = jnp.clip(jnp.searchsorted(centres, jax.lax.stop_gradient(point[axis])), 1, n - 1)
        share = (point[axis] - centres[k - 1]) / (centres[k] - centres[k - 1])
        field = (1 - share) * field[k - 1] + share * field[k]
    return field
