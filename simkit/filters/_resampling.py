"""Systematic resampling: which particles are copied, and how often."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


def systematic(
    key: PRNGKeyArray, weights: Float[Array, " particles"], count: int | None = None
) -> Int[Array, " ancestors"]:
    """Ancestors drawn by one random number: each particle has its expected number of copies, up to one.

    The weights need not be normalised; there are `count` ancestors, by default as many as particles. Kitagawa (1996), J. Comput.
    Graph. Stat. 5:1, doi:10.1080/10618600.1996.10474692.
    """
    particles = weights.shape[0]
    count = particles if count is None else count
    edges = jnp.cumsum(weights) / jnp.sum(weights)
    marks = (jnp.arange(count, dtype=weights.dtype) + jax.random.uniform(key, (), weights.dtype)) / count
    return jnp.clip(jnp.searchsorted(edges, marks), 0, particles - 1)
