"""Fisher information of a datum that may be censored."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._censored import OPEN, Limits, log_density, log_probability
from ._expected_information import expected_information, information_of
from ._information import Information
from ._noise import AbstractNoise, Combined, Laplace, LogLaplace, LogNormal, Normal, StudentT

Values = Float[Array, "..."]

NODES = 40
"""Nodes of Gauss and Legendre on either side of the location, which leave an error of 1e-9."""


class _Kernel(NamedTuple):
    """A standard variable of a noise model, in which its density is smooth but at 0: to it, back from it, and where it ends.

    `tail`: where a density that begins at a place above 0 has fallen to rounding.
    """

    standard: Callable[[Any, Values, Values], Values]
    value: Callable[[Any, Values, Values], Values]
    end: float
    tail: Callable[[Values], Values]


_SQUARE = 9.0, lambda z: jnp.hypot(z, 9.0)
"""The end of a normal density, and that of its tail."""
_STEADY = 36.0, lambda z: z + 36.0
"""The ends of an exponential density."""


def _normal(spread: Callable[[Any, Values], Values], reach: Any) -> _Kernel:
    return _Kernel(lambda n, y, f: (y - f) / spread(n, f), lambda n, z, f: f + z * spread(n, f), *reach)


def _logarithmic(reach: Any) -> _Kernel:
    return _Kernel(
        lambda n, y, f: (jnp.log(y) - jnp.log(f)) / n.scale,
        lambda n, z, f: f * jnp.exp(n.scale * z),
        *reach,
    )


KERNELS: dict[type[AbstractNoise], _Kernel] = {
    Normal: _normal(lambda n, f: n.scale, _SQUARE),
    Combined: _normal(lambda n, f: jnp.hypot(n.additive, n.proportional * f), _SQUARE),
    Laplace: _normal(lambda n, f: n.scale, _STEADY),
    LogNormal: _logarithmic(_SQUARE),
    LogLaplace: _logarithmic(_STEADY),
    StudentT: _Kernel(
        lambda n, y, f: jnp.arctan((y - f) / (n.scale * jnp.sqrt(n.freedom))),
        lambda n, z, f: f + n.scale * jnp.sqrt(n.freedom) * jnp.tan(z),
        0.5 * math.pi,
        lambda z: jnp.full_like(z, 0.5 * math.pi),
    ),
}


SURPRISE = 8
"""Power of the probability of being censored with which a datum that is exact all the same gets its whole information.

