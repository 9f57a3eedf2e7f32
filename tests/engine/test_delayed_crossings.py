"""Breaking points of lags that vary, located where they are crossed: values, derivatives, scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.test_delayed import POINT, TIMES, exact, slopes_of

import simkit
from simkit import Adaptive

LAST = 2.4


def moving(lag, share, rate, before, unit=1.0):
    """x' = rate and y' = -y(t - lag - share x) from 0 and 1, with y = `before` at earlier times: y's slope jumps once."""

    def f(t, y, past, p):
        return {"x": p["rate"] / unit, "y": -past(t - (p["lag"] + p["share"] * y["x"]) * unit)["y"] / unit}

    params = {"lag": lag, "share": share, "rate": rate, "before": before}
    return simkit.odes.from_delayed_function(
        f,
        params,
        lags=lambda t, y, p: (p["lag"] + p["share"] * y["x"]) * unit,
        history=lambda t, p: {"x": 0.0 * t, "y": p["before"]},
    )


def moved(lag, share, rate, before, rtol=1e-9):
    found = simkit.simulate(
        moving(lag, share, rate, before), {"x": 0.0, "y": 1.0}, [0.0, 1.0, LAST], step=Adaptive(rtol)
    )
    return found.ys["y"]


def moved_exactly(lag, share, rate, before):
    """The time looked at is s t - lag with s = 1 - share rate; it is the start at lag / s, and the solution then is quadratic."""
    s = 1 - share * rate

    def y(t):
        start = lag / s
        d = max(t - start, 0.0)
        return 1 - before * min(t, start) - (d - before * s * d**2 / 2)

    return np.array([y(t) for t in (0.0, 1.0, LAST)])


CASE = 0.9, 0.3, 1.1, 0.4


def test_a_lag_that_depends_on_the_state_ends_a_step_where_the_history_jumps():
    np.testing.assert_allclose(moved(*CASE), moved_exactly(*CASE), rtol=1e-11)


@pytest.mark.parametrize("way", [jax.jacfwd, pytest.param(jax.jacrev, marks=pytest.mark.slow)])
def test_derivatives_move_a_located_breaking_point(way):
    """Held, the derivative by the lag would miss the jump of the slope, 0.6, times the rate at which its place moves."""
    for one, slope in zip(way(moved, argnums=(0, 1, 2, 3))(*CASE), slopes_of(moved_exactly, CASE), strict=True):
        np.testing.assert_allclose(one, slope, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_second_derivatives_move_it_too():
    found = jax.jacfwd(jax.jacrev(lambda lag: moved(lag, *CASE[1:])[-1]))(CASE[0])
    h = 1e-4
    values = [moved_exactly(CASE[0] + k * h, *CASE[1:])[-1] for k in (-1, 0, 1)]
    np.testing.assert_allclose(found, (values[0] - 2 * values[1] + values[2]) / h**2, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_breaking_points_are_found_at_any_scale_of_time(unit):
    found = simkit.simulate(
        moving(*CASE, unit=unit), {"x": 0.0, "y": 1.0}, np.array([0.0, 1.0, LAST]) * unit, step=Adaptive(1e-9)
    )
    np.testing.assert_allclose(found.ys["y"], moved_exactly(*CASE), rtol=1e-11)


def written_as_varying(rate, lag, y0):
    f = lambda t, y, past, p: -p["rate"] * past(t - p["lag"])
    lags = lambda t, y, p: p["lag"] + 0 * t
    system = simkit.odes.from_delayed_function(f, {"rate": rate, "lag": lag}, lags=lags)
    return simkit.simulate(system, y0, TIMES, step=Adaptive(1e-9))


def test_a_constant_lag_that_is_written_with_the_time_keeps_its_breaking_points():
    """The solution is a polynomial between breaking points, which a method of order 5 integrates to rounding."""
    found = written_as_varying(*POINT)
    np.testing.assert_allclose(found.ys, exact(*POINT), rtol=1e-9, atol=1e-10)
    assert found.steps < 40  # error control alone takes some 70


def test_members_cross_at_their_own_times():
    lags = np.array([0.8, 0.9, 1.3])
    members = simkit.ensemble(
        moving(*CASE), {"x": 0.0, "y": 1.0}, [0.0, 1.0, LAST], over={"lag": lags}, step=Adaptive(1e-9)
    )
    for lag, row in zip(lags, members.ys["y"], strict=True):
        np.testing.assert_allclose(row, moved_exactly(lag, *CASE[1:]), rtol=1e-10)


def test_a_lag_that_crosses_and_comes_back():
    """y' = past(t - lag) with the lag 1 + 1.5 sin(t)^2 looks before and after the start, whose history jumps, several times."""
    f = lambda t, y, past, p: past(t - 1 - 1.5 * jnp.sin(t) ** 2)
    system = simkit.odes.from_delayed_function(
        f, {}, lags=lambda t, y, p: 1 + 1.5 * jnp.sin(t) ** 2, history=lambda t, p: -1.0 + 0 * t
    )
    found = simkit.simulate(system, 1.0, [0.0, 2.5], step=Adaptive(1e-9))
    fine = np.linspace(0.0, 2.5, 2_000_001)
    looked = fine - 1 - 1.5 * np.sin(fine) ** 2
    # Up to 2.5 it looks at -1 before the start and at the solution up to 0.97, which is 1 - t there: the history alone moves it.
    assert (looked < 0.98).all()
    rate = np.where(looked < 0, -1.0, 1 - looked)
    np.testing.assert_allclose(found.ys[-1], 1 + np.trapezoid(rate, fine), rtol=1e-6)
