r"""Bodies that are moved through a staggered grid.

Faces inside a body have the velocity of its motion $u_s$, and those beside it are held back by the friction of $u - u_s$ (`_cut`).
Where the mobility m of a face is less than 1 its slope is completed by $(1 - m) \partial_t u_s$, so that a face which the body
leaves behind has the velocity of the body, and one that it takes in goes over to it: inside, what departs from $u_s$ decays
within about the time of a step. What divergence the change leaves in cells that the fluid reaches decays likewise.

In the frame of the grid the fluid beside a surface changes by $-u_s \cdot \nabla u$, however small $u - u_s$ is there, so that
advection needs the slope of the velocity up to the surface. Faces inside, next to it, lend it what a velocity linear in the
distance would have there (`continued`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..grids._images import nearest_image
from ..lattice._body_review import moved_place
from ._cut import Cut
from ._obstacle import Obstacle, moves, with_images
from ._staggered import Components, Staggered

FARTHEST = 4.0
"""A velocity goes on inside to at most so many times what it is at a neighbour outside."""


class Motion(NamedTuple):
    """The velocity of a body at all faces, its derivative by time there, and the acceleration of the body's matter."""

    velocity: Components
    change: Components
    acceleration: Components


class Kinematics(NamedTuple):
    """Place, velocity and acceleration of a body at a time."""

    centre: Array
    angle: Array
    speed: Array
    spin: Array
    push: Array
    twist: Array

    def across(self, at: Staggered, x: Sequence[Array], i: int) -> Array:
        """Component i of the velocity at places x, in two dimensions, for an angular velocity of 1."""
        other = 1 - i
        apart = nearest_image(x[other] - self.centre[other], 0.0, at.periods[other])
        return -apart if i == 0 else apart


def kinematics(
    obstacle: Obstacle, at: Staggered, t: ArrayLike, dtype: DTypeLike, body: Any = None
) -> Kinematics | None:
    """The motion of a body: as it is told, or of a free one by its state, without acceleration; None at rest."""
    if not moves(obstacle):
        return None
    if body is not None:
        none = jnp.zeros((), dtype)
        held = obstacle.motion.kept(at.dimensions)
        speed = jnp.where(np.isin(np.arange(at.dimensions), held), body.velocity, 0)
        angle, spin = (none if x is None else x for x in (body.angle, body.spin))
        return Kinematics(body.centre, angle, speed, spin, jnp.zeros_like(speed), none)
    place = lambda s: moved_place(obstacle.motion(s), at.dimensions, dtype)
    rates = lambda s: jax.jvp(place, (s,), (jnp.ones_like(s),))
    time = jnp.asarray(t, dtype)
    ((centre, angle), (speed, spin)), (_, (push, twist)) = jax.jvp(rates, (time,), (jnp.ones_like(time),))
    return Kinematics(centre, angle, speed, spin, push, twist)


def standing(obstacle: Obstacle, at: Staggered, place: Kinematics | None) -> Obstacle:
    """A body as it stands in its place, with its pivot and taps."""
    if place is None:
        return obstacle
    centre, angle, dtype = place.centre, place.angle, place.centre.dtype

    def distance(x: tuple[Array, ...]) -> Array:
        apart = [nearest_image(a - c, 0.0, period) for a, c, period in zip(x, centre, at.periods, strict=True)]
        return obstacle.distance(turned(apart, -angle))

    def placed(point: Array) -> Array:
        return centre + jnp.stack(turned([jnp.asarray(a, dtype) for a in point], angle))

    pivot = centre if obstacle.pivot is None else placed(obstacle.pivot)
    taps = None if obstacle.taps is None else jnp.stack([placed(point) for point in obstacle.taps])
    return Obstacle(distance, pivot, taps)


def distance_from(obstacle: Obstacle, at: Staggered, place: Kinematics | None) -> Callable[..., Array]:
    """The signed distance from a body as it stands in its place, beyond periodic ends too."""
    return with_images(standing(obstacle, at, place).distance, at.periods)


def turned(x: list[Array], angle: Array) -> tuple[Array, ...]:
    """Coordinates turned by an angle, in two dimensions."""
    if len(x) != 2:
        return tuple(x)
    c, s = jnp.cos(angle), jnp.sin(angle)
    return c * x[0] - s * x[1], s * x[0] + c * x[1]


def motion_of(at: Staggered, place: Kinematics) -> Motion:
    """The velocities of a body that is moved, at the faces of each component."""
    (centre, _, speed, spin, push, twist), dtype = place, place.centre.dtype
    velocity, change, acceleration = [], [], []
    for i in range(at.dimensions):
        x = at.mesh(i, dtype)
        if at.dimensions == 2:
            sign = -1.0 if i == 0 else 1.0
            across = place.across(at, x, i)
            along = nearest_image(x[i] - centre[i], 0.0, at.periods[i])
            velocity.append(speed[i] + spin * across)
            change.append(push[i] + twist * across - sign * spin * speed[1 - i])
            acceleration.append(push[i] + twist * across - spin**2 * along)
        else:
            velocity.append(jnp.broadcast_to(speed[i], x[0].shape))
            change.append(jnp.broadcast_to(push[i], x[0].shape))
            acceleration.append(change[-1])
    return Motion(tuple(velocity), tuple(change), tuple(acceleration))


def fastest(motion: Motion, found: Cut) -> Array:
    """The largest speed of a component in the body."""
    sizes = [jnp.max(jnp.where(s > 0, jnp.abs(u), 0)) for u, s in zip(motion.velocity, found.inside, strict=True)]
    return jnp.max(jnp.stack(sizes))


def taken_along(
    at: Staggered,
    found: Cut,
    motion: Motion,
    field: Components,
    velocity: Components,
    viscosity: Array,
) -> tuple[Components, Array]:
    """The slope of the velocity with a body that moves, before the pressure, and the rate at which what is left over decays."""
    diffusing = sum(4 * viscosity / at.grid.spacing(axis) ** 2 for axis in range(at.dimensions))
    rate = diffusing + 2 * fastest(motion, found) / at.finest
    total = []
    for i, (m, c, s) in enumerate(zip(*found, strict=True)):
        apart = velocity[i] - motion.velocity[i]
        deep = jnp.clip(2 * s - 1, 0, 1)
        slope = m * field[i] + (1 - m) * motion.change[i] - (viscosity * c + rate * deep) * apart
        total.append(slope)
    return tuple(total), rate


def continued(at: Staggered, distance: Callable[..., Array], motion: Motion, velocity: Components) -> Components:
    """A velocity whose values inside, next to the surface, go on linearly with the distance d: $u_s + d s$.

    The slope s is that of least squares through the neighbours outside and 0 on the surface. One that all but lies on the surface,
    as where a body has just left it, tells no slope: its share is bounded.
    """
    found = []
    for i, (u, v) in enumerate(zip(velocity, motion.velocity, strict=True)):
        d = distance(at.mesh(i, u.dtype))
        out = jnp.maximum(d, 0)
        product, least = out * (u - v), jnp.maximum(-d, 0) / FARTHEST
        top, bottom = jnp.zeros_like(u), jnp.zeros_like(u)
        for axis in range(at.dimensions):
            for step in (-1, 1):
                beside = jnp.roll(out, step, axis)
                top, bottom = top + jnp.roll(product, step, axis), bottom + beside * jnp.maximum(beside, least)
        near = (d <= 0) & (bottom > 0)
        found.append(jnp.where(near, v + d * top / jnp.where(near, bottom, 1), u))
    return tuple(found)
