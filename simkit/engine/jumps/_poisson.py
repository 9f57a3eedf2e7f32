"""Poisson numbers of many means at once."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

INVERTED = 10.0
"""Means below which the distribution is summed up; the rejection serves those from here on."""

LONGEST = 100
"""Turns of the sum: for a mean of 10 more than 100 have a probability of 1e-60."""


def poisson(key: PRNGKeyArray, mean: Float[Array, " n"]) -> Float[Array, " n"]:
    """Poisson numbers in the float type of their means.

    Small means are served by inversion, others by transformed rejection with squeeze (PTRS). `jax.random.poisson` rounds means and
    probabilities to float32, and takes longer to compile.

    Hoermann (1993), Insurance: Mathematics and Economics 12:39, doi:10.1016/0167-6687(93)90997-4.
    """
    small, large = jax.random.split(key)
    few = mean < INVERTED
    inverted = _inverted(uniform(small, mean.shape, mean.dtype), jnp.where(few, mean, 0))
    return jnp.where(few, inverted, _rejected(large, jnp.where(few, INVERTED, mean), few))


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    """Numbers between 0 and 1, without both ends."""
    bits = jax.random.bits(key, shape, jnp.uint32)
    if dtype == jnp.float64:
        return (bits.astype(dtype) + 0.5) * 2.0**-32
    return ((bits >> 9).astype(dtype) + 0.5) * 2.0**-23


def _inverted(chance: Array, mean: Array) -> Array:
    """The number at which the distribution function passes a chance."""

    def more(carry):
        k, _, _, passed = carry
        return jnp.any(passed < chance) & (k < LONGEST)

    def turn(carry):
        k, found, each, passed = carry
        k = k + 1
        each = each * mean / k.astype(mean.dtype)
        return k, jnp.where(passed < chance, found + 1, found), each, passed + each

    first = jnp.exp(-mean)
    return jax.lax.while_loop(more, turn, (jnp.asarray(0, jnp.int32), jnp.zeros_like(mean), first, first))[1]


def _rejected(key: PRNGKeyArray, mean: Array, done: Array) -> Array:
    """Numbers by rejection, for all that are not done."""
    b = 0.931 + 2.53 * jnp.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)

    def more(carry):
        return ~jnp.all(carry[1])

    def turn(carry):
        i, done, found = carry
        u, v = uniform(jax.random.fold_in(key, i), (2, *mean.shape), mean.dtype)
        u = u - 0.5
        left = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / left + b) * u + mean + 0.43)
        at_once = (left >= 0.07) & (v <= quick)
        possible = (k >= 0) & ~((left < 0.013) & (v > left))
        exact = jnp.log(v * inverse / (a / left**2 + b)) <= _log_chance(jnp.maximum(k, 0), mean)
        taken = ~done & (at_once | (possible & exact))
        return i + 1, done | taken, jnp.where(taken, k, found)

    return jax.lax.while_loop(more, turn, (jnp.asarray(0, jnp.int32), done, jnp.zeros_like(mean)))[2]


def _log_chance(k: Array, mean: Array) -> Array:
    """The logarithm of the probability, of which large terms cancel before they are computed.

    With x = (k - m) / m it is -m ((1 + x) ln(1 + x) - x) - ln(2 pi k) / 2 and the rest of Stirling's series; at k = 0 it is -m.
    """
    x = (k - mean) / mean
    some = jnp.maximum(k, 1)
    rest = (1 / 12 - (1 / 360 - 1 / 1260 / some**2) / some**2) / some
    found = -mean * ((1 + x) * jnp.log1p(jnp.maximum(x, 1 / mean - 1)) - x) - 0.5 * jnp.log(2 * math.pi * some) - rest
    return jnp.where(k == 0, -mean, found)
