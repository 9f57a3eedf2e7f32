"""Scales on which the parameters of individuals are normal around that of the population."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ..core import Support

Scale = Literal["linear", "log", "logit", "probit"]
SCALES = ("linear", "log", "logit", "probit")


class Link(NamedTuple):
    r"""The function g of a parameter that individuals have for themselves, normal around g of the population's.

    x, log x, and between the ends a and b $\log \frac{x - a}{b - x}$ or $\Phi^{-1}(\frac{x - a}{b - a})$.
    """

    scale: Scale
    lower: float = -math.inf
    upper: float = math.inf

    def to_scale(self, x: Array) -> Array:
        """The value of g."""
        if self.scale == "log":
            return jnp.log(x)
        if self.scale == "linear":
            return x
        share = (x - self.lower) / (self.upper - self.lower)
        return jnp.log(share) - jnp.log1p(-share) if self.scale == "logit" else ndtri(share)

    def natural(self, moved: Array) -> Array:
        """The parameter of a value of g."""
        if self.scale == "log":
            return jnp.exp(moved)
        if self.scale == "linear":
            return moved
        share = jax.nn.sigmoid(moved) if self.scale == "logit" else ndtr(moved)
        return self.lower + (self.upper - self.lower) * share

    def moved(self, mean: Array, added: Array) -> Array:
        """The parameter of individuals, from that of the population and what is added on the scale of g."""
        return mean * jnp.exp(added) if self.scale == "log" else self.natural(self.to_scale(mean) + added)


def link_of(name: str, asked: Any, ends: tuple[float, float], support: Support) -> Link:
    """The link of a parameter: as asked, or by its support; `ends` are the bounds of the population's value."""
    if asked is not None and asked not in SCALES:
        raise ArgumentError(f"The transform of the individuals' `{name}` must be one of {SCALES}, but it is {asked!r}.")
    between = math.isfinite(support.lower) and math.isfinite(support.upper)
    free = math.isinf(support.lower) and math.isinf(support.upper)
    if asked in ("logit", "probit") or (asked is None and between):
        lower, upper = support if between else ends
        if not (math.isfinite(lower) and math.isfinite(upper)):
            raise ArgumentError(
                f'The transform "{asked}" of the individuals\' `{name}` needs two ends, but its support is {support} and the '
                f"bounds of its mean are {ends}. Give the mean both, such as `Free(bounds=(0.0, 1.0))`."
            )
        return Link(asked or "logit", float(lower), float(upper))
    if between:
        raise ArgumentError(
            f'`{name}` lies between {support.lower:g} and {support.upper:g}, so the transform of its individuals must be "logit" '
            f'or "probit", but it is "{asked}".'
        )
    if not (support.positive or free):
        raise ArgumentError(
            f"`{name}` must be positive, unbounded or between two ends to differ between individuals, but its support is "
            f"{support}. "
            'Give its mean both bounds and take `transform="logit"`.'
        )
    if asked == "linear" and support.positive:
        raise ArgumentError(
            f"`{name}` must be positive, so its logarithm must differ between individuals, but its transform is linear."
        )
    return Link("log" if support.positive and asked is None else asked or "linear")


def to_scales(links: Sequence[Link], x: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
    """The values of g of all parameters."""
    return jnp.stack([link.to_scale(one) for link, one in zip(links, x, strict=True)])


def from_scales(links: Sequence[Link], moved: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
    """All parameters by their values of g."""
    return jnp.stack([link.natural(one) for link, one in zip(links, moved, strict=True)])


def moved_by(
    links: Sequence[Link], mean: Float[Array, " parameter"], added: Float[Array, "parameter column"]
) -> Float[Array, "parameter column"]:
    """All parameters by that of the population and what is added on the scale of g."""
    return jnp.stack([link.moved(one, own) for link, one, own in zip(links, mean, added, strict=True)])
