"""Events beside exact solutions: where they are, their derivatives, and that every member ends by itself."""

import inspect
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import simkit
from simkit.odes import HarmonicOscillator, OrnsteinUhlenbeck, from_function, from_response
from simkit.solvers import Dopri8, Rodas5P, Tsit5

TIMES = jnp.linspace(0.0, 10.0, 21)
TIGHT = simkit.Adaptive(1e-10, 1e-12)
LANDING = simkit.Event(lambda system, t, y, inputs: y["height"], "down", ends=True)


class Level(eqx.Module):
    """A state that reaches a level."""

    level: Any = eqx.field(converter=jnp.asarray)

    def __call__(self, system, t, y, inputs):
        return y - self.level


def falling(t, y, p):
    return {"height": y["speed"], "speed": -p["g"]}


def decaying(t, y, p):
    return -p["rate"] * y


def growing(t, y, p):
    return p["rate"] * y**2  # from 1 infinite at time 1 / rate


def fall(height, gravity: Any = 9.81, times=TIMES, **options):
    """A stone: it lands at sqrt(2 h / g)."""
    system = from_function(falling, {"g": gravity})
    y0 = {"height": height, "speed": jnp.zeros_like(height)}
    return simkit.simulate(system, y0, times, events=LANDING, **options)


def landing(height, gravity):
    return jnp.sqrt(2 * height / gravity)


def decay(rate, level, y0: Any = 2.0, times=TIMES, event=None, **options):
    """y0 exp(-k t) passes c at log(y0 / c) / k."""
    system, event = from_function(decaying, {"rate": rate}), event or simkit.Event(Level(level), ends=True)
    return simkit.simulate(system, y0, times, events=event, **options)


def crossing(rate, level, y0: Any = 2.0):
    return jnp.log(y0 / level) / rate


# ---- where ----


@pytest.mark.slow
def test_a_stone_lands_when_it_should_with_derivatives():
    height, gravity = jnp.asarray(2.0), jnp.asarray(9.81)
    found = fall(height, gravity)
    # the method is exact for a parabola: rounding of a few steps
    np.testing.assert_allclose(found.event_time, landing(height, gravity), rtol=1e-13)
    np.testing.assert_allclose(found.event_state["speed"], -gravity * landing(height, gravity), rtol=1e-13)
    assert abs(found.event_state["height"]) < 1e-13
    time = lambda height, gravity: fall(height, gravity).event_time
    slopes = jax.grad(time, (0, 1))(height, gravity)
    np.testing.assert_allclose(slopes, jax.grad(landing, (0, 1))(height, gravity), rtol=1e-12)
    np.testing.assert_allclose(slopes[0], 1 / np.sqrt(2 * height * gravity), rtol=1e-12)
    speed = lambda height: fall(height).event_state["speed"]
    np.testing.assert_allclose(jax.jit(jax.jacfwd(speed))(height), -np.sqrt(9.81 / 4.0), rtol=1e-12)
    assert "event   at 0.638551" in repr(found)


def test_rows_are_those_of_the_solve_up_to_the_event_and_nan_after_it():
    found, plain = decay(0.5, 0.3, step=TIGHT), 2.0 * jnp.exp(-0.5 * TIMES)
    before = np.asarray(crossing(0.5, 0.3) > TIMES)
    np.testing.assert_allclose(found.ys[before], plain[before], rtol=1e-8)  # a hundred tolerances
    assert np.isnan(found.ys[~before]).all()
    assert 0 < before.sum() < before.size
    assert found.status == simkit.Status.OK
    np.testing.assert_array_equal(found.times, TIMES)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Tsit5(), Dopri8(), Rodas5P()], ids=lambda solver: type(solver).__name__)
def test_a_threshold_is_crossed_with_gradient(solver):
    time = lambda *values: decay(*values, step=TIGHT, solver=solver).event_time
    values = tuple(map(jnp.asarray, (0.5, 0.3, 2.0)))
    # tolerance 1e-10 over the slope, and dense output adds as much
    np.testing.assert_allclose(time(*values), crossing(*values), rtol=1e-8)
    a, b = (jax.jit(jax.grad(f, (0, 1, 2)))(*values) for f in (time, crossing))
    np.testing.assert_allclose(a, b, rtol=1e-7)


@pytest.mark.slow
def test_the_hessian_and_the_derivative_by_the_start():
    time = lambda *values: decay(*values, step=TIGHT).event_time
    values = jnp.asarray(0.5), jnp.asarray(0.3)
    a, b = (jax.jit(jax.hessian(f, (0, 1)))(*values) for f in (time, crossing))
    np.testing.assert_allclose(a, b, rtol=1e-6)  # second derivatives lose two more digits
    late = lambda start: decay(0.5, 0.3, times=jnp.stack([start, start * 0 + 12.0]), step=TIGHT).event_time
    np.testing.assert_allclose(late(1.0), 1.0 + crossing(0.5, 0.3), rtol=1e-8)
    np.testing.assert_allclose(jax.grad(late)(jnp.asarray(1.0)), 1.0, rtol=1e-7)


