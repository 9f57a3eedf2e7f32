"""Mechanical problems, most with constraints, against published end values. The stars stand in `test_stiff_sets.py`."""

import jax.numpy as jnp
import numpy as np
import pytest
from validation.mechanics_problems import BEAM, FEKETE_END, CarAxis, CarAxisOfIndexThree, Fekete, car_axis
from validation.test_stiff_sets import digits, run

import simkit
from simkit import Adaptive


@pytest.mark.parametrize(("solver", "atol", "share"), [("rodas5p", None, 3e-5), ("bdf", 1e-8, 1e-3)])
def test_the_car_axis(solver, atol, share):
    """Constraints that depend on the time, hidden ones too. Errors count by the largest number of their kind.

    At 1e-6 a step the two solvers are 1e-5 and 5e-4 off, over hundreds of steps. The multipliers start at zero and end
    near 5e-3, from which `BDF` has its absolute tolerance.
    """
    problem = car_axis()
    step = Adaptive(1e-6, atol, max_steps=100_000)
    found = simkit.simulate(problem.system, problem.y0, problem.times, solver=solver, step=step)
    end = found.final()
    flat = np.concatenate([np.asarray(end[name]) for name in ("multipliers", "p", "v")])
    kinds = np.split(np.arange(10), [2, 6])
    for kind in kinds:
        off = np.abs(flat - problem.published)[kind] / np.abs(problem.published[kind]).max()
        assert off.max() < share
    # Hidden constraints hold to rounding after each step.
    for left in problem.system.hidden(found.times[-1], end, None).values():
        assert jnp.max(jnp.abs(left)) < 1e-12


def test_the_beam():
    """Fast oscillations that are hardly damped and not excited: `Rodas5P` steps over them, 560 steps in place of 37,000.

    4.5 digits at 1e-6, half a digit less than measured is asked for.
    """
    found = run(BEAM, "rodas5p")
    assert found.steps < 2000
    assert digits(BEAM, np.asarray(found.ys[-1]), np.array(BEAM.reference)) >= 4.0


def test_the_car_axis_of_index_three_is_refused():
    _, y0, times, _ = CarAxis.example()
    with pytest.raises(simkit.SimulationError, match=r"`multipliers\.0`, `multipliers\.1`, so the index is above 1"):
        simkit.simulate(CarAxisOfIndexThree(), y0, times)


def test_fekete_points():
    """Twenty points come to rest on a sphere, with forty hidden constraints; all multipliers end as -19/4, exactly."""
    system, y0, times, _ = Fekete.example()
    end = simkit.simulate(system, y0, times, solver="rodas5p", step=Adaptive(1e-6)).final()
    for point, place in FEKETE_END.items():
        assert np.abs(np.asarray(end["p"][point]) - np.array(place)).max() < 1e-5
    assert jnp.max(jnp.abs(end["multipliers"] + 4.75)) < 1e-8
    assert jnp.max(jnp.abs(end["v"])) < 1e-8


def test_a_mass_that_depends_on_the_state_is_refused():
    """As the NAND gate of the set has one, whose capacities depend on voltages."""

    class Gate(CarAxis):
        def mass(self, t, y):  # pyright: ignore[reportIncompatibleMethodOverride]
            return {"p": 1.0, "v": 1.0 + y["p"], "multipliers": 0.0}

    _, y0, times, _ = CarAxis.example()
    with pytest.raises(simkit.ArgumentError, match=r"`mass` of Gate must be a function of \(t\).*it takes \(t, y\)"):
        simkit.simulate(Gate(), y0, times)
