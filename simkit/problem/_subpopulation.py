"""Two kinds of individuals in one population: a mixture of two normal distributions, by its quantiles."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError
from ._bisection import bisected
from ._free import Free

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


@jax.custom_jvp
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
    return 0.5 * (low + high)


@mixture_quantile.defjvp
def _by_the_implicit_function(
    values: tuple[Array, Array, Array], moves: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    z, share, apart = values
    u = mixture_quantile(z, share, apart)
    own, second = norm.logpdf(u), norm.logpdf(u - apart)
    log_density = jnp.logaddexp(jnp.log1p(-share) + own, jnp.log(share) + second)
    upper = u > 0.5 * apart
    gap = jnp.where(upper, ndtr(apart - u) - ndtr(-u), ndtr(u) - ndtr(u - apart))
    slope = (
        jnp.exp(norm.logpdf(z) - log_density) * moves[0]
        + gap * jnp.exp(-log_density) * moves[1]
        + jnp.exp(jnp.log(share) + second - log_density) * moves[2]
    )
    return u, slope


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