@pytest.mark.parametrize(
    ("direction", "phase", "expected"),
    [
        (None, 0.0, np.pi),  # starts at zero, which is not yet the event
        ("up", 0.0, 2 * np.pi),
        ("down", 0.0, np.pi),
        (None, 1.0, np.pi - 1.0),
        ("up", 1.0, 2 * np.pi - 1.0),
        ("down", -1.0, np.pi + 1.0),
        ("up", -1.0, 1.0),
    ],
)
def test_the_direction_of_a_passage(direction, phase, expected):
    wave = from_function(lambda t, y, p: jnp.stack([y[1], -y[0]]), {})
    event = simkit.Event(PASSAGE, direction, ends=True)
    y0 = jnp.array([np.sin(phase), np.cos(phase)])
    found = simkit.simulate(wave, y0, TIMES, events=event, step=TIGHT)
    np.testing.assert_allclose(found.event_time, expected, rtol=1e-8)


PASSAGE = lambda system, t, y, inputs: y[0]


def test_no_event_is_infinitely_late_and_the_end_is_that_of_the_solve():
    found = decay(0.5, 0.001, step=TIGHT)
    assert np.isposinf(found.event_time)
    np.testing.assert_allclose(found.event_state, 2.0 * np.exp(-5.0), rtol=1e-8)
    np.testing.assert_allclose(found.ys, 2.0 * jnp.exp(-0.5 * TIMES), rtol=1e-8)
    assert "did not happen" in repr(found)
    slope = jax.grad(lambda rate: decay(rate, 0.001, step=TIGHT).event_state)(jnp.asarray(0.5))
    np.testing.assert_allclose(slope, -10.0 * 2.0 * np.exp(-5.0), rtol=1e-7)


def test_an_event_in_the_first_step_and_one_of_time_alone():
    level = 2.0 * np.exp(-1e-6)
    np.testing.assert_allclose(decay(1.0, level).event_time, 1e-6, rtol=1e-9)  # 2 - 2e-6 keeps ten digits of the 2e-6
    clock = simkit.Event(lambda system, t, y, inputs: t - 1.2345, ends=True)
    np.testing.assert_allclose(decay(1.0, 0.0, event=clock).event_time, 1.2345, rtol=1e-15)


def test_inputs_are_seen_and_steps_still_end_on_their_jumps():
    system = from_function(lambda t, y, p, inputs: inputs["dose"] - 0.5 * y, {})
    inputs = {"dose": simkit.Pulses([3.0], [2.0], 0.2), "level": simkit.PiecewiseConstant([0.0, 5.0], [3.0, 0.5])}
    event = simkit.Event(lambda system, t, y, inputs: y - inputs["level"], ends=True)
    found = simkit.simulate(system, 0.0, TIMES, inputs=inputs, events=event, step=TIGHT)
    # y stays below 3 and stands above 0.5 when the level drops to it at 5
    np.testing.assert_allclose(found.event_time, 5.0, rtol=1e-12)
    late = simkit.Event(lambda system, t, y, inputs: y - 0.1, "down", ends=True)
    after = (2.0 / 0.2) / 0.5 * (1 - np.exp(-0.5 * 0.2))
    found = simkit.simulate(system, 0.0, TIMES, inputs=inputs, events=late, step=TIGHT)
    np.testing.assert_allclose(found.event_time, 3.2 + np.log(after / 0.1) / 0.5, rtol=1e-8)


# ---- members ----


def test_every_member_ends_by_itself():
    rate = jnp.linspace(0.1, 2.0, 9)
    system, event = from_function(decaying, {"rate": 1.0}), simkit.Event(Level(0.3), ends=True)
    exact = jnp.where(crossing(rate, 0.3) <= 10.0, crossing(rate, 0.3), jnp.inf)
    for devices in (1, 2):
        found = simkit.ensemble(
            system, 2.0, TIMES, over={"rate": rate}, events=event, step=TIGHT, lanes=2, devices=jax.devices()[:devices]
        )
        np.testing.assert_allclose(found.event_time, exact, rtol=1e-8)
        assert found.event_state.shape == (9,)
    alone = [decay(r, 0.3, step=TIGHT) for r in rate]
    np.testing.assert_array_equal(found.steps, [x.steps for x in alone])
    np.testing.assert_allclose(found.event_time, [x.event_time for x in alone], rtol=1e-12)
    unending = simkit.ensemble(system, 2.0, TIMES, over={"rate": rate}, step=TIGHT)
    assert 3 * int(found.steps[-1]) < int(unending.steps[-1])  # of ten time constants one and a fifth were solved
    assert "8 of 9 members" in repr(found)


