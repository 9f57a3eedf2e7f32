"""Tolerances by the size of states: the same relative answer in any units of states and time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rescaled import Rescaled

import simkit
from simkit.engine.task._scales import similar

UNITS = [(1e-30, 1.0), (1e30, 1.0), (1.0, 1e-30), (1.0, 1e30), (1e-9, 1e5)]
"""Factors of states and of time."""

DECAY = simkit.odes.from_function(lambda t, y, p: {"x": -p["k"] * y["x"]}, {"k": 0.7})
EXPLICIT = simkit.solvers.Tsit5()


def rises(t, y, p):
    """Starts from rest: only the force says how large the states become."""
    return {"x": y["v"], "v": jnp.sin(t) - p["k"] * y["x"] - 0.1 * y["v"]}


RISING, REST = simkit.odes.from_function(rises, {"k": 1.0}), {"x": 0.0, "v": 0.0}


def test_small_states_decay_as_large_ones_do():
    times = np.linspace(0.0, 5.0, 3)
    for size in (1.0, 1e-6, 1e-9, 1e-12, 1e-200, 1e200):
        found = simkit.simulate(DECAY, {"x": size}, times, solver=EXPLICIT).ys["x"][-1]
        # 5e-7 at size 1, for a relative tolerance of 1e-6; 6.76 at 1e-9 with an absolute one of 1e-9.
        assert abs(float(found) / (size * np.exp(-3.5)) - 1) < 2e-6


@pytest.mark.parametrize(("size", "span"), UNITS)
def test_units_of_states_and_time_change_nothing(size, span):
    system, y0, _, _ = simkit.odes.Robertson.example()
    times = np.array([0.0, 0.4, 40.0, 4e3])
    run = lambda size, span: simkit.simulate(
        Rescaled(system, size, span),
        jax.tree.map(lambda x: x * size, y0),
        times * span,
        solver=simkit.solvers.Rodas5P(),
    )
    one, other = run(1.0, 1.0), run(size, span)
    assert (int(one.steps), int(one.rejected)) == (int(other.steps), int(other.rejected))
    for a, b in zip(jax.tree.leaves(one.ys), jax.tree.leaves(other.ys), strict=True):
        # The same steps; what is left is rounding, which the fast component amplifies.
        np.testing.assert_allclose(np.asarray(b) / size, a, rtol=1e-8)


@pytest.mark.parametrize(("size", "span"), UNITS)
def test_a_start_from_rest_has_the_scale_of_its_force(size, span):
    run = lambda size, span: simkit.simulate(
        Rescaled(RISING, size, span),
        jax.tree.map(lambda x: x * size, REST),
        np.linspace(0, 20, 3) * span,
        solver=EXPLICIT,
    )
    one, other = run(1.0, 1.0), run(size, span)
    assert int(one.steps) == int(other.steps)
    np.testing.assert_allclose(np.asarray(other.ys["x"])[1:] / size, np.asarray(one.ys["x"])[1:], rtol=1e-8)


FORCES = np.array([0.5, 1.0, 2.0])


def final(k):
    system = jax.tree.map(lambda _: k, RISING)
    return simkit.simulate(system, REST, np.linspace(0.0, 5.0, 3), solver=EXPLICIT, on_failure="mark").ys["x"][-1]


def test_tolerances_are_those_of_each_member():
    alone = jnp.stack([final(k) for k in jnp.asarray(FORCES)])
    together = simkit.ensemble(RISING, REST, np.linspace(0.0, 5.0, 3), over={"k": FORCES}, solver=EXPLICIT)
    # Another order of the same operations.
    np.testing.assert_allclose(together.ys["x"][:, -1], alone, rtol=1e-11)
    np.testing.assert_allclose(jax.jit(jax.vmap(final))(jnp.asarray(FORCES)), alone, rtol=1e-11)


@pytest.mark.slow
def test_tolerances_are_held_in_derivatives():
    forward, reverse = jax.jvp(final, (1.0,), (1.0,))[1], jax.grad(final)(1.0)
    np.testing.assert_allclose(forward, reverse, rtol=1e-8)
    step = 1e-4
    np.testing.assert_allclose(
        reverse, (final(1 + step) - final(1 - step)) / (2 * step), rtol=1e-3
    )  # of solves at 1e-6


def test_a_state_at_rest_is_not_tracked_to_its_rounding_errors():
    """A force and a spring that cancel but for rounding: steps stay long."""
    spring = simkit.odes.from_function(
        lambda t, y, p: {"x": y["v"], "v": 9.81 - p["k"] * y["x"] - 0.1 * y["v"]}, {"k": 33.3}
    )
    run = simkit.simulate(spring, {"x": 9.81 / 33.3 + 1e-17, "v": 0.0}, np.linspace(0.0, 100.0, 3), solver=EXPLICIT)
    assert int(run.steps) + int(run.rejected) < 1000  # 92 periods; stability alone costs some 200 steps


def test_waves_that_hold_rounding_errors_are_not_tracked():
    """A grid so small that its amplitudes are few numbers; those that start at zero are still parts of one field."""
    grid = simkit.fluids.Grid((8, 8))
    swirl = simkit.fluids.SpectralFlow2D.State(jnp.sin(grid.mesh()[0]))
    flow = simkit.fluids.SpectralFlow2D(grid, viscosity=0.05, hyperviscosity=1e-3)
    run = simkit.simulate(flow, swirl, [0.0, 1.0], step=simkit.Adaptive(1e-8))
    assert int(run.steps) + int(run.rejected) < 100
    # sin x is an eigenvector of all terms: it decays at the rate viscosity + hyperviscosity
    np.testing.assert_allclose(run.final().vorticity, np.exp(-0.051) * swirl.vorticity, atol=1e-8)


def test_single_precision_has_scales_too():
    y0 = {"x": jnp.asarray(1e-25, jnp.float32)}
    decay = simkit.cast(DECAY, jnp.float32)
    found = simkit.simulate(decay, y0, np.linspace(0.0, 5.0, 3), solver=EXPLICIT).ys["x"][-1]
    assert (
        abs(float(found) / (1e-25 * np.exp(-3.5)) - 1) < 3e-3
    )  # a relative tolerance of 1e-4, an absolute one of 1e-6


def test_a_given_tolerance_that_is_larger_than_a_state_is_said():
    times = np.linspace(0.0, 5.0, 3)
    shown = lambda step: repr(simkit.simulate(DECAY, {"x": 1e-9}, times, solver=EXPLICIT, step=step))
    assert "absolute tolerance of 1e-09 is 1 times the largest value of `x`" in shown(simkit.Adaptive(1e-6, 1e-9))
    assert "note" not in shown(simkit.Adaptive(1e-6, 1e-18))
    assert "note" not in shown(simkit.Adaptive(1e-6))
    problem = simkit.Problem(
        DECAY,
        simkit.Experiment("small", [1.0, 2.0], {"x": [5e-10, 2e-10]}),
        y0={"x": 1e-9},
        free={"k": simkit.Free(bounds=(0.1, 10.0))},
        noise={"x": simkit.noise.Normal(1e-11)},
        solver=EXPLICIT,
        step=simkit.Adaptive(1e-6, 1e-9),
    )
    assert "largest value of `x`" in repr(problem)


def test_tolerances_of_a_problem_are_fixed_when_it_is_made():
    problem = simkit.Problem(
        DECAY,
        [simkit.Experiment("a", [1.0], {"x": [2e-10]}, y0={"x": 1e-9}), simkit.Experiment("b", [1.0], {"x": [1e-3]})],
        y0={"x": 1e-3},
        free={"k": simkit.Free(bounds=(0.1, 10.0))},
        noise={"x": simkit.noise.Normal(1e-11)},
        solver=EXPLICIT,
    )
    # 1e-3 of the relative tolerance, of the smallest start and datum.
    np.testing.assert_allclose(problem.method.step.atol, [2e-19], rtol=1e-12)


def test_an_array_of_tolerances_is_taken_as_given():
    system, y0 = RISING, {"x": 1.0, "v": 0.5}
    times = np.linspace(0.0, 1.0, 3)
    one = simkit.simulate(system, y0, times, solver=EXPLICIT, step=simkit.Adaptive(1e-6, 1e-9))
    each = simkit.simulate(system, y0, times, solver=EXPLICIT, step=simkit.Adaptive(1e-6, jnp.array([1e-9, 1e-9])))
    np.testing.assert_array_equal(one.ys["x"], each.ys["x"])
    with pytest.raises(simkit.ArgumentError, match="`atol` must be a positive number"):
        simkit.Adaptive(1e-6, jnp.array([1e-9, 0.0]))


def test_starts_of_similar_size_are_known_as_such():
    assert similar({"x": 1.0, "v": 1e-7})
    assert not similar({"x": 1.0, "v": 1e-9})
    assert not similar({"x": 1.0, "v": 0.0})
    assert similar(jnp.where(jnp.arange(50) == 3, 1.0, 0.0))  # a field: the largest counts
    assert not similar({"x": 1.0}, [np.array([1.0, 0.0])])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["LotkaVolterra", "VanDerPol", "Oregonator", "Brusselator", "Pendulum", "HodgkinHuxley", "DoublePendulum"]
)
def test_examples_in_other_units(name):
    system, y0, times, inputs = getattr(simkit.odes, name).example()
    times = np.asarray(times)[: len(times) // 4 + 2]
    run = lambda size, span: simkit.simulate(
        Rescaled(system, size, span), jax.tree.map(lambda x: x * size, y0), times * span, inputs=inputs
    )
    one = run(1.0, 1.0)
    for size, span in ((1e-30, 1e30), (1e30, 1e-30)):
        other = run(size, span)
        for a, b in zip(jax.tree.leaves(one.ys), jax.tree.leaves(other.ys), strict=True):
            np.testing.assert_allclose(np.asarray(b) / size, a, rtol=1e-6, atol=1e-6 * np.abs(a).max())


def test_a_first_step_moves_time_however_far_from_zero_it_begins():
    """A millionth of the span was less than single precision resolves; all steps ended where they began."""
    system = simkit.odes.from_function(lambda t, y, p: p["k"] - y, {"k": 1.0})
    system, y0 = simkit.cast((system, jnp.zeros(())), jnp.float32)
    found = simkit.simulate(system, y0, np.array([1000.0, 1001.0], np.float32))
    np.testing.assert_allclose(found.ys[-1], 1 - np.exp(-1), rtol=1e-4)
