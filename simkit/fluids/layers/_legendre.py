"""Legendre polynomials on the points of Gauss and Lobatto, and combinations of them that meet boundary conditions."""

import functools
from typing import NamedTuple

import numpy as np


class Points(NamedTuple):
    """The points of Gauss and Lobatto between -1 and 1, both ends included, and their weights in a mean; the sum of these is 1."""

    places: np.ndarray
    weights: np.ndarray


@functools.lru_cache(maxsize=32)
def lobatto(count: int) -> Points:
    r"""The points where $(1 - s^2) P_{n-1}'(s) = 0$, n = `count`; means of polynomials up to the degree 2 n - 3 are exact."""
    top = count - 1
    s = -np.cos(np.pi * np.arange(1, top) / top)
    for _ in range(20):  # Newton's method; three or four steps are enough
        values, slopes, curves = legendre(top, s)
        s = s - slopes[top] / curves[top]
    s = 0.5 * (s - s[::-1])
    places = np.concatenate([[-1.0], s, [1.0]])
    values = legendre(top, places)[0][top]
    return Points(places, 1 / (top * count * values**2))


def legendre(top: int, places: np.ndarray) -> np.ndarray:
    """Legendre polynomials of degrees 0 to `top` with first and second derivatives, `(3, top + 1, places)`."""
    found = np.zeros((3, top + 1, places.size))
    found[0, 0] = 1.0
    if top > 0:
        found[0, 1], found[1, 1] = places, 1.0
    for k in range(2, top + 1):
        found[0, k] = ((2 * k - 1) * places * found[0, k - 1] - (k - 1) * found[0, k - 2]) / k
        for order in (1, 2):
            found[order, k] = found[order, k - 2] + (2 * k - 1) * found[order - 1, k - 1]
    return found


def combined(top: int, places: np.ndarray, lower: tuple[int, ...], upper: tuple[int, ...]) -> np.ndarray:
    r"""Combinations $\phi_k = \sum_j c_{kj} P_{k+j}$ of neighbouring polynomials that meet homogeneous boundary conditions.

    **Arguments:** `top`: the highest degree; `lower`, `upper`: the orders of the derivatives that are 0 at -1 and at 1.

    **Returns:** values, first and second derivatives, `(3, functions, places)`; the largest curvature, slope or value is near 1.

    **Source:** Shen (1994), SIAM J. Sci. Comput. 15:1489, doi:10.1137/0915089.
    """
    ends = legendre(top, np.array([-1.0, 1.0]))
    rows = np.concatenate([ends[list(lower), :, 0], ends[list(upper), :, 1]])
    count = rows.shape[0]
    values = legendre(top, places)
    functions = np.zeros((3, top + 1 - count, places.size))
    for k in range(top + 1 - count):
        sizes = np.maximum(np.abs(rows[:, k : k + count + 1]).max(axis=1), 1.0)[:, None]
        local = rows[:, k : k + count + 1] / sizes
        factors = np.concatenate([[1.0], np.linalg.solve(local[:, 1:], -local[:, 0])])
        functions[:, k] = np.einsum("j,djs->ds", factors, values[:, k : k + count + 1])
    return functions
