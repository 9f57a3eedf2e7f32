"""Differential-algebraic problems against published end values."""

import pytest
from validation.algebraic_problems import digits, problems

import simkit
from simkit import Adaptive

# The test set asks for about as many digits as the tolerance has; -log10(rtol) - 1 at 1e-6. Of Robertson's late states the
# absolute tolerance has to lie below 1e-13, the size of the second.
CASES = {
    "chemical Akzo Nobel": Adaptive(1e-6),
    "transistor amplifier": Adaptive(1e-6),
    "Robertson": Adaptive(1e-6),
    "Robertson, late": Adaptive(1e-6, 1e-20),
    "pendulum": Adaptive(1e-6),
    "slider crank": Adaptive(1e-6, max_steps=100_000),
}
LONG = {("slider crank", "rodas5p"), ("Robertson", "bdf"), ("transistor amplifier", "bdf"), ("pendulum", "bdf")}


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        pytest.param(name, solver, marks=pytest.mark.slow if (name, solver) in LONG else ())
        for solver in ("rodas5p", "bdf")
        for name in CASES
        # `BDF` does not finish the crank, whose fast oscillations are hardly damped; Robertson's late states keep two digits.
        if solver == "rodas5p" or name not in ("slider crank", "Robertson, late")
    ],
)
def test_published_end_values(name, solver):
    problem = problems()[name]
    trajectory = simkit.simulate(problem.system, problem.y0, problem.times, step=CASES[name], solver=solver)
    assert digits(problem, trajectory) >= 5