Far from the optimum the other would be zero, and a descent blind to what the datum says. At the optimum such data are rare: the
mean information is too large by at most 0.043 of what censoring takes away."""


def informed(noise: AbstractNoise, limits: Limits | None, value: Values, location: Values) -> Information:
    """The information of data with limits as methods use it: `censored_information`, and the whole of surprising exact data."""
    found = censored_information(noise, limits, location)
    if limits is None:
        return found
    full, one = information_of(noise, location), jnp.ones(location.shape, bool)
    step = 1 if noise.domain == "count" else 0
    hidden = jnp.zeros_like(location)
    for end, low in (("low", True), ("high", False)):
        if (limit := limits.by_name().get(end)) is not None:
            there = jnp.isfinite(limit) & one
            lower = jnp.full_like(limit, -jnp.inf) if low else jnp.ceil(limit) - 1 if step else limit
            upper = limit if low else jnp.full_like(limit, jnp.inf)
            if noise.domain == "positive":
                there = there & (limit > 0)
            hidden = hidden + jnp.where(
                there, jnp.exp(log_probability(noise, there, lower, upper, location, intervals=False)), 0
            )
    share = jnp.where(limits.censored(value), 0, jnp.clip(hidden, 0, 1) ** SURPRISE)
    entries = lambda own, i, j: 0 if own.entry(i, j) is None else own.entry(i, j)
    mixed = lambda i, j: (1 - share) * entries(found, i, j) + share * entries(full, i, j)
    return Information([[mixed(i, j) for j in range(i + 1)] for i in range(found.size)])


def censored_information(noise: AbstractNoise, limits: Limits | None, location: Values) -> Information:
    r"""The information of a datum of which is seen whether it is censored, and its value where it is not.

    $$I = \int_{\mathrm{low}}^{\mathrm{high}} s s^T p\, dy + \sum_{\mathrm{sets}} \frac{\nabla P\, \nabla P^T}{P}$$

    with the score s of the density and the probabilities P of the sets beyond the limits. It holds for all data with limits,
    whatever was measured. For counts and for noise models of others it is an expectation over draws.
    """
    full = information_of(noise, location)
    if limits is None:
        return full
    if type(noise) not in KERNELS:
        density = lambda model, value, place: log_density(model, limits, limits.coarse(value), place)
        return expected_information(noise, location, density)
    leaves, structure = jax.tree.flatten(noise)
    parts = [location, *(jnp.broadcast_to(leaf, location.shape).astype(location.dtype) for leaf in leaves)]
    model = lambda parts: jax.tree.unflatten(structure, parts[1:])
    total = _seen_part(model, parts, limits, KERNELS[type(noise)])
    for owner in limits.by_name():
        total = [a + b for a, b in zip(total, _set_part(model, parts, limits, owner), strict=True)]
    bounded = jnp.zeros(location.shape, bool)
    for limit in limits.by_name().values():
        bounded = bounded | jnp.isfinite(limit)
    rows, found = [], iter(total)
    for i in range(len(parts)):
        row = []
        for j in range(i + 1):
            entry = full.entry(i, j)
            row.append(jnp.where(bounded, next(found), 0 if entry is None else entry))
        rows.append(row)
    return Information(rows)


def products(score: list[Values]) -> list[Values]:
    return [score[i] * score[j] for i in range(len(score)) for j in range(i + 1)]


def _limit(limits: Limits, end: str, like: Values) -> Values:
    held = getattr(limits, end)
    return jnp.full(like.shape, OPEN[end], like.dtype) if held is None else held


def _seen_part(
    model: Callable[[list[Values]], Any], parts: list[Values], limits: Limits, kernel: _Kernel
) -> list[Values]:
    """The integral of the products of scores over what is not censored, by Gauss and Legendre on both sides of the location."""
    location, noise = parts[0], model(parts)
    ends = []
    for end, otherwise in (("low", -kernel.end), ("high", kernel.end)):
        limit = _limit(limits, end, location)
        known = jnp.isfinite(limit)
        if noise.domain == "positive":
            known = known & (limit > 0)
        # The derivative of an infinite place would be NaN, though it is clipped.
        place = jnp.clip(kernel.standard(noise, jnp.where(known, limit, location), location), -kernel.end, kernel.end)
        ends.append(jnp.where(known, place, otherwise))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)

    def add(total: list[Array], node: tuple[Array, Array]) -> tuple[list[Array], None]:
        place, weight = node
        for low, high in (
            (jnp.minimum(ends[0], 0), jnp.minimum(ends[1], 0)),
            (jnp.maximum(ends[0], 0), jnp.maximum(ends[1], 0)),
        ):
            z = low + 0.5 * (high - low) * (1 + place)
            value, slope = jax.jvp(lambda z: kernel.value(noise, z, location), (z,), (jnp.ones_like(z),))
            log_prob, back = jax.vjp(lambda parts, value=value: model(parts).log_prob(value, parts[0]), parts)
            (score,) = back(jnp.ones_like(log_prob))
            mass = weight * 0.5 * (high - low) * slope * jnp.exp(log_prob)
            total = [t + mass * x for t, x in zip(total, products(score), strict=True)]
        return total, None

    zero = [0 * location for _ in range(len(parts) * (len(parts) + 1) // 2)]
    rule = jnp.asarray(nodes, location.dtype), jnp.asarray(weights, location.dtype)
    return jax.lax.scan(add, zero, rule)[0]


def _set_part(model: Callable[[list[Values]], Any], parts: list[Values], limits: Limits, owner: str) -> list[Values]:
    """The information in that a datum lies in one of the sets beyond its limits: that which ends at the limit `owner`."""
    location, noise, held = parts[0], model(parts), limits.by_name()
    low, high = {
        "floor": ("", "floor"),
        "low": ("floor", "low"),
        "high": ("high", "ceiling"),
        "ceiling": ("ceiling", ""),
    }[owner]
    lower = _limit(limits, low, location) if low else jnp.full_like(location, -jnp.inf)
    upper = _limit(limits, high, location) if high else jnp.full_like(location, jnp.inf)
    if noise.domain == "positive":
        lower = jnp.where(lower <= 0, -jnp.inf, lower)
    # A set ends at a limit that the datum has; one of positive numbers holds some.
    own = {"floor": upper, "low": upper, "high": lower, "ceiling": lower}[owner]
    there = jnp.isfinite(own) & (upper > (0 if noise.domain == "positive" else -jnp.inf))
    intervals = low in held and high in held
    told = lambda parts: log_probability(model(parts), there, lower, upper, parts[0], intervals=intervals)
    log_p, back = jax.vjp(told, parts)
    (score,) = back(jnp.ones_like(log_p))
    mass = jnp.where(there, jnp.exp(log_p), 0)
    return [mass * x for x in products(score)]
