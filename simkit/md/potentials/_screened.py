r"""The screened interaction $\mathrm{erfc}(\alpha r) / r$, its slope and $e^{-\alpha^2 r^2}$, by one polynomial.

$e^{x^2} \mathrm{erfc}(x)$ divided by $v = 1/(x + 2.5)$ is smooth in v for all x >= 0. Its Chebyshev series between x = 0 and 10, of
degree 9 in single and 20 in double precision, is right to some roundings; beyond 10 all is below 1e-44.

**Source:** Shepherd and Laframboise (1981), Mathematics of Computation 36:249, doi:10.1090/S0025-5718-1981-0595058-X, for the
form of the variable.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._potential import reciprocal

OFFSET, REACH = 2.5, 10.0
DEGREES = {"float32": 9, "float64": 20}


@jax.custom_jvp
def screened(r2: Array, damping: Array) -> tuple[Array, Array, Array]:
    r"""$u = \mathrm{erfc}(\alpha r)/r$, its derivative by r^2, and $e^{-\alpha^2 r^2}$: all derivatives are made of these three."""
    inverse = reciprocal(r2)
    root = jnp.sqrt(inverse)
    gauss = jnp.exp(-damping * damping * r2)
    u = gauss * root * _scaled(damping * (r2 * root))
    return u, _slope(inverse, damping, u, gauss), gauss


@screened.defjvp
def _screened_tangent(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
    (r2, damping), (by, turn) = primals, tangents
    u, slope, gauss = screened(r2, damping)
    edge, square = 2 / math.sqrt(math.pi) * gauss, damping * damping
    bent = (0.5 * edge * square * damping - 1.5 * slope) * reciprocal(r2)
    return (u, slope, gauss), (
        slope * by - edge * turn,
        bent * by + edge * square * turn,
        -gauss * (square * by + 2 * damping * r2 * turn),
    )


def _slope(inverse: Array, damping: Array, u: Array, gauss: Array) -> Array:
    return -0.5 * inverse * (u + 2 / math.sqrt(math.pi) * damping * gauss)


def _scaled(x: Array) -> Array:
    """e^(x^2) erfc(x) for x >= 0; without a derivative of its own."""
    v = 1 / (x + OFFSET)
    low, high = 1 / (REACH + OFFSET), 1 / OFFSET
    w = 2 / (high - low) * v - (high + low) / (high - low)
    return v * _polynomial(w, _erfc_series(DEGREES[str(x.dtype)]))


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """A polynomial by even and odd powers: two chains of sums that do not wait for each other."""
    square = x * x
    even, odd = coefficients[::2], coefficients[1::2]
    chain = lambda numbers: functools.reduce(lambda total, c: total * square + c, numbers[-2::-1], numbers[-1])
    return chain(even) + x * chain(odd)


@functools.cache
def _erfc_series(degree: int) -> tuple[float, ...]:
    from scipy.special import erfcx

    low, high = 1 / (REACH + OFFSET), 1 / OFFSET

    def function(w: np.ndarray) -> np.ndarray:
        v = (low + high) / 2 + (high - low) / 2 * w
        return erfcx(1 / v - OFFSET) / v

    return _series(function, degree)


def _series(function: Any, degree: int) -> tuple[float, ...]:
    """The Chebyshev series of a function between -1 and 1, cut off, as powers."""
    chebyshev: Any = np.polynomial.chebyshev
    return tuple(chebyshev.cheb2poly(chebyshev.chebinterpolate(function, 32)[: degree + 1]).tolist())
