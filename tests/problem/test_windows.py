"""A problem in windows predicts what the whole does where the windows meet, and tells the gaps where they do not."""

import jax.numpy as jnp
import numpy as np
import pytest

from simkit import Experiment, Free, Problem
from simkit.noise import LogNormal
from simkit.odes import ExponentialDecay
from simkit.problem._windows import GAPS, windowed, with_gaps

RATE, LONG, SHORT = 0.5, np.array([0.0, 1.0, 2.0, 3.0, 5.0, 6.0]), np.array([1.0, 2.0, 4.0])


@pytest.fixture(scope="module")
def cut():
    """Two experiments of different length in three windows, from amounts 8 and 3, and the amounts at windows' starts."""
    experiments = [
        Experiment("long", LONG, {"amount": 8 * np.exp(-RATE * LONG) * 1.1}, set={"y0.amount": 8.0}),
        Experiment("short", SHORT, {"amount": 3 * np.exp(-RATE * SHORT) * 0.9}, start=0.0, set={"y0.amount": "begin"}),
    ]
    free = {"rate": Free(bounds=(0.01, 10.0)), "begin": Free(bounds=(0.1, 100.0))}
    y0 = ExponentialDecay.example().y0
    noise = {"amount": LogNormal(0.1)}
    problem = Problem(ExponentialDecay(), experiments, y0=y0, free=free, noise=noise)
    rows = [2, 4]
    times = np.asarray(problem.times)[:, rows]  # the short one is over at the fourth row already
    amounts = np.array([[8.0], [3.0]]) * np.exp(-RATE * times)
    return problem, windowed(problem, rows, type(y0)(jnp.asarray(2.0))), amounts


def test_joined_windows_are_the_whole(cut):
    problem, pieces, amounts = cut
    theta = jnp.asarray([RATE, 3.0, *amounts.T.ravel()])  # by window, then by experiment, as the names say
    assert [name[-5:] for name in pieces.names[2:]] == [" long", "short"] * 2
    assert pieces.log[2:] == (True,) * 4  # amounts are positive
    found, whole = pieces.predict(theta), problem.predict(theta[:2])
    # Both are solved with tolerances of 1e-6.
    np.testing.assert_allclose(found["amount"], whole["amount"], rtol=1e-5)
    np.testing.assert_allclose(found[GAPS][:, :2], 0, atol=1e-5)


def test_gaps_are_told_in_their_unit(cut):
    _, pieces, amounts = cut
    amounts = amounts + np.array([[0.0, 0.5], [0.0, 0.0]])
    gaps = pieces.predict(jnp.asarray([RATE, 3.0, *amounts.T.ravel()]))[GAPS]
    np.testing.assert_allclose(gaps[:, :2, 0], [[0.0, -0.25], [0.0, 0.0]], atol=1e-5)


def test_a_smaller_scale_makes_gaps_dearer(cut):
    _, pieces, amounts = cut
    theta = jnp.asarray([RATE, 3.0, *(amounts + np.array([[0.0, 0.5], [0.0, 0.0]])).T.ravel()])
    values = [pieces.log_likelihood(theta)[0], with_gaps(pieces.lean(), 0.1).log_likelihood(theta)[0]]
    # Four gaps of which one is 0.25: the quadratic part is 100 times as large, and each density has log 10 more.
    expected = -0.5 * 0.25**2 * 99 + 4 * np.log(10.0)
    np.testing.assert_allclose(values[1] - values[0], expected, rtol=1e-4)
