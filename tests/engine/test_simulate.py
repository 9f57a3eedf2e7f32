import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.engine import resolve
from simkit.engine.task._step import as_step
from simkit.odes import ExponentialDecay, LotkaVolterra, from_function
from simkit.solvers import Tsit5

SYSTEM, Y0, TIMES, _ = LotkaVolterra.example()


def test_adaptive_and_fixed_steps_agree():
    tight = simkit.simulate(SYSTEM, Y0, TIMES, step=simkit.Adaptive(1e-10, 1e-12))
    fixed = simkit.simulate(SYSTEM, Y0, TIMES, step=0.01)
    # 4th-order dense output of the adaptive solve at 1e-10 and global error of order (0.01)^5
    np.testing.assert_allclose(tight.ys.hare, fixed.ys.hare, rtol=2e-7)
    assert fixed.steps == 25 * 80
    assert tight.status == fixed.status == simkit.Status.OK


def test_a_float_step_is_at_most_this_long_and_lands_on_every_time():
    times = jnp.array([0.0, 0.3, 1.0])
    trajectory = simkit.simulate(SYSTEM, Y0, times, step=0.25)
    assert trajectory.steps == 2 * 3  # the longest window, 0.7, takes three
    np.testing.assert_array_equal(trajectory.times, times)


@pytest.mark.parametrize("step", [simkit.Fixed(20), simkit.Fixed(300)])
def test_checkpointed_segments_change_neither_value_nor_gradient(step):
    exact = lambda rate: jnp.exp(-rate * 2.0)
    decay = lambda rate: simkit.simulate(
        from_function(lambda t, y, p: -p["k"] * y, {"k": rate}), 1.0, jnp.array([0.0, 2.0]), step=step, solver=Tsit5()
    ).ys[-1]
    # Tsit5's error of 20 steps of 0.1 is below 1e-9
    np.testing.assert_allclose(jax.jit(decay)(0.7), exact(0.7), rtol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.grad(decay))(0.7), jax.grad(exact)(0.7), rtol=1e-7)
    np.testing.assert_allclose(jax.jvp(decay, (0.7,), (1.0,))[1], jax.grad(exact)(0.7), rtol=1e-7)


def test_jumps_of_an_input_are_landed_on():
    system = from_function(lambda t, y, p, inputs: inputs["dose"] - p["k"] * y, {"k": 0.5})
    dose = simkit.Pulses([0.37], [2.0], 0.21)
    times = jnp.array([0.0, 1.0, 3.0])

    def exact(t):  # a constant inflow during the pulse, then decay
        end, rate = 0.58, 2.0 / 0.21
        return rate / 0.5 * (1 - jnp.exp(-0.5 * 0.21)) * jnp.exp(-0.5 * (t - end))

    for step in (0.25, simkit.Adaptive(1e-8, 1e-10)):
        trajectory = simkit.simulate(system, 0.0, times, inputs={"dose": dose}, step=step)
        # fifth order needs the steps to end on both edges of the pulse; without that the error is some 1e-2
        np.testing.assert_allclose(trajectory.ys[1:], exact(times[1:]), rtol=2e-7)


def test_the_time_of_a_dose_has_a_gradient():
    system = from_function(lambda t, y, p, inputs: inputs["dose"] - p["k"] * y, {"k": 0.5})

    def last(start):
        inputs = {"dose": simkit.Pulses(start[None], jnp.array([2.0]), jnp.array(0.2))}
        return simkit.simulate(system, 0.0, jnp.array([0.0, 3.0]), inputs=inputs, step=simkit.Fixed(20)).ys[-1]

    # y(3) is proportional to exp(0.5 start), so its relative slope is 0.5
    value, slope = jax.value_and_grad(last)(jnp.array(0.4))
    np.testing.assert_allclose(slope / value, 0.5, rtol=1e-6)


def test_one_trace_for_new_values_of_the_same_shape():
    traces = []

    def field(t, y, p):
        traces.append(1)
        return -p["k"] * y

    run = lambda k, end: simkit.simulate(
        from_function(field, {"k": k}), 1.0, jnp.array([0.0, end]), step=simkit.Fixed(4), solver=Tsit5()
    )
    run(0.5, 1.0)
    count = len(traces)
    run(0.6, 2.0)
    run(jnp.float64(0.7), 3.0)
    assert len(traces) == count


