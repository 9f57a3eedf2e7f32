"""The functions that exponential integrators are made of."""

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Inexact

SERIES_BELOW = 1.0
"""Modulus |z| below which the functions are summed as series; above, division loses no more than a digit."""

SERIES_TERMS = 18
"""Number of terms of the series: the first term left out is below the rounding of float64."""


def phi_functions(z: Inexact[Array, "..."]) -> tuple[Any, Any, Any]:
    r"""$\phi_1, \phi_2, \phi_3$ with $\phi_0 = e^z$ and $\phi_{j+1}(z) = (\phi_j(z) - 1/j!)/z$, real or complex.

    Near zero the quotients lose all digits. There they are summed as series, from $\phi_3 = \sum_k z^k/(k+3)!$ upwards by the same
    recursion, which is stable in that direction; elsewhere they are computed as they stand. Both are accurate to some ten
    roundings and so are their derivatives, at the cost of two dozen products, where the mean over a contour (Kassam and Trefethen)
    takes dozens of exponentials and spoils derivatives by the radius of the contour.

    **Reference:** Cox and Matthews (2002), J. Comput. Phys. 176:430, doi:10.1006/jcph.2002.6995; Hochbruck and Ostermann (2010),
    Acta Numerica 19:209, doi:10.1017/S0962492910000048.
    """
    small = jnp.abs(z) < SERIES_BELOW
    near, far = jnp.where(small, z, 0), jnp.where(small, 1, z)
    third = jnp.full_like(z, 1 / math.factorial(SERIES_TERMS + 2))
    for k in range(SERIES_TERMS - 2, -1, -1):
        third = 1 / math.factorial(k + 3) + near * third
    second = 0.5 + near * third
    first = 1 + near * second
    one = (jnp.exp(far) - 1) / far
    two = (one - 1) / far
    three = (two - 0.5) / far
    return jnp.where(small, first, one), jnp.where(small, second, two), jnp.where(small, third, three)
