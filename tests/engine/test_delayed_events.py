"""Events of systems with delays against the method of steps and a relay's period: values, derivatives, members, refusals."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.test_delayed import slopes_of, solution
from engine.test_delayed_crossings import CASE, LAST, moved_exactly, moving

import simkit
from simkit import Adaptive
from simkit.core import Status
from simkit.study import study_from_text

TIMES = np.array([0.0, 0.5, 0.7, 1.0, 1.4, 2.0, 2.7, 3.5])
"""Doses are given at 0.5, 1.0 and 2.0; no other time is one at which the solution has a kink."""

AT, DOSES = np.array([0.5, 1.0, 2.0]), np.array([0.4, -0.3, 0.7])
POINT = 1.0, 0.8, 1.0, *AT, *DOSES
WEIGHTS = np.array([0.3, 0.0, -1.0, 0.0, 0.5, 0.0, 0.8, 1.0])


def fed_back(rate, lag):
    field = lambda t, y, past, p: {"x": -p["rate"] * past(t - p["lag"])["x"]}
    return simkit.odes.from_delayed_function(field, {"rate": rate, "lag": lag}, lags="lag")


def added(system, t, y, inputs, dose):
    return {"x": y["x"] + dose}


def dosed(rate, lag, y0, *given, rtol=1e-9):
    at, doses = jnp.stack([jnp.asarray(x) for x in given]).reshape(2, 3)
    events = {"dose": simkit.Event(at=at, values=doses, change=added)}
    return simkit.simulate(fed_back(rate, lag), {"x": y0}, TIMES, events=events, step=Adaptive(rtol))


def dosed_exactly(rate, lag, y0, *given):
    """The solution without doses, and for each dose that from 0 which jumps to it; at the time of a dose that after it."""

    def impulse(t):
        return sum((-rate) ** k * (t - k * lag) ** k / math.factorial(k) for k in range(math.floor(t / lag) + 1))

    add = lambda t: sum(d * impulse(t - a) for a, d in zip(given[:3], given[3:], strict=True) if t >= a)
    return np.array([solution(t, rate, lag, y0) + add(t) for t in TIMES])


SMOOTH = np.flatnonzero(~np.isin(TIMES, AT) & (TIMES > 0))
"""Rows that central differences do not take from both sides of a dose."""

DOTS = tuple(np.linspace(0.5, 1.5, 9))


def test_doses_are_seen_a_lag_later():
    """Values, and derivatives in one direction, by times and sizes of doses, the lag, the rate and the start."""

    def run(*point):
        found = dosed(*point)
        return found.ys["x"], found

    ys, dot, found = jax.jit(lambda *point: jax.jvp(run, point, DOTS, has_aux=True))(*POINT)
    np.testing.assert_allclose(
        np.asarray(dot)[SMOOTH], np.dot(DOTS, slopes_of(dosed_exactly, POINT))[SMOOTH], rtol=1e-7
    )
    # A polynomial of degree at most 5 between breaking points, which a method of order 5 integrates to rounding.
    np.testing.assert_allclose(ys, dosed_exactly(*POINT), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found.events.times, AT)
    np.testing.assert_allclose(found.events.after["x"] - found.events.before["x"], DOSES, rtol=1e-12)
    assert found.steps < 30  # steps end where jumps come back, so that none is taken again


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ((0.0, 2.5), (1.5, 2.0, 2.5)),
        ((0.0, 1.0, 2.0, 3.0, 3.5), (1.0, 2.0, 3.0)),
        ((0.0, 0.5, 2.5, 4.0), (1.5, 2.5, 3.7)),
    ],
)
def test_rows_at_doses_on_breaking_points_and_at_the_end(times, at):
    # Such rows held the start: a step without length followed the dose.
    doses = np.array([0.4, -0.3, 0.7])

    def rows(doses):
        events = {"dose": simkit.Event(at=np.array(at), values=doses, change=added)}
        return simkit.simulate(fed_back(1.0, 1.0), {"x": 2.0}, times, events=events, step=Adaptive(1e-9)).ys["x"]

    def impulse(t):
        return sum((-1.0) ** k * (t - k) ** k / math.factorial(k) for k in range(math.floor(t) + 1))

    slopes = np.array([[impulse(t - a) if t >= a else 0.0 for a in at] for t in times])
    found, derivatives = jax.jit(lambda doses: (rows(doses), jax.jacfwd(rows)(doses)))(doses)
    np.testing.assert_allclose(
        found, [solution(t, 1.0, 1.0, 2.0) for t in times] + slopes @ doses, rtol=1e-9, atol=1e-11
    )
    np.testing.assert_allclose(derivatives, slopes, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_reverse_derivatives_by_times_and_sizes_of_doses_and_by_the_lag():
    total = lambda *point: jnp.sum(WEIGHTS * dosed(*point).ys["x"])
    expected = slopes_of(lambda *point: WEIGHTS @ dosed_exactly(*point), POINT)
    back = jax.jit(jax.grad(total, argnums=tuple(range(9))))(*POINT)
    np.testing.assert_allclose(back, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_a_dose_that_comes_back_when_the_next_is_given():
    """Doses a lag apart: both move by themselves, from the side of the dose that is given there."""
    last = lambda lag: dosed(1.0, lag, 1.0, 0.5, 1.5, 2.5, *DOSES).ys["x"][-2]
    found = jax.jvp(last, (1.0,), (1.0,))
    exactly = lambda lag: dosed_exactly(1.0, lag, 1.0, 0.5, 1.5, 2.5, *DOSES)[-2]
    np.testing.assert_allclose(found[0], exactly(1.0), rtol=1e-11)
    np.testing.assert_allclose(found[1], slopes_of(exactly, (1.0,))[0], rtol=1e-7)


LEVEL = simkit.Event(lambda system, t, y, inputs: y["x"] + 0.2, "down", ends=True)


def reached(rate, lag):
    return simkit.simulate(fed_back(rate, lag), {"x": 1.0}, TIMES, events=LEVEL, step=Adaptive(1e-9))


def reached_exactly(rate, lag):
    low, high = 0.0, 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if solution(middle, rate, lag, 1.0) > -0.2 else (low, middle)
    return high


@pytest.mark.slow
def test_a_state_that_ends_a_run():
    found = reached(1.0, 0.8)
    np.testing.assert_allclose(found.event_time, reached_exactly(1.0, 0.8), rtol=1e-9)
    assert found.status == Status.OK
    np.testing.assert_array_equal(np.isnan(found.ys["x"]), found.event_time < TIMES)
    slopes = jax.grad(lambda *point: reached(*point).event_time, argnums=(0, 1))(1.0, 0.8)
    np.testing.assert_allclose(slopes, slopes_of(reached_exactly, (1.0, 0.8)), rtol=1e-6)


def switching(lag, width=0.3):
    """x' = -x + u(t - lag): a heater that is switched off above `width` and on below -`width`, and answers late."""
    field = lambda t, y, past, p: {"x": past(t - p["lag"])["on"] - y["x"], "on": 0.0 * y["on"]}
    system = simkit.odes.from_delayed_function(field, {"lag": lag}, lags="lag")
    events = {
        "off": simkit.Event(lambda s, t, y, i: y["x"] - width, "up", lambda s, t, y, i: {**y, "on": -1.0 + 0 * t}),
        "on": simkit.Event(lambda s, t, y, i: y["x"] + width, "down", lambda s, t, y, i: {**y, "on": 1.0 + 0 * t}),
    }
    return system, events


