"""Smoothing splines are those of another program, and as smooth as the noise asks."""

import numpy as np
from scipy.interpolate import make_smoothing_spline

from simkit.fitting._smoothing import smoothing_spline

RANDOM = np.random.default_rng(0)


def test_it_is_a_spline_of_the_family():
    """SciPy's, of some lambda of the grid: it takes lambda in the units of x."""
    x = np.cumsum(RANDOM.uniform(0.2, 1.0, 15))
    y = np.sin(x) + 0.2 * RANDOM.normal(size=15)
    fine = np.linspace(x[0], x[-1], 50)
    grid = np.geomspace(1e-4, 1e8, 241) * np.median(np.diff(x)) ** 3
    misses = [
        np.abs(make_smoothing_spline(x, y, lam=value)(fine) - smoothing_spline(x, y)(fine)).max() for value in grid
    ]
    assert min(misses) < 1e-8


def test_a_straight_line_stays_one():
    x = np.arange(10.0)
    np.testing.assert_allclose(smoothing_spline(x, 2 * x - 1)(x + 0.5), 2 * x, atol=1e-8)


def test_noise_is_taken_away():
    x = np.linspace(0.0, 20.0, 101)
    found = smoothing_spline(x, np.sin(x) + 0.2 * RANDOM.normal(size=101))(x)
    # A wave of 20 time units has some 15 degrees of freedom: sqrt(15 / 101) of the noise stays.
    assert np.sqrt(np.mean((found - np.sin(x)) ** 2)) < 0.1
