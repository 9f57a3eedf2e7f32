"""Quantiles of a normal distribution between two ends, however far in a tail, with derivatives."""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from ._implicit import solving

Values = Float[Array, "..."]

NEAR = -20.0
"""A logarithm of a probability below which its quantile is found by Newton's method."""


def normal_between(share: Values, lower: Values, upper: Values) -> Values:
    r"""The z with $\Phi(z) = (1 - s)\, \Phi(a) + s\, \Phi(b)$ for a share s of the probability between a and b.

    Ends may be infinite. In the lower tail, where small probabilities keep their digits, as logarithms beyond where they vanish.
    """
    turned = lower + upper > 0
    low, high = jnp.where(turned, -upper, lower), jnp.where(turned, -lower, upper)
    part = jnp.where(turned, 1 - share, share)
    mass, cut = (
        jnp.where(jnp.isfinite(end), log_ndtr(end), outside) for end, outside in ((high, 0.0), (low, -jnp.inf))
    )
    target = mass + jnp.log(part + (1 - part) * jnp.exp(jnp.minimum(cut - mass, 0)))
    z = jax.lax.stop_gradient(jnp.clip(_log_quantile(target), low, high))
    density = norm.logpdf(z)
    ends = []
    for end, outside in ((high, 0.0), (low, -jnp.inf)):
        there = jnp.isfinite(end)  # nothing infinite is differentiated
        ends.append(jnp.exp(jnp.where(there, log_ndtr(jnp.where(there, end, 0)), outside) - density))

    def step(z: Array) -> Array:
        gap = jnp.exp(log_ndtr(z) - density) - part * ends[0] - (1 - part) * ends[1]
        return gap / jnp.exp(norm.logpdf(z) - density)

    z = solving(z, step)
    return jnp.where(turned, -z, z)


def _log_quantile(target: Values) -> Values:
    """The z of log Phi(z), of targets up to 0."""
    near = target > NEAR
    z = ndtri(jnp.exp(jnp.where(near, target, 0.5 * NEAR)))

    def closer(_: Array, z: Array) -> Array:
        return z - (log_ndtr(z) - far) * jnp.exp(log_ndtr(z) - norm.logpdf(z))

    far = jnp.where(near, NEAR, target)
    # From the first two terms of the tail, within a thousandth of the root.
    square = -2 * far - math.log(2 * math.pi)
    deep = jax.lax.fori_loop(0, 4, closer, -jnp.sqrt(square - jnp.log(square - jnp.log(square))))
    return jnp.where(near, z, deep)