def half_period(lag, width=0.3):
    highest = 1 - (1 - width) * np.exp(-lag)
    return lag + np.log((1 + highest) / (1 - width))


def test_the_period_of_a_relay_that_answers_late():
    def last(lag):
        system, events = switching(lag)
        found = simkit.simulate(system, {"x": 0.0, "on": 1.0}, [0.0, 12.0], events=events, step=Adaptive(1e-9))
        return found.events.times[5] - found.events.times[1], found

    slope, found = jax.jacfwd(last, has_aux=True)(0.5)
    assert int(found.events.count) == 9
    np.testing.assert_allclose(np.diff(found.events.times[:9]), half_period(0.5), rtol=1e-8)
    np.testing.assert_allclose(slope, 4 * slopes_of(half_period, (0.5,))[0], rtol=1e-6)


@pytest.mark.slow
def test_members_switch_at_their_own_times():
    system, events = switching(0.5)
    lags = np.array([0.3, 0.5, 0.9])
    found = simkit.ensemble(system, {"x": 0.0, "on": 1.0}, [0.0, 12.0], over={"lag": lags}, events=events)
    for lag, times, count in zip(lags, found.events.times, found.events.count, strict=True):
        np.testing.assert_allclose(np.diff(times[: int(count)]), half_period(lag), rtol=1e-4)


