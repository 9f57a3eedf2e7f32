"""Cardinal B-splines: shares of a number among the points of a grid."""

import jax.numpy as jnp
from jaxtyping import Array


def splines(w: Array, order: int) -> tuple[list[Array], list[Array]]:
    """Cardinal B-splines M_n(w + k) and their slopes, for k = 0..order-1 and w in [0, 1), by their recursion."""
    values, slopes = [w, 1 - w], [jnp.ones_like(w), -jnp.ones_like(w)]  # M_2(w), M_2(w + 1)
    for n in range(3, order + 1):
        padded = [*values, jnp.zeros_like(w)]
        previous = [jnp.zeros_like(w), *values]
        values = [((w + k) * padded[k] + (n - k - w) * previous[k]) / (n - 1) for k in range(n)]
        slopes = [padded[k] - previous[k] for k in range(n)]
    return values, slopes


def cubic_shares(w: Array) -> Array:
    """Values of the cubic splines of four successive points, (..., 4), at a part w of the way from the second to the third."""
    q = 1 - w
    return jnp.stack([q**3, 3 * w**3 - 6 * w**2 + 4, 3 * q**3 - 6 * q**2 + 4, w**3], axis=-1) / 6
