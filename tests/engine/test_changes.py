"""Events that change the state, beside exact solutions: bounces, doses, thresholds, and events that set each other off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.odes import from_function

TIGHT = simkit.Adaptive(1e-9, 1e-12)
ROWS = np.linspace(0.0, 3.0, 31)
AT = jnp.array([0.0, 2.0, 2.0, 7.25, 4.1])  # one at the start, two at one time, unsorted
AMOUNT = jnp.array([1.0, 2.0, 0.5, 3.0, 1.5])
RATE = jnp.asarray(0.7)
DAYS = np.linspace(0.0, 10.0, 21)
SEEN = np.array([3, 5, 20])


def flying(t, y, p):
    return {"height": y["speed"], "speed": -p["gravity"] + 0 * y["speed"]}


def decaying(t, y, p):
    return {"amount": -p["rate"] * y["amount"]}


def bounced(system, t, y, inputs):
    return {**y, "speed": -system.parameters["kept"] * y["speed"]}


def dosed(system, t, y, inputs, dose):
    return {"amount": y["amount"] + dose}


BOUNCE = simkit.Event(lambda system, t, y, inputs: y["height"], "down", bounced)


def bouncing(gravity=9.81, kept=0.9, height=1.0, times=ROWS, **options):
    system = from_function(flying, {"gravity": gravity, "kept": kept})
    y0 = {"height": jnp.asarray(height), "speed": 0.0 * jnp.asarray(height)}
    return simkit.simulate(system, y0, times, events=BOUNCE, **options)


def bounces(gravity, kept, height, count):
    """The times of the bounces of a ball that keeps a share of its speed in each."""
    first = np.sqrt(2 * height / gravity)
    return first * (1 + 2 * kept * (1 - kept ** np.arange(count)) / (1 - kept))


def last_height(gravity, kept, height):
    """The height at time 3, after four bounces."""
    first = jnp.sqrt(2 * height / gravity)
    left = 3.0 - first * (1 + 2 * (kept + kept**2 + kept**3))
    return gravity * first * kept**4 * left - 0.5 * gravity * left**2


def doses(rate, at, amount, times=DAYS, **options):
    event = simkit.Event(at=at, values=amount, change=dosed)
    system = from_function(decaying, {"rate": rate})
    return simkit.simulate(system, {"amount": 0.0 * rate}, times, events={"dose": event}, step=TIGHT, **options)


def amounts(rate, at, amount):
    """Doses that decay, each by itself."""
    since = DAYS[SEEN][:, None] - at[None]
    return jnp.sum(jnp.where(since >= 0, amount[None] * jnp.exp(-rate * since), 0.0), axis=1)


# ---- where and what ----


def test_a_ball_bounces_as_the_closed_form_says():
    found = bouncing()
    np.testing.assert_allclose(found.events.times[:4], bounces(9.81, 0.9, 1.0, 4), rtol=1e-13)
    np.testing.assert_allclose(found.ys["height"][-1], last_height(9.81, 0.9, 1.0), rtol=1e-11)
    assert found.events.count == 4
    assert found.events.table()[1]["event"] == "event"
    np.testing.assert_allclose(found.events.after["speed"][:4], -0.9 * found.events.before["speed"][:4], rtol=1e-14)
    assert np.isposinf(found.events.times[4:]).all()
    assert np.isnan(found.events.before["speed"][4:]).all()
    assert "event   4 times, from 0.451524 to 2.65406" in repr(found)


def test_the_list_of_events_grows_and_bounces_without_end_are_a_status():
    found = bouncing(times=[0.0, 8.0, 10.0], on_failure="mark")
    assert found.status == simkit.core.Status.ENDLESS_EVENTS
    count = int(found.events.count)
    assert 16 < count <= found.events.room
    limit = np.sqrt(2 / 9.81) * (1 + 2 * 0.9 / 0.1)  # where the bounces accumulate
    np.testing.assert_allclose(found.events.times[count - 1], limit, rtol=1e-12)
    assert np.isnan(found.ys["height"][-1])
    np.testing.assert_allclose(found.events.times[:100], bounces(9.81, 0.9, 1.0, 100), rtol=1e-12)


@pytest.mark.slow
def test_ten_thousand_bounces():
    found = bouncing(kept=0.9999, times=[0.0, 5700.0], step=simkit.Adaptive(max_steps=50_000))
    count = int(found.events.count)
    assert count > 9900
    np.testing.assert_allclose(found.events.times[:count], bounces(9.81, 0.9999, 1.0, count), rtol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rounding_next_to_zero_is_no_event(sign):
    """A condition that leaves zero more slowly than rounding lets see, at first; then it passes zero once, at t = 200/99."""
    slope = lambda t, y, p: {"x": sign * (1e-30 + 1e-3 * t**8 * (20.0 - 11.0 * t)) + 0 * y["x"]}
    passing = simkit.Event(lambda s, t, y, i: y["x"] - 1.0)
    start = {"x": 1.0}
    found = simkit.simulate(from_function(slope, {}), start, [0.0, 1.0, 3.0], events=passing, step=TIGHT)
    assert found.events.count == 1
    exact = lambda t: 1.0 + sign * 1e-3 * (20.0 * t**9 / 9.0 - 1.1 * t**10)
    np.testing.assert_allclose(found.events.times[0], 200.0 / 99.0, rtol=1e-8)
    np.testing.assert_allclose(found.ys["x"][1:], exact(np.array([1.0, 3.0])), rtol=1e-8)


def test_doses_at_known_times_add_up_with_derivatives():
    found = doses(RATE, AT, AMOUNT)
    np.testing.assert_allclose(found.ys["amount"][SEEN], amounts(RATE, AT, AMOUNT), rtol=1e-7)
    assert found.ys["amount"][0] == 0.0  # the first row is the start
    assert found.ys["amount"][4] == found.events.after["amount"][2]  # and others the state after an event
    np.testing.assert_allclose(found.events["dose"].times, np.sort(AT))
    seen = lambda *values: doses(*values).ys["amount"][SEEN]
    expected = jax.jacfwd(amounts, (0, 1, 2))(RATE, AT, AMOUNT)
    for got, exact in zip(jax.jit(jax.jacrev(seen, (0, 1, 2)))(RATE, AT, AMOUNT), expected, strict=True):
        np.testing.assert_allclose(got, exact, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["rodas5p", "bdf", "dopri8"])
def test_doses_by_other_methods(solver):
    seen = lambda *values: doses(*values, solver=solver).ys["amount"][SEEN]
    np.testing.assert_allclose(seen(RATE, AT, AMOUNT), amounts(RATE, AT, AMOUNT), rtol=1e-6)
    expected = jax.jacfwd(amounts, (0, 1, 2))(RATE, AT, AMOUNT)
    for mode in (jax.jacfwd, jax.jacrev):
        for got, exact in zip(jax.jit(mode(seen, (0, 1, 2)))(RATE, AT, AMOUNT), expected, strict=True):
            np.testing.assert_allclose(got, exact, atol=1e-6)


@pytest.mark.slow
def test_a_dose_where_an_input_jumps_and_one_at_the_last_time():
    """An infusion from 2 to 3, and doses at its start and at the end of the run."""
    system = from_function(lambda t, y, p, inputs: {"amount": inputs["in"] - p["rate"] * y["amount"]}, {"rate": 1.0})
    event = simkit.Event(at=[2.0, 5.0], values=[1.0, 4.0], change=dosed)
    inputs = {"in": simkit.PiecewiseConstant([0.0, 2.0, 3.0], [0.0, 2.0, 0.0])}
    found = simkit.simulate(system, {"amount": 0.0}, [0.0, 2.0, 4.0, 5.0], events=event, inputs=inputs, step=TIGHT)
    infused = lambda t: 2.0 * (np.exp(-(t - 3.0)) - np.exp(-(t - 2.0)))
    exact = [0.0, 1.0, infused(4.0) + np.exp(-2.0), infused(5.0) + np.exp(-3.0) + 4.0]
    np.testing.assert_allclose(found.ys["amount"], exact, rtol=1e-8)
    np.testing.assert_allclose(found.events.before["amount"], [0.0, exact[-1] - 4.0], atol=1e-8)


# ---- events that set each other off ----


@pytest.mark.parametrize("solver", ["tsit5", pytest.param("bdf", marks=pytest.mark.slow)])
def test_a_change_sets_off_what_passed_the_other_way_in_the_same_step(solver):
    """x rises from 0.3 to 1 in one step and is set back: it passes 0.5 downwards each time."""
    back = simkit.Event(lambda s, t, y, i: y["x"] - 1.0, "up", lambda s, t, y, i: {**y, "x": 0.3 + 0 * y["x"]})
    seen = simkit.Event(lambda s, t, y, i: y["x"] - 0.5, "down", lambda s, t, y, i: {**y, "y": y["y"] + 1.0})
    start = {"x": 0.0, "y": 0.0}
    system = from_function(rising, {"speed": 1.0})
    found = simkit.simulate(system, start, [0.0, 10.0], events={"back": back, "seen": seen}, solver=solver)
    assert found.ys["y"][-1] == 13.0
    assert int((np.asarray(found.events.which) == 0).sum()) == 13


def test_two_events_that_fight_are_a_status():
    low = simkit.Event(lambda s, t, y, i: y["x"] - 1.0, "up", lambda s, t, y, i: {**y, "x": y["x"] - 0.2})
    high = simkit.Event(lambda s, t, y, i: y["x"] - 0.9, "down", lambda s, t, y, i: {**y, "x": y["x"] + 0.2})
    found = pair(1.0, [low, high], on_failure="mark")
    assert found.status == simkit.core.Status.ENDLESS_EVENTS


def test_a_condition_that_is_no_number_beyond_its_event_is_found_and_elsewhere_a_status():
    system, start = from_function(rising, {"speed": 1.0}), {"x": 0.0, "y": 0.0}
    root = simkit.Event(lambda s, t, y, i: jnp.sqrt(0.5 - y["x"]) - 0.1, "down", ends=True)
    np.testing.assert_allclose(simkit.simulate(system, start, [0.0, 1.0], events=root).event_time, 0.49, rtol=1e-9)
    never = simkit.Event(lambda s, t, y, i: jnp.sqrt(0.5 - y["x"]) + 0.1, "down", ends=True)
    found = simkit.simulate(system, start, [0.0, 1.0], events=never, on_failure="mark")
    assert found.status == simkit.core.Status.NON_FINITE


def test_an_event_that_another_sets_off_does_not_repeat_the_first():
    """A bounce turns the speed, which is an event of its own; the height is zero but for rounding, on either side."""
    turn = simkit.Event(lambda system, t, y, inputs: y["speed"])
    system = from_function(flying, {"gravity": 9.81, "kept": 0.8})
    start = {"height": 2.0, "speed": 0.0}
    found = simkit.simulate(system, start, ROWS, events={"floor": BOUNCE, "turn": turn})
    times = bounces(9.81, 0.8, 2.0, 3)
    np.testing.assert_allclose(found.events["floor"].times[:4], [*times, np.inf], rtol=1e-12)
    tops = times + 0.8 ** np.arange(1, 4) * times[0]
    turned = np.sort(found.events["turn"].times)
    expected = np.sort([*times, *tops[tops < 3.0]])
    np.testing.assert_allclose(turned[: expected.size], expected, rtol=1e-12)


def rising(t, y, p):
    return {"x": p["speed"] * jnp.ones_like(y["x"]), "y": jnp.zeros_like(y["y"])}


PAIR = {
    "first": simkit.Event(lambda s, t, y, i: y["x"] - 1, "up", lambda s, t, y, i: {**y, "y": y["y"] + 5 * y["x"]}),
    "second": simkit.Event(lambda s, t, y, i: y["y"] - 2, "up", lambda s, t, y, i: {"x": y["x"] - 3, "y": 2 * y["y"]}),
}


def pair(speed, events=PAIR, **options):
    start = {"x": jnp.zeros(()), "y": jnp.zeros(())}
    return simkit.simulate(
        from_function(rising, {"speed": speed}), start, np.linspace(0.0, 3.0, 4), events=events, **options
    )


def test_an_event_sets_off_another_at_the_same_time():
    found = pair(jnp.asarray(0.7))
    rows = found.events.table()
    assert [row["event"] for row in rows] == ["first", "second"]
    assert rows[0]["time"] == rows[1]["time"]
    assert rows[0]["after"] == rows[1]["before"] == {"x": 1.0, "y": 5.0}
    np.testing.assert_allclose(found.ys["x"], [0.0, 0.7, -1.6, -0.9], rtol=1e-12)


@pytest.mark.slow
def test_what_is_set_off_moves_with_what_sets_it_off():
    ends = lambda speed: (pair(speed).ys["x"][-1], pair(speed).events["second"].times[0])
    for mode in (jax.jacfwd, jax.jacrev):
        slope, moved = mode(ends)(jnp.asarray(0.7))
        np.testing.assert_allclose(slope, 3.0, rtol=1e-12)  # x = 3 v - 3
        np.testing.assert_allclose(moved, -1 / 0.49, rtol=1e-12)


@pytest.mark.slow
def test_events_that_fight_are_a_status():
    over = lambda s, t, y, i: {**y, "y": y["y"] + jnp.where(y["y"] < 2, 4.0, -4.0)}
    back = lambda s, t, y, i: {**y, "x": jnp.where(y["x"] > 0.5, 0.0, 3.0) + 0 * y["x"]}
    fighting = [
        simkit.Event(lambda s, t, y, i: y["x"] - 1, None, over),
        simkit.Event(lambda s, t, y, i: y["y"] - 2, None, back),
    ]
    found = pair(0.7, fighting, on_failure="mark")
    assert found.status == simkit.core.Status.ENDLESS_EVENTS
    with pytest.raises(simkit.SimulationError, match="set each other off"):
        pair(0.7, fighting)


# ---- derivatives ----


@pytest.mark.slow
def test_derivatives_through_bounces():
    values = tuple(map(jnp.asarray, (9.81, 0.9, 1.0)))
    height = lambda *values: bouncing(*values).ys["height"][-1]
    third = lambda *values: bouncing(*values).events.times[2]
    exact = lambda gravity, kept, height: jnp.sqrt(2 * height / gravity) * (1 + 2 * (kept + kept**2))
    for got, expected in ((height, last_height), (third, exact)):
        for mode in (jax.jacfwd, jax.jacrev):
            found = jax.jit(mode(got, (0, 1, 2)))(*values)
            np.testing.assert_allclose(found, jax.jacfwd(expected, (0, 1, 2))(*values), rtol=1e-9)
    found = jax.jit(jax.hessian(height, (0, 1)))(*values)
    np.testing.assert_allclose(found, jax.hessian(last_height, (0, 1))(*values), rtol=1e-8)


@pytest.mark.slow
def test_members_have_their_own_events_and_gradients():
    heights = np.linspace(0.5, 5.0, 300)
    system = from_function(flying, {"gravity": 9.81, "kept": 0.9})
    found = simkit.ensemble(
        system, {"height": 1.0, "speed": 0.0}, ROWS, over={"y0.height": heights}, events=BOUNCE, lanes=7
    )
    assert not found.status.any()
    for member in (0, 150, 299):
        alone = bouncing(height=heights[member])
        np.testing.assert_allclose(found.ys["height"][member], alone.ys["height"], rtol=1e-9, atol=1e-12)
        count = int(alone.events.count)
        assert found.events.count[member] == count
        exact = bounces(9.81, 0.9, heights[member], count)
        np.testing.assert_allclose(found.events.times[member, :count], exact, rtol=1e-12)
    total = lambda gravity: jnp.sum(
        jax.vmap(lambda h: bouncing(gravity, height=h).ys["height"][-1])(jnp.asarray(heights[:9]))
    )
    step = 1e-5
    difference = (total(9.81 + step) - total(9.81 - step)) / (2 * step)
    for mode in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(jax.jit(mode(total))(jnp.asarray(9.81)), difference, rtol=1e-7)


# ---- thresholds, units, other kinds of systems ----


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e15])
def test_a_thermostat_with_hysteresis_in_any_unit(unit):
    """Heat is on below 18 and off above 22: T relaxes towards 30 or 10 with rate 1, so both phases last log(12 / 8)."""
    system = from_function(
        lambda t, y, p: {"T": (jnp.where(y["on"] > 0.5, 30.0, 10.0) * unit - y["T"]), "on": 0 * y["on"]}, {}
    )
    events = {
        "off": simkit.Event(lambda s, t, y, i: y["T"] - 22 * unit, "up", lambda s, t, y, i: {**y, "on": 0 * y["on"]}),
        "on": simkit.Event(
            lambda s, t, y, i: y["T"] - 18 * unit, "down", lambda s, t, y, i: {**y, "on": 0 * y["on"] + 1}
        ),
    }
    step = simkit.Adaptive(1e-9, 1e-12 * unit)
    found = simkit.simulate(system, {"T": 18.0 * unit, "on": 1.0}, [0.0, 5.0], events=events, step=step)
    np.testing.assert_allclose(found.events.times[:12], np.log(1.5) * np.arange(1, 13), rtol=1e-8)
    assert found.events["off"].count == 6


@pytest.mark.slow
def test_single_precision_and_a_run_backwards():
    system = from_function(flying, {"gravity": np.float32(9.81), "kept": np.float32(0.9)})
    y0 = {"height": jnp.float32(1.0), "speed": jnp.float32(0.0)}
    found = simkit.simulate(system, y0, np.linspace(0, 3, 4, dtype=np.float32), events=BOUNCE)
    assert found.events.times.dtype == jnp.float32
    np.testing.assert_allclose(found.events.times[:4], bounces(9.81, 0.9, 1.0, 4), rtol=2e-6)
    # Backwards a bounce divides: from the state at 3 the ball is back at its start.
    there = bouncing()
    divided = lambda system, t, y, inputs: {**y, "speed": -y["speed"] / system.parameters["kept"]}
    event = simkit.Event(lambda system, t, y, inputs: y["height"], "down", divided)
    system = from_function(flying, {"gravity": 9.81, "kept": 0.9})
    back = simkit.simulate(system, there.final(), ROWS[::-1], events=event)
    np.testing.assert_allclose(back.ys["height"][-1], 1.0, rtol=1e-10)
    np.testing.assert_allclose(back.events.times[:4], there.events.times[:4][::-1], rtol=1e-12)


@pytest.mark.slow
def test_algebraic_equations_hold_after_a_change():
    class Tank(simkit.core.ConstrainedSystem):
        def vector_field(self, t, y, inputs):
            return {"x": -y["z"], "z": y["z"] - 2 * y["x"]}

        def mass(self, t):
            return {"x": 1.0, "z": 0.0}

        @classmethod
        def example(cls):
            raise NotImplementedError

    event = simkit.Event(at=[0.5], change=lambda system, t, y, inputs: {**y, "x": y["x"] + 1.0})
    found = simkit.simulate(Tank(), {"x": 1.0, "z": 2.0}, [0.0, 0.5, 1.0], events=event, step=TIGHT)
    exact = np.exp(-1.0) + 1.0
    np.testing.assert_allclose(found.events.after["z"], 2 * exact, rtol=1e-7)
    np.testing.assert_allclose(found.ys["x"][-1], exact * np.exp(-1.0), rtol=1e-7)


def test_a_spike_resets_and_ends_at_a_known_time():
    """A leaky neuron: v' = 2 - v from 0 reaches 1 after log(2), is reset to 0, and so on; the run ends at 2."""
    system = from_function(lambda t, y, p: 2.0 - y, {})
    events = {
        "spike": simkit.Event(lambda s, t, y, i: y - 1.0, None, lambda s, t, y, i: 0 * y),
        "stop": simkit.Event(at=2.0, ends=True),
    }
    found = simkit.simulate(system, 0.0, [0.0, 1.0, 2.0, 3.0], events=events, step=TIGHT)
    np.testing.assert_allclose(found.events["spike"].times[:2], np.log(2) * np.array([1, 2]), rtol=1e-8)
    assert found.events["stop"].count == 1
    assert found.events.count == 3
    np.testing.assert_allclose(found.ys[1:3], 2 - 2 * np.exp(-(np.array([1.0, 2.0]) % np.log(2))), rtol=1e-8)
    assert np.isnan(found.ys[3])


