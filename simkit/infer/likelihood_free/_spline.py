"""Monotone rational-quadratic splines, the scalar maps of a spline flow."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

EDGE = 4.0
"""A spline maps [-EDGE, EDGE] onto itself and is the identity outside."""

LEAST = 1e-3
"""Least width and height of a bin as a share of all, and least slope at a knot."""


def numbers_of(bins: int) -> int:
    """Return how many numbers describe a spline: widths, heights, and slopes at inner knots."""
    return 3 * bins - 1


def spline(
    x: Float[Array, "*batch"], numbers: Float[Array, "*batch numbers"], inverse: bool = False
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    r"""Map numbers by monotone splines of rational quadratics, the identity where all `numbers` are 0.

    In a bin with $t = (x - x_k)/w_k$ and mean slope $s = h_k / w_k$ the value is
    $y_k + h_k (s t^2 + d_k t (1 - t)) / (s + (d_k + d_{k+1} - 2 s)\, t (1 - t))$.

    **Returns:** the values and the logarithms of the slopes of the map that was taken, forward or inverse.

    **Reference:** Durkan, Bekasov, Murray & Papamakarios (2019), arXiv:1906.04032.
    """
    bins = (numbers.shape[-1] + 1) // 3
    share = lambda raw: LEAST + (1 - LEAST * bins) * jax.nn.softmax(raw, axis=-1)
    lefts, rights = (_knots(share(raw)) for raw in (numbers[..., :bins], numbers[..., bins : 2 * bins]))
    even = math.log(math.expm1(1 - LEAST))
    inner = LEAST + jax.nn.softplus(numbers[..., 2 * bins :] + even)
    ones = jnp.ones_like(inner[..., :1])
    slopes = jnp.concatenate([ones, inner, ones], axis=-1)
    inside = jnp.abs(x) < EDGE
    at = jnp.clip(x, -EDGE * (1 - 1e-6), EDGE * (1 - 1e-6))
    edges = rights if inverse else lefts
    here = (at[..., None] >= edges[..., :-1]) & (at[..., None] < edges[..., 1:])
    pick = lambda values: jnp.sum(jnp.where(here, values, 0), axis=-1)
    x0, y0 = pick(lefts[..., :-1]), pick(rights[..., :-1])
    width, height = pick(lefts[..., 1:]) - x0, pick(rights[..., 1:]) - y0
    first, second = pick(slopes[..., :-1]), pick(slopes[..., 1:])
    mean = height / width
    bend = first + second - 2 * mean
    if inverse:
        rise = at - y0
        a, b, c = rise * bend + height * (mean - first), height * first - rise * bend, -mean * rise
        t = -2 * c / (b + jnp.sqrt(jnp.maximum(b * b - 4 * a * c, 0)))
    else:
        t = (at - x0) / width
    mixed = t * (1 - t)
    below = mean + bend * mixed
    log_slope = jnp.log(second * t * t + 2 * mean * mixed + first * (1 - t) ** 2) + 2 * jnp.log(mean / below)
    found = x0 + t * width if inverse else y0 + height * (mean * t * t + first * mixed) / below
    log_slope = -log_slope if inverse else log_slope
    return jnp.where(inside, found, x), jnp.where(inside, log_slope, 0)


def _knots(shares: Float[Array, "*batch bins"]) -> Float[Array, "*batch knots"]:
    """The ends of bins of given shares of the interval."""
    inner = jnp.cumsum(shares, axis=-1)[..., :-1]
    zero = jnp.zeros_like(shares[..., :1])
    return EDGE * (2 * jnp.concatenate([zero, inner, zero + 1], axis=-1) - 1)
