"""Places strictly inside bounds."""

import jax.numpy as jnp
from jaxtyping import Array, Float

CLOSEST = 1e-10
"""How near to a bound an iterate may come, relative to the bound or to 1; there a coordinate counts as being on it."""


def margin(bounds: Float[Array, "parameters 2"]) -> Float[Array, "parameters 2"]:
    """The distance to keep from each bound."""
    return CLOSEST * jnp.maximum(1, jnp.abs(jnp.where(jnp.isfinite(bounds), bounds, 0))).astype(bounds.dtype)


def inside(z: Float[Array, " parameters"], bounds: Float[Array, "parameters 2"]) -> Float[Array, " parameters"]:
    """`z` moved strictly inside the bounds."""
    # In float32 the margin is below the resolution near a bound of size 1 and larger.
    gap = jnp.maximum(margin(bounds), 2 * jnp.finfo(z.dtype).eps * jnp.abs(jnp.where(jnp.isfinite(bounds), bounds, 0)))
    return jnp.clip(z, bounds[:, 0] + gap[:, 0], bounds[:, 1] - gap[:, 1])
