"""Events that depend on the state, against exact solutions, derivatives of jumps included."""

import jax
import jax.numpy as jnp
import libsbml
import numpy as np
import pytest
from petab_models import load_observed, sbml

TIMES = np.array([0.0, 0.5, 1.0, 1.5, 2.5, 4.0])


def problem(folder, model, names, observable="A"):
    return load_observed(folder, model, names, observable, TIMES)


def values_and_slopes(read):
    def ours(theta):
        location = read.problem.heads(theta)[0]["o"][0][0]
        return location, location

    slopes, values = jax.jit(jax.jacfwd(ours, has_aux=True))(read.nominal)
    return values, slopes


def test_a_dose_whenever_little_is_left(tmp_path):
    # dA/dt = -k A from 2, set to `top` whenever it falls to `low`: the time of each jump moves with all parameters.
    model = sbml(
        {"A": 2.0},
        {"k": 1.0, "low": 1.0, "top": 1.0},
        {"r": ("A", "", "cell * k * A")},
        events={"refill": ("A < low", {"A": "top"})},
    )
    read = problem(tmp_path, model, {"k": 0.9, "low": 0.8, "top": 1.7})

    def exact(theta):
        k, low, top = theta
        first, period = jnp.log(2 / low) / k, jnp.log(top / low) / k
        count = jax.lax.stop_gradient(jnp.floor((TIMES - first) / period))
        return jnp.where(first > TIMES, 2 * jnp.exp(-k * TIMES), top * jnp.exp(-k * (TIMES - first - count * period)))

    values, slopes = values_and_slopes(read)
    np.testing.assert_allclose(values, exact(read.nominal), rtol=2e-6)
    np.testing.assert_allclose(slopes, jax.jacfwd(exact)(read.nominal), atol=5e-5)


@pytest.mark.slow
def test_a_ball_that_bounces(tmp_path):
    # A ball under gravity g that keeps the part e of its speed: three bounces until 2.5.
    model = sbml(
        {},
        {"x": 1.0, "v": 0.0, "g": 2.0, "e": 0.8},
        {},
        rates={"x": "v", "v": "-g"},
        events={"bounce": ("x < 0 && v < 0", {"v": "-e * v"})},
    )
    read = problem(tmp_path, model, {"g": 2.1, "e": 0.8}, "x")

    def exact(theta):
        g, e = theta
        fall = jnp.sqrt(2 / g)
        ends = [fall]
        for i in range(1, 6):
            ends.append(ends[-1] + 2 * fall * e**i)
        found = 1 - 0.5 * g * TIMES**2
        for i, begin in enumerate(ends):
            since = TIMES - begin
            found = jnp.where(since > 0, g * fall * e ** (i + 1) * since - 0.5 * g * since**2, found)
        return found

    values, slopes = values_and_slopes(read)
    np.testing.assert_allclose(values, exact(read.nominal), atol=1e-7)
    np.testing.assert_allclose(slopes, jax.jacfwd(exact)(read.nominal), atol=1e-5)


@pytest.mark.slow
def test_two_events_of_which_one_follows_from_the_other(tmp_path):
    # At A = 1 the state B is set to 3, which makes `second` true at once: it sets C. At time 2 a third one adds to A.
    model = sbml(
        {"A": 2.0, "B": 0.0, "C": 0.0},
        {"k": 1.0, "T": 2.0},
        {"r": ("A", "", "cell * k * A")},
        events={
            "second": ("B > 2", {"C": "C + 10"}),
            "first": ("A <= 1", {"B": "3"}),
            "third": ("time >= T", {"A": "A + 5"}),
        },
    )
    read = problem(tmp_path, model, {"k": 0.9, "T": 2.0}, "A + C")

    def exact(theta):
        k, late = theta
        first = jnp.log(2) / k
        a = 2 * jnp.exp(-k * TIMES) + jnp.where(late <= TIMES, 5 * jnp.exp(-k * (TIMES - late)), 0)
        return a + jnp.where(first <= TIMES, 10.0, 0.0)

    # After the dose A falls through 1 once more: B is 3 already, `second` stays true and does not happen again.
    values, slopes = values_and_slopes(read)
    np.testing.assert_allclose(values, exact(read.nominal), rtol=2e-6)
    np.testing.assert_allclose(slopes, jax.jacfwd(exact)(read.nominal), atol=5e-5)


