"""Solvers of Diffrax in simkit's loops: accuracy, order, save times between steps, derivatives, lanes, refusals."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tree_allclose
from solvers.problems import Curved

import simkit
from simkit.solvers import Dopri8, FromDiffrax, Tsit5
from simkit.testing import order_of_convergence


def test_a_method_that_simkit_has_is_simkits():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    assert simkit.simulate(system, y0, times, solver=diffrax.Tsit5()).solver == type(Tsit5()).__name__


@pytest.mark.parametrize("solver", [diffrax.Dopri5()], ids=lambda s: type(s).__name__)
def test_states_between_steps_and_derivatives(solver):
    """Save times lie closer than steps; the derivative by the growth rate agrees with a central difference."""
    y0, times = simkit.odes.LotkaVolterra.example().y0, np.linspace(0.0, 4.0, 41)
    step = simkit.Adaptive(1e-8, 1e-8)

    def run(growth, solver=solver, step=step):
        return simkit.simulate(simkit.odes.LotkaVolterra(growth=growth), y0, times, solver=solver, step=step)

    exact = run(jnp.asarray(0.5), Dopri8(), simkit.Adaptive(1e-12, 1e-12))
    found = run(jnp.asarray(0.5))
    # Errors grow over the cycle by some 30 tolerances; cubic dense output adds its own over longer steps.
    assert tree_allclose(found.ys, exact.ys, rtol=1e-5)
    assert found.solver == "FromDiffrax"
    end = lambda growth: run(growth).ys.hare[-1]
    difference = (run(0.5 + 1e-4, Dopri8(), step).ys.hare[-1] - run(0.5 - 1e-4, Dopri8(), step).ys.hare[-1]) / 2e-4
    assert jax.grad(end)(0.5) == pytest.approx(float(difference), rel=1e-5)


def test_order_of_fixed_steps():
    measured = order_of_convergence(
        FromDiffrax(diffrax.Ralston()),
        Curved(),
        Curved.start(),
        (0.0, 0.5, 1.0),
        exact=Curved.exact,
        substeps=(16, 32, 64),
    )
    assert abs(measured - 2) < 0.35  # as for the other steppers


def test_members_in_lanes_are_as_alone():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    rates = jnp.asarray([0.4, 0.5, 0.6])
    together = simkit.ensemble(system, y0, times, over={"growth": rates}, solver=diffrax.Dopri5())
    for i, rate in enumerate(rates):
        alone = simkit.simulate(simkit.odes.LotkaVolterra(growth=rate), y0, times, solver=diffrax.Dopri5())
        assert tree_allclose(jax.tree.map(lambda x, i=i: x[i], together.ys), alone.ys, rtol=1e-10)


@pytest.mark.parametrize(
    ("solver", "words"),
    [(diffrax.KenCarp5(), "must step one term"), (diffrax.Kvaerno5(), "must be explicit, but `Kvaerno5` is implicit")],
)
def test_refusals(solver, words):
    with pytest.raises(simkit.ArgumentError, match=words):
        FromDiffrax(solver)
