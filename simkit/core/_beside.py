"""The numbers of time next to one, of which the numbers too small to be normal are none: most machines take those for zero."""

import jax.numpy as jnp
from jaxtyping import Array


def just_before(t: Array) -> Array:
    """The largest number of time below t."""
    tiny, found = jnp.finfo(t.dtype).tiny, jnp.nextafter(t, t - 1)
    return jnp.where(jnp.abs(found) < tiny, jnp.where(t > 0, jnp.zeros_like(t), -tiny), found)


def just_after(t: Array) -> Array:
    """The smallest number of time above t."""
    tiny, found = jnp.finfo(t.dtype).tiny, jnp.nextafter(t, t + 1)
    return jnp.where(jnp.abs(found) < tiny, jnp.where(t < 0, jnp.zeros_like(t), tiny), found)
