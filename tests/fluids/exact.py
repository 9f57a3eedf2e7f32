"""Exact solutions of Riemann problems and of solitons, computed as the textbooks say."""

import numpy as np
from scipy.optimize import brentq


def gas_tube(left, right, gamma, speeds):
    """Density, velocity and pressure on rays x / t, and the pressure and velocity between the waves.

    Toro (2009), Riemann Solvers and Numerical Methods for Fluid Dynamics, chapter 4.
    """
    g = gamma

    def branch(p, state):
        rho, _, q = state
        c = np.sqrt(g * q / rho)
        if p > q:
            return (p - q) * np.sqrt(2 / (g + 1) / rho / (p + (g - 1) / (g + 1) * q))
        return 2 * c / (g - 1) * ((p / q) ** ((g - 1) / (2 * g)) - 1)

    middle = brentq(
        lambda p: branch(p, left) + branch(p, right) + right[1] - left[1], 1e-12, 1e6, xtol=1e-15, rtol=1e-15
    )
    velocity = 0.5 * (left[1] + right[1]) + 0.5 * (branch(middle, right) - branch(middle, left))

    def side(state, s, sign):
        """The state seen from a side with its wave; `sign` is 1 on the left. Mirrored, the right is a left."""
        rho, u, p = state
        u, s, v = sign * u, sign * s, sign * velocity
        c = np.sqrt(g * p / rho)
        if middle > p:
            ratio = middle / p
            inner = rho * (ratio + (g - 1) / (g + 1)) / ((g - 1) / (g + 1) * ratio + 1)
            shock = u - c * np.sqrt((g + 1) / (2 * g) * ratio + (g - 1) / (2 * g))
            return (rho, sign * u, p) if s < shock else (inner, sign * v, middle)
        inner = rho * (middle / p) ** (1 / g)
        end = c * (middle / p) ** ((g - 1) / (2 * g))
        if s < u - c:
            return rho, sign * u, p
        if s > v - end:
            return inner, sign * v, middle
        w = 2 / (g + 1) * (c + (g - 1) / 2 * u + s)
        a = 2 / (g + 1) * (c + (g - 1) / 2 * (u - s))
        return rho * (a / c) ** (2 / (g - 1)), sign * w, p * (a / c) ** (2 * g / (g - 1))

    found = [side(left, s, 1) if s < velocity else side(right, s, -1) for s in speeds]
    return np.array(found).T, (middle, velocity)


def dam_break(left, right, gravity, speeds):
    """Height and velocity of water at rest behind a dam on rays x / t, and both between the waves.

    Stoker (1957), Water Waves, section 10.8.
    """
    c = np.sqrt(gravity * left)

    def speed_behind_shock(h):
        return (h - right) * np.sqrt(gravity / 2 * (1 / h + 1 / right))

    middle = brentq(
        lambda h: speed_behind_shock(h) - 2 * (c - np.sqrt(gravity * h)), right, left, xtol=1e-16, rtol=1e-15
    )
    velocity = speed_behind_shock(middle)
    shock = middle * velocity / (middle - right)
    height, flow = np.empty(len(speeds)), np.empty(len(speeds))
    for k, s in enumerate(speeds):
        if s < -c:
            height[k], flow[k] = left, 0
        elif s < velocity - np.sqrt(gravity * middle):
            height[k], flow[k] = (2 * c - s) ** 2 / (9 * gravity), 2 / 3 * (c + s)
        elif s < shock:
            height[k], flow[k] = middle, velocity
        else:
            height[k], flow[k] = right, 0
    return np.stack([height, flow]), (middle, velocity)


def two_solitons(x, t, fast=1.2, slow=0.7):
    r"""Of $u_t + 6 u u_x + u_{xxx} = 0$, with speeds `fast**2` and `slow**2`, which pass each other at x = 0 and t = 0.

    Hirota (1971), Phys. Rev. Lett. 27:1192: $u = 2 \partial_x^2 \ln F$.
    """
    a, b = fast, slow
    mix = ((a - b) / (a + b)) ** 2
    f, g = np.exp(a * x - a**3 * t) / np.sqrt(mix), np.exp(b * x - b**3 * t) / np.sqrt(mix)
    whole = 1 + f + g + mix * f * g
    first = a * f + b * g + mix * (a + b) * f * g
    second = a**2 * f + b**2 * g + mix * (a + b) ** 2 * f * g
    return 2 * (second / whole - (first / whole) ** 2)
