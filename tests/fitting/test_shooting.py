"""Multiple shooting finds known parameters of oscillations and chaos from starts at which a fit of the whole fails."""

import numpy as np
import pytest

from simkit import ArgumentError, Experiment, Free, Problem, from_function, simulate
from simkit.fitting import fit
from simkit.noise import Normal
from simkit.odes import Lorenz63

RANDOM = np.random.default_rng(0)
TIMES = np.linspace(0.0, 20.0, 81)
FAR = np.array([[0.3], [6.0], [12.0]])


@pytest.fixture(scope="module")
def wave():
    """Six periods of a pendulum of frequency 2."""
    swing = from_function(lambda t, y, p: {"x": y["v"], "v": -(p["omega"] ** 2) * y["x"]}, {"omega": 2.0})
    exact = {"x": np.cos(2 * TIMES), "v": -2 * np.sin(2 * TIMES)}
    data = {name: values + 0.1 * RANDOM.normal(size=81) for name, values in exact.items()}
    free = {"omega": Free(bounds=(0.1, 20.0))}
    noise = {name: Normal(0.1) for name in data}
    return Problem(swing, Experiment("swing", TIMES, data), y0={"x": 1.0, "v": 0.0}, free=free, noise=noise, step=0.25)


def test_a_fit_of_the_whole_fails(wave):
    assert np.all(np.abs(fit(wave, starts=FAR).thetas - 2) > 0.5)


def test_windows_find_the_frequency_from_everywhere(wave):
    found = fit(wave, starts=FAR, windows=10)
    assert np.ptp(found.thetas) < 1e-5
    # Four errors, and a part in ten thousand for the steps of 0.25.
    assert abs(found.estimate[0] - 2) < 4 * found.standard_error[0] + 2e-4


@pytest.mark.slow
def test_many_starts_in_windows_go_through_the_queue(wave):
    """Twenty of them, from the same places as before among others."""
    found = fit(wave, starts=np.concatenate([FAR, np.geomspace(0.3, 15.0, 17)[:, None]]), windows=10)
    np.testing.assert_allclose(found.thetas[:3], fit(wave, starts=FAR, windows=10).thetas, rtol=1e-6)
    assert found.agreeing() >= 18


@pytest.mark.slow
def test_windows_find_the_attractor():
    """Lorenz's, over ten units of time, in which errors grow by a factor of ten thousand."""
    y0, times = Lorenz63.State(-5.0, -8.0, z=20.0), np.linspace(0.0, 10.0, 101)
    ys = simulate(Lorenz63(), y0, times, step=0.025).ys
    data = {name: np.asarray(getattr(ys, name)) + 0.5 * RANDOM.normal(size=101) for name in "xyz"}
    free = {"prandtl": Free(bounds=(0.1, 100.0)), "rayleigh": Free(bounds=(0.1, 100.0))}
    noise = {name: Normal(0.5) for name in "xyz"}
    problem = Problem(Lorenz63(), Experiment("run", times, data), y0=y0, free=free, noise=noise, step=0.025)
    far = np.array([[2.0, 5.0], [30.0, 10.0], [20.0, 60.0]])
    whole = fit(problem, starts=far)
    assert whole.objective.min() > 1000  # 303 data with the right parameters: about 220
    found = fit(problem, starts=far, windows=20)
    assert found.objective.max() < 300
    assert np.all(np.abs(found.estimate - np.array([10.0, 28.0])) < 4 * found.standard_error)


def test_too_many_windows_are_refused(wave):
    with pytest.raises(ArgumentError, match="at most 40 here, but it is 41"):
        fit(wave, windows=41)


def test_no_window_is_refused(wave):
    with pytest.raises(ArgumentError, match="whole number of at least 1, but it is 0"):
        fit(wave, windows=0)
