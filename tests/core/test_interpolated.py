"""Curves through tables: SciPy's values, derivatives, padding, and steps that end at kinks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline, PchipInterpolator

import simkit
from simkit.core import stop_times

RNG = np.random.default_rng(5)
TIMES = np.sort(RNG.uniform(0.0, 10.0, 12))
VALUES = RNG.normal(size=12)
VALUES[4:7] = [0.3, 0.3, 0.9]  # flat somewhere
CLOSED = np.append(VALUES[:-1], VALUES[0])
GRID = np.linspace(TIMES[0], TIMES[-1], 403)


def values_of(signal, times=GRID):
    return np.asarray(jax.vmap(signal)(jnp.asarray(times)))


@pytest.mark.parametrize("count", [4, 5, 12])
def test_the_spline_is_scipys(count):
    found = values_of(simkit.Interpolated(TIMES[:count], VALUES[:count], kind="cubic"), GRID[TIMES[count - 1] >= GRID])
    # Both are sums of a few products of numbers up to 10: 1e-12 are thousands of roundings.
    np.testing.assert_allclose(
        found, CubicSpline(TIMES[:count], VALUES[:count])(GRID[TIMES[count - 1] >= GRID]), atol=1e-12
    )


@pytest.mark.parametrize("count", [2, 3, 12])
def test_the_monotone_curve_is_scipys(count):
    times = GRID[TIMES[count - 1] >= GRID]
    found = values_of(simkit.Interpolated(TIMES[:count], VALUES[:count], kind="monotone"), times)
    np.testing.assert_allclose(found, PchipInterpolator(TIMES[:count], VALUES[:count])(times), atol=1e-12)


def test_periodic_curves():
    spline = simkit.Interpolated(TIMES, CLOSED, kind="cubic", periodic=True)
    np.testing.assert_allclose(values_of(spline), CubicSpline(TIMES, CLOSED, bc_type="periodic")(GRID), atol=1e-12)
    monotone = simkit.Interpolated(TIMES, CLOSED, kind="monotone", periodic=True)
    period = TIMES[-1] - TIMES[0]
    thrice = np.concatenate([TIMES[:-1] + k * period for k in (-1, 0)] + [TIMES + period])
    wide = PchipInterpolator(thrice, np.concatenate([CLOSED[:-1], CLOSED[:-1], CLOSED]))
    np.testing.assert_allclose(values_of(monotone), wide(GRID), atol=1e-12)
    for signal in (spline, monotone):  # times of 40 are rounded to 7e-15, and slopes are of size 10
        np.testing.assert_allclose(
            values_of(signal, GRID[1:-1] + 3 * period), values_of(signal, GRID[1:-1]), atol=1e-11
        )
        assert stop_times({"a": signal}) is None


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("kind", ["cubic", "monotone"])
def test_padding_changes_no_value_and_values_have_derivatives(kind, periodic):
    values = CLOSED if periodic else VALUES
    signal = simkit.Interpolated(TIMES, values, kind=kind, periodic=periodic)
    times = np.linspace(-2.0, 12.0, 101)
    np.testing.assert_allclose(values_of(signal.padded(17), times), values_of(signal, times), atol=1e-14)

    def total(values):
        if periodic:
            values = values.at[-1].set(values[0])
        signal = simkit.Interpolated(TIMES, values, kind=kind, periodic=periodic)
        return jnp.sum(jax.vmap(signal)(jnp.asarray(times)) * jnp.sin(times))

    start, direction = (
        jnp.asarray(values),
        jnp.asarray(np.where(np.isin(np.arange(12), [4, 5]), 0, RNG.normal(size=12))),
    )
    slope = jax.jit(jax.grad(total))(start) @ direction
    h = 1e-4
    difference = (total(start + h * direction) - total(start - h * direction)) / (2 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-7)  # differences round by 1e-15 / h and err by h^2


def test_outside_a_curve_is_constant_and_its_ends_are_kinks():
    signal = simkit.Interpolated(TIMES, VALUES, kind="cubic")
    np.testing.assert_allclose(values_of(signal, [-5.0, 20.0]), VALUES[[0, -1]], atol=1e-15)
    np.testing.assert_array_equal(stop_times(signal), TIMES[[0, -1]])
    np.testing.assert_array_equal(
        stop_times([simkit.Interpolated(TIMES, VALUES), simkit.PiecewiseConstant([3.0], [1.0])]), [3.0, *TIMES]
    )
    assert signal.jumps().size == 0


def test_steps_end_at_kinks():
    """Weekly values: few rejected steps, and the exact response of a first-order lag to straight lines."""
    times = np.arange(0.0, 52.5, 0.5)
    values = np.where(np.arange(105) % 3 == 0, 5.0, RNG.uniform(0.0, 1.0, 105))
    system = simkit.from_function(lambda t, y, p, u: {"x": u["rain"] - p["k"] * y["x"]}, {"k": 0.7})
    rain = simkit.Interpolated(times, values)
    run = simkit.simulate(system, {"x": 0.0}, [0.0, 52.0], inputs={"rain": rain})
    x, k, h = 0.0, 0.7, 0.5
    for a, b in itertools.pairwise(values):
        slope = (b - a) / h
        at = lambda s, a=a, slope=slope: (a + slope * s) / k - slope / k**2
        x = at(h) + (x - at(0.0)) * np.exp(-k * h)
    # Without the kinks 7e-4 at the default tolerance of 1e-6, and some 360 rejected steps.
    np.testing.assert_allclose(run.final()["x"], x, rtol=2e-5)
    assert int(run.rejected) < 72  # a fifth; 34 were counted

    def end(values):
        inputs = {"rain": simkit.Interpolated(times, values)}
        return simkit.simulate(system, {"x": 0.0}, [0.0, 52.0], inputs=inputs).final()["x"]

    slope = jax.grad(end)(jnp.asarray(values))
    # The response to the last value alone: a hat of half an interval.
    last = (1 - (1 - np.exp(-k * h)) / (k * h)) / k
    np.testing.assert_allclose(slope[-1], last, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"periodic": True}, "`periodic` must be False"),
        ({"kind": "cubic", "times": [0.0, 1.0, 2.0], "values": [1.0, 2.0, 1.0]}, "at least 4 points"),
        ({"kind": "monotone", "periodic": True}, "last value of a periodic table"),
    ],
)
def test_wrong_tables_are_refused(options, message):
    given = {"times": TIMES, "values": VALUES} | options
    with pytest.raises(simkit.ArgumentError, match=message):
        simkit.Interpolated(**given)


def test_pulses_must_last():
    with pytest.raises(simkit.ArgumentError, match="must be positive, but it is -1"):
        simkit.Pulses([0.0], [1.0], -1.0)
