"""Solves with events in kernels, run step by step, against the programs of XLA's that they take the place of."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from engine.launches import noting

import simkit
from simkit.engine.adaptive import _kernel
from simkit.engine.kernels._mode import forced
from simkit.odes import from_function
from simkit.solvers import Rodas5P, Tsit5

COUNT = 3  # not a multiple of the lanes of a block
TOLERANCES = {jnp.dtype("float32"): (1e-4, 1e-5, 2e-4), jnp.dtype("float64"): (1e-8, 1e-10, 1e-9)}
"""Float type -> relative and absolute tolerance, and how far apart two roundings of the same steps may come."""


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels with events that were launched."""
    return noting(monkeypatch, events=(_kernel, "solution_with_events"))


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
        return simkit.ensemble(
            system, y0, times, over=over, solver=solver, step=simkit.Adaptive(rtol, atol), events=events
        )

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


def test_tangents(used):
    """Of states, of times of events and of what is found after them."""
    run = neuron(jnp.float64, Tsit5())

    def outputs(scale):
        found = run(scale)
        return found.ys[:, -1], found.events.times[:, 0], found.events.before[:, 0]

    push = lambda: jax.jvp(outputs, (1.0,), (1.0,))
    expected = push()
    with forced("interpret"):
        found = push()
    assert used
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        close(a, b, 1e-7)  # a saltation divides by slopes of a condition


def test_gradients_take_their_solve_from_a_kernel_and_walk_back_outside(used):
    run = doses(jnp.float64, Rodas5P())
    slope = lambda: jax.grad(lambda scale: jnp.sum(run(scale).ys[:, 1:] ** 2))(1.0)
    expected = slope()
    with forced("interpret"):
        found = slope()
    assert used
    close(found, expected, 1e-9)


def test_ends_and_events_that_set_off_others(used):
    """A tank of members that end, each at its own time; its event sets off another one at the same time."""
    filling = lambda t, y, p: jnp.stack([p["rate"] * (1 + 0.1 * jnp.sin(t)), 0.0 * y[1]])
    emptied = lambda system, t, y, inputs: jnp.stack([0.25 * y[0], y[1] + 1.0])
    rung = lambda system, t, y, inputs: jnp.stack([y[0], y[1] + 0.5])
    events = {
        "full": simkit.Event(lambda system, t, y, inputs: y[0] - 1.0, "up", emptied),
        "bell": simkit.Event(lambda system, t, y, inputs: y[1] - 0.9, "up", rung),
        "twice": simkit.Event(lambda system, t, y, inputs: y[1] - 2.2, "up", ends=True),
    }
    rates, step = jnp.array([0.3, 0.8, 2.0]), simkit.Adaptive(1e-8, 1e-10)

    def one(rate, end):
        times = jnp.stack([jnp.zeros(()), 0.5 * end, 0.8 * end, end])
        tank, start = from_function(filling, {"rate": rate}), jnp.array([0.2, 0.0])
        whole = simkit.simulate(tank, start, times, solver=Tsit5(), step=step, events=events)
        return whole.ys, whole.status, whole.steps, whole.events.count, whole.events.which, whole.events.times

    run = lambda: jax.jit(jax.vmap(one))(rates, jnp.array([2.0, 3.0, 4.0]))
    expected = run()
    with forced("interpret"):
        found = run()
    assert used
    assert list(np.asarray(expected[3])) == [0, 4, 4]  # full, bell, full, twice
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="newer releases lower kernels where there is a GPU alone")
@pytest.mark.parametrize("case", [ball, doses, neuron])
def test_kernels_are_lowered_for_gpus_without_one(case):
    run = case(jnp.float64, Tsit5())
    with forced("triton"):
        text = jax.jit(lambda scale: run(scale).ys).trace(1.0).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("xla.gpu.triton") == 1
