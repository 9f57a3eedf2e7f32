"""Differential-algebraic problems for simkit and for IDA: M y' = f(t, y), with published end values.

Mazzia and Magherini (2008), Test Set for Initial Value Problem Solvers, release 2.4.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Constrained(NamedTuple):
    """A problem: `right(xp, t, y)` with NumPy's or JAX's functions, M as a matrix, a consistent start, the end and its state."""

    right: Callable[[Any, Any, Any], Any]
    mass: np.ndarray
    y0: np.ndarray
    end: float
    published: np.ndarray


def robertson() -> Constrained:
    def right(xp, t, y):
        a, b, c = y
        slow, fast, back = 0.04 * a, 3e7 * b * b, 1e4 * b * c
        return xp.stack([back - slow, slow - back - fast, a + b + c - 1])

    published = np.array([0.7158270688, 0.9185534765e-5, 0.2841637457])
    return Constrained(right, np.diag([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]), 40.0, published)


def akzo() -> Constrained:
    def right(xp, t, y):
        a, b, c, d, e, f = y
        root = xp.sqrt(xp.abs(b))  # a try may be below 0
        r1, r2, r3 = 18.7 * a**4 * root, 0.58 * c * d, 0.58 / 34.4 * a * e
        r4, r5, added = 0.09 * a * d * d, 0.42 * f * f * root, 3.3 * (0.9 / 737 - b)
        first = [r2 - 2 * r1 - r3 - r4, added - 0.5 * r1 - r4 - 0.5 * r5, r1 - r2 + r3]
        return xp.stack([*first, r3 - r2 - 2 * r4, r2 - r3 + r5, 115.83 * a * d - f])

    published = [0.1150794920661702, 0.1203831471567715e-2, 0.1611562887407974, 0.3656156421249283e-3]
    y0 = np.array([0.444, 0.00123, 0.0, 0.007, 0.0, 115.83 * 0.444 * 0.007])
    mass = np.diag([1.0] * 5 + [0.0])
    return Constrained(right, mass, y0, 180.0, np.array([*published, 0.1708010885264404e-1, 0.4873531310307455e-2]))


def amplifier() -> Constrained:
    def right(xp, t, y):
        source = 0.1 * xp.sin(200 * np.pi * t)
        first, second = (1e-6 * (xp.exp((y[i] - y[i + 1]) / 0.026) - 1) for i in (1, 4))
        currents = [
            (y[0] - source) / 1000,
            y[1] / 9000 + (y[1] - 6) / 9000 + 0.01 * first,
            y[2] / 9000 - first,
            (y[3] - 6) / 9000 + 0.99 * first,
            y[4] / 9000 + (y[4] - 6) / 9000 + 0.01 * second,
            y[5] / 9000 - second,
            (y[6] - 6) / 9000 + 0.99 * second,
            y[7] / 9000,
        ]
        return xp.stack(currents)

    mass = np.zeros((8, 8))
    for i, j, count in ((0, 1, 1), (3, 4, 3), (6, 7, 5)):
        mass[i, i] = mass[j, j] = -count
        mass[i, j] = mass[j, i] = count
    mass[2, 2], mass[5, 5] = -2, -4
    published = [-0.5562145012262709e-2, 3.006522471903042, 2.849958788608128, 2.926422536206241]
    published += [2.704617865010554, 2.761837778393145, 4.770927631616772, 1.236995868091548]
    y0 = np.array([0.0, 3.0, 3.0, 6.0, 3.0, 3.0, 6.0, 0.0])
    return Constrained(right, 1e-6 * mass, y0, 0.2, np.array(published))


PROBLEMS = {"robertson": robertson, "akzo": akzo, "amplifier": amplifier}
