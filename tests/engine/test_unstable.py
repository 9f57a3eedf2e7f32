"""Fixed steps that are too long to be stable are seen, and growth that steps resolve is not taken for them."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import simkit
from simkit.odes import Lorenz63, Pendulum, from_function
from simkit.solvers import RK4, Euler, Heun, Tsit5, VelocityVerlet, _choose
from simkit.solvers._stiffness import NotProbed

RELAXED = from_function(lambda t, y, p: -p["rate"] * (y - jnp.cos(t)), {"rate": 100.0})
GROWING = from_function(lambda t, y, p: p["rate"] * y, {"rate": 100.0})


@pytest.mark.parametrize("solver", [Euler, Heun, RK4, Tsit5])
@pytest.mark.parametrize("times", [np.linspace(0.0, 1.0, 11), np.linspace(0.0, 1.5, 4), np.array([0.0, 2.0])])
def test_a_step_beyond_stability_is_a_status(solver, times):
    found = simkit.simulate(RELAXED, 0.5, times, solver=solver(), step=0.1, on_failure="mark")
    assert found.status == simkit.Status.UNSTABLE
    with pytest.raises(simkit.SimulationError, match="fixed step is too long"):
        simkit.simulate(RELAXED, 0.5, times, solver=solver(), step=0.1)


@pytest.mark.parametrize(
    ("system", "y0", "span", "step", "solver"),
    [
        (GROWING, 1.0, 0.5, 0.01, Tsit5),  # growth by e in each step, e^50 in all
        (GROWING, 1.0, 0.5, 0.005, Euler),  # by 1.5 in each, where the solution grows by 1.65
        (GROWING, 0.0, 0.5, 0.01, RK4),
        (RELAXED, 1e6, 1.0, 0.005, RK4),
        (
            from_function(lambda t, y, p: p["k"] * y**2, {"k": 1.0}),
            1.0,
            0.999,
            0.0001,
            RK4,
        ),  # to a thousand, towards a pole
        (from_function(lambda t, y, p: p["k"] * jnp.exp(3 * t) * jnp.cos(40 * t), {"k": 1.0}), 0.0, 3.0, 0.01, RK4),
    ],
)
def test_growth_that_steps_resolve_is_a_success(system, y0, span, step, solver):
    for count in (21, 2):
        simkit.simulate(system, y0, np.linspace(0.0, span, count), solver=solver(), step=step)


def test_chaos_is_a_success():
    system, y0, _, _ = Lorenz63.example()
    y0 = type(y0)(*(1e-6 * x for x in (1.0, 1.0, 1.0))) if hasattr(y0, "x") else y0
    simkit.simulate(system, y0, np.linspace(0.0, 20.0, 101), solver=RK4(), step=0.01)


def test_a_symplectic_step_beyond_stability():
    """The frequency times the step is 2.5, beyond 2."""
    length = 2.5 / 9.81**0.5
    y0 = simkit.SeparableSystem.State(jnp.array(1e-9), jnp.array(0.0))
    found = simkit.simulate(
        Pendulum(), y0, np.arange(12) * length, solver=VelocityVerlet(), step=length, on_failure="mark"
    )
    assert found.status == simkit.Status.UNSTABLE


def test_members_are_judged_by_themselves():
    times, over = np.linspace(0.0, 1.0, 11), {"rate": np.array([1.0, 100.0, 5.0, 60.0])}
    found = simkit.ensemble(RELAXED, 0.5, times, over=over, solver=RK4(), step=0.1)
    np.testing.assert_array_equal(found.status, [0, 5, 0, 5])
    found = simkit.ensemble(GROWING, 0.5, times, over=over, solver=RK4(), step=0.005)
    np.testing.assert_array_equal(found.status, 0)


def test_a_step_that_would_take_hours_is_refused():
    with pytest.raises(simkit.ArgumentError, match=r"makes 1e\+12 steps.*hours.*Fixed"):
        simkit.simulate(RELAXED, 0.5, [0.0, 1.0], solver=RK4(), step=1e-12)


def test_a_stiff_draw_goes_on_with_the_stiff_solver():
    """It is stiff for a moment that the probe misses, but the steps do not, since they end where an input jumps."""
    system = from_function(lambda t, y, p, inputs: -p["k"] * inputs["rate"] * (y - jnp.cos(t)), {"k": 1.0})
    rate = simkit.PiecewiseConstant(times=np.array([0.0, 0.701, 0.703]), values=np.array([0.0, 1e9, 0.0]))
    calls = {"times": np.array([0.0, 2.0]), "inputs": {"rate": rate}}
    found = simkit.simulate(system, 0.5, **calls)
    assert found.status == 0
    assert found.solver.startswith("Rodas5P (chosen: Tsit5 used up")
    assert float(found.final()) == pytest.approx(np.cos(0.703), rel=1e-5)  # the tolerance, and a lag of 1e-9
    members = simkit.ensemble(system, 0.5, **calls, over={"k": np.array([1e-9, 1.0])})
    np.testing.assert_array_equal(members.status, 0)
    assert "1 members that used up their steps: Rodas5P" in members.solver
    assert float(members.final()[1]) == pytest.approx(np.cos(0.703), rel=1e-5)


def test_a_large_stiff_system_goes_on_with_the_solver_of_its_structure(monkeypatch):
    """A line of 600 cells, whose slowest mode is known, needs 1e6 explicit steps; beside it one where each cell sees all."""
    cells = 600
    mode = jnp.asarray(np.sin(np.pi * np.arange(1, cells + 1) / (cells + 1)))
    around = lambda y: jnp.pad(y[1:], (0, 1)) + jnp.pad(y[:-1], (1, 0)) - 2 * y
    heat = from_function(lambda t, y, p: p["k"] * (cells + 1) ** 2 * around(y), {"k": 1.0})
    rate = 4 * (cells + 1) ** 2 * np.sin(np.pi / (2 * (cells + 1))) ** 2
    # The probe sees that it is stiff. What it does not see, such as a field that turns stiff later, is found by the steps.
    monkeypatch.setattr(_choose, "probe", lambda *given: NotProbed("it was not looked at"))
    found = simkit.simulate(heat, mode, [0.0, 0.1])
    assert found.solver.startswith("Rodas5P (chosen: Tsit5 used up")
    np.testing.assert_allclose(found.final(), np.exp(-0.1 * rate) * mode, rtol=1e-5)
    full = from_function(lambda t, y, p: p["k"] * (cells + 1) ** 2 * (around(y) - y.mean()), {"k": 1.0})
    found = simkit.simulate(full, mode, [0.0, 0.1])
    assert found.solver.startswith("BDF (chosen: Tsit5 used up")
    line = np.diag(np.ones(cells - 1), 1) + np.diag(np.ones(cells - 1), -1) - 2 * np.eye(cells)
    exact = expm(0.1 * (cells + 1) ** 2 * (line - np.full((cells, cells), 1 / cells))) @ mode
    np.testing.assert_allclose(found.final(), exact, atol=1e-5)
