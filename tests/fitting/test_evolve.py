"""Differential evolution finds minima that are known, inside bounds, and says what it needs."""

import numpy as np
import pytest

from simkit import ArgumentError, Experiment, Free, Problem
from simkit.fitting import fit
from simkit.fitting._evolve import evolved
from simkit.noise import Normal
from simkit.odes import from_response

BOUNDS = np.array([[-5.12, 5.12]] * 5)


def rastrigin(z):
    """11^5 minima between the bounds, the least of them 0 at the origin (Rastrigin 1974)."""
    return 50 + np.sum(z**2 - 10 * np.cos(2 * np.pi * z), axis=1)


def begun(seed):
    return np.random.default_rng(seed).uniform(-5.12, 5.12, (40, 5))


def test_the_best_of_many_minima_is_found():
    found = evolved(rastrigin, begun(1), BOUNDS, 300, np.random.default_rng(1))
    # Draws as many as it looked at find 12 at best, and a descent from there another minimum.
    assert rastrigin(found[:1])[0] < 0.1
    assert np.abs(found[0]).max() < 0.05
    assert (np.diff(rastrigin(found)) >= 0).all()


def test_the_population_stays_inside_and_repeats_itself():
    visited = []

    def seen(z):
        visited.append(z.copy())
        return np.sum(z, axis=1)  # least in a corner

    one = evolved(seen, begun(2), BOUNDS, 60, np.random.default_rng(2))
    assert (np.abs(np.concatenate(visited)) <= 5.12).all()
    assert one[0].max() < -5.0
    np.testing.assert_array_equal(one, evolved(seen, begun(2), BOUNDS, 60, np.random.default_rng(2)))


def test_failed_simulations_do_not_lead():
    # Half of all places fail, the least value being at the edge of them.
    found = evolved(
        lambda z: np.where(z[:, 0] < 0, np.inf, rastrigin(z)), begun(3), BOUNDS, 200, np.random.default_rng(3)
    )
    assert (found[:, 0] >= 0).all()
    assert rastrigin(found[:1])[0] < 1.0


@pytest.mark.slow
def test_a_fit_from_draws_that_evolved():
    """A narrow peak between bounds twelve decades apart, beside which the likelihood is flat."""
    times = np.linspace(0.0, 4.0, 21)
    peak = from_response(
        lambda x, p: p["height"] / (1 + ((x - p["place"]) / p["width"]) ** 2),
        {"height": 1.0, "place": 1.0, "width": 1.0},
    )
    data = Experiment("peak", times, {"y": 2.0 / (1 + ((times - 3.0) / 0.2) ** 2)})
    free = {name: Free(bounds=(1e-6, 1e6), transform="log") for name in ("height", "place", "width")}
    problem = Problem(peak, data, free=free, noise={"y": Normal(0.01)})
    found = fit(problem, starts=3, screen=2, evolve=60)
    np.testing.assert_allclose(found.estimate, [2.0, 3.0, 0.2], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"evolve": 5}, "needs draws that were looked at"), ({"evolve": -1, "screen": 2}, "at least 0, but it is -1")],
)
def test_bad_arguments(options, words):
    line = from_response(lambda x, p: p["slope"] * x, {"slope": 1.0})
    data = Experiment("line", [1.0, 2.0], {"y": [1.0, 2.0]})
    problem = Problem(line, data, free={"slope": Free(bounds=(0.0, 9.0))}, noise={"y": Normal(0.1)})
    with pytest.raises(ArgumentError, match=words):
        fit(problem, **options)
