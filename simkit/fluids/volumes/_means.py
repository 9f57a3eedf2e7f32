r"""Means over cells, values at their middles, and back, by differences along an axis:

$$q = \bar q - \tfrac{1}{24} \delta^2 \bar q + \tfrac{3}{640} \delta^4 \bar q, \qquad
\bar f = f + \tfrac{1}{24} \delta^2 f - \tfrac{17}{5760} \delta^4 f$$

of order 6 in the width of a cell. Both fade where a gas is not smooth. Buchmueller and Helzel (2014), J. Sci. Comput. 61:343.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

from ..grids._cells import cells
from ._gas import Rows, to_conserved, to_primitive

JUMP = 0.5
"""The fourth difference, relative to the lower ones, at which half of a correction is left: waves of nine cells have it."""

CONTINUED = ((5, -10, 10, -5, 1), (15, -40, 45, -24, 5))
"""Weights of the last five values for the next one and the one behind it."""

REACH = 2
"""Cells on either side that a correction needs."""


def value_of(means: Array, axis: int, smooth: Array) -> Array:
    """Values at the middles of means along an axis, where the flow is `smooth`, without two at either end."""
    return inner(means, axis) - smooth * (second(means, axis) / 24 - fourth(means, axis) * (3 / 640))


def mean_of(values: Array, axis: int, smooth: Array) -> Array:
    """Means around values at the middles along an axis, where the flow is `smooth`, without two at either end."""
    return inner(values, axis) + smooth * (second(values, axis) / 24 - fourth(values, axis) * (17 / 5760))


def at_centres(rows: Rows, gamma: Array) -> tuple[Rows, Array]:
    """Density, velocities and pressure at the centres of cells, from those that the means of mass, momenta and energy make.

    Returns rows without two cells at either end of each axis, and how smooth the gas is, from 0 to 1. Where the values would not be
    positive they are those of the means.
    """
    means = jnp.stack(to_conserved(rows, gamma))
    found, smooth = means, jnp.ones_like(means[0])
    for axis in range(means.ndim - 1):
        smooth = jnp.minimum(smoothness(found, axis + 1), inner(smooth, axis))
        found = value_of(found, axis + 1, smooth[None])
        means = inner(means, axis + 1)
    values, fallback = to_primitive(list(found), gamma), to_primitive(list(means), gamma)
    good = (values[0] > 0) & (values[-1] > 0)
    return [jnp.where(good, a, b) for a, b in zip(values, fallback, strict=True)], jnp.where(good, smooth, 0)


def source_means(values: Array, smooth: Array, periodic: Sequence[bool]) -> Array:
    """Means over the cells of a grid of values at their centres, `(..., *shape)`. Beyond ends that are not periodic values
    go on as a polynomial of degree 4."""
    for place, around in enumerate(periodic):
        axis = values.ndim - len(periodic) + place
        share = jnp.expand_dims(smooth, range(values.ndim - smooth.ndim))
        values = mean_of(continued(values, axis, around), axis, share)
    return values


def continued(values: Array, axis: int, periodic: bool) -> Array:
    """Values with two more at both ends of an axis."""
    n = values.shape[axis]
    if periodic:
        return jnp.concatenate([cells(values, axis, n - 2, n), values, cells(values, axis, 0, 2)], axis)

    def beyond(last: int, step: int) -> list[Array]:
        nearest = [cells(values, axis, last + i * step, last + i * step + 1) for i in range(5)]
        terms = [[w * x for w, x in zip(weights, nearest, strict=True)] for weights in CONTINUED]
        return [sum(parts[1:], parts[0]) for parts in terms]

    below, above = beyond(0, 1), beyond(n - 1, -1)
    return jnp.concatenate([*below[::-1], values, *above], axis)


def smoothness(conserved: Array, axis: int) -> Array:
    r"""The share of a correction along an axis, $1 / (1 + (2 r)^6)$, from conserved quantities along the first axis.

    $r = |\delta^4 q| / (|\delta^3 q| + |\delta^2 q| + |\delta q|)$, the largest of all quantities: of order 1
    in the width of a cell or higher where the flow is smooth, 1 or above at jumps. Differences below a millionth of the values
    count as smooth.
    """
    n, x = conserved.shape[axis], conserved
    density, energy = jnp.abs(x[0]), jnp.abs(x[-1])
    sizes = jnp.stack([density, *([jnp.sqrt(density) * jnp.sqrt(energy)] * (len(x) - 2)), energy])
    near, far = cells(x, axis, 3, n - 1) - cells(x, axis, 1, n - 3), cells(x, axis, 4, n) - cells(x, axis, 0, n - 4)
    odd = 0.5 * (jnp.abs(near) + jnp.abs(far - 2 * near))  # first and third differences
    lowest = odd + jnp.abs(second(x, axis)) + 1e-6 * inner(sizes, axis)
    rough = jnp.max(jnp.abs(fourth(x, axis)) / lowest, axis=0)
    return 1 / (1 + (rough / JUMP) ** 6)


def inner(x: Array, axis: int) -> Array:
    """Values along an axis without two at either end."""
    return cells(x, axis, REACH, x.shape[axis] - REACH)


def second(x: Array, axis: int) -> Array:
    """Second differences along an axis, without two values at either end."""
    n = x.shape[axis]
    return cells(x, axis, 1, n - 3) - 2 * cells(x, axis, 2, n - 2) + cells(x, axis, 3, n - 1)


def fourth(x: Array, axis: int) -> Array:
    """Fourth differences along an axis, without two values at either end."""
    n = x.shape[axis]
    ends = cells(x, axis, 0, n - 4) + cells(x, axis, 4, n)
    return ends - 4 * (cells(x, axis, 1, n - 3) + cells(x, axis, 3, n - 1)) + 6 * cells(x, axis, 2, n - 2)
