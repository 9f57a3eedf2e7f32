"""Correlated priors beside SciPy's multivariate normal distribution and exact posteriors."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.integrate
import scipy.stats as stats

import simkit
from simkit import ArgumentError, Experiment, Free, GaussianCopula, Problem
from simkit.fitting import prior_model
from simkit.infer import prior_draws
from simkit.odes import from_response

LINE = from_response(lambda t, p: p["offset"] + p["gain"] * t, {"offset": 0.0, "gain": 1.0, "rate": 1.0})
MEAN, SD = np.array([1.0, 2.0]), np.array([0.5, 0.1])
TIMES, DATA, SIGMA = np.array([4.0, 10.0]), np.array([9.0, 21.5]), 0.2


def line(correlation=-0.9, priors=None, data=DATA, unit=1.0, names=("offset", "gain"), sigma=SIGMA):
    priors = priors or {name: Free(dist.Normal(m * unit, s * unit)) for name, m, s in zip(names, MEAN, SD, strict=True)}
    dependence = None if correlation is None else GaussianCopula(names, correlation)
    experiment = Experiment("e", TIMES, {"y": data * unit})
    noise = {"y": simkit.noise.Normal(sigma * unit)}
    return Problem(LINE, experiment, free=priors, noise=noise, dependence=dependence)


def joint(correlation=-0.9):
    return np.array([[1, correlation], [correlation, 1]]) * np.outer(SD, SD)


def exact(unit=1.0):
    """Mean and covariance of the linear model's posterior."""
    a = np.stack([np.ones(2), TIMES], axis=1)
    precision = np.linalg.inv(joint()) + a.T @ a / SIGMA**2
    covariance = np.linalg.inv(precision)
    return covariance @ (np.linalg.inv(joint()) @ MEAN + a.T @ DATA / SIGMA**2) * unit, covariance * unit**2


def test_density_of_normal_priors_is_the_multivariate_normal_one():
    theta = np.array([1.3, 1.9])
    expected = stats.multivariate_normal(MEAN, joint()).logpdf(theta)
    np.testing.assert_allclose(line().log_prior(jnp.asarray(theta)), expected, rtol=1e-12)


def test_density_of_log_normal_priors_is_that_of_the_logarithms():
    priors = {name: Free(dist.LogNormal(m, s)) for name, m, s in zip(("offset", "gain"), MEAN, SD, strict=True)}
    theta = np.array([3.0, 7.0])
    expected = stats.multivariate_normal(MEAN, joint(0.7)).logpdf(np.log(theta)) - np.sum(np.log(theta))
    np.testing.assert_allclose(line(0.7, priors).log_prior(jnp.asarray(theta)), expected, rtol=1e-12)


def test_density_of_other_priors_integrates_to_one_and_keeps_the_margins():
    priors = {"offset": Free(dist.Gamma(3.0, 2.0)), "gain": Free(dist.Beta(2.0, 3.0))}
    problem = line(0.6, priors)
    density = jax.jit(lambda x, y: jnp.exp(problem.log_prior(jnp.stack([x, y]))))
    total = scipy.integrate.dblquad(lambda y, x: float(density(x, y)), 1e-6, 15, 1e-6, 1 - 1e-6, epsabs=1e-5)[0]
    assert abs(total - 1) < 2e-4
    margin = scipy.integrate.quad(lambda y: float(density(1.0, y)), 1e-6, 1 - 1e-6)[0]
    np.testing.assert_allclose(margin, stats.gamma(3, scale=0.5).pdf(1.0), rtol=1e-4)


@pytest.mark.parametrize(
    "unit", [1.0, pytest.param(1e-9, marks=pytest.mark.slow), pytest.param(1e9, marks=pytest.mark.slow)]
)
def test_fit_is_the_exact_posterior(unit):
    result = simkit.fit(line(unit=unit), starts=2)
    mean, covariance = exact(unit)
    np.testing.assert_allclose(result.estimate, mean, rtol=1e-8)
    np.testing.assert_allclose(result.covariance, covariance, rtol=1e-8)
    np.testing.assert_allclose(result.standard_error, np.sqrt(np.diag(covariance)), rtol=1e-8)


