"""Inputs that nothing reads are said."""

import warnings

import jax
import pytest

import simkit

decay = simkit.from_function(lambda t, y, p: {"x": -p["k"] * y["x"]}, {"k": 1.0})
fed = simkit.from_function(lambda t, y, p, u: {"x": u["feed"] - p["k"] * y["x"]}, {"k": 1.0})


def test_a_system_without_inputs():
    with pytest.warns(UserWarning, match="does not read `feed` of argument `inputs`"):
        simkit.simulate(decay, {"x": 1.0}, [0.0, 1.0], inputs={"feed": 1.0})
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    with pytest.warns(UserWarning, match="LotkaVolterra does not read `food`"):
        simkit.ensemble(system, y0, times, over={"growth": [0.4, 0.5]}, inputs={"food": 1.0})
    experiment = simkit.Experiment("e", [0.0, 1.0], {"x": [1.0, 0.5]}, y0={"x": 1.0}, inputs={"feed": 1.0})
    free = {"k": simkit.Free(bounds=(0.1, 2.0))}
    with pytest.warns(UserWarning, match="does not read `feed`"):
        simkit.Problem(decay, experiment, free=free, noise={"x": simkit.noise.Normal(0.1)})


def test_one_name_too_many():
    with pytest.warns(UserWarning, match="does not read `fed` of argument"):
        simkit.simulate(fed, {"x": 1.0}, [0.0, 1.0], inputs={"feed": 1.0, "fed": 1.0})


def test_what_is_read_is_not_mentioned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simkit.simulate(fed, {"x": 1.0}, [0.0, 1.0], inputs={"feed": 1.0})
        # An event may read what the system does not; a program that is traced warns of nothing.
        event = simkit.Event(lambda system, t, y, inputs: y["x"] - inputs["level"], "down", ends=True)
        simkit.simulate(decay, {"x": 1.0}, [0.0, 1.0], inputs={"level": 0.5}, events=event)
        run = lambda k: simkit.simulate(decay, {"x": k}, [0.0, 1.0], step=0.1, inputs={"feed": 1.0}).final()["x"]
        jax.jit(run)(1.0)


def test_an_input_that_only_shifts_a_lag_is_read():
    class Late(simkit.DelayedSystem):
        def delayed_field(self, t, y, inputs, past):
            return {"x": -past(t - self.lags(t, y, inputs))["x"]}

        def lags(self, t, y, inputs):
            return inputs["lag"]

        @classmethod
        def example(cls):
            return simkit.Example(cls(), {"x": 1.0}, [0.0, 1.0], {"lag": 1.0})

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = simkit.simulate(Late(), {"x": 1.0}, [0.0, 0.5], inputs={"lag": 1.0})
    assert found.ys["x"][-1] == pytest.approx(0.5)
    with pytest.warns(UserWarning, match="does not read `other`"):
        simkit.simulate(Late(), {"x": 1.0}, [0.0, 0.5], inputs={"lag": 1.0, "other": 1.0})
