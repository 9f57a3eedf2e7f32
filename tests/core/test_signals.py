import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.core import as_signals, at_time, jump_times


def test_values_of_every_signal():
    table = ([0.0, 1.0, 3.0], [1.0, 2.0, 6.0])
    times = jnp.array([-1.0, 0.5, 2.0, 4.0])
    evaluate = lambda signal: jax.vmap(signal)(times)
    np.testing.assert_allclose(evaluate(simkit.Constant(3.0)), 3.0)
    np.testing.assert_allclose(evaluate(simkit.Interpolated(*table)), [1.0, 1.5, 4.0, 6.0])
    np.testing.assert_allclose(evaluate(simkit.PiecewiseConstant(*table)), [1.0, 1.0, 2.0, 6.0])


def test_a_pulse_integrates_to_its_amount_and_overlapping_pulses_add_up():
    pulses = simkit.Pulses([1.0, 1.5], [2.0, 3.0], 1.0)
    grid = jnp.linspace(0.0, 4.0, 40001)
    values = jax.vmap(pulses)(grid)
    np.testing.assert_allclose(
        jnp.sum(values) * 1e-4, 5.0, atol=1e-3
    )  # the grid resolves each edge to 1e-4 of a rate of 5
    assert float(pulses(1.75)) == 5.0
    np.testing.assert_array_equal(np.sort(pulses.jumps()), [1.0, 1.5, 2.0, 2.5])


@pytest.mark.parametrize(
    "signal",
    [
        simkit.Interpolated([0.0, 1.0], [1.0, 2.0]),
        simkit.PiecewiseConstant([0.0, 1.0], [1.0, 2.0]),
        simkit.Pulses([0.0, 1.0], [1.0, 2.0], 0.5),
        simkit.Constant(1.0),
    ],
)
def test_padding_changes_no_value(signal):
    times = jnp.linspace(-1.0, 3.0, 41)
    padded = signal.padded(5)
    np.testing.assert_array_equal(jax.vmap(signal)(times), jax.vmap(padded)(times))
    if signal.length():
        assert padded.length() == 5


def test_jumps_of_a_pytree_and_plain_numbers_as_constants():
    inputs = as_signals({"torque": 2.0, "dose": simkit.PiecewiseConstant([0.0, 5.0], [0.0, 1.0])})
    np.testing.assert_array_equal(jump_times(inputs), [0.0, 5.0])
    assert jump_times(as_signals({"torque": 2.0})) is None
    assert at_time(inputs, 6.0) == {"torque": 2.0, "dose": 1.0}


@pytest.mark.parametrize("times", [[0.0, 0.0], [1.0, 0.0]])
def test_a_table_must_increase(times):
    with pytest.raises(simkit.ArgumentError, match="must increase"):
        simkit.Interpolated(times, [1.0, 2.0])


def test_a_table_must_be_as_long_as_its_values():
    with pytest.raises(simkit.ArgumentError, match="equally long"):
        simkit.PiecewiseConstant([0.0, 1.0], [1.0])


@pytest.mark.parametrize("signal", [None, "1.0", simkit.Constant])
def test_what_is_no_signal_is_refused(signal):
    with pytest.raises(simkit.ArgumentError, match="must hold signals or numbers"):
        as_signals({"feed": signal})
    assert as_signals(None) is None


def test_a_plain_function_is_a_signal():
    """y' = push(t) - k y with push = sin t from y = 0: (k sin t - cos t + e^(-k t)) / (1 + k^2)."""
    system = simkit.from_function(lambda t, y, p, u: {"y": u["push"] - p["k"] * y["y"]}, {"k": 1.0})
    times = jnp.linspace(0.0, 3.0, 4)
    pushed = {"push": lambda t: jnp.sin(t)}
    options = {"step": simkit.Adaptive(1e-9, 1e-9), "inputs": pushed}
    found = simkit.simulate(system, {"y": 0.0}, times, **options).ys["y"]
    np.testing.assert_allclose(found, (jnp.sin(times) - jnp.cos(times) + jnp.exp(-times)) / 2, atol=1e-8)
    swept = simkit.ensemble(system, {"y": 0.0}, times, over={"k": [1.0, 2.0]}, **options).ys["y"]
    np.testing.assert_allclose(swept[0], found, atol=1e-8)
    single = simkit.cast((system, {"y": jnp.zeros(())}), jnp.float32)
    for push in (jnp.sin, lambda t: 2):
        assert simkit.simulate(*single, times, inputs={"push": push}).ys["y"].dtype == jnp.float32
