"""Systems and responses from plain functions."""

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import odes
from simkit.core import Setup
from simkit.odes._function import FunctionResponse, FunctionSystem


def decay(t, y, params):
    return {"x": -params["rate"] * y["x"]}


def test_names_are_the_keys():
    setup = Setup(odes.from_function(decay, {"rate": 0.5}), {"x": 1.0})
    assert set(setup.names()) == {"rate", "y0.x"}
    moved = setup.put({"rate": 0.7})
    assert float(moved.system.parameters["rate"]) == 0.7


def test_simulation_equals_the_model():
    times = jnp.linspace(0.0, 3.0, 4)
    plain = simkit.simulate(odes.from_function(decay, {"rate": 0.5}), {"x": 1.0}, times)
    model = simkit.simulate(odes.ExponentialDecay(), odes.ExponentialDecay.State(amount=1.0), times)
    np.testing.assert_array_equal(plain.ys["x"], model.ys.amount)


def test_array_state_and_inputs():
    def driven(t, y, params, inputs):
        return -params["rate"] * y + inputs["feed"]

    system = odes.from_function(driven, {"rate": 2.0})
    final = simkit.simulate(system, jnp.zeros(2), [0.0, 20.0], inputs={"feed": 3.0}).final()
    np.testing.assert_allclose(final, [1.5, 1.5], rtol=1e-6)  # the default tolerance
    assert set(system.outputs(jnp.zeros(()), jnp.zeros(2), None)) == {"y"}


def test_outputs_and_invariants():
    system = odes.from_function(
        decay,
        {"rate": 0.5},
        outputs=lambda t, y, p: {"activity": p["rate"] * y["x"]},
        invariants=lambda t, y, p: {"start": y["x"] * jnp.exp(p["rate"] * t)},
    )
    t, y = jnp.array(2.0), {"x": jnp.array(3.0)}
    assert float(system.outputs(t, y, None)["activity"]) == 1.5
    np.testing.assert_allclose(system.invariants(t, y)["start"], 3 * np.e)


def test_response_of_a_number_is_y():
    line = odes.from_response(lambda x, p: p["slope"] * x, {"slope": 2.0})
    assert float(line.outputs(jnp.array(3.0), None, None)["y"]) == 6.0
    both = odes.from_response(lambda x, p: {"a": p["slope"] * x, "b": x}, {"slope": 2.0})
    assert set(both.outputs(jnp.array(3.0), None, None)) == {"a", "b"}


@pytest.mark.parametrize("name", ["y0", "inputs", "two words", "a.b"])
def test_reserved_names(name):
    with pytest.raises(simkit.ArgumentError, match="Argument `params` must name its parameters"):
        odes.from_function(decay, {name: 1.0})


def test_number_of_arguments():
    with pytest.raises(simkit.ArgumentError, match="but it takes 2 arguments"):
        odes.from_function(lambda t, y: y, {"rate": 1.0})
    with pytest.raises(simkit.ArgumentError, match="but it takes 1 arguments"):
        odes.from_response(lambda x: x, {"rate": 1.0})


def test_no_example():
    for cls in (FunctionSystem, FunctionResponse):
        with pytest.raises(simkit.ArgumentError, match="has no example"):
            cls.example()


def test_quantities_as_parameters():
    rate = simkit.quantity(0.5, unit="1/day", support=simkit.POSITIVE, doc="decay rate")
    response = odes.from_response(lambda x, p: p["rate"] * x, {"rate": rate})
    delayed = odes.from_delayed_function(
        lambda t, y, past, p: {"x": -p["rate"] * past(t - p["lag"])["x"]}, {"rate": rate, "lag": 1.0}, lags="lag"
    )
    system = odes.from_function(decay, {"rate": rate})
    for one in (system, response, delayed):
        setup = Setup(one)
        assert setup.metadata("rate") == ("1/day", simkit.POSITIVE, "decay rate")
        assert float(setup.get("rate")) == 0.5
    np.testing.assert_allclose(simkit.simulate(system, {"x": 1.0}, [0.0, 2.0]).final()["x"], np.exp(-1.0), rtol=1e-5)
    with pytest.raises(simkit.ArgumentError, match="`rate` must be positive, as its support says"):
        odes.from_function(decay, {"rate": simkit.quantity(-1.0, support=simkit.POSITIVE)})
    with pytest.raises(simkit.ArgumentError, match="`rate` must have a value"):
        odes.from_function(decay, {"rate": simkit.quantity(unit="1/day")})
