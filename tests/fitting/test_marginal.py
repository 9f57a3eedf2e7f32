"""Populations by their marginal likelihood: exact where the model is linear, and theophylline beside published fits."""

import csv
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import simkit
from simkit import Experiment, Free, Individual, Problem
from simkit.fitting._marginal import marginal
from simkit.noise import Normal
from simkit.odes import from_response

DATA = pathlib.Path(__file__).parents[2] / "data" / "theophylline" / "theophylline.csv"


def test_balanced_analysis_of_variance():
    """One level for each of six groups of four: the maximum of the likelihood has a closed form (Searle et al. 1992)."""
    groups, size = 6, 4
    random = np.random.default_rng(4)
    y = 3.0 + random.normal(size=(groups, 1)) + 0.5 * random.normal(size=(groups, size))
    level = from_response(lambda x, p: p["level"] + 0 * x, {"level": 1.0})
    experiments = [Experiment(f"group {i}", np.arange(size), {"y": row}) for i, row in enumerate(y)]
    free = {
        "level": Individual(Free(start=1.0), Free(bounds=(1e-3, 30.0), start=1.0)),
        "noise.y.scale": Free(bounds=(1e-3, 30.0), start=1.0),
    }
    problem = Problem(level, experiments, free=free, noise={"y": Normal(1.0)})
    fit = simkit.fit(problem, starts=1)
    within = np.sum((y - y.mean(axis=1, keepdims=True)) ** 2) / (groups * (size - 1))
    between = size * np.mean((y.mean(axis=1) - y.mean()) ** 2)
    spread = np.sqrt((between - within) / size)
    # Converged to 1e-4 standard errors.
    np.testing.assert_allclose(fit.estimate[:3], [y.mean(), np.sqrt(within), spread], rtol=1e-4)
    covariance = within * np.eye(size) + spread**2
    exact = scipy.stats.multivariate_normal(np.full(size, y.mean()), covariance).logpdf(y).sum()
    np.testing.assert_allclose(fit.log_likelihood, exact, atol=1e-7)
    assert fit.aic == pytest.approx(6 - 2 * exact)
    # The standard error of the mean, which does not depend on the variances; from differences of gradients.
    np.testing.assert_allclose(fit.standard_error[0], np.sqrt(between / (groups * size)), rtol=1e-4)
    # Deviations shrink towards the mean by the share of variance that is between the groups.
    shrunk = spread**2 / (spread**2 + within / size) * (y.mean(axis=1) - y.mean()) / spread
    np.testing.assert_allclose(problem.population.deviations(fit.estimate)[:, 0], shrunk, atol=1e-4)


def test_units_of_a_population():
    """Slopes of four subjects with an effect that starts at zero; errors were 1e-9 units and the effect stood still (1e-20)."""
    x, weight = np.array([0.5, 1.0, 2.0]), np.array([-1.0, 0.3, -0.2, 1.4])
    random = np.random.default_rng(0)
    y = (10 + weight + 2 * random.normal(size=4))[:, None] * x + 0.5 * random.normal(size=(4, 3))
    line = from_response(lambda x, p: p["a"] * x, {"a": 1.0})

    def estimate(unit):
        """Mean, spread and effect, and their standard errors, in `unit`."""
        spread, effect = (
            Free(bounds=(low * unit, 20 * unit), start=at * unit) for low, at in [(0.01, 1.0), (-20.0, 0.0)]
        )
        mean = Free(bounds=(-100 * unit, 100 * unit), start=9 * unit)
        slope = Individual(mean, spread=spread, transform="linear", effects={"weight": effect})
        experiments = [
            Experiment(f"{i}", x, {"y": unit * row}, covariates={"weight": w})
            for i, (row, w) in enumerate(zip(y, weight, strict=True))
        ]
        problem = Problem(line, experiments, free={"a": slope}, noise={"y": Normal(0.5 * unit)})
        fit = simkit.fit(problem, starts=1)
        return np.array([fit.estimate[:3], fit.standard_error[:3]]) / unit

    found = estimate(1.0)
    for unit in (1e-12, 1e12):
        np.testing.assert_allclose(estimate(unit), found, rtol=1e-5)

    def value(mean, log_spread, effect):
        """The exact log likelihood, beside a constant."""
        covariance = 0.25 * np.eye(3) + np.exp(2 * log_spread) * np.outer(x, x)
        residuals = y - (mean + effect * weight)[:, None] * x
        return scipy.stats.multivariate_normal(np.zeros(3), covariance).logpdf(residuals).sum()

    best, h = np.array([found[0, 0], np.log(found[0, 1]), found[0, 2]]), 1e-3 * np.eye(3)
    slope = [(value(*(best + a)) - value(*(best - a))) / 2e-3 for a in h]
    bend = [[sum(s * t * value(*(best + s * a + t * b)) for s in (1, -1) for t in (1, -1)) for a in h] for b in h]
    error = np.sqrt(np.diag(np.linalg.inv(np.array(bend) / -4e-6)))
    # Differences of the exact likelihood are good to some 1e-6, and the fit has converged to 1e-4 standard errors.
    np.testing.assert_allclose(slope * error, 0, atol=2e-4)
    np.testing.assert_allclose(found[1] / [1, found[0, 1], 1], error, rtol=1e-4)