def test_the_prior_alone_comes_back():
    """Data that say nothing leave the covariance of the priors."""
    result = simkit.fit(line(sigma=1e7), starts=1)
    np.testing.assert_allclose(result.estimate, MEAN, rtol=1e-9)
    np.testing.assert_allclose(result.covariance, joint(), rtol=1e-9)
    assert sum("mostly its prior's" in text for text in result.identifiability()) == 2


def test_curvature_is_the_second_derivative():
    free = {
        "offset": Free(dist.Normal(1.0, 0.5)),
        "gain": Free(dist.LogNormal(0.7, 0.3)),
        "rate": Free(dist.Normal(2.0, 0.4)),
    }
    matrix = np.array([[1, 0.5, -0.3], [0.5, 1, 0.2], [-0.3, 0.2, 1]])
    problem = line(matrix, free, names=tuple(free))
    z = jnp.array([0.4, 0.5, 2.2])
    value, slope, root = prior_model(problem, z)
    penalty = lambda z: -problem.unknowns.log_prior_at(z)
    np.testing.assert_allclose(value, penalty(z), rtol=1e-12)
    np.testing.assert_allclose(slope, jax.grad(penalty)(z), rtol=1e-10)
    np.testing.assert_allclose(root.T @ root, jax.hessian(penalty)(z), rtol=1e-9, atol=1e-9)


def test_curvature_of_other_priors_has_no_negative_part():
    priors = {"offset": Free(dist.Gamma(0.7, 2.0)), "gain": Free(dist.StudentT(2.0, 0.0, 1.0))}
    _, _, root = prior_model(line(0.8, priors), jnp.array([0.1, 4.0]))
    assert jnp.isfinite(root).all()


def test_draws_have_the_margins_and_the_correlation():
    priors = {"offset": Free(dist.Gamma(3.0, 2.0)), "gain": Free(dist.Normal(0.0, 1.0))}
    draws = np.asarray(prior_draws(line(0.6, priors), jax.random.key(1), 20_000))
    # Kolmogorov's statistic stays below 1.95 / sqrt(n) in 999 of 1,000 cases.
    for column, margin in zip(draws.T, (stats.gamma(3, scale=0.5), stats.norm()), strict=True):
        assert stats.kstest(column, margin.cdf).statistic < 1.95 / np.sqrt(len(draws))
    scores = stats.norm.ppf(stats.gamma(3, scale=0.5).cdf(draws[:, 0]))
    # A correlation r of n pairs has the standard error (1 - r^2) / sqrt(n).
    assert abs(np.corrcoef(scores, draws[:, 1])[0, 1] - 0.6) < 4 * 0.64 / np.sqrt(len(draws))


def test_draws_stay_inside_bounds():
    priors = {"offset": Free(dist.Normal(1.0, 0.5), bounds=(0.9, 1.1)), "gain": Free(dist.Normal(2.0, 0.1))}
    draws = np.asarray(prior_draws(line(-0.9, priors), jax.random.key(0), 5000))
    assert ((draws[:, 0] > 0.9) & (draws[:, 0] < 1.1)).all()
    # Cut off, the correlation is -0.232; of 5,000 draws it has the standard error 0.014.
    assert abs(np.corrcoef(draws.T)[0, 1] + 0.232) < 0.06


@pytest.mark.slow
def test_samples_are_the_exact_posterior():
    problem = line()
    posterior = simkit.sample(problem, key=jax.random.key(0), draws=1000, warmup=500, chains=4)
    mean, covariance = exact()
    draws = np.asarray(posterior.draws).reshape(-1, 2)
    # Some 2,000 effective draws: a mean is off by 0.022 standard deviations, a standard deviation by 1.6 %.
    assert (np.abs(draws.mean(0) - mean) < 5 * 0.022 * np.sqrt(np.diag(covariance))).all()
    np.testing.assert_allclose(draws.std(0), np.sqrt(np.diag(covariance)), rtol=0.08)


