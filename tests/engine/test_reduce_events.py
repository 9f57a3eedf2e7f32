"""Reducers of runs with events: what they see is what would have been saved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.odes import from_function
from simkit.reducers import Integral, Mean

TIMES = np.linspace(0.0, 3.0, 151)  # three pieces
TIGHT = simkit.Adaptive(1e-10, 1e-12)
REDUCERS = {"mean": Mean(lambda system, t, y: y["height"]), "area": Integral(lambda system, t, y: y["height"])}
STEPS = [TIGHT, simkit.Fixed(2)]
FIXED = [pytest.param(TIGHT, marks=pytest.mark.slow), simkit.Fixed(2)]
ADAPTIVE = [TIGHT, pytest.param(simkit.Fixed(2), marks=pytest.mark.slow)]


def falling(t, y, p):
    return {"height": y["speed"], "speed": -p["g"] + 0.0 * y["speed"]}


def bounced(system, t, y, inputs):
    return {"height": y["height"], "speed": -0.8 * y["speed"]}


def height(system, t, y, inputs):
    return y["height"]


BALL = from_function(falling, {"g": 9.81})
START = {"height": 2.0, "speed": 0.0}
BOUNCE = simkit.Event(height, "down", bounced)


def decaying(t, y, p):
    return -p["rate"] * y


def dosed(system, t, y, inputs, dose):
    return y + dose


@pytest.mark.parametrize("step", ADAPTIVE, ids=lambda step: type(step).__name__)
def test_rows_are_those_of_the_saved_states(step):
    saved = simkit.simulate(BALL, START, TIMES, step=step, events=BOUNCE)
    found = simkit.simulate(BALL, START, TIMES, step=step, events=BOUNCE, reduce=REDUCERS)
    heights = np.asarray(saved.ys["height"])
    np.testing.assert_allclose(found.reduced["mean"], heights.mean(), rtol=1e-9)
    np.testing.assert_allclose(found.reduced["area"], np.trapezoid(heights, TIMES), rtol=1e-9)
    assert int(found.events.count) == int(saved.events.count) == 3
    np.testing.assert_allclose(found.events.times[:4], saved.events.times[:4], rtol=1e-9)
    np.testing.assert_allclose(found.events.after["speed"][:4], saved.events.after["speed"][:4], rtol=1e-9)
    np.testing.assert_allclose(found.final()["height"], saved.final()["height"], rtol=1e-8)


@pytest.mark.parametrize("step", ADAPTIVE, ids=lambda step: type(step).__name__)
def test_a_dose_at_every_save_time_counts_once(step):
    system = from_function(decaying, {"rate": 0.7})
    doses = simkit.Event(at=TIMES, values=np.ones(TIMES.size), change=dosed)
    saved = simkit.simulate(system, 0.0, TIMES, step=step, events=doses)
    found = simkit.simulate(system, 0.0, TIMES, step=step, events=doses, reduce={"mean": Mean()})
    # a geometric series; the first row is the start before its dose
    kept = np.exp(-0.7 * 0.02)
    exact = np.r_[0.0, (1 - kept ** np.arange(2, 152)) / (1 - kept)]
    np.testing.assert_allclose(saved.ys, exact, rtol=1e-7)
    np.testing.assert_allclose(found.reduced["mean"], exact.mean(), rtol=1e-7)
    assert int(found.events.count) == 151


@pytest.mark.parametrize("step", FIXED, ids=lambda step: type(step).__name__)
def test_rows_after_the_end_do_not_count(step):
    landing = simkit.Event(height, "down", ends=True)
    found = simkit.ensemble(
        BALL, START, TIMES, over={"y0.height": np.array([2.0, 60.0])}, step=step, events=landing, reduce=REDUCERS
    )
    time = np.sqrt(2 * 2.0 / 9.81)
    rows = TIMES[time >= TIMES]
    np.testing.assert_allclose(found.reduced["mean"][0], np.mean(2.0 - 9.81 / 2 * rows**2), rtol=1e-9)
    np.testing.assert_allclose(found.reduced["mean"][1], np.mean(60.0 - 9.81 / 2 * TIMES**2), rtol=1e-9)
    np.testing.assert_allclose(found.event_time, [time, np.inf], rtol=1e-9)
    np.testing.assert_array_equal(found.status, [0, 0])
    assert np.isnan(found.final()["height"][0])
    assert np.isfinite(found.final()["height"][1])
    assert found.steps[0] < found.steps[1]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_derivatives_of_totals_are_those_of_the_saved_rows(step):
    def total(gravity, saved):
        ball = from_function(falling, {"g": gravity})
        found = simkit.simulate(
            ball, START, TIMES, step=step, events=BOUNCE, reduce=None if saved else REDUCERS, on_failure="mark"
        )
        return jnp.mean(found.ys["height"]) if saved else found.reduced["mean"]

    gravity = jnp.asarray(9.81)
    plain = jax.jit(jax.grad(total), static_argnums=1)
    expected = plain(gravity, True)
    np.testing.assert_allclose(plain(gravity, False), expected, rtol=1e-7)
    forward = jax.jit(jax.jacfwd(total), static_argnums=1)
    np.testing.assert_allclose(forward(gravity, False), expected, rtol=1e-7)
