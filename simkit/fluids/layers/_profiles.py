r"""Profiles across a layer that meet what its walls prescribe, as polynomials $c_0 + c_1 \xi + c_2 \xi^2$ of the height
$\xi = (z - z_0)/L$ over the lower wall. What is stepped is the difference from them."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..grids._boundary import Boundary, Dirichlet, NoSlip
from ._layer import PlaneLayer


class Profile(eqx.Module):
    """A polynomial of the height, of some fields: `c0`, `c1` and `c2` have the shape of the fields."""

    layer: PlaneLayer = eqx.field(static=True)
    c0: Array
    c1: Array
    c2: Array

    def values(self, order: int = 0) -> Array:
        """Values or a derivative with respect to z at the points across, `(..., nz)`."""
        depth = self.layer.depth
        height = jnp.asarray((self.layer.heights() - self.layer.origin[-1]) / depth, self.c0.dtype)
        height = height.reshape((1,) * self.c0.ndim + height.shape)
        c0, c1, c2 = (c[..., None] for c in (self.c0, self.c1, self.c2))
        if order == 0:
            return c0 + (c1 + c2 * height) * height
        return (c1 + 2 * c2 * height) / depth

    def curvature(self) -> Array:
        """The second derivative with respect to z, which is the same at all heights."""
        return 2 * self.c2 / self.layer.depth**2


def flow_profile(layer: PlaneLayer, walls: tuple[Boundary, Boundary], bulk: Any, dtype: Any) -> Profile:
    """The velocity along the walls, of each of its components, with that of the walls and the given mean."""
    lower, upper = (_moving(wall, layer.dimensions - 1, dtype) for wall in walls)
    zero = jnp.zeros(layer.dimensions - 1, dtype)
    first, second = (isinstance(wall, NoSlip) for wall in walls)
    if first and second:
        c0, c1, mean = lower, upper - lower, 0.5 * (lower + upper)
    else:
        c0 = mean = lower if first else upper
        c1 = zero
    if bulk is None:
        return Profile(layer, c0, c1, zero)
    more = along_x(bulk, layer.dimensions - 1).astype(dtype) - mean
    if first and second:
        return Profile(layer, c0, c1 + 6 * more, -6 * more)
    if first:
        return Profile(layer, c0, c1 + 3 * more, -1.5 * more)
    if second:
        return Profile(layer, c0 + 1.5 * more, c1, -1.5 * more)
    return Profile(layer, c0 + more, c1, zero)


def scalar_profile(layer: PlaneLayer, walls: tuple[Boundary, Boundary], dtype: Any) -> Profile:
    """A scalar with the values and the slopes that its walls prescribe; without values its mean is 0."""
    first, second = (isinstance(wall, Dirichlet) for wall in walls)
    lower, upper = (_prescribed(wall).astype(dtype) for wall in walls)
    depth, zero = layer.depth, jnp.zeros((), dtype)
    if first and second:
        return Profile(layer, lower, upper - lower, zero)
    if first:  # slopes are outward
        return Profile(layer, lower, upper * depth, zero)
    if second:
        return Profile(layer, upper + lower * depth, -lower * depth, zero)
    c1, c2 = -lower * depth, 0.5 * (lower + upper) * depth
    return Profile(layer, -c1 / 2 - c2 / 3, c1, c2)


def _moving(wall: Boundary, components: int, dtype: Any) -> Array:
    """The velocity of a wall along itself; 0 of one along which the fluid slips."""
    if not isinstance(wall, NoSlip):
        return jnp.zeros(components, dtype)
    velocity = wall.velocity.astype(dtype)
    return jnp.broadcast_to(velocity, components) if velocity.ndim == 0 else velocity[:components]


def along_x(value: Array, components: int) -> Array:
    """A vector along the walls; a single number is its component along x."""
    return value if value.ndim else jnp.zeros(components, value.dtype).at[0].set(value)


def _prescribed(wall: Any) -> Array:
    return wall.value if isinstance(wall, Dirichlet) else wall.gradient


def spread(profile: Profile) -> Array:
    """The difference between the largest and the smallest value of a profile, the largest of its fields."""
    values = profile.values()
    return jnp.max(jnp.max(values, axis=-1) - jnp.min(values, axis=-1))