def test_any_number_of_passages(tmp_path):
    # dA/dt = -k A between 1 and 1.5: one passage every ln(1.5) / 30 = 0.0135, 296 until the last datum.
    model = sbml(
        {"A": 2.0},
        {"k": 30.0},
        {"r": ("A", "", "cell * k * A")},
        events={"refill": ("A < 1", {"A": "1.5"})},
    )
    read = problem(tmp_path, model, {"k": 30.0})

    def exact(k):
        first, period = np.log(2.0) / k, np.log(1.5) / k
        since = (TIMES - first) % period
        return np.where(first > TIMES, 2.0 * np.exp(-k * TIMES), 1.5 * np.exp(-k * since))

    heads, status = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    assert int(status[0]) == 0
    # Each passage adds an error of the tolerance, 5e-7, to the phase.
    np.testing.assert_allclose(heads["o"][0][0], exact(30.0), rtol=3e-4)


def delayed(period, delay):
    """A clock that starts again after each period, and a counter that follows it later."""
    document = libsbml.readSBMLFromString(
        sbml(
            {},
            {"clock": 0.0, "count": 0.0},
            {},
            rates={"clock": "1"},
            events={
                "tick": (f"clock >= {period}", {"clock": "0"}),
                "later": (f"clock >= {period}", {"count": "count + 1"}),
            },
        )
    )
    later = document.getModel().getEvent("later")
    later.createDelay().setMath(libsbml.parseL3Formula(str(delay)))
    later.setUseValuesFromTriggerTime(False)
    return libsbml.writeSBMLToString(document)


def test_an_event_that_becomes_true_again_while_it_waits(tmp_path):
    # Ticks at 0.3, 0.6, ...; three of them wait at any time.
    read = problem(tmp_path, delayed(0.3, 0.8), {"clock": 0.0}, "count")
    heads, status = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    assert int(status[0]) == 0
    np.testing.assert_allclose(heads["o"][0][0], np.maximum(np.floor((TIMES - 0.8) / 0.3), 0.0), atol=1e-9)


@pytest.mark.slow
def test_more_delays_at_once_than_there_is_room_for_are_a_failure(tmp_path):
    value, status = problem(tmp_path, delayed(0.1, 0.8), {"clock": 0.0}, "count").problem.log_likelihood(jnp.zeros(1))
    assert value == -jnp.inf
    assert status[0] == 2


def test_equal_priorities_are_drawn(tmp_path):
    # Of two events that each make the other false one happens every 0.01, at random: the sum is known, the difference is small.
    text = sbml(
        {},
        {"reset": 0.0, "P": 0.0, "Q": 0.0, "s": 1.0},
        {},
        events={f"more_{name}": ("time - reset >= 0.01", {"reset": "time", name: f"{name} + s"}) for name in "PQ"},
    )
    document = libsbml.readSBMLFromString(text)
    for name in "PQ":
        event = document.getModel().getEvent(f"more_{name}")
        event.createPriority().setMath(libsbml.parseL3Formula("1"))
        event.getTrigger().setPersistent(False)
    read = problem(tmp_path, libsbml.writeSBMLToString(document), {"s": 1.0}, "1000 * (P + Q) + (P - Q)")
    heads, status = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    total = np.round(np.asarray(heads["o"][0][0]) / 1000)
    difference = np.asarray(heads["o"][0][0]) - 1000 * total
    assert int(status[0]) == 0
    assert np.all(np.abs(total - 100 * TIMES) <= 1)
    # Of 400 fair coins the difference has a standard deviation of 20.
    assert 0 < np.abs(difference).max() < 100


