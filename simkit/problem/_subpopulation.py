"""Two kinds of individuals in one population: a mixture of two normal distributions, by its quantiles."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError
from ._bisection import bisected
from ._free import Free
from ._implicit import solving

HALVINGS = 60
"""Halvings of the interval that holds a quantile, as wide as the distance of the two kinds: to rounding for distances up to 100."""


class Subpopulation(NamedTuple):
    r"""A second kind of individuals, such as slow metabolisers, of whom nobody knows who they are.

    On the scale of g the parameter is distributed as $(1 - \pi)\, N(m, s^2) + \pi\, N(m + \delta, s^2)$ around the population's
    mean m with its spread s. What is drawn and integrated over is a standard normal $\eta_i$ whose quantile that is,
    $g(\theta_i) = m + F^{-1}(\Phi(\eta_i))$, so that individuals have one deviation as without.

    **Arguments:**

    - `share`: what is known of $\pi$, the share of the second kind; flat between 0 and 1 by default.
    - `shift`: what is known of $\delta$, how much higher g is in them. Give it bounds or a prior of one sign: else the kinds may
        change places.

    **Good values:** shifts of two spreads and more; below, a wider normal distribution does as well.

    **Errors:** Laplace's approximation in `fit` is good where the data of each individual tell its parameter; `sample` is exact.

    **Reference:** Lemenuel-Diot, Laveille, Frey, Jochemsen & Mallet (2007), doi:10.1007/s10928-006-9041-9.
    """

    share: Free = Free(bounds=(0.0, 1.0))
    shift: Free = Free(bounds=(0.0, 10.0))


def mixture_quantile(
    z: Float[Array, " individual"], share: Float[Array, ""], apart: Float[Array, ""]
) -> Float[Array, " individual"]:
    """The number u with $(1 - share) Phi(u) + share Phi(u - apart) = Phi(z)$, by halving.

    **Arguments:** `apart`: the distance of the two kinds in their standard deviation.
    """
    # On the side on which probabilities are small.
    turned = z > 0

    def above(u: Array) -> Array:
        more = (1 - share) * ndtr(u) + share * ndtr(u - apart) >= ndtr(z)
        less = (1 - share) * ndtr(-u) + share * ndtr(apart - u) <= ndtr(-z)
        return jnp.where(turned, less, more)

    low, high = bisected(above, z + jnp.minimum(apart, 0), z + jnp.maximum(apart, 0), HALVINGS)
    found = jax.lax.stop_gradient(0.5 * (low + high))
    # Relative to the density, as far as numbers go; further out, between two kinds far apart, there is no derivative.
    least = 0.4 * jnp.log(jnp.finfo(found.dtype).tiny)
    density = jax.lax.stop_gradient(jnp.maximum(_log_density(found, share, apart), least))
    side = jnp.where(turned, -1, 1)
    below = lambda x: jnp.exp(log_ndtr(side * x) - density)

    def step(u: Array) -> Array:
        gap = side * ((1 - share) * below(u) + share * below(u - apart) - below(z))
        slope = jnp.exp(_log_density(u, share, apart) - density)
        there = slope > 0
        return jnp.where(there, gap / jnp.where(there, slope, 1), 0)

    return solving(found, step)


def _log_density(u: Array, share: Array, apart: Array) -> Array:
    return jnp.logaddexp(jnp.log1p(-share) + norm.logpdf(u), jnp.log(share) + norm.logpdf(u - apart))


def membership(
    u: Float[Array, " individual"], share: Float[Array, ""], apart: Float[Array, ""]
) -> Float[Array, " individual"]:
    """The probability that an individual at u standard deviations from the first kind is of the second."""
    odds = jnp.log(share) - jnp.log1p(-share) + norm.logpdf(u - apart) - norm.logpdf(u)
    return jax.nn.sigmoid(odds)


def check_subpopulation(name: str, kind: object, spread: bool) -> None:
    """Refuse what is no `Subpopulation`, and one of a parameter that does not differ between individuals.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(kind, Subpopulation):
        raise ArgumentError(
            f"The `subpopulation` of `{name}` must be a `Subpopulation(share, shift)`, but it is {shown(kind)}."
        )
    if not spread:
        raise ArgumentError(f"The spread of `{name}` between individuals is 0, so it cannot have a `subpopulation`.")
