"""Parallel tempering, nested sampling and MCLMC beside posteriors and evidences in closed form."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit import (
    MCLMC,
    NUTS,
    ArgumentError,
    Experiment,
    Free,
    NestedSampling,
    ParallelTempering,
    Pathfinder,
    Problem,
    TemperedSMC,
)
from simkit.infer import effective_sample_size
from simkit.infer._pathfinder import _chosen
from simkit.noise import Normal
from simkit.odes import from_response
from simkit.problem import AbstractLikelihood

X = np.linspace(-1.0, 1.0, 12)
Y = 0.5 + 1.5 * X + 0.3 * np.random.default_rng(3).normal(size=X.size)
LINE = from_response(lambda x, p: p["a"] + p["b"] * x, {"a": 0.0, "b": 0.0})
DESIGN = np.stack([np.ones_like(X), X], 1)
PRECISION = DESIGN.T @ DESIGN / 0.09 + np.eye(2) / 4.0
MEAN, COVARIANCE = np.linalg.solve(PRECISION, DESIGN.T @ Y / 0.09), np.linalg.inv(PRECISION)
EVIDENCE = stats.multivariate_normal(np.zeros(X.size), 0.09 * np.eye(X.size) + 4.0 * DESIGN @ DESIGN.T).logpdf(Y)


def line(**free):
    prior = Free(dist.Normal(0.0, 2.0))
    return Problem(
        LINE, Experiment("line", X, {"y": Y}), free={"a": prior, "b": prior} | free, noise={"y": Normal(0.3)}
    )


def check_line(posterior):
    """Means within five Monte Carlo standard errors, standard deviations within five of theirs, sd / sqrt(2 ess)."""
    for i, row in enumerate(posterior.table()):
        sd, ess = np.sqrt(COVARIANCE[i, i]), row["ess"]
        assert ess > 200
        assert abs(row["mean"] - MEAN[i]) < 5 * sd / np.sqrt(ess)
        assert abs(row["sd"] - sd) < 5 * sd / np.sqrt(2 * ess)


def check_evidence(posterior, exact=EVIDENCE):
    """Within five standard errors, which the runs tell."""
    runs = np.asarray(posterior.log_evidence)
    assert 0 < runs.std(ddof=1) < 0.5
    assert abs(runs.mean() - exact) < 5 * runs.std(ddof=1) / np.sqrt(len(runs))


@pytest.mark.parametrize(
    "method",
    [
        ParallelTempering(temperatures=8),
        ParallelTempering(temperatures=8, kernel="random_walk", moves=2),
        NestedSampling(live=200),
        TemperedSMC(),
    ],
    ids=["hmc", "random_walk", "nested", "tempered"],
)
def test_a_straight_line_and_its_evidence(method):
    posterior = simkit.sample(line(), method=method, key=jax.random.key(1), draws=500, chains=6)
    check_line(posterior)
    check_evidence(posterior)
    theta = posterior.draws[1, 7]
    np.testing.assert_allclose(posterior.log_density[1, 7], line().log_posterior(theta), rtol=1e-9)


def two_roots(noise=0.2):
    square = from_response(lambda x, p: p["a"] ** 2 + 0 * x, {"a": 1.0})
    data = Experiment("one", [0.0, 1.0], {"y": [4.1, 3.9]})
    return Problem(square, data, free={"a": Free(dist.Normal(1.0, 2.0))}, noise={"y": Normal(noise)})


@pytest.mark.parametrize("method", [ParallelTempering(), NestedSampling(live=400)], ids=["parallel", "nested"])
def test_two_modes_in_their_proportions(method):
    """Only the square of `a` is seen, and the prior prefers the positive root: shares and evidence by quadrature."""
    grid = np.linspace(-4, 4, 20001)
    density = stats.norm(1, 2).pdf(grid) * np.exp(
        stats.norm(4.1, 0.2).logpdf(grid**2) + stats.norm(3.9, 0.2).logpdf(grid**2)
    )
    share = density[grid > 0].sum() / density.sum()
    posterior = simkit.sample(two_roots(), method=method, key=jax.random.key(3), draws=800, warmup=300, chains=6)
    found = np.mean(np.asarray(posterior.draws)[..., 0] > 0, axis=1)
    assert 0.6 < share < 0.8
    assert found.std(ddof=1) < 0.15
    assert abs(found.mean() - share) < 5 * found.std(ddof=1) / np.sqrt(6)
    check_evidence(posterior, np.log(density.sum() * (grid[1] - grid[0])))


def test_pathfinder_draws_from_a_normal_posterior_and_weighs_two_modes():
    """Modes count by their mass, e to 1, however many paths end in each: five paths cannot end in them by these shares."""
    posterior = simkit.sample(line(), method=Pathfinder(), key=jax.random.key(1))
    check_line(posterior)
    theta = posterior.draws[1, 7]
    np.testing.assert_allclose(posterior.log_density[1, 7], line().log_posterior(theta), rtol=1e-9)
    drawn = simkit.sample(two_roots(), method=Pathfinder(paths=5), key=jax.random.key(10), draws=2000)
    share = float((drawn.draws > 0).mean())
    exact = 1 / (1 + np.exp(-1.0))
    assert abs(share - exact) < 4 * np.sqrt(exact * (1 - exact) / 5000)  # of some 11,000 effective ones, at least 5,000
    assert len(drawn.warnings) == 1
    few = simkit.sample(two_roots(), method=Pathfinder(paths=5), key=jax.random.key(10), draws=1)
    assert "Pathfinder, 4 chains of 1 draws" in repr(few)


def test_draws_that_were_drawn_again_stand_together():
    """Else each would count as independent: of a thousand draws of ten numbers 10, not 1,000, are worth something."""
    share = np.array([0.0, *np.full(10, 0.1)])
    chosen = _chosen(jax.random.key(0), share, 1000)
    np.testing.assert_array_equal(np.bincount(chosen), [0, *[100] * 10])
    values = np.random.default_rng(0).normal(size=11)[chosen]
    assert effective_sample_size(values.reshape(1, -1)) < 40


def test_pathfinder_says_where_a_normal_distribution_does_not_do():
    """Neal's funnel, whose neck no normal distribution covers."""
    funnel = from_response(lambda x, p: 0.0 * x, {"width": 0.0} | {f"a{i}": 0.0 for i in range(9)})
    free = {"width": Free(dist.Normal(0.0, 3.0))} | {f"a{i}": Free(dist.Normal(0.0, 50.0)) for i in range(9)}

    class Neck(AbstractLikelihood):
        def log_prob(self, theta, model, data):
            return jnp.sum(-0.5 * theta[1:] ** 2 * jnp.exp(-theta[0]) - 0.5 * theta[0])

    data = Experiment("none", [0.0], {"y": [0.0]})
    posed = Problem(funnel, data, free=free, likelihood=Neck())
    found = simkit.sample(posed, method=Pathfinder(), key=jax.random.key(0), draws=500)
    assert any("does not cover the posterior" in text for text in found.warnings)