def counted(folder, parameters, events, observable):
    """Values of an observable where `clock` moves by 1 in a unit of time, and events set parameters."""
    text = sbml({}, {"clock": 0.0, **parameters}, {}, rates={"clock": "1"}, events=events)
    read = problem(folder, text, {"clock": parameters.get("clock", 0.0)}, observable)
    heads, status = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    assert int(status[0]) == 0
    return np.asarray(heads["o"][0][0])


def test_a_comparison_that_stands_at_zero_hides_no_other(tmp_path):
    # `record` makes n and `most` equal, and they stay so until the next tick; it happens once a tick.
    events = {
        "tick": ("clock >= 0.35", {"clock": "0", "n": "n + 0.1"}),
        "record": ("n > most", {"most": "n", "records": "records + 1"}),
    }
    found = counted(tmp_path, {"n": 0.0, "most": 0.0, "records": 0.0}, events, "100 * n + records")
    np.testing.assert_allclose(found, 11 * np.floor(TIMES / 0.35), atol=1e-6)


def test_an_event_that_puts_a_moving_comparison_at_zero(tmp_path):
    # Set to 0, the clock is above 0 at once, which is a new passage: at 0.2, 0.9, 1.6, 2.3, ...
    events = {"back": ("clock >= 0.7", {"clock": "0"}), "above": ("clock > 0", {"n": "n + 1"})}
    found = counted(tmp_path, {"clock": -0.2, "n": 0.0}, events, "n")
    np.testing.assert_allclose(found, np.where(TIMES < 0.2, 0, 1 + np.floor((TIMES - 0.2) / 0.7)), atol=1e-6)


def test_an_event_with_a_delay_that_changes_nothing(tmp_path):
    document = libsbml.readSBMLFromString(sbml({"A": 2.0}, {}, {}, events={"nothing": ("time >= 1", {})}))
    document.getModel().getEvent(0).createDelay().setMath(libsbml.parseL3Formula("0.5"))
    read = problem(tmp_path, libsbml.writeSBMLToString(document), {"s": 1.0}, "A * s")
    assert jax.eval_shape(read.problem.heads, read.nominal)[0]["o"][0].shape == (1, len(TIMES))


@pytest.mark.slow
def test_priorities_delays_and_values_of_the_time_of_a_trigger(tmp_path):
    # At time 1 `up` and then `down` set x to 2 and back to 0. In between the last three become true: `gone` is false again before
    # its turn, `kept` has the value that x had, and `late` takes A as it is half a time later.
    text = sbml(
        {"A": 2.0},
        {"k": 1.0, "x": 0.0, "y": 0.0, "z": 0.0, "w": 0.0},
        {"r": ("A", "", "cell * k * A")},
        events={
            "kept": ("x > 1", {"z": "x + 1"}),
            "gone": ("x > 1", {"y": "100"}),
            "late": ("x > 1", {"w": "A"}),
            "down": ("time >= 1", {"x": "0"}),
            "up": ("time >= 1", {"x": "2"}),
        },
    )
    document = libsbml.readSBMLFromString(text)
    events = document.getModel().getListOfEvents()
    for name, priority in {"up": 3, "down": 2, "kept": 1, "gone": 1}.items():
        events.get(name).createPriority().setMath(libsbml.parseL3Formula(str(priority)))
    events.get("gone").getTrigger().setPersistent(False)
    events.get("late").createDelay().setMath(libsbml.parseL3Formula("0.5"))
    events.get("late").setUseValuesFromTriggerTime(False)
    read = problem(tmp_path, libsbml.writeSBMLToString(document), {"k": 0.9}, "y + 10 * z + w")

    def exact(theta):
        return jnp.where(TIMES < 1, 0.0, 30.0) + jnp.where(TIMES < 1.5, 0.0, 2 * jnp.exp(-1.5 * theta[0]))

    values, slopes = values_and_slopes(read)
    np.testing.assert_allclose(values, exact(read.nominal), rtol=1e-7)
    np.testing.assert_allclose(slopes, jax.jacfwd(exact)(read.nominal), atol=1e-5)
