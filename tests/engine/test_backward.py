"""Times that decrease: there and back again, derivatives, inputs and events on the way, and what runs forwards only."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import Adaptive, Event, Fixed, Interpolated, PiecewiseConstant

TIGHT = Adaptive(1e-9)
INPUTS = {
    "steps": PiecewiseConstant([0.0, 1.0, 2.0], [1.0, 2.0, -1.0]),
    "lines": Interpolated([0.0, 1.5, 3.0], [0.0, 1.0, 0.0]),
    "curve": Interpolated([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 0.0, 1.0], kind="cubic"),
    "wave": jnp.sin,
}
TIMES = [0.0, 0.5, 1.7, 3.0]


def _slope(t, y, p, inputs):
    return p["rate"] * (inputs["steps"] - y) + inputs["lines"] + inputs["curve"] + inputs["wave"]


DRIVEN = simkit.from_function(_slope, {"rate": 1.0})


def test_there_and_back():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    there = simkit.simulate(system, y0, times, step=TIGHT)
    back = simkit.simulate(system, there.final(), times[::-1], step=TIGHT)
    assert np.array_equal(back.times, times[::-1])
    # Both ways 1e-9 a step on values of tens, over three periods.
    assert np.abs(back.ys.hare[::-1] - there.ys.hare).max() < 1e-6


def test_the_derivative_of_there_and_back_is_one():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    ends = np.asarray(times)[[0, -1]]

    def returned(hare):
        start = eqx.tree_at(lambda y: y.hare, y0, hare)
        end = simkit.simulate(system, start, ends, step=TIGHT).final()
        return simkit.simulate(system, end, ends[::-1], step=TIGHT).final().hare

    assert np.isclose(jax.jit(jax.grad(returned))(y0.hare), 1, rtol=1e-7)
    assert np.isclose(jax.jvp(returned, (y0.hare,), (jnp.ones(()),))[1], 1, rtol=1e-7)


@pytest.mark.parametrize("step", [TIGHT, Fixed(60)], ids=["adaptive", "fixed"])
def test_inputs_with_jumps_and_kinks(step):
    there = simkit.simulate(DRIVEN, 1.0, TIMES, inputs=INPUTS, step=TIGHT)
    back = simkit.simulate(DRIVEN, there.final(), TIMES[::-1], inputs=INPUTS, step=step)
    # Fixed steps of 0.02 end on jumps, not on the kink of the lines: second order there.
    assert np.abs(back.ys[::-1] - there.ys).max() < (1e-7 if step is TIGHT else 1e-4)


def test_a_fixed_length_and_a_symplectic_method():
    system, y0, _, _ = simkit.odes.HarmonicOscillator.example()
    there = simkit.simulate(system, y0, [0.0, 3.0], step=0.01, solver="velocity_verlet")
    back = simkit.simulate(system, there.final(), [3.0, 0.0], step=0.01, solver="velocity_verlet")
    assert back.steps == there.steps
    # The method is its own inverse, up to rounding.
    for a, b in zip(jax.tree.leaves(back.final()), jax.tree.leaves(y0), strict=True):
        assert np.isclose(a, b, rtol=1e-12, atol=1e-13)


def test_an_event_on_the_way_back():
    there = simkit.simulate(DRIVEN, 1.0, [0.0, 1.25, 3.0], inputs=INPUTS, step=TIGHT)
    back = simkit.simulate(
        DRIVEN,
        there.final(),
        [3.0, 0.0],
        inputs=INPUTS,
        step=TIGHT,
        events=Event(lambda s, t, y, i: t - 1.25, "down", ends=True),
    )
    assert np.isclose(back.event_time, 1.25, rtol=1e-14)
    assert np.isclose(back.event_state, there.ys[1], rtol=1e-7)
    none = simkit.simulate(
        DRIVEN, there.final(), [3.0, 0.0], inputs=INPUTS, events=Event(lambda s, t, y, i: t - 1.25, "up", ends=True)
    )
    assert np.isposinf(none.event_time)


def test_members():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    ends, growth = np.asarray(times)[[-1, 0]], [0.5, 0.55]
    members = simkit.ensemble(system, y0, ends, over={"growth": growth})
    for value, hare in zip(growth, np.asarray(members.ys.hare), strict=True):
        alone = simkit.simulate(eqx.tree_at(lambda s: s.growth, system, jnp.asarray(value)), y0, ends)
        assert np.allclose(hare, alone.ys.hare, rtol=1e-12)


def test_stiffness_is_judged_in_the_direction_of_the_run():
    # Forwards the fast component decays and limits explicit steps; backwards it grows, which accuracy resolves.
    system = simkit.from_function(lambda t, y, p: -p["rate"] * y, {"rate": 1e5})
    forwards, backwards = (simkit.simulate(system, 1.0, times) for times in ([0.0, 1.0], [0.0, -1e-4]))
    assert forwards.solver.startswith("Rodas5P")
    assert backwards.solver.startswith("Tsit5")
    assert np.isclose(backwards.final(), np.exp(10), rtol=1e-5)


def test_what_runs_forwards_only():
    system, y0, _, _ = simkit.odes.GeometricBrownianMotion.example()
    with pytest.raises(simkit.ArgumentError, match=r"`times` must increase for `GeometricBrownianMotion`: noise"):
        simkit.simulate(system, y0, [1.0, 0.0], key=jax.random.key(0))
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    with pytest.raises(simkit.ArgumentError, match="must increase, or all decrease, but entry 1 is 2 and entry 2 is 3"):
        simkit.simulate(system, y0, [4.0, 2.0, 3.0, 1.0])
    with pytest.raises(simkit.ArgumentError, match="`reduce` must be left out where `times` decrease"):
        simkit.simulate(system, y0, [1.0, 0.0], reduce={"mean": simkit.reducers.Mean()})


@pytest.mark.parametrize("later", [1.0, -3.0, -1e3, 1e12])
def test_a_jump_at_the_first_time_lies_behind_a_run_backwards(later):
    system = simkit.from_function(lambda t, y, p, inputs: inputs["u"] - p["k"] * y, {"k": 0.7})
    inputs = {"u": PiecewiseConstant([0.0, 5.0], [1.0, later])}
    found = simkit.simulate(system, 1.0, [5.0, 1.0], inputs=inputs, solver="tsit5")
    exact = 1 / 0.7 + (1 - 1 / 0.7) * np.exp(2.8)
    assert np.isclose(found.final(), exact, rtol=1e-6)
    assert found.rejected < 4


@pytest.mark.parametrize("later", [1.0, -1e6])
def test_a_jump_at_the_last_time_lies_behind_a_run(later):
    system = simkit.from_function(lambda t, y, p, inputs: inputs["u"] - p["k"] * y, {"k": 0.7})
    inputs = {"u": PiecewiseConstant([0.0, 5.0], [1.0, later])}
    found = simkit.simulate(system, 1.0, [0.0, 5.0], inputs=inputs, solver="tsit5")
    assert np.isclose(found.final(), 1 / 0.7 + (1 - 1 / 0.7) * np.exp(-3.5), rtol=1e-6)
    assert found.steps + found.rejected < 20  # it took 101