def test_mclmc_draws_from_a_normal_posterior():
    posterior = simkit.sample(line(), method=MCLMC(), key=jax.random.key(1), draws=500)
    check_line(posterior)
    assert posterior.warnings == ()
    theta = posterior.draws[1, 7]
    np.testing.assert_allclose(posterior.log_density[1, 7], line().log_posterior(theta), rtol=1e-9)
    assert 0.8 < float(posterior.accept.mean()) < 0.99


@pytest.fixture(scope="module")
def regression():
    size = 40
    rng = np.random.default_rng(0)
    design = rng.normal(size=(3 * size, size)) / np.sqrt(size)
    y = design @ rng.normal(size=size) + 0.5 * rng.normal(size=3 * size)
    rows = from_response(lambda i, p: jnp.asarray(design)[i.astype(int)] @ p["b"], {"b": np.zeros(size)})
    problem = Problem(
        rows,
        Experiment("rows", np.arange(3.0 * size), {"y": y}),
        free={"b": Free(dist.Normal(0.0, 3.0))},
        noise={"y": Normal(0.5)},
    )
    covariance = np.linalg.inv(design.T @ design / 0.25 + np.eye(size) / 9.0)
    return problem, simkit.fit(problem, starts=1), covariance @ design.T @ y / 0.25, np.sqrt(np.diag(covariance))


@pytest.mark.parametrize("method", [NUTS(), MCLMC()], ids=["nuts", "mclmc"])
def test_more_parameters_than_the_warm_up_can_learn_a_covariance_of(method, regression):
    """With a covariance of 50 draws of 40 parameters as mass matrix NUTS took hundreds of gradients a draw; 15 are enough."""
    problem, start, mean, sd = regression
    posterior = simkit.sample(problem, method=method, start=start, key=jax.random.key(1), draws=200, warmup=100)
    assert float(posterior.steps.mean()) < 20
    rows = posterior.table()
    errors = [(row["mean"] - m) / (s / np.sqrt(row["ess"])) for row, m, s in zip(rows, mean, sd, strict=True)]
    # Of 40 normal errors the largest is below 4.5 with probability 0.9997.
    assert np.abs(errors).max() < 4.5
    # Draws go from side to side, so that their squares have fewer effective draws than they have.
    squares = [effective_sample_size((np.asarray(posterior.draws[..., i]) - m) ** 2) for i, m in enumerate(mean)]
    spreads = [(row["sd"] / s - 1) * np.sqrt(2 * n) for row, s, n in zip(rows, sd, squares, strict=True)]
    assert np.abs(spreads).max() < 5