@pytest.mark.slow
def test_evidence_is_the_exact_one():
    problem = line()
    a = np.stack([np.ones(2), TIMES], axis=1)
    evidence = stats.multivariate_normal(a @ MEAN, a @ joint() @ a.T + SIGMA**2 * np.eye(2)).logpdf(DATA)
    found = simkit.sample(problem, key=jax.random.key(3), method=simkit.infer.TemperedSMC())
    assert abs(np.mean(found.log_evidence) - evidence) < 0.3


def test_numpyro_model_has_the_same_density():
    from numpyro.infer.util import log_density

    problem = line()
    model = simkit.infer.numpyro_model(problem)
    theta = jnp.array([1.2, 1.95])
    value, _ = log_density(model, (), {}, {"offset": theta[0], "gain": theta[1]})
    np.testing.assert_allclose(value, problem.log_posterior(theta), rtol=1e-10)


def test_influence_counts_the_dependence():
    problem = line()
    report = simkit.check(problem, simkit.fit(problem, starts=1))
    a = np.stack([np.ones(2), TIMES], axis=1)
    leverage = np.diag(a @ exact()[1] @ a.T) / SIGMA**2
    found = report.influence["y"].leverage
    np.testing.assert_allclose(np.ravel(found)[-2:], leverage, rtol=1e-6)


def test_transformations_and_single_precision():
    problem = line()
    thetas = jnp.array([[1.0, 2.0], [1.2, 1.9]])
    assert jax.vmap(jax.grad(problem.log_prior))(thetas).shape == (2, 2)
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, problem)
    value = single.log_prior(thetas[1].astype(jnp.float32))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, problem.log_prior(thetas[1]), rtol=1e-5)


def test_it_is_told():
    assert "offset, gain: correlated priors, -0.9" in repr(line())


class Plain(dist.Distribution):
    """A distribution without a distribution function."""

    support = dist.constraints.real

    def __init__(self):
        super().__init__(validate_args=False)

    def sample(self, key, sample_shape=()):
        return jax.random.normal(key, sample_shape)

    def log_prob(self, value):
        return -0.5 * value**2


def plain(dependence):
    free = {name: Free(dist.Normal(0.0, 1.0)) for name in ("offset", "gain", "rate")}
    experiment, noise = Experiment("e", TIMES, {"y": DATA}), {"y": simkit.noise.Normal(1.0)}
    return Problem(LINE, experiment, free=free, noise=noise, dependence=dependence)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianCopula(("a",), 0.5), "two or more different"),
        (lambda: GaussianCopula(("a", "a"), 0.5), "two or more different"),
        (lambda: GaussianCopula("ab", 0.5), "must hold the names"),
        (lambda: GaussianCopula(("a", "b"), 1.0), "positive definite"),
        (lambda: GaussianCopula(("a", "b", "c"), -0.6), "positive definite"),
        (lambda: GaussianCopula(("a", "b"), [[1, 0.2], [0.3, 1]]), "symmetric"),
        (lambda: GaussianCopula(("a", "b"), [[2, 0.2], [0.2, 1]]), "ones on its diagonal"),
        (lambda: GaussianCopula(("a", "b"), [0.5, 0.5]), "shape"),
        (lambda: line(priors={"offset": Free(bounds=(0.0, 1.0)), "gain": Free(dist.Normal(0.0, 1.0))}), "without a prior"),
        (lambda: line(priors={"offset": Free(dist.Normal(0.0, 1.0)), "gain": Free(Plain())}), "none for Plain"),
    ],
)  # fmt: skip
def test_bad_input(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_name_that_is_no_unknown():
    with pytest.raises(simkit.UnknownNameError, match="gain"):
        plain(GaussianCopula(("offset", "gian"), 0.5))


def test_one_copula_for_each_unknown():
    with pytest.raises(ArgumentError, match="one copula at most"):
        plain([GaussianCopula(("offset", "gain"), 0.5), GaussianCopula(("gain", "rate"), 0.5)])
