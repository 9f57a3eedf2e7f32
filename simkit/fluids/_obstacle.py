"""Solid bodies in a flow, by their signed distances."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ..core import POSITIVE, quantity


class Obstacle(eqx.Module):
    r"""A body at rest that the fluid does not pass, by volume penalisation.

    Inside, the fluid is slowed down at the rate $\chi/\eta$, where $\chi = \tfrac{1}{2} (1 - \tanh(2 d / (w\,\Delta x)))$ goes
    from 1 to 0 over some w cells around the body's surface, where the signed distance d is 0. The time $\eta$ is `softness` times
    that in which something crosses a cell.

    - `distance`: a callable `x -> d` of the tuple of coordinates, negative inside, such as a `Disk`. Its numbers are parameters
        with gradients: the body has a shape that can be fitted.
    - `width`: w, good values are 1 to 2.
    - `softness`: less lets less fluid seep through, and takes more iterations of the pressure: 0.5 some 14, 0.1 some 30.

    Angot, Bruneau and Fabrie (1999), Numer. Math. 81:497.
    """

    distance: Callable[[tuple[Array, ...]], Array]
    width: Float[Array, ""] = quantity(2.0, support=POSITIVE, doc="cells over which the surface is smeared")
    softness: Float[Array, ""] = quantity(
        0.5, support=POSITIVE, doc="time of penalisation over that of crossing a cell"
    )

    def solidity(self, x: tuple[Array, ...], spacing: float) -> Array:
        """chi at the coordinates x."""
        return 0.5 * (1 - jnp.tanh(2 * self.distance(x) / (self.width * spacing)))


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


def _check_coordinates(centre: Array, x: tuple[Array, ...]) -> None:
    if len(centre) > len(x):
        raise ArgumentError(
            f"Argument `centre` of a body has {len(centre)} coordinates, but the grid has {len(x)} axes."
        )