# ---- what is refused ----


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: simkit.Event(), "either a `condition` or times"),
        (lambda: simkit.Event(BOUNCE.condition, at=[1.0]), "it has both"),
        (lambda: simkit.Event(at=[1.0], values=[1.0]), "with a `change`"),
        (lambda: simkit.Event(at=[1.0, 2.0], values=[1.0], change=dosed), "one entry for each of 2 times"),
        (lambda: simkit.Event(at=[1.0, np.nan]), "no NaN"),
        (lambda: simkit.Event(at=[1.0], change=bounced, values=[1.0]), "`change`"),
        (lambda: doses(RATE, AT - 1.0, AMOUNT), "`dose` must happen within the run, but entry 0 of `at` is -1"),
    ],
)
def test_what_is_wrong_is_a_sentence(make, text):
    with pytest.raises(simkit.ArgumentError, match=text):
        make()


def test_a_change_of_another_shape_and_one_that_is_not_finite():
    wide = simkit.Event(BOUNCE.condition, "down", lambda s, t, y, i: {**y, "speed": jnp.ones(2)})
    system = from_function(flying, {"gravity": 9.81, "kept": 0.9})
    start = {"height": 1.0, "speed": 0.0}
    with pytest.raises(simkit.ArgumentError, match=r"`change` of the event `wide`.*shape"):
        simkit.simulate(system, start, ROWS, events={"wide": wide})
    few = simkit.Event(BOUNCE.condition, "down", lambda s, t, y, i: {"height": y["height"]})
    with pytest.raises(simkit.ArgumentError, match=r"`change` of the event `few`.*structure"):
        simkit.simulate(system, start, ROWS, events={"few": few})
    broken = simkit.Event(BOUNCE.condition, "down", lambda s, t, y, i: {**y, "speed": y["speed"] / 0.0})
    found = simkit.simulate(system, start, ROWS, events={"broken": broken}, on_failure="mark")
    assert found.status == simkit.core.Status.NON_FINITE
    with pytest.raises(simkit.SimulationError, match=r"event `broken` at time 0\.45"):
        simkit.simulate(system, start, ROWS, events={"broken": broken})


def test_doses_into_algebraic_numbers_are_refused():
    class Two(simkit.ConstrainedSystem):
        k: simkit.Scalar = simkit.quantity(0.5)

        def vector_field(self, t, y, inputs):
            return {"a": -self.k * y["b"] / 2, "b": y["b"] - 2 * y["a"]}

        def mass(self, t):
            return {"a": 1.0, "b": 0.0}

        @classmethod
        def example(cls):
            return simkit.Example(cls(), {"a": 1.0, "b": 2.0}, np.linspace(0.0, 4.0, 5))

    y0 = {"a": 1.0, "b": 2.0}
    dose = simkit.problem.dose_event(simkit.problem.Doses(simkit.problem.Dose(3.0, 1.0, "b")), y0)
    with pytest.raises(simkit.ArgumentError, match="number 2 of the state of `Two` is algebraic"):
        simkit.simulate(Two(), y0, [0.0, 2.0], events={"dose": dose})