@pytest.mark.slow
def test_a_lag_that_varies_meets_a_jump():
    """Of the system whose lag grows with the state: the time looked at is s t - lag, so a dose at a is seen at (a + lag) / s."""
    at, dose = 0.3, 0.5

    def last(lag, at, dose):
        event = simkit.Event(at=[at], values=[dose], change=lambda s, t, y, i, v: {**y, "y": y["y"] + v})
        system = moving(lag, *CASE[1:])
        times = [0.0, 1.0, LAST]
        return simkit.simulate(system, {"x": 0.0, "y": 1.0}, times, events=event, step=Adaptive(1e-9)).ys["y"][-1]

    def exactly(lag, at, dose):
        late = LAST - (at + lag) / (1 - CASE[1] * CASE[2])
        return moved_exactly(lag, *CASE[1:])[-1] + dose - dose * late

    # Forward: the compilation of reverse mode takes three times as long, and other tests have it.
    slopes, value = jax.jacfwd(lambda *point: (last(*point),) * 2, argnums=(0, 1, 2), has_aux=True)(CASE[0], at, dose)
    np.testing.assert_allclose(value, exactly(CASE[0], at, dose), rtol=1e-9)
    np.testing.assert_allclose(slopes, slopes_of(exactly, (CASE[0], at, dose)), rtol=1e-6)


def test_an_infusion_and_reduced_states():
    """An infusion is an input that jumps; totals are those of saved states up to the end of the run."""
    regimen = simkit.problem.Doses(
        [simkit.problem.Dose(0.4, 0.5, "x"), simkit.problem.Dose(0.6, 1.0, "x", duration=0.4)]
    )
    ending = simkit.Event(lambda system, t, y, inputs: y["x"] - 0.3, "down", ends=True)
    events = {"dose": simkit.problem.dose_event(regimen, {"x": 1.0})}
    step, times = Adaptive(1e-9), np.linspace(0.0, 3.5, 36)
    found = simkit.simulate(fed_back(1.0, 0.8), {"x": 1.0}, times, events=events, step=step)
    field = lambda t, y, past, p, u: {"x": -past(t - 0.8)["x"] + u["rate"]}
    system = simkit.odes.from_delayed_function(field, {}, lags=lambda t, y, p: 0.8)
    inputs = {"rate": simkit.PiecewiseConstant([0.0, 1.0, 1.4], [0.0, 1.5, 0.0])}
    bolus = simkit.Event(at=[0.5], values=[0.4], change=added)
    expected = simkit.simulate(system, {"x": 1.0}, times, inputs=inputs, events=bolus, step=step)
    np.testing.assert_allclose(found.ys["x"], expected.ys["x"], rtol=1e-9, atol=1e-10)
    reducers = {"mean": simkit.reducers.Mean()}
    events = {**events, "low": ending}
    reduced = simkit.simulate(fed_back(1.0, 0.8), {"x": 1.0}, times, events=events, step=step, reduce=reducers)
    assert reduced.event_time == 0.5
    counted = found.ys["x"][times <= reduced.events["low"].times[0]]
    np.testing.assert_allclose(reduced.reduced["mean"]["x"], np.mean(counted), rtol=1e-9)


def test_a_steady_state_of_doses_is_refused():
    dose = simkit.problem.Dose(0.4, 0.5, "x", every=1.0, steady=True)
    event = simkit.problem.dose_event(simkit.problem.Doses([dose]), {"x": 1.0})
    with pytest.raises(simkit.ArgumentError, match="sees its past"):
        simkit.simulate(fed_back(1.0, 0.8), {"x": 1.0}, TIMES, events=event)


def test_a_study_file_states_doses_of_a_system_with_delays():
    study = study_from_text(STUDY)
    events = study.events
    found = simkit.simulate(study.system, study.y0, study.simulation_times, events=events)
    assert int(found.events.count) == 2


STUDY = """
[system]
model = "mackey_glass"

[y0]
cells = 0.5

[simulate]
times = { from = 0.0, to = 10.0, count = 11 }

[[events]]
name = "harvest"
at = [2.0, 4.0]
values = 0.1
change = { cells = "cells + value" }
"""
