"""Tempered SMC beside posteriors and evidences in closed form."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem, TemperedSMC
from simkit.noise import Normal
from simkit.odes import from_response

X = np.linspace(-1.0, 1.0, 12)
Y = 0.5 + 1.5 * X + 0.3 * np.random.default_rng(3).normal(size=X.size)
LINE = from_response(lambda x, p: p["a"] + p["b"] * x, {"a": 0.0, "b": 0.0})
DESIGN = np.stack([np.ones_like(X), X], 1)


def line(prior_a):
    free = {"a": prior_a, "b": Free(dist.Normal(0.0, 2.0))}
    return Problem(LINE, Experiment("line", X, {"y": Y}), free=free, noise={"y": Normal(0.3)})


@pytest.mark.parametrize("kernel", ["hmc", pytest.param("random_walk", marks=pytest.mark.slow)])
def test_evidence_of_a_straight_line(kernel):
    """Normal priors and noise: the data are normal, and so is the posterior."""
    method = TemperedSMC(kernel, moves=8 if kernel == "hmc" else 20, leapfrog=4)
    posterior = simkit.sample(
        line(Free(dist.Normal(0.0, 2.0))), method=method, key=jax.random.key(1), draws=400, chains=4
    )
    covariance = 0.09 * np.eye(X.size) + 4.0 * DESIGN @ DESIGN.T
    exact = stats.multivariate_normal(np.zeros(X.size), covariance).logpdf(Y)
    # Runs scatter by about 0.1 each.
    assert abs(np.mean(posterior.log_evidence) - exact) < 5 * np.std(posterior.log_evidence, ddof=1) / 2 + 0.02
    assert np.std(posterior.log_evidence) < 0.3
    precision = DESIGN.T @ DESIGN / 0.09 + np.eye(2) / 4.0
    mean, sd = np.linalg.solve(precision, DESIGN.T @ Y / 0.09), np.sqrt(np.diag(np.linalg.inv(precision)))
    flat = np.asarray(posterior.flat())
    # 1600 particles, of which some hundreds are independent.
    np.testing.assert_allclose(flat.mean(axis=0), mean, atol=0.2 * sd.min())
    np.testing.assert_allclose(flat.std(axis=0), sd, rtol=0.12)


@pytest.mark.slow
def test_flat_and_cut_priors_are_normalised():
    """A flat prior over 20 and a normal one of which half is cut off: the evidence by quadrature over both."""
    cut = Free(dist.Normal(0.0, 2.0), bounds=(0.0, None))
    for free, prior in (
        (Free(bounds=(-10.0, 10.0)), stats.uniform(-10, 20).pdf),
        (cut, lambda a: 2 * stats.norm(0, 2).pdf(a) * (a > 0)),
    ):
        method = TemperedSMC("random_walk", moves=20)
        posterior = simkit.sample(line(free), method=method, key=jax.random.key(2), draws=400, chains=2)
        a, b = np.linspace(-0.5, 1.5, 401), np.linspace(0.5, 2.5, 401)
        residual = Y[:, None, None] - a[None, :, None] - b[None, None, :] * X[:, None, None]
        likelihood = np.exp(stats.norm(0, 0.3).logpdf(residual).sum(axis=0))
        integrand = likelihood * prior(a)[:, None] * stats.norm(0, 2).pdf(b)[None]
        exact = np.log(integrand.sum() * (a[1] - a[0]) * (b[1] - b[0]))
        assert abs(np.mean(posterior.log_evidence) - exact) < 0.3


def test_two_modes_in_their_proportions():
    """Only the square of `a` is seen, and the prior prefers the positive root."""
    square = from_response(lambda x, p: p["a"] ** 2 + 0 * x, {"a": 1.0})
    prior = dist.Normal(1.0, 2.0)
    data = Experiment("one", [0.0, 1.0], {"y": [4.1, 3.9]})
    problem = Problem(square, data, free={"a": Free(prior)}, noise={"y": Normal(0.2)})
    posterior = simkit.sample(problem, method=TemperedSMC(), key=jax.random.key(3), draws=500, chains=4)
    grid = np.linspace(-4, 4, 20001)
    density = stats.norm(1, 2).pdf(grid) * np.exp(
        stats.norm(4.1, 0.2).logpdf(grid**2) + stats.norm(3.9, 0.2).logpdf(grid**2)
    )
    total = density.sum() * (grid[1] - grid[0])
    share = density[grid > 0].sum() / density.sum()
    found = np.mean(np.asarray(posterior.draws)[..., 0] > 0, axis=1)
    assert 0.6 < share < 0.8
    # Four runs tell how much the share scatters between them.
    assert abs(found.mean() - share) < 5 * found.std(ddof=1) / 2 + 0.01
    assert found.std() < 0.1
    assert abs(np.mean(posterior.log_evidence) - np.log(total)) < 0.1
    assert "log evidence" in repr(posterior)


def test_refusals():
    problem = line(Free(dist.Normal(0.0, 2.0)))
    with pytest.raises(ArgumentError, match="takes neither a `start` nor a `store`"):
        simkit.sample(problem, method=TemperedSMC(), store="folder", key=jax.random.key(0))
    with pytest.raises(ArgumentError, match=r"`ess` must lie between 0 and 1, but it is 1\.5"):
        TemperedSMC(ess=1.5)
