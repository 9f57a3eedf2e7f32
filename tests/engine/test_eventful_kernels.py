"""Solves with events in kernels, run step by step, against the programs of XLA's that they take the place of."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close

import simkit
from simkit.engine.adaptive import _eventful_kernel, _kernel
from simkit.engine.kernels._mode import forced
from simkit.odes import from_function
from simkit.solvers import Rodas5P, Tsit5

COUNT = 3  # not a multiple of the lanes of a block
TOLERANCES = {jnp.dtype("float32"): (1e-4, 1e-5, 2e-4), jnp.dtype("float64"): (1e-8, 1e-10, 1e-9)}
"""Float type -> relative and absolute tolerance, and how far apart two roundings of the same steps may come."""


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many kernels with events were launched."""
    found: list[int] = []
    run = _eventful_kernel.solution_with_events

    @functools.wraps(run)
    def call(*args: Any) -> Any:
        result = run(*args)
        found.append(1)
        return result

    monkeypatch.setattr(_kernel, "solution_with_events", call)
    return found


def ball(dtype: Any, solver: Any) -> Callable[..., Any]:
    """A ball that loses speed at each bounce, of several heights and losses."""
    falling = lambda t, y, p: jnp.stack([y[1], -p["gravity"] - 0.1 * y[1]])
    bounced = lambda system, t, y, inputs: jnp.stack([y[0], -system.parameters["left"] * y[1]])
    bounce = simkit.Event(lambda system, t, y, inputs: y[0], "down", bounced)
    return _runner(falling, {"gravity": 9.81, "left": 0.8}, [1.5, 0.0], "left", (0.5, 0.9), 2.0, bounce, dtype, solver)


def doses(dtype: Any, solver: Any) -> Callable[..., Any]:
    """A drug that is given at known times, and half of it taken out at others."""
    decaying = lambda t, y, p: jnp.stack([-p["rate"] * y[0], p["rate"] * y[0] - 0.3 * y[1]])
    at, amounts = jnp.array([0.0, 2.0, 0.7, 1.1], dtype), jnp.array([1.0, 2.0, 0.5, 4.0], dtype)
    dosed = lambda system, t, y, inputs, dose: y.at[0].add(dose * system.parameters["rate"])
    halved = lambda system, t, y, inputs: 0.5 * y
    events = {
        "dose": simkit.Event(at=at, values=amounts, change=dosed),
        "washing": simkit.Event(at=jnp.array([1.1, 1.7], dtype), change=halved),
    }
    return _runner(decaying, {"rate": 1.0}, [0.5, 0.0], "rate", (0.5, 2.0), 2.4, events, dtype, solver)


def neuron(dtype: Any, solver: Any) -> Callable[..., Any]:
    """A spiking neuron of Izhikevich (2003), doi:10.1109/TNN.2003.820440, with potential in 100 mV."""

    def field(t, y, p):
        v, u = 100 * y[0], y[1]
        return jnp.stack([0.01 * (0.04 * v**2 + 5 * v + 140 - u + p["current"]), 0.02 * (0.2 * v - u)])

    fired = lambda system, t, y, inputs: jnp.stack([jnp.full_like(y[0], -0.65), y[1] + 8.0])
    spike = simkit.Event(lambda system, t, y, inputs: y[0] - 0.3, "up", fired)
    return _runner(field, {"current": 10.0}, [-0.65, -13.0], "current", (4.0, 20.0), 60.0, spike, dtype, solver)


def _runner(
    field: Any, params: Any, y0: Any, name: str, span: Any, end: float, events: Any, dtype: Any, solver: Any
) -> Callable[..., Any]:
    system, y0 = simkit.cast((from_function(field, params), jnp.array(y0)), dtype)
    rtol, atol, _ = TOLERANCES[jnp.dtype(dtype)]
    times = np.linspace(0.0, end, 9).astype(dtype)
    values = jnp.linspace(*span, COUNT, dtype=dtype)

    def run(scale: Any = 1.0) -> Any:
        over = {name: values * jnp.asarray(scale, dtype)}
        return simkit.ensemble(system, y0, times, over=over, solver=solver, step=simkit.Adaptive(rtol, atol), events=events)

    return run


CASES = [(ball, 2), (doses, 6), (neuron, 1)]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(("case", "least"), CASES, ids=["ball", "doses", "neuron"])
def test_events_are_those_of_the_program_of_xla(used, case, least, dtype):
    run = case(dtype, Tsit5())
    expected = run()
    with forced("interpret"):
        found = run()
    assert used
    assert int(expected.events.count.min()) >= least
    rounding = TOLERANCES[jnp.dtype(dtype)][2]
    np.testing.assert_array_equal(found.events.count, expected.events.count)
    np.testing.assert_array_equal(found.events.which, expected.events.which)
    np.testing.assert_allclose(found.events.times, expected.events.times, rtol=rounding)
    for a, b in ((found.ys, expected.ys), (found.events.before, expected.events.before)):
        np.testing.assert_allclose(a, b, rtol=rounding, atol=rounding * float(np.nanmax(np.abs(b))))
    if dtype == jnp.float64:
        for name in ("status", "steps", "rejected"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