def test_float32_stays_float32():
    system, y0 = simkit.cast((SYSTEM, Y0), jnp.float32)
    trajectory = simkit.simulate(system, y0, TIMES, step=simkit.Adaptive(1e-4, 1e-4))
    assert trajectory.ys.hare.dtype == jnp.float32
    exact = simkit.simulate(SYSTEM, Y0, TIMES, step=0.05)
    np.testing.assert_allclose(trajectory.ys.hare, exact.ys.hare, rtol=1e-2)  # tolerance 1e-4 over three cycles


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [(jnp.float64, 1e-6, 1e-9), (jnp.float32, 1e-4, 1e-6)])
def test_default_tolerances_follow_the_float_type_of_the_state(dtype, rtol, atol):
    system, y0 = simkit.cast((SYSTEM, Y0), dtype)
    default = simkit.simulate(system, y0, TIMES)
    assert default.ys.hare.dtype == dtype
    assert default.status == simkit.Status.OK
    # Of each state by its start.
    each = jnp.asarray([atol * float(x) for x in jax.tree.leaves(y0)], dtype)
    for step in (simkit.Adaptive(rtol, each), simkit.Adaptive(max_steps=5000), simkit.Adaptive(atol=each)):
        found = simkit.simulate(system, y0, TIMES, step=step).ys.hare
        # The product of two float32 is rounded, which moves the steps by as little.
        np.testing.assert_allclose(found, default.ys.hare, rtol=1e-12 if dtype == jnp.float64 else 1e-4)
    np.testing.assert_allclose(resolve(system, y0, TIMES).step.rtol, rtol, rtol=1e-6)  # as float32 rounds it


def test_stochastic_systems_need_a_key_and_repeat_with_it():
    system, y0, times, _ = simkit.odes.OrnsteinUhlenbeck.example()
    with pytest.raises(simkit.ArgumentError, match=r"`key` must be a random key"):
        simkit.simulate(system, y0, times)
    run = lambda seed: simkit.simulate(system, y0, times, key=jax.random.key(seed)).final()
    one, same, other = (jax.tree.leaves(run(seed))[0] for seed in (0, 0, 1))
    assert one == same
    assert one != other


# ---- failures ----


def test_a_failure_raises_with_time_component_and_remedy():
    explosive = from_function(lambda t, y, p: {"a": y["a"] ** 2, "b": -y["b"]}, {})
    with pytest.raises(simkit.SimulationError, match=r"between the times 0.5 and 1.5.*[Ll]ast good state.*a 2"):
        simkit.simulate(explosive, {"a": 1.0, "b": 1.0}, jnp.array([0.0, 0.5, 1.5]))


def test_a_derivative_that_is_not_finite_is_named():
    broken = from_function(lambda t, y, p: {"a": -y["a"], "b": jnp.log(y["a"] - 1.0)}, {})
    with pytest.raises(simkit.SimulationError, match=r"derivative of `b` is not finite"):
        simkit.simulate(broken, {"a": 1.0, "b": 1.0}, jnp.array([0.0, 0.5, 1.0]), step=0.1)


def test_a_number_that_was_not_finite_from_the_start_is_named():
    system = dataclasses.replace(SYSTEM, growth=jnp.asarray(jnp.nan))
    with pytest.raises(simkit.SimulationError, match=r"LotkaVolterra cannot start: `growth` is nan\. Every parameter"):
        simkit.simulate(system, Y0, TIMES)
    with pytest.raises(simkit.SimulationError, match=r"`y0\.hare` is inf"):
        simkit.simulate(SYSTEM, dataclasses.replace(Y0, hare=jnp.asarray(jnp.inf)), TIMES, step=0.1)
    driven = from_function(
        lambda t, y, p, inputs: inputs["dose"] - y.sum() * p["k"] * y, {"k": jnp.array([0.5, np.nan])}
    )
    with pytest.raises(simkit.SimulationError, match=r"`k\.1` is nan, `inputs\.dose\.value` is nan"):
        simkit.simulate(driven, jnp.ones(2), [0.0, 1.0], inputs={"dose": np.nan}, step=0.1)


def test_an_infinite_parameter_does_not_hide_a_later_failure():
    late = from_function(lambda t, y, p: y**2 / (1 + 1 / p["k"]), {"k": np.inf})  # reaches infinity at time 1
    with pytest.raises(simkit.SimulationError, match=r"failed between the times 0.5 and 1.5"):
        simkit.simulate(late, 1.0, [0.0, 0.5, 1.5])


