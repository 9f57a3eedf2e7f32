"""Differential-algebraic problems against published end values, with the default solver."""

import pytest
from validation.algebraic_problems import digits, problems

import simkit
from simkit import Adaptive

# The test set asks for about as many digits as the tolerance has; -log10(rtol) - 1 at 1e-6. Of Robertson's late states the
# absolute tolerance has to lie below 1e-13, the size of the second.
CASES = {
    "chemical Akzo Nobel": (Adaptive(1e-6), 5.0),
    "transistor amplifier": (Adaptive(1e-6), 5.0),
    "Robertson": (Adaptive(1e-6), 5.0),
    "Robertson, late": (Adaptive(1e-6, 1e-20), 5.0),
    "pendulum": (Adaptive(1e-6), 5.0),
    "slider crank": (Adaptive(1e-6, max_steps=100_000), 5.0),
}


@pytest.mark.parametrize(
    "name", [name if name != "slider crank" else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_published_end_values(name):
    step, asked = CASES[name]
    problem = problems()[name]
    trajectory = simkit.simulate(problem.system, problem.y0, problem.times, step=step)
    assert digits(problem, trajectory) >= asked
