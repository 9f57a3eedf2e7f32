r"""Fourier series along circles of latitude, as products of small matrices; each transform states its transpose by the other.

Orders m stand even ones first. With N longitudes even orders are alike on both halves of a circle and odd ones opposite. Within
half a circle cosines of even orders are alike on both sides of its middle and sines opposite; of odd orders it is the other way
round. So a quarter of the circle is left for each product, and with it a quarter of the work.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ...engine import paired


class Circle(NamedTuple):
    """Orders up to `top` on circles of so many longitudes, an even number."""

    top: int
    longitudes: int


@functools.lru_cache(maxsize=8)
def orders_of(top: int) -> np.ndarray:
    """The orders up to `top`, even ones first."""
    return np.concatenate([np.arange(0, top + 1, 2), np.arange(1, top + 1, 2)])


def fourier(top: int, columns: Float[Array, "n 2 f j"]) -> Float[Array, "m 2 fr j"]:
    """Fourier series of columns along longitude, apart by parity of latitude: real and imaginary parts of each field."""
    return _fourier(Circle(top, columns.shape[0]), columns)


def around(longitudes: int, waves: Float[Array, "m 2 fr j"]) -> Float[Array, "n 2 f j"]:
    """Columns of Fourier series, apart by parity of latitude."""
    return _around(Circle(waves.shape[0] - 1, longitudes), waves)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fourier(circle: Circle, columns: Array) -> Array:
    return _series(circle, _share(circle), columns)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _around(circle: Circle, waves: Array) -> Array:
    return _values(circle, _twice(circle), waves)


@_fourier.defjvp
def _fourier_jvp(circle: Circle, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    forward, backward = _maps(circle)
    return _fourier(circle, *primals), paired(forward, backward, (), tangents[0])


@_around.defjvp
def _around_jvp(circle: Circle, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    forward, backward = _maps(circle, back=True)
    return _around(circle, *primals), paired(forward, backward, (), tangents[0])


@functools.cache
def _maps(circle: Circle, back: bool = False) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """One of the transforms and its transpose."""
    factors = _twice(circle) if back else _share(circle)
    series, values = (lambda _, x: _series(circle, factors, x)), (lambda _, x: _values(circle, factors, x))
    return (values, series) if back else (series, values)


def _share(circle: Circle) -> np.ndarray:
    return np.full(circle.top + 1, 1 / circle.longitudes)


def _twice(circle: Circle) -> np.ndarray:
    """All orders but the mean stand for themselves and their negatives."""
    return np.where(orders_of(circle.top) == 0, 1.0, 2.0)


@functools.lru_cache(maxsize=8)
def _turns(circle: Circle) -> tuple[np.ndarray, np.ndarray]:
    """cos and -sin of all orders at the longitudes of the first quarter of a circle, `(M, N // 4 + 1)`."""
    angle = 2 * np.pi / circle.longitudes * orders_of(circle.top)[:, None] * np.arange(circle.longitudes // 4 + 1)
    return np.cos(angle), -np.sin(angle)


def _series(circle: Circle, factors: np.ndarray, columns: Array) -> Array:
    """Sums of columns times cos and -sin of each order, and times the factor of the order."""
    _, _, count, half = columns.shape
    n, evens = circle.longitudes, circle.top // 2 + 1
    cosines, sines = _turns(circle)
    pairs, middle = n // 4, n // 2
    near_half = columns[1 : pairs + 1], columns[middle - pairs : middle][::-1]
    far_half = columns[middle + 1 : middle + pairs + 1], columns[n - pairs :][::-1]
    once = np.where(
        2 * np.arange(1, pairs + 1) == middle, 0.5, 1.0
    )  # the end of the quarter stands on both of its sides

    def turned(turns: np.ndarray, factors: np.ndarray, part: Array) -> Array:
        matrix = jnp.asarray(turns[:, 1:] * once * factors[:, None], columns.dtype)
        return (matrix @ part.reshape(pairs, -1)).reshape(-1, 2, count, half)

    real, imaginary = [], []
    for kept, sign in ((slice(0, evens), 1), (slice(evens, None), -1)):
        near, far = (a + sign * b for a, b in zip(near_half, far_half, strict=True))
        start = jnp.asarray(factors[kept, None, None, None], columns.dtype) * (
            columns[:1] + sign * columns[middle : middle + 1]
        )
        real.append(turned(cosines[kept], factors[kept], near + sign * far) + start)
        imaginary.append(turned(sines[kept], factors[kept], near - sign * far))
    waves = jnp.stack([jnp.concatenate(real), jnp.concatenate(imaginary)], 3).reshape(-1, 2, 2 * count, half)
    return jnp.stack([waves[:, 0] + waves[:, 1], waves[:, 0] - waves[:, 1]], 1)


def _values(circle: Circle, factors: np.ndarray, waves: Array) -> Array:
    """Sums of the orders times cos and -sin at each longitude, and times the factor of the order."""
    size, _, count, half = waves.shape
    n, evens = circle.longitudes, circle.top // 2 + 1
    cosines, sines = _turns(circle)
    sides = jnp.stack([waves[:, 0] + waves[:, 1], waves[:, 0] - waves[:, 1]], 1)
    sides = jnp.transpose(sides.reshape(size, 2, count // 2, 2, half), (3, 0, 1, 2, 4))

    def turned(turns: np.ndarray, factors: np.ndarray, part: Array) -> Array:
        return jnp.asarray((turns * factors[:, None]).T, waves.dtype) @ part.reshape(len(factors), -1)

    def half_circle(kept: slice, sign: int) -> Array:
        """Values of one parity of orders at the first half of the longitudes."""
        pairs = (n // 2 - 1) // 2
        ends = (
            (n // 4, pairs) if sign > 0 else (pairs, n // 4)
        )  # cosines of odd orders and sines of even ones vanish in the middle
        cos = turned(cosines[kept, : ends[0] + 1], factors[kept], sides[0, kept])
        sin = turned(sines[kept, 1 : ends[1] + 1], factors[kept], sides[1, kept])
        middle = cos[pairs + 1 :] if sign > 0 else sin[pairs:]
        start, cos, sin = cos[:1], cos[1 : pairs + 1], sin[:pairs]
        return jnp.concatenate([start, cos + sin, middle, (sign * (cos - sin))[::-1]])

    even, odd = half_circle(slice(0, evens), 1), half_circle(slice(evens, None), -1)
    return jnp.concatenate([even + odd, even - odd]).reshape(n, 2, count // 2, half)
