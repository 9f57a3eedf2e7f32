"""Solid bodies in a flow, by their signed distances."""

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ...core import POSITIVE, quantity, traced
from ..grids._images import Periods, nearest_image

ALONE = ""
"""The name of the body that `obstacle` gives, which is the only one."""


class Obstacle(eqx.Module):
    r"""A body, at rest or moved, that the fluid neither passes nor slips along.

    Its surface lies where the signed distance is 0. Faces of cells inside do not move. Those beside the surface feel the friction
    of a velocity that falls linearly to 0 on it, $\nu u / (\theta h)$ where the surface cuts the line to a neighbour at the share
    $\theta$ of their distance h. No softness enters.

    The force on it is the momentum that the fluid loses to it, exactly: what flows into a box around it and does not stay
    there. A body should be some five cells across, and so should gaps between bodies.

    - `distance`: a callable `x -> d` of the tuple of coordinates, negative inside, such as a `Disk`. Its numbers are parameters
        with gradients: the body has a shape that can be fitted. Any function that is 0 on the surface and close to linear beside
        it will do. Several bodies are the least of their distances. A `Disk` or `Box` over a periodic end comes in at the other
        one; other functions must be periodic themselves.
    - `pivot`: the point about which the torque is taken, shape (dimensions,); by default the origin of the coordinates.
    - `taps`: two points, shape (2, dimensions). The output `pressure_difference` is the pressure on the surface closest to the
        first, less that closest to the second.
    - `motion`: a callable `t -> centre`, shape (dimensions,), of a body that is moved, or in two dimensions `t -> (centre, angle)`
        with the angle in radians; a `FreeMotion` of one that moves freely; None for a body at rest. Distance, pivot and taps are
        then told in coordinates of the body, whose origin is at the centre. Its numbers are parameters with gradients, too. A body
        should take some four steps for a cell.

    Gibou, Fedkiw, Cheng and Kang (2002), J. Comput. Phys. 176:205, for the friction.
    """

    distance: Callable[[tuple[Array, ...]], Array]
    pivot: Any = quantity(None, doc="point about which the torque is taken", optional=True)
    taps: Any = quantity(None, doc="two points between which the pressure differs", optional=True)
    motion: Any = None


def moves(obstacle: Obstacle | None) -> TypeGuard[Obstacle]:
    """Tell whether there is an obstacle that is moved."""
    return obstacle is not None and obstacle.motion is not None


def bodies_of(system: Any) -> dict[str, Obstacle]:
    """All bodies of a system by name."""
    return dict(system.obstacles) if system.obstacle is None else {ALONE: system.obstacle}


def any_moves(system: Any) -> bool:
    """Tell whether a body of a system moves."""
    return any(moves(body) for body in bodies_of(system).values())


class Disk(eqx.Module):
    """The signed distance of a disk, in three dimensions a ball; of a long cylinder where the centre has fewer coordinates."""

    centre: Float[Array, " d"] = quantity(doc="centre")
    radius: Float[Array, ""] = quantity(support=POSITIVE, doc="radius")

    def __call__(self, x: tuple[Array, ...]) -> Array:
        _check_coordinates(self.centre, x)
        square = sum((a - c) ** 2 for a, c in zip(x, self.centre, strict=False))
        tiny = jnp.finfo(self.radius.dtype).tiny
        return jnp.sqrt(jnp.maximum(square, tiny)) - self.radius


class Box(eqx.Module):
    """The signed distance of a rectangle or cuboid with edges along the axes."""

    centre: Float[Array, " d"] = quantity(doc="centre")
    lengths: Float[Array, " d"] = quantity(support=POSITIVE, doc="lengths of the edges")

    def __call__(self, x: tuple[Array, ...]) -> Array:
        _check_coordinates(self.centre, x)
        beyond = [jnp.abs(a - c) - 0.5 * n for a, c, n in zip(x, self.centre, self.lengths, strict=False)]
        inside: Any = beyond[0]
        for b in beyond[1:]:
            inside = jnp.maximum(inside, b)
        outside = sum(jnp.maximum(b, 0) ** 2 for b in beyond)
        tiny = jnp.finfo(self.lengths.dtype).tiny
        return jnp.minimum(inside, 0) + jnp.where(outside > 0, jnp.sqrt(jnp.maximum(outside, tiny)), 0)


def with_images(body: Callable[..., Array], periods: Periods) -> Callable[[tuple[Array, ...]], Array]:
    """The signed distance from a body and its images along axes with a period; that of bodies but `Disk` and `Box` as it is."""
    return lambda x: body(seen_from(body, x, periods))


def seen_from(body: object, x: Sequence[Array], periods: Periods) -> tuple[Array, ...]:
    """Coordinates as seen from the nearest image of a `Disk` or `Box` along axes with a period; those of other bodies as they are.

    The distance from the nearest image is that from all images together.
    """
    if not isinstance(body, Disk | Box):
        return tuple(x)
    _check_coordinates(body.centre, tuple(x))
    found = list(x)
    for axis, (period, c) in enumerate(zip(periods, body.centre, strict=False)):
        found[axis] = nearest_image(x[axis], c, period)
    return tuple(found)


def check_body(body: object) -> None:
    """Refuse a `Disk` or `Box` of no size, or at no place.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(body, Disk | Box):
        return
    name, size = ("radius", body.radius) if isinstance(body, Disk) else ("lengths", body.lengths)
    if not traced(size) and not np.all((np.asarray(size) > 0) & np.isfinite(np.asarray(size))):
        raise ArgumentError(f"Argument `{name}` of a {type(body).__name__} must be positive and finite, but is {size}.")
    if not traced(body.centre) and not np.isfinite(np.asarray(body.centre)).all():
        raise ArgumentError(f"Argument `centre` of a {type(body).__name__} must be finite, but is {body.centre}.")


def _check_coordinates(centre: Array, x: tuple[Array, ...]) -> None:
    if len(centre) > len(x):
        raise ArgumentError(
            f"Argument `centre` of a body has {len(centre)} coordinates, but the grid has {len(x)} axes."
        )
