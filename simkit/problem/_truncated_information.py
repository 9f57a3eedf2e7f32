r"""Fisher information of truncated data: the variance of the score of the marginal among what is in the table,

$$I = E[(s - m) (s - m)^T \mid \mathrm{lower} < Y < \mathrm{upper}], \qquad m = \nabla \log P(\mathrm{lower} < Y < \mathrm{upper})$$
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._censored_information import KERNELS, NODES, products
from ._expected_information import information_of
from ._information import Information, Values
from ._noise import AbstractNoise

MOST_COUNTS = 2048
"""The most counts that are summed."""
TAIL, RARE = 256, 0.05
"""Terms of a sum where less than so much of the probability is in the table: what is cut away cannot be subtracted there."""


def truncated_information(
    marginal: AbstractNoise,
    ends: tuple[float, float],
    log_mass: Callable[[AbstractNoise, Values], Values],
    location: Values,
) -> Information | None:
    """The information of a datum between its limits; None where it has to be found from draws.

    **Arguments:** `ends`: the limits, `lower < Y <= upper`; `log_mass`: the log probability between them.
    """
    if type(marginal) not in KERNELS and marginal.domain != "count":
        return None
    leaves, structure = jax.tree.flatten(marginal)
    parts = [location, *(jnp.broadcast_to(leaf, location.shape).astype(location.dtype) for leaf in leaves)]
    model = lambda parts: jax.tree.unflatten(structure, parts[1:])
    found, back = jax.vjp(lambda parts: log_mass(model(parts), parts[0]), parts)
    (mean,) = back(jnp.ones_like(found))

    def score(value: Array) -> tuple[list[Array], Array]:
        """Return the score less its mean, and the log density among what is in the table."""
        log_prob, back = jax.vjp(lambda parts: model(parts).log_prob(value, parts[0]), parts)
        (slopes,) = back(jnp.ones_like(log_prob))
        return [a - b for a, b in zip(slopes, mean, strict=True)], log_prob - found

    if marginal.domain == "count":
        entries = _of_counts(marginal, ends, jnp.exp(found), mean, location, score)
    else:
        entries = _by_quadrature(model(parts), KERNELS[type(marginal)], ends, location, score)
    if entries is None:
        return None
    each = iter(entries)
    return Information([[next(each) for _ in range(i + 1)] for i in range(len(parts))])


def _by_quadrature(
    noise: Any, kernel: Any, ends: tuple[float, float], location: Values, score: Callable[[Array], Any]
) -> list[Array]:
    """The integral by Gauss and Legendre over where the density among what is in the table is not rounding."""
    places = []
    for end in ends:
        known = np.isfinite(end) and (noise.domain != "positive" or end > 0)
        place = kernel.standard(noise, jnp.full_like(location, end), location) if known else None
        places.append(place)
    zero = jnp.zeros_like(location)
    above = kernel.tail(zero if places[0] is None else jnp.maximum(places[0], 0))
    below = -kernel.tail(zero if places[1] is None else jnp.maximum(-places[1], 0))
    low = below if places[0] is None else jnp.maximum(places[0], below)
    high = above if places[1] is None else jnp.minimum(places[1], above)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)

    def add(total: list[Array], node: tuple[Array, Array]) -> tuple[list[Array], None]:
        place, weight = node
        for first, last in ((jnp.minimum(low, 0), jnp.minimum(high, 0)), (jnp.maximum(low, 0), jnp.maximum(high, 0))):
            z = first + 0.5 * (last - first) * (1 + place)
            value, slope = jax.jvp(lambda z: kernel.value(noise, z, location), (z,), (jnp.ones_like(z),))
            apart, log_density = score(value)
            room = last > first  # of two parts one may be empty, far from where the density is
            mass = weight * 0.5 * (last - first) * slope * jnp.exp(jnp.where(room, log_density, -jnp.inf))
            total = [t + mass * x for t, x in zip(total, products(apart), strict=True)]
        return total, None

    empty = [zero] * len(products(score(location)[0]))
    return jax.lax.scan(add, empty, (jnp.asarray(nodes, location.dtype), jnp.asarray(weights, location.dtype)))[0]


def _of_counts(
    marginal: AbstractNoise,
    ends: tuple[float, float],
    mass: Values,
    mean: list[Array],
    location: Values,
    score: Callable[[Array], Any],
) -> list[Array] | None:
    """The sum over counts between both limits; without an upper one, the whole less the sum over what is cut away."""
    first = 0 if ends[0] == -np.inf else int(ends[0]) + 1
    last = first + TAIL if ends[1] == np.inf else int(ends[1]) + 1
    if (
        last - first > MOST_COUNTS
        or first > MOST_COUNTS
        or (ends[1] == np.inf and marginal.information(location) is None)
    ):
        return None

    def summed(start: int, end: int, centred: bool) -> list[Array]:
        def add(total: list[Array], count: Array) -> tuple[list[Array], None]:
            apart, log_density = score(jnp.broadcast_to(count, location.shape))
            own = apart if centred else [a + b for a, b in zip(apart, mean, strict=True)]
            return [t + jnp.exp(log_density) * x for t, x in zip(total, products(own), strict=True)], None

        empty = [jnp.zeros_like(location)] * len(products(mean))
        return jax.lax.scan(add, empty, jnp.arange(start, end, dtype=location.dtype))[0]

    direct = summed(first, last, centred=True)
    if ends[1] < np.inf:
        return direct
    whole, cut = information_of(marginal, location), summed(0, first, centred=False)
    entries = [whole.entry(i, j) for i in range(whole.size) for j in range(i + 1)]
    rest = [(0 if a is None else a) / mass - b for a, b in zip(entries, cut, strict=True)]
    found = [a - b for a, b in zip(rest, products(mean), strict=True)]
    return [jnp.where(mass > RARE, a, b) for a, b in zip(found, direct, strict=True)]