@pytest.mark.parametrize("method", [ParallelTempering(temperatures=4), NestedSampling(live=60), MCLMC(), Pathfinder()])
def test_single_precision_and_other_units(method):
    """In units of 1e-12, with all numbers of 32 bits."""
    unit = 1e-12
    prior = Free(dist.Normal(0.0, 2.0 * unit))
    data = Experiment("line", X, {"y": Y * unit})
    problem = Problem(LINE, data, free={"a": prior, "b": prior}, noise={"y": Normal(0.3 * unit)})
    problem = simkit.cast(problem, jnp.float32)
    posterior = simkit.sample(problem, method=method, key=jax.random.key(1), draws=200, warmup=120)
    assert posterior.draws.dtype == jnp.float32
    flat = np.asarray(posterior.flat(), float) / unit
    np.testing.assert_allclose(flat.mean(axis=0), MEAN, atol=0.5 * np.sqrt(COVARIANCE.max()))
    np.testing.assert_allclose(flat.std(axis=0), np.sqrt(np.diag(COVARIANCE)), rtol=0.3)


@pytest.mark.parametrize("method", [ParallelTempering(temperatures=6), NestedSampling(live=200)])
def test_priors_of_which_half_cannot_be_simulated(method):
    """The logarithm of a negative number is NaN: the evidence is that of a prior whose other half weighs nothing."""
    root = from_response(lambda x, p: jnp.log(p["a"]) + 0 * x, {"a": 1.0})
    problem = Problem(
        root, Experiment("one", [0.0], {"y": [0.5]}), free={"a": Free(dist.Normal(0.0, 2.0))}, noise={"y": Normal(0.3)}
    )
    posterior = simkit.sample(problem, method=method, key=jax.random.key(2), draws=500, chains=6)
    grid = np.linspace(1e-6, 12, 200_001)
    density = stats.norm(0, 2).pdf(grid) * stats.norm(0.5, 0.3).pdf(np.log(grid))
    check_evidence(posterior, np.log(density.sum() * (grid[1] - grid[0])))
    assert float(posterior.draws.min()) > 0


def test_warnings_say_what_to_change():
    narrow = two_roots(noise=1e-4)
    posterior = simkit.sample(
        narrow, method=ParallelTempering(temperatures=2), key=jax.random.key(0), draws=100, warmup=60
    )
    assert "Exchanges are rejected" in posterior.warnings[0]
    assert "`temperatures=" in posterior.warnings[0]
    few = simkit.sample(two_roots(), method=NestedSampling(live=20), key=jax.random.key(0), draws=1000)
    assert any("take more `live` points" in text for text in few.warnings)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ParallelTempering(temperatures=1), "`temperatures` must be an integer of at least 2, but it is 1"),
        (lambda: NestedSampling(live=5), "`live` must be an integer of at least 20, but it is 5"),
        (lambda: NestedSampling(live=100, replaced=60), "`replaced` must be at most half of the 100 live points"),
        (lambda: NestedSampling(remaining=0.0), "`remaining` must lie between 0 and 1"),
        (lambda: MCLMC(target_accept=1.0), "`target_accept` must lie between 0 and 1"),
        (lambda: Pathfinder(paths=0), "`paths` must be an integer of at least 1, but it is 0"),
        (lambda: MCLMC(length=1.0), r"`length` must lie between 1\.2 and 1,000"),
        (
            lambda: simkit.sample(two_roots(), method=MCLMC(), key=jax.random.key(0)),
            r"needs two parameters or more: for one, take `NUTS\(\)`",
        ),
        (
            lambda: simkit.sample(two_roots(), method=NestedSampling(), store="folder", key=jax.random.key(0)),
            "`NestedSampling` begins from the priors: it takes neither a `start` nor a `store`",
        ),
    ],
)
def test_what_is_wrong_is_a_sentence(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()


@pytest.mark.parametrize("method", [NestedSampling(), MCLMC(), Pathfinder()])
def test_a_missing_extra_is_named(method, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "blackjax"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(ImportError, match=r'pip install "simkit\[samplers\]"'):
        simkit.sample(line(), method=method, key=jax.random.key(0))
