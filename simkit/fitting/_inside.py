"""Places strictly inside bounds.

Margins are shares of bounds and boxes, since a coordinate may have any unit: a box from 1e-33 to 1e-27 holds its six decades.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

CLOSEST = 1e-10
"""Smallest distance of an iterate from a bound, relative to the bound; there a coordinate counts as being on it. For a bound at
zero the same share of this share of the box's width takes its place."""

MOST = 1e-3
"""No margin takes more of the width of the box than this."""


def margin(bounds: Float[Array, "parameters 2"]) -> Float[Array, "parameters 2"]:
    """The distance to keep from each bound."""
    info = jnp.finfo(bounds.dtype)
    known = jnp.isfinite(bounds)
    size = jnp.abs(jnp.where(known, bounds, 0))
    both = known.all(axis=1, keepdims=True)
    width = jnp.where(both, jnp.diff(jnp.where(known, bounds, 0), axis=1), 0)
    least = float(info.tiny) ** 0.5  # whose square is still a number
    gap = jnp.maximum(CLOSEST * jnp.maximum(size, CLOSEST * width), least)
    # In float32 that is below the resolution near a bound.
    gap = jnp.maximum(gap, 2 * float(info.eps) * size)
    return jnp.where(both, jnp.minimum(gap, MOST * width), gap).astype(bounds.dtype)


def inside(z: Float[Array, " parameters"], bounds: Float[Array, "parameters 2"]) -> Float[Array, " parameters"]:
    """`z` moved strictly inside the bounds."""
    gap = margin(bounds)
    return jnp.clip(z, bounds[:, 0] + gap[:, 0], bounds[:, 1] - gap[:, 1])


def on_bounds(
    z: Float[Array, " parameters"], gradient: Float[Array, " parameters"], bounds: Float[Array, "parameters 2"]
) -> Bool[Array, " parameters"]:
    """Tell which numbers lie on a bound that the negative gradient points out of."""
    gap = 2 * margin(bounds)
    return ((z <= bounds[:, 0] + gap[:, 0]) & (gradient > 0)) | ((z >= bounds[:, 1] - gap[:, 1]) & (gradient < 0))


def share_inside(
    z: Float[Array, " parameters"], step: Float[Array, " parameters"], bounds: Float[Array, "parameters 2"]
) -> Float[Array, ""]:
    """The part of a step up to the nearest bound, 1 where none is met."""
    place = z + step
    reach = jnp.where(
        place > bounds[:, 1], bounds[:, 1] - z, jnp.where(place < bounds[:, 0], bounds[:, 0] - z, jnp.inf)
    )
    return jnp.minimum(1, jnp.min(jnp.abs(reach) / jnp.where(step == 0, 1, jnp.abs(step))))