def test_a_failure_is_marked_on_demand_and_under_jit_with_a_zero_gradient():
    explosive = from_function(lambda t, y, p: p["k"] * y**2, {"k": 1.0})

    def last(k):
        system = from_function(lambda t, y, p: p["k"] * y**2, {"k": k})
        run = simkit.simulate(system, 1.0, jnp.array([0.0, 0.5, 3.0]), on_failure="mark")
        return jnp.where(run.status == simkit.Status.OK, run.ys[-1], 0.0)

    trajectory = simkit.simulate(explosive, 1.0, jnp.array([0.0, 0.5, 3.0]), on_failure="mark")
    assert simkit.Status(int(trajectory.status)) != simkit.Status.OK
    assert jnp.isfinite(trajectory.ys[1])
    assert jnp.isnan(trajectory.ys[2])
    assert jax.jit(jax.grad(last))(1.0) == 0.0
    members = jax.vmap(last)(jnp.array([0.1, 1.0]))
    np.testing.assert_allclose(members, [1 / (1 - 0.3), 0.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([0.0], "at least two times"),
        ([0.0, 2.0, 1.0], "must increase"),
        ([0.0, np.nan], "must be finite"),
        ("soon", "must be numbers"),
        ([[0.0, 1.0]], "shape"),
    ],
)
def test_times_are_checked(times, words):
    with pytest.raises(simkit.ArgumentError, match=words):
        simkit.simulate(SYSTEM, Y0, times)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": -1.0}, "`step` must be positive"),
        ({"on_failure": "ignore"}, "`on_failure` must be"),
        ({"step": simkit.Adaptive(rtol=1e-16)}, "`rtol` must be at least"),
    ],
)
def test_options_are_checked(options, words):
    unchecked = inspect.unwrap(simkit.simulate)  # as users have it: the tests' own type checks would speak first
    with pytest.raises(simkit.ArgumentError, match=words):
        unchecked(SYSTEM, Y0, TIMES, **options)


def test_a_step_must_be_a_number_or_a_rule():
    with pytest.raises(simkit.ArgumentError, match=r"`step` must be a number.*'small'"):
        as_step("small", TIMES)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (lambda t, y, p: jnp.stack([y, y]), "must keep the shape"),
        (lambda t, y, p: {"y": y}, "must return the structure"),
        (lambda t, y, p: y.astype(jnp.float32), "must keep the float type"),
    ],
)
def test_a_vector_field_of_the_wrong_form_is_refused(field, words):
    with pytest.raises(simkit.ArgumentError, match=words):
        simkit.simulate(from_function(field, {}), 1.0, jnp.array([0.0, 1.0]), solver=Tsit5())
    with pytest.raises(simkit.ArgumentError, match=words):  # also where stiffness is judged first
        simkit.simulate(from_function(field, {}), 1.0, jnp.array([0.0, 1.0]))


class Scaled(simkit.PlainSystem):
    """A field that is a plain number and a field that is a function, neither of them static."""

    factor: float
    act: Callable[..., Any]

    def vector_field(self, t, y, inputs):
        return self.factor * self.act(y)

    @classmethod
    def example(cls):
        raise NotImplementedError


def test_leaves_that_are_no_arrays_are_held_and_kept_apart():
    for factor in (1.0, -1.0, 1.0):
        for act, sign in ((jnp.negative, -1.0), (jnp.positive, 1.0)):
            trajectory = simkit.simulate(Scaled(factor, act), 1.0, [0.0, 1.0], solver=Tsit5(), step=simkit.Fixed(20))
            np.testing.assert_allclose(trajectory.ys[-1], np.exp(sign * factor), rtol=1e-6)  # steps of 0.05


def test_the_summary_says_what_happened():
    text = repr(simkit.simulate(SYSTEM, Y0, TIMES))
    for words in ("Tsit5", "Finished", "81 from 0 to 20", "accepted", "hare", "thousand", "KiB"):
        assert words in text


def test_decay_is_exact_to_tolerance():
    system, y0, times, _ = ExponentialDecay.example()
    trajectory = simkit.simulate(system, y0, times, step=simkit.Adaptive(1e-9, 1e-12))
    start, found = jax.tree.leaves(y0)[0], jax.tree.leaves(trajectory.ys)[0]
    np.testing.assert_allclose(found, start * np.exp(-np.asarray(system.rate) * np.asarray(times)), rtol=1e-7)