@pytest.mark.slow
def test_gradients_of_members_and_over_a_mesh():
    rate = jnp.linspace(0.3, 2.0, 4)
    slope = jax.vmap(jax.grad(lambda rate: decay(rate, 0.3, step=TIGHT).event_time))
    exact = jax.vmap(jax.grad(lambda rate: crossing(rate, 0.3)))(rate)
    np.testing.assert_allclose(jax.jit(slope)(rate), exact, rtol=1e-7)
    mesh = jax.make_mesh((2,), ("members",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("members")
    spread = jax.shard_map(slope, mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_allclose(jax.jit(spread)(rate), exact, rtol=1e-7)


def test_a_failed_member_is_nan_and_leaves_the_others_alone():
    # the second member never gets to its level, which is beyond all numbers
    high = lambda system, t, y, inputs: y - jnp.where(system.parameters["rate"] > 0.8, jnp.inf, 2.0)
    event = simkit.Event(high, ends=True)
    system = from_function(growing, {"rate": 1.0})
    rate = jnp.array([0.3, 0.9, 0.4])
    ends = lambda start: simkit.ensemble(system, start, [0.0, 0.5, 2.0], over={"rate": rate}, events=event)
    found = ends(1.0)
    np.testing.assert_array_equal(found.status != 0, [False, True, False])
    assert np.isnan(found.event_time[1])
    assert np.isnan(found.event_state[1])
    np.testing.assert_allclose(found.event_time[np.array([0, 2])], [0.5 / 0.3, 0.5 / 0.4], rtol=1e-6)

    def total(start):
        found = ends(start)
        return jnp.where(found.status == 0, found.event_time, 0.0).sum()

    # t = (1 / y0 - 1 / c) / r
    np.testing.assert_allclose(jax.grad(total)(jnp.asarray(1.0)), -(1 / 0.3 + 1 / 0.4), rtol=1e-5)


def test_an_event_comes_before_a_failure():
    system = from_function(growing, {"rate": 1.0})
    found = simkit.simulate(system, 1.0, [0.0, 0.5, 3.0], events=simkit.Event(Level(4.0), ends=True), step=TIGHT)
    assert found.status == simkit.Status.OK
    np.testing.assert_allclose(found.event_time, 0.75, rtol=1e-8)
    np.testing.assert_allclose(found.event_state, 4.0, rtol=1e-12)


@pytest.mark.slow
def test_single_precision():
    found = fall(jnp.float32(2.0), jnp.float32(9.81), times=TIMES.astype(jnp.float32))
    assert found.event_time.dtype == found.event_state["speed"].dtype == jnp.float32
    np.testing.assert_allclose(found.event_time, landing(2.0, 9.81), rtol=1e-5)  # a few roundings of 6e-8 in each step


# ---- fixed steps ----


@pytest.mark.slow
def test_fixed_steps_are_looked_at_where_they_end():
    times = jnp.linspace(0.0, 5.0, 11)
    y0 = simkit.SeparableSystem.State(jnp.ones(()), jnp.zeros(()))
    event = simkit.Event(lambda system, t, y, inputs: y.position, ends=True)

    def time(stiffness):
        system = HarmonicOscillator(mass=1.0, stiffness=stiffness)
        return simkit.simulate(system, y0, times, step=simkit.Fixed(200), events=event).event_time

    quarter = lambda stiffness: 0.5 * jnp.pi / jnp.sqrt(stiffness)
    stiffness = jnp.asarray(1.3)
    # steps of 0.0025 of second order
    np.testing.assert_allclose(time(stiffness), quarter(stiffness), rtol=2e-6)
    np.testing.assert_allclose(jax.grad(time)(stiffness), jax.grad(quarter)(stiffness), rtol=1e-5)


def test_a_random_path_ends_where_a_step_does():
    system, y0, _, _ = OrnsteinUhlenbeck.example()
    times = np.linspace(0.0, 4.0, 161)
    level = jnp.asarray(float(y0.x) - 0.3)
    key = jax.random.split(jax.random.key(2), 6)
    start = {"y0.x": np.full(6, float(y0.x))}
    event = simkit.Event(lambda system, t, y, inputs: y.x - level, "down", ends=True)
    run = lambda **options: simkit.ensemble(system, y0, times, over=start, key=key, step=simkit.Fixed(1), **options)
    paths, found = np.asarray(run().ys.x) - float(level), run(events=event)
    for path, time in zip(paths, np.asarray(found.event_time), strict=True):
        passed = np.flatnonzero((path[:-1] > 0) & (path[1:] <= 0))
        np.testing.assert_allclose(time, times[passed[0] + 1] if passed.size else np.inf, rtol=1e-12)
    assert np.isfinite(found.event_time).any()


# ---- arguments ----


def test_what_cannot_end_is_refused():
    system, event = from_function(lambda t, y, p: -y, {}), simkit.Event(lambda system, t, y, inputs: y - 0.5, ends=True)
    unchecked, wrong = inspect.unwrap(simkit.simulate), cast(Any, "sideways")
    with pytest.raises(simkit.ArgumentError, match=r"`events` must be an event"):
        unchecked(system, 1.0, TIMES, events=lambda system, t, y, inputs: y)
    with pytest.raises(simkit.ArgumentError, match=r"no dynamics that could change or end"):
        simkit.simulate(from_response(lambda x, p: x, {}), {}, [1.0, 2.0], events=event)
    with pytest.raises(simkit.ArgumentError, match=r"`condition` of an event must give one real number.*\(2,\)"):
        simkit.simulate(system, jnp.ones(2), TIMES, events=event)
    with pytest.raises(simkit.ArgumentError, match=r"`condition` of an event must give one real number.*bool"):
        simkit.simulate(system, 1.0, TIMES, events=simkit.Event(lambda system, t, y, inputs: y < 0.5, ends=True))
    with pytest.raises((simkit.ArgumentError, TypeError), match=r"(?s)direction"):
        simkit.Event(lambda system, t, y, inputs: y, wrong, ends=True)


def test_the_state_saved_at_an_event_at_time_zero_is_that_after_it():
    """The next number below zero is too small to be normal, and taken for zero."""
    system = from_function(lambda t, y, p: -p["rate"] * y, {"rate": 0.1})
    event = simkit.Event(
        at=np.array([0.0]), values=np.array([100.0]), change=lambda system, t, y, inputs, dose: y + dose
    )
    found = simkit.simulate(system, 0.0, np.array([-5.0, 0.0, 5.0]), events=event)
    np.testing.assert_allclose(found.ys, [0.0, 100.0, 100.0 * np.exp(-0.5)], rtol=1e-6)


def test_times_of_several_events_differentiate_in_reverse_for_all_members_together():
    # y' = k from 0: passes 1 at 1/k, where it falls to f, and 1.5 never; the second time at 1/k + (1 - f)/k.
    back = lambda level: simkit.Event(
        lambda system, t, y, inputs: y - level, "up", lambda system, t, y, inputs: system.parameters["f"] * y
    )

    def second(q):
        system = from_function(lambda t, y, p: p["k"] + 0 * y, {"k": q[0], "f": q[1]})
        return simkit.simulate(system, 0.0, [0.0, 3.0], events={"one": back(1.0), "never": back(1.5)}).events.times[1]

    qs = jnp.array([[1.0, 0.3], [1.2, 0.4]])
    found = jax.jit(jax.grad(lambda qs: jnp.sum(jax.vmap(second)(qs))))(qs)
    expected = np.stack([-(2 - qs[:, 1]) / qs[:, 0] ** 2, -1 / qs[:, 0]], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("number", [3, 3.0, np.float64(3.0)])
def test_changes_may_hold_plain_numbers(number):
    # A Python number at a known time met an `AttributeError`.
    system = from_function(lambda t, y, p: {"x": -p["rate"] * y["x"]}, {"rate": 0.1})
    event = simkit.Event(at=[1.0], change=lambda system, t, y, inputs: {"x": number})
    found = simkit.simulate(system, {"x": 1.0}, [0.0, 10.0], events=event, step=TIGHT)
    np.testing.assert_allclose(found.ys["x"][-1], 3 * np.exp(-0.9), rtol=1e-9)


@pytest.mark.parametrize("change", [lambda y: {"y": y["x"]}, lambda y: y["x"], lambda y: None])
@pytest.mark.parametrize("known", [True, False])
def test_changes_of_another_structure_are_refused(change, known):
    system = from_function(lambda t, y, p: {"x": -p["rate"] * y["x"]}, {"rate": 0.1})
    changed = lambda system, t, y, inputs: change(y)
    event = (
        simkit.Event(at=[1.0], change=changed)
        if known
        else simkit.Event(lambda s, t, y, i: y["x"] - 0.9, change=changed)
    )
    with pytest.raises(simkit.ArgumentError, match=r"the event `.*` must give a state like the one .* structure"):
        simkit.simulate(system, {"x": 1.0}, [0.0, 10.0], events=event)
