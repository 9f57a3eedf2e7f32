"""Associated Legendre functions and Gauss-Legendre latitudes, computed once with NumPy in double precision."""

import functools
from typing import NamedTuple

import numpy as np

NEWTON_STEPS = 6
"""Steps of Newton's method from starts that are off by at most 0.1 % of the distance to the pole; four suffice."""


class Latitudes(NamedTuple):
    """Gauss-Legendre latitudes from south to north: angles in radians, sines, cosines, and weights whose sum is 1."""

    angles: np.ndarray
    sines: np.ndarray
    cosines: np.ndarray
    weights: np.ndarray


@functools.lru_cache(maxsize=8)
def gaussian_latitudes(count: int) -> Latitudes:
    r"""Return the Gauss-Legendre latitudes, the zeros of the Legendre polynomial of degree n = `count`, which must be even.

    Newton's method in the angle $\theta$ from the pole, in extended precision where the machine has it: near a pole the
    sine alone would not tell the cosine to rounding. The weights are $1 / (dP_n/d\theta)^2$.
    """
    theta = np.pi * (4 * np.arange(1, count // 2 + 1, dtype=np.longdouble) - 1) / (4 * count + 2)
    slope = np.ones_like(theta)
    for _ in range(NEWTON_STEPS):
        mu, sine = np.cos(theta), np.sin(theta)
        below, value = np.ones_like(mu), mu
        for n in range(2, count + 1):
            below, value = value, ((2 * n - 1) * mu * value - (n - 1) * below) / n
        slope = count * (mu * value - below) / sine
        theta = theta - value / slope
    angles = np.pi / 2 - theta
    both = lambda north, sign=1: np.concatenate([sign * north, north[::-1]]).astype(np.float64)
    weights = 1 / slope**2
    weights = weights / (2 * np.sum(weights))
    return Latitudes(both(angles, -1), both(np.cos(theta), -1), both(np.sin(theta)), both(weights))


def legendre_functions(top: int, sines: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    r"""Associated Legendre functions $P_l^m(\mu)$ of degrees l up to `top`, by

    $$\epsilon_{l+1}^m P_{l+1}^m = \mu P_l^m - \epsilon_l^m P_{l-1}^m, \qquad P_m^m = \sqrt{\frac{2 m + 1}{2 m}} \cos\phi\,
    P_{m-1}^{m-1}, \qquad \epsilon_l^m = \sqrt{\frac{l^2 - m^2}{4 l^2 - 1}}$$

    positive towards the north and of mean square 1, $\frac12\int_{-1}^1 (P_l^m)^2 d\mu = 1$. The recursion goes from $P_m^m$ up in
    degree, the direction in which it is stable. Starts too near a pole underflow to zero, where the function itself is as small.

    **Arguments:** `top`, the highest degree, and sines, $\mu$, and cosines of n latitudes.

    **Returns:** an array `(order, degree, n)`, zero where the order m exceeds the degree.

    **Source:** Belousov (1962), Tables of Normalized Associated Legendre Polynomials; Holmes and Featherstone
    (2002), J. Geodesy 76:279,
    doi:10.1007/s00190-002-0216-2, on the range of the recursion.
    """
    values = np.zeros((top + 1, top + 1, sines.size))
    start = np.ones_like(sines)
    factors = epsilon(np.arange(top + 1)[:, None], np.arange(top + 1)[None, :])
    for m in range(top + 1):
        values[m, m] = start
        if m < top:
            values[m, m + 1] = sines * start / factors[m, m + 1]
        for degree in range(m + 2, top + 1):
            below = factors[m, degree - 1] * values[m, degree - 2]
            values[m, degree] = (sines * values[m, degree - 1] - below) / factors[m, degree]
        start = start * cosines * np.sqrt((2 * m + 3) / (2 * m + 2))
    return values


def epsilon(order: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """The coefficients of the recursion, 0 where the order is not below the degree."""
    m, n = order.astype(np.float64), degree.astype(np.float64)
    return np.sqrt(np.maximum(n**2 - m**2, 0) / np.where(n > 0, 4 * n**2 - 1, 1))
