"""Growth of displacements against known exponents; gradients that are right but mean nothing."""

import numpy as np
import pytest

import simkit
from simkit import Experiment, Free, Problem
from simkit.noise import Normal
from simkit.testing import check_gradient, perturbation_growth


def test_a_linear_system_grows_at_its_rate():
    system, y0, _, _ = simkit.odes.ExponentialDecay.example()
    system = type(system)(0.7)
    found = perturbation_growth(system, y0, np.linspace(0.0, 5.0, 21), step=simkit.Adaptive(1e-10, 1e-14))
    assert found.exponent == pytest.approx(-0.7, rel=1e-6)
    assert found.horizon == np.inf
    assert found.trusted


@pytest.fixture(scope="module")
def chaos():
    system, y0, _, _ = simkit.odes.Lorenz63.example()
    return system, y0


@pytest.mark.slow
def test_the_exponent_of_lorenz(chaos):
    """0.9056 (Sprott 2003, Chaos and Time-Series Analysis); a run of 300 has a standard error of some 0.02."""
    system, y0 = chaos
    found = perturbation_growth(system, y0, np.linspace(0.0, 300.0, 301))
    assert found.exponent == pytest.approx(0.9056, abs=0.06)


@pytest.mark.slow
def test_a_long_chaotic_record_is_not_trusted(chaos):
    system, y0 = chaos
    for end, trusted in ((2.0, True), (60.0, False)):
        times = np.linspace(0.0, end, 41)
        truth = simkit.simulate(system, y0, times)
        experiment = Experiment("record", times[1:], {"x": np.asarray(truth.ys.x)[1:]}, y0=y0, start=0.0)
        problem = Problem(
            system,
            experiment,
            free={"rayleigh": Free(bounds=(20.0, 35.0), start=27.0)},
            noise={"x": Normal(1.0)},
            step=simkit.Adaptive(1e-6, 1e-9),
        )
        found = check_gradient(problem)
        assert found.growth["record"].trusted == trusted
        assert ("Remedy" in repr(found)) == (not trusted)
        if trusted:
            assert not found.complaint
            assert found.trusted
