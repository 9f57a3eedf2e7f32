"""Gradient matching finds known parameters from noisy data, without a simulation, well enough for a fit to go on."""

import numpy as np
import pytest

from simkit import ArgumentError, Experiment, Free, Problem, simulate
from simkit.fitting import fit, gradient_matching
from simkit.noise import Normal
from simkit.odes import LotkaVolterra

TRUTH = {"growth": 0.55, "predation": 0.028, "death": 0.8, "conversion": 0.024}


def cycles(outputs=("hare", "lynx"), count=41):
    """Two cycles of hares and lynx with errors of 2 thousand, of which nothing is known within a factor of a thousand."""
    system, y0, _, _ = LotkaVolterra.example()
    times, random = np.linspace(0.0, 20.0, count), np.random.default_rng(1)
    ys = simulate(system, y0, times).ys
    data = {name: np.asarray(getattr(ys, name)) + 2 * random.normal(size=count) for name in outputs}
    free = {name: Free(bounds=(1e-3, 10.0)) for name in TRUTH} | {"noise.hare.scale": Free(bounds=(0.01, 100.0))}
    noise = {"hare": Normal(2.0), "lynx": Normal(2.0)}
    return Problem(system, Experiment("pelts", times, data), y0=y0, free=free, noise=noise, step=0.125)


@pytest.fixture(scope="module")
def problem():
    return cycles()


@pytest.fixture(scope="module")
def matched(problem):
    return gradient_matching(problem)


def test_known_parameters_within_a_fifth(matched):
    np.testing.assert_allclose(matched[0, :4], list(TRUTH.values()), rtol=0.2)
    assert 0.5 < matched[0, 4] < 4  # the scatter is 2, of which a smooth curve follows some


def test_a_fit_goes_on_where_one_from_far_away_fails(problem, matched):
    found = fit(problem, starts=np.concatenate([matched[:1], [[0.05, 0.3, 0.05, 0.3, 1.0]]]), horizons=(1.0,))
    near, far = found.objective
    assert far > near + 50
    # Four errors: one parameter in ten thousand fits is further away.
    assert np.all(np.abs(found.estimate[:4] - np.array([*TRUTH.values()])) < 4 * found.standard_error[:4])


def test_a_state_without_data_is_named():
    with pytest.raises(ArgumentError, match=r"nothing measures `lynx`.*windows"):
        gradient_matching(cycles(("hare",)))


def test_too_few_data_are_counted():
    with pytest.raises(ArgumentError, match="`pelts` has 4 of `hare`"):
        gradient_matching(cycles(count=4))
