"""Profiles of a likelihood that particles estimate: against Kalman's filter, and the coverage of intervals by statistics."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, Experiment, Free, GaussNewton, IteratedFiltering, Problem
from simkit.filters import KalmanFilter, ParticleFilter
from simkit.fitting import _noisy_profile
from simkit.noise import Normal
from simkit.odes import OrnsteinUhlenbeck
from simkit.solvers import EulerMaruyama
from simkit.viz import plot_profile


def walk(likelihood, reversion, **given):
    times = np.arange(1.0, 13.0)
    data = [2.1, 1.2, 0.4, 0.7, -0.4, -1.1, -0.2, 0.5, 0.9, -0.1, 0.1, -0.8]
    return Problem(
        OrnsteinUhlenbeck(reversion, 0.0, 0.6),
        Experiment("walk", times, {"x": data}, start=0.0, y0={"x": 2.0}),
        free={"volatility": Free(bounds=(0.05, 5.0), start=1.0), "mean": Free(bounds=(-5.0, 5.0), start=1.0)},
        noise={"x": Normal(0.2)},
        likelihood=likelihood,
        **given,
    )


def test_profiles_against_those_of_kalmans_filter(tmp_path):
    """One Euler step of a rate of 1 - exp(-0.7) is the exact step, but for the unit of the volatility."""
    exact = walk(KalmanFilter(), 0.7)
    true = simkit.profile(exact, simkit.fit(exact, starts=1))
    problem = walk(ParticleFilter(100, key=jax.random.key(0)), 1 - np.exp(-0.7), solver=EulerMaruyama(), step=1.0)
    fit = simkit.fit(problem, starts=1, method=IteratedFiltering(20), key=jax.random.key(2))
    found = simkit.profile(problem, fit, points=8, store=tmp_path / "parts")
    ends, unit = np.array(true.intervals), np.sqrt((1 - np.exp(-1.4)) / 1.4)
    ends[0] *= unit
    wide = (ends[:, 1] - ends[:, 0])[:, None]
    # The noise of a filter is some 0.2 here, the mean of ten 0.06: an end moves by 0.06 / (slope of 2 at the end), a curve by less.
    assert np.abs((np.asarray(found.intervals) - ends) / wide).max() < 0.08, found
    assert np.all(np.asarray(found.cutoffs) >= found.threshold)
    assert np.all(np.asarray(found.errors) > 0)
    apart = np.asarray(found.differences - found.smooth)
    assert 0 < np.nanstd(apart) < 0.3
    assert "their noise moves the maximum by 0.0" in repr(found)

    again = simkit.profile(problem, fit, points=8, store=tmp_path / "parts")
    assert np.array_equal(again.differences, found.differences, equal_nan=True)
    with pytest.raises(simkit.SimkitError, match="before all profiles had values"):
        simkit.profile(problem, fit, points=8, within=1e-3)
    simkit.save(tmp_path / "profiles.h5", fit, profiles=found)
    kept = simkit.load(tmp_path / "profiles.h5").profiles
    assert np.array_equal(kept.smooth, found.smooth, equal_nan=True)
    assert np.array_equal(kept.cutoffs, found.cutoffs)
    figure = plot_profile(found)
    lines = figure.axes[0].get_lines()
    assert lines[0].get_ydata()[0] == pytest.approx(float(found.cutoffs[0]))
    assert lines[1].get_linestyle() == "None"
    plt.close(figure)

    with pytest.raises(
        ArgumentError, match="`GaussNewton`, cannot profile a likelihood that particles estimate: leave `method` out"
    ):
        simkit.profile(problem, fit, method=GaussNewton())
    with pytest.raises(ArgumentError, match="Argument `names` must name at least one free parameter"):
        simkit.profile(problem, fit, names=[])
    with pytest.raises(ArgumentError, match="Argument `points` must be a whole number of at least 5, but it is 4"):
        simkit.profile(problem, fit, points=4)


def profiled(random, noise, points=10):
    """The interval of one noisy quadratic profile whose truth is 0, around an estimate that is off by a third of an error."""
    maximum = random.normal()
    sides = []
    for sign in (-1, 1):
        side = object.__new__(_noisy_profile._Side)
        side.sign, side.centre, side.limit = sign, maximum + 0.3 * random.normal(), sign * np.inf
        side.reach, side.values, side.heights, side.asks = 1.3 * 1.96, [], [], True
        sides.append(side)
    sides[1].centre = sides[0].centre
    for _ in range(_noisy_profile.ROUNDS):
        for side in sides:
            if side.asks:
                values = side.next_values(points)
                side.values += list(values)
                side.heights += list(0.5 * (values - maximum) ** 2 + noise * random.normal(size=points))
        found = _noisy_profile._judge((sides[0], sides[1]), 0.95)
    return found


def test_intervals_of_noisy_profiles_hold_the_truth():
    """300 profiles with a noise of 0.5: the 95 % intervals hold the truth as often, within four binomial standard errors."""
    random, count, hits = np.random.default_rng(0), 300, 0
    for _ in range(count):
        lower, upper = profiled(random, 0.5).ends
        hits += (lower is None or lower < 0) and (upper is None or upper > 0)
    assert abs(hits / count - 0.95) < 4 * np.sqrt(0.95 * 0.05 / count)


def test_the_monte_carlo_error_is_that_of_repeated_profiles():
    random, values = np.random.default_rng(1), np.linspace(-2.5, 2.5, 20)
    places, errors = [], []
    for _ in range(300):
        heights = 0.5 * (values - 0.3) ** 2 + 0.3 * random.normal(size=20)
        error, bend = _noisy_profile.monte_carlo_error(values, heights, 0.3)
        weight = _noisy_profile._weights(np.abs(values - 0.3))
        # The standard formulas of R's `lm` with weights, as the paper's code has them: minus a x^2 + b x + c.
        terms = np.stack([-(values**2), values, np.ones_like(values)], axis=1)
        normal = np.linalg.inv(terms.T @ (weight[:, None] * terms))
        a, b, c = normal @ terms.T @ (weight * -heights)
        rest = -heights - terms @ np.array([a, b, c])
        covariance = normal * (weight * rest**2).sum() / ((weight > 0).sum() - 3)
        told = (covariance[1, 1] - 2 * b / a * covariance[0, 1] + b**2 / a**2 * covariance[0, 0]) / (4 * a**2)
        assert error == pytest.approx(np.sqrt(told), rel=1e-6)
        assert bend == pytest.approx(a, rel=1e-6)
        places.append(b / (2 * a))
        errors.append(error)
    assert np.std(places) == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.15)