def rows_of(subjects=None):
    with DATA.open() as file:
        rows = list(csv.DictReader(file))
    found = []
    for subject in dict.fromkeys(row["subject"] for row in rows):
        own = [row for row in rows if row["subject"] == subject]
        data = {"y": [float(row["concentration"]) for row in own]}
        found.append(
            Experiment(subject, [float(row["time"]) for row in own], data, set={"dose": float(own[0]["dose"])})
        )
    return found[:subjects]


ORAL = from_response(
    lambda t, p: (
        (p["dose"] * p["ke"] * p["ka"] / (p["cl"] * (p["ka"] - p["ke"])))
        * (jnp.exp(-p["ke"] * t) - jnp.exp(-p["ka"] * t))
    ),
    {"dose": 4.0, "ke": 0.1, "ka": 1.5, "cl": 0.04},
)


def theophylline(correlated, subjects=None):
    spread = Free(bounds=(1e-3, 5.0), start=0.3)
    means = {"ke": (0.01, 1.0, 0.1), "ka": (0.1, 10.0, 1.5), "cl": (1e-3, 1.0, 0.04)}
    free = {}
    for name, (low, high, start) in means.items():
        mean = Free(bounds=(low, high), start=start, transform="log")
        differs = correlated or name != "ke"
        free[name] = Individual(mean, spread, correlated=correlated, transform="log") if differs else mean
    free["noise.y.scale"] = Free(bounds=(0.01, 10.0), start=0.7)
    return Problem(ORAL, rows_of(subjects), free=free, noise={"y": Normal(0.7)})


def test_gradient_of_the_marginal_likelihood():
    problem = theophylline(True, 3)
    shared = jnp.array([0.09, 1.4, 0.05, 0.8, 0.3, 0.5, 0.2, 0.3, 0.4, -0.2])
    theta = jnp.concatenate([shared, jnp.zeros(len(problem.names) - shared.size)])
    lean = problem.lean()
    value = jax.jit(lambda z: marginal(lean, z))
    z = problem.coordinates(theta)
    at = value(z)
    for i in range(shared.size):
        ahead, behind = (float(value(z.at[i].add(step)).value) for step in (1e-4, -1e-4))
        # Central differences are good to some 1e-7 here, since the modes are found to 1e-8.
        np.testing.assert_allclose(at.gradient[i], (ahead - behind) / 2e-4, rtol=1e-5, atol=1e-5)


PUBLISHED = np.array([np.exp(-2.4546), np.exp(0.4655), np.exp(-3.2272), 0.7096, 0.6438, 0.1669])
"""Two independent effects: Pinheiro & Bates (2000), section 8.2.2, log-likelihood -177.0237; nlme prints AIC 366 and BIC 383."""


def test_the_likelihood_of_nlme_at_its_estimates():
    """Lindstrom and Bates' algorithm reports this likelihood, though it does not quite maximise it."""
    problem = theophylline(False)
    theta, lean = jnp.concatenate([jnp.asarray(PUBLISHED), jnp.zeros(24)]), problem.lean()
    at = jax.jit(lambda z: marginal(lean, z))(problem.coordinates(theta))
    # Estimates are printed with four digits.
    np.testing.assert_allclose(at.value - at.penalty, 177.0237, atol=2e-3)


@pytest.mark.slow
def test_theophylline_beside_nlme():
    """The maximum lies 0.03 above the likelihood at nlme's estimates, and near them."""
    problem = theophylline(False)
    fit = simkit.fit(problem, starts=4)
    assert -177.02 < float(fit.log_likelihood) < -176.98
    assert (round(fit.aic), round(fit.bic)) == (366, 383)
    # Within a tenth of the standard errors: 0.2 for log ka and 0.15 for its spread; the others agree to 0.01.
    np.testing.assert_allclose(np.log(fit.estimate[:3]), np.log(PUBLISHED[:3]), atol=0.02)
    np.testing.assert_allclose(fit.estimate[3:6], PUBLISHED[3:], atol=0.014)
    assert [said for said in fit.identifiability() if "starts ended at the best optimum" not in said] == []
    assert "24 deviations of individuals" in repr(fit)


@pytest.mark.slow
def test_theophylline_with_correlated_effects():
    """All three correlated, which nlme's authors find too many: AIC 367, BIC 395."""
    fit = simkit.fit(theophylline(True), starts=4)
    np.testing.assert_allclose(np.log(fit.estimate[:3]), [-2.433, 0.451, -3.214], atol=0.025)
    np.testing.assert_allclose(fit.estimate[3:7], [0.6818, 0.131, 0.638, 0.251], atol=0.015)
    np.testing.assert_allclose(fit.estimate[8], 0.995, atol=0.005)
    # nlme's own are -173.32, 367 and 395; here too the maximum is a little higher.
    assert -173.32 < float(fit.log_likelihood) < -173.2
    assert round(fit.bic) == 395


@pytest.mark.slow
def test_sampling_a_population():
    """NUTS from the marginal fit: wider than it, as a posterior with flat priors of the spreads is, and around the same place."""
    problem = theophylline(False)
    fit = simkit.fit(problem, starts=1)
    posterior = simkit.sample(problem, start=fit, key=jax.random.key(1), chains=4, draws=400)
    assert all(row["rhat"] < 1.05 for row in posterior.table())
    mean, sd = (np.array([row[key] for row in posterior.table()]) for key in ("mean", "sd"))
    assert np.all(np.abs(mean - fit.estimate)[:6] < 1.1 * sd[:6])
    assert np.all(sd[:6] > 0.9 * np.asarray(fit.standard_error)[:6])
