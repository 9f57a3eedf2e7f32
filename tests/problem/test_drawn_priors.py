"""Draws of priors for which NumPyro has none by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit.problem import drawn

BASE = dist.StudentT(3.0, 1.0, 2.0)
CASES = {
    "left": (dist.LeftTruncatedDistribution(BASE, low=0.0), 0.0, np.inf),
    "right": (dist.RightTruncatedDistribution(BASE, high=2.5), -np.inf, 2.5),
    "both": (dist.TwoSidedTruncatedDistribution(BASE, low=0.5, high=4.0), 0.5, 4.0),
}


@pytest.mark.parametrize("name", list(CASES))
def test_draws_follow_the_distribution(name):
    prior, low, high = CASES[name]
    draws = np.asarray(drawn(prior, jax.random.key(0), (4000,)))
    assert low <= draws.min() <= draws.max() <= high
    exact = lambda x: stats.t.cdf((x - 1.0) / 2.0, 3.0)
    found = stats.kstest(draws, lambda x: (exact(x) - exact(low)) / (exact(high) - exact(low)))
    assert found.pvalue > 1e-3


def test_others_are_drawn_by_numpyro():
    key = jax.random.key(1)
    for prior in (BASE, dist.LogNormal(0.0, 1.0), dist.TruncatedNormal(0.0, 1.0, low=0.0)):
        np.testing.assert_array_equal(drawn(prior, key, (3,)), prior.sample(key, (3,)))


def test_a_half_student_prior_serves_fits():
    problem = simkit.Problem(
        simkit.odes.from_response(lambda x, p: p["a"] * x, {"a": 1.0}),
        simkit.Experiment("line", [1.0, 2.0, 3.0], {"y": [1.1, 2.2, 2.8]}),
        free={
            "a": simkit.Free(dist.Normal(0.0, 5.0)),
            "noise.y.scale": simkit.Free(dist.LeftTruncatedDistribution(dist.StudentT(3.0, 0.0, 10.0), low=0.0)),
        },
        noise={"y": simkit.noise.Normal(0.1)},
    )
    before = simkit.prior_draws(problem, jax.random.key(0), 50)
    assert bool(jnp.all(before[:, 1] > 0))
    assert simkit.fit(problem, starts=2).estimate[0] == pytest.approx(0.993, abs=0.01)
