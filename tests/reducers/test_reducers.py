"""Each reducer beside NumPy on the same rows, outside any simulation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.reducers import Extremes, Histogram, Integral, Mean, Moments

RNG = np.random.default_rng(3)
TIMES = np.sort(RNG.uniform(0.0, 5.0, 40))
ROWS = RNG.normal(3.0, 2.0, (40, 3))


def reduced(reducer, times=TIMES, rows: Any = ROWS):
    times, rows = jnp.asarray(times), jax.tree.map(jnp.asarray, rows)
    total = reducer.start(times[0], jax.tree.map(lambda x: x[0], rows))
    total, _ = jax.lax.scan(lambda total, row: (reducer.update(total, *row), None), total, (times, rows))
    return reducer.finish(total)


def test_mean_and_moments():
    np.testing.assert_allclose(reduced(Mean()), ROWS.mean(axis=0), rtol=1e-14)  # 40 roundings
    found = reduced(Moments())
    np.testing.assert_allclose(found.mean, ROWS.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.variance, ROWS.var(axis=0), rtol=1e-13)
    assert found.count == 40


def test_the_variance_of_numbers_far_from_zero_keeps_its_digits():
    far = ROWS + 1e8
    np.testing.assert_allclose(reduced(Moments(), rows=far).variance, far.var(axis=0), rtol=1e-6)
    # the mean of squares has lost them: 1e16 in float64 is known to 2
    assert np.max(np.abs((far**2).mean(axis=0) - far.mean(axis=0) ** 2 - far.var(axis=0))) > 0.1


def test_moments_of_complex_rows():
    rows = ROWS + 1j * ROWS[::-1]
    found = reduced(Moments(), rows=rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.variance, rows.var(axis=0), rtol=1e-13)
    assert found.variance.dtype == np.float64


def test_extremes_are_of_each_number_and_met_first():
    found = reduced(Extremes(), rows={"a": ROWS, "b": np.ones(40)})
    np.testing.assert_array_equal(found.minimum["a"], ROWS.min(axis=0))
    np.testing.assert_array_equal(found.maximum["a"], ROWS.max(axis=0))
    np.testing.assert_array_equal(found.time_of_minimum["a"], TIMES[ROWS.argmin(axis=0)])
    np.testing.assert_array_equal(found.time_of_maximum["a"], TIMES[ROWS.argmax(axis=0)])
    assert found.time_of_minimum["b"] == found.time_of_maximum["b"] == TIMES[0]


def test_a_histogram_counts_as_numpy_does():
    edges = np.array([-1.0, 0.0, 2.5, 3.0, 6.0])
    rows = np.concatenate([ROWS, [[-1.0, 3.0, 6.0], [6.0001, -1.0001, 2.5]]])  # on edges and just outside
    times = np.arange(42.0)
    np.testing.assert_array_equal(reduced(Histogram(edges), times, rows), np.histogram(rows, edges)[0])
    # What is not a number is in no bin, and not left out unsaid either.
    missing = np.where(np.arange(42) == 7, np.nan, rows) if np.ndim(rows) == 1 else np.full(42, np.nan)
    assert np.isnan(reduced(Histogram(edges), times, missing)).all()


@pytest.mark.parametrize("edges", [[1.0], [0.0, 0.0, 1.0], [[0.0, 1.0]], [0.0, np.nan, 1.0]])
def test_edges_must_increase(edges):
    with pytest.raises((simkit.ArgumentError, TypeError), match=r"(?s)edges"):
        Histogram(np.array(edges))


def test_an_observable_must_be_a_function():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    with pytest.raises((simkit.ArgumentError, TypeError), match=r"(?s)observable"):
        simkit.simulate(system, y0, times, reduce={"mean": simkit.reducers.Mean("hare")})


def test_the_integral_is_that_of_the_trapezoidal_rule():
    expected = np.sum(np.diff(TIMES)[:, None] * (ROWS[1:] + ROWS[:-1]) / 2, axis=0)
    np.testing.assert_allclose(reduced(Integral()), expected, rtol=1e-14)
