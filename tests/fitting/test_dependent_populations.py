"""Populations whose residuals depend on each other: exact where the model is linear, beside dense normal distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.stats

import simkit
from simkit import Experiment, Free, Individual, Problem
from simkit.fitting._conditional import conditional
from simkit.fitting._marginal import marginal
from simkit.fitting._method import CONVERGED
from simkit.noise import Autocorrelated, Correlated, LogNormal, Normal
from simkit.odes import from_response

PAIR = from_response(lambda t, p: {"u": p["a"] + p["b"] * t, "v": 2 * p["a"] + 0 * t}, {"a": 3.0, "b": 0.5})
LINE = from_response(lambda t, p: p["a"] + p["b"] * t, {"a": 3.0, "b": 0.5})
TIMES = np.array([0.0, 1.0, 2.0, 3.5, 5.0, 6.0])
PEOPLE = 12


def blood(unit=1.0, seed=1):
    """Two outputs of twelve individuals with a level of their own; residuals of one row are correlated by -0.7."""
    rng, runs = np.random.default_rng(seed), []
    for i in range(PEOPLE):
        level = 3 + 0.8 * rng.normal()
        own = rng.multivariate_normal([0, 0], [[0.36, -0.7 * 0.6 * 0.9], [-0.7 * 0.6 * 0.9, 0.81]], TIMES.size)
        data = {"u": (level + 0.5 * TIMES + own[:, 0]) * unit, "v": (2 * level + own[:, 1]) * unit}
        data["u"][i % 6] = np.nan
        data["v"][(3 * i + 1) % 6] = np.nan
        runs.append(Experiment(f"{i}", TIMES, data))
    sizes = {
        "a": Individual(Free(bounds=(-20 * unit, 20 * unit), start=2 * unit), wide(unit), transform="linear"),
        "b": Free(bounds=(-9 * unit, 9 * unit), start=0.1 * unit, transform="linear"),
        "noise.u.scale": wide(unit),
        "noise.v.marginal.scale": wide(unit),
        "noise.v.correlations.u": Free(bounds=(-0.95, 0.95), start=0.0),
    }
    noise = {"u": Normal(unit), "v": Correlated(Normal(unit), {"u": 0.0})}
    return runs, Problem(PAIR, runs, free=sizes, noise=noise)


def wide(unit=1.0):
    return Free(bounds=(1e-2 * unit, 10 * unit), start=unit)


def log_likelihood_of_blood(runs, numbers):
    a, b, su, sv, rho, spread = numbers
    total = 0.0
    for run in runs:
        y = np.concatenate([run.data["u"], run.data["v"]])
        mean = np.concatenate([a + b * TIMES, 2 * a + 0 * TIMES])
        own = np.kron([[su**2, rho * su * sv], [rho * su * sv, sv**2]], np.eye(TIMES.size))
        effect = np.repeat([1.0, 2.0], TIMES.size)
        covariance = own + spread**2 * np.outer(effect, effect)
        k = np.isfinite(y)
        total += scipy.stats.multivariate_normal(mean[k], covariance[np.ix_(k, k)]).logpdf(y[k])
    return total


def series(unit=1.0):
    """Lines of twelve individuals with a level of their own and residuals that follow their neighbours, with white noise beside."""
    rng, runs = np.random.default_rng(2), []
    for i in range(PEOPLE):
        times = np.sort(rng.uniform(0.0, 10.0, 15 - i % 3))
        own = 0.5**2 * np.exp(-np.abs(times[:, None] - times) / 1.5) + 0.2**2 * np.eye(times.size)
        y = 3 + 0.8 * rng.normal() + 0.5 * times + np.linalg.cholesky(own) @ rng.normal(size=times.size)
        y[i % 7] = np.nan
        runs.append(Experiment(f"{i}", times, {"y": y * unit}))
    sizes = {
        "a": Individual(Free(bounds=(-20 * unit, 20 * unit), start=2 * unit), wide(unit), transform="linear"),
        "b": Free(bounds=(-9 * unit, 9 * unit), start=0.1 * unit, transform="linear"),
        "noise.y.scale": wide(unit),
        "noise.y.time": Free(bounds=(0.05, 50.0), start=1.0),
        "noise.y.white": wide(unit),
    }
    return runs, Problem(LINE, runs, free=sizes, noise={"y": Autocorrelated(unit, 1.0, unit)})


def log_likelihood_of_series(runs, numbers):
    a, b, scale, time, white, spread = numbers
    total = 0.0
    for run in runs:
        t, y = run.times, run.data["y"]
        covariance = scale**2 * np.exp(-np.abs(t[:, None] - t) / time) + white**2 * np.eye(t.size) + spread**2
        k = np.isfinite(y)
        total += scipy.stats.multivariate_normal((a + b * t)[k], covariance[np.ix_(k, k)]).logpdf(y[k])
    return total


CASES = {"outputs": (blood, log_likelihood_of_blood), "series": (series, log_likelihood_of_series)}


@pytest.mark.parametrize("kind", CASES)
def test_the_marginal_likelihood_is_that_of_a_dense_normal_distribution(kind):
    """The model is linear in the deviations, so Laplace's approximation is exact; so is the gradient, beside differences."""
    make, exact = CASES[kind]
    runs, problem = make()
    theta = np.array([2.8, 0.45, 0.7, 0.8, -0.5 if kind == "outputs" else 0.3, 0.9])
    rest = jnp.full((problem.size - 6,), 0.1)
    at = lambda theta: problem.coordinates(jnp.concatenate([jnp.asarray(theta), rest]))
    found = jax.jit(lambda z: marginal(problem, z))(at(theta))
    assert bool(found.good)
    np.testing.assert_allclose(found.penalty - found.value, exact(runs, theta), rtol=1e-11)
    log = np.array(problem.log[:6])
    move = lambda k, h: np.where(log, theta * np.exp(h * (np.arange(6) == k)), theta + h * (np.arange(6) == k))
    slope = [(exact(runs, move(k, 1e-5)) - exact(runs, move(k, -1e-5))) / 2e-5 for k in range(6)]
    np.testing.assert_allclose(-np.asarray(found.gradient - found.slope), slope, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_fits_reach_the_maximum_that_scipy_finds(kind, unit):
    make, exact = CASES[kind]
    runs, problem = make(unit)
    fit = simkit.fit(problem, starts=1)
    plain, _ = make()
    scale = np.array([unit, unit, unit, unit if kind == "outputs" else 1.0, 1.0 if kind == "outputs" else unit, unit])
    best = scipy.optimize.minimize(
        lambda theta: -exact(plain, theta),
        np.asarray(fit.estimate[:6]) / scale,
        method="L-BFGS-B",
        bounds=[(-9, 9), (-9, 9), (0.01, 9), (0.01, 9), (-0.95 if kind == "outputs" else 0.01, 9), (0.01, 9)],
        options={"ftol": 1e-14, "gtol": 1e-8},
    )
    # Converged to 1e-4 standard errors, which are up to a third of the numbers.
    np.testing.assert_allclose(np.asarray(fit.estimate[:6]) / scale, best.x, rtol=2e-4)
    data = sum(np.isfinite(y).sum() for run in runs for y in run.data.values())
    np.testing.assert_allclose(fit.log_likelihood + data * np.log(unit), -best.fun, atol=1e-6)
    assert np.isfinite(np.asarray(fit.standard_error)).all()


@pytest.mark.parametrize("kind", CASES)
def test_stochastic_em_ends_there_too(kind):
    """Within 0.3 standard errors, from which on a fit says so, and the log likelihood within four Monte Carlo errors."""
    _, problem = CASES[kind][0]()
    fit, found = simkit.fit(problem, starts=1), simkit.fit(problem, method=simkit.SAEM())
    assert found.status[0] == CONVERGED
    apart = np.abs(np.asarray(found.z)[:6] - np.asarray(fit.z)[:6]) / np.sqrt(np.diag(np.asarray(fit.covariance))[:6])
    assert apart.max() < 0.3
    assert abs(float(found.log_likelihood - fit.log_likelihood)) < 4 * float(found.log_likelihood_error) + 0.01


NLME = {
    "outputs": (
        {
            "a": 3.098020348950,
            "b": 0.498246823934,
            "noise.u.scale": 0.586449852483,
            "noise.v.marginal.scale": 0.870273615015,
        }
        | {"noise.v.correlations.u": -0.869078448886, "a.spread": 0.361381503291},
        -117.304964924,
    ),
    "series": (
        {"a": 3.394230824337, "b": 0.478061443196, "noise.y.scale": 0.454782058338, "noise.y.time": 0.881670166647}
        | {"noise.y.white": 0.196643984738, "a.spread": 0.792044620330},
        -101.657959282,
    ),
}
"""nlme 3.1-162 in R 4.2.2, maximum likelihood, `msTol` 1e-12: `lme(y ~ 0 + x + t, random=~0+x|person, weights=varIdent(form=~1|k),
correlation=corSymm(form=~k|person/row))` with x = 1 for u and 2 for v, t = 0 for v; `lme(y ~ t, random=~1|person,
correlation=corExp(form=~t|person, nugget=TRUE))`."""


@pytest.mark.parametrize("kind", CASES)
def test_populations_beside_nlme(kind):
    """To 1e-5: nlme's estimates have seven digits, ours are within 1e-4 standard errors, which are up to half of the numbers."""
    fit = simkit.fit(CASES[kind][0]()[1], starts=1)
    numbers, log_likelihood = NLME[kind]
    for name, value in numbers.items():
        np.testing.assert_allclose(fit[name], value, rtol=1e-5)
    np.testing.assert_allclose(fit.log_likelihood, log_likelihood, atol=1e-6)


@pytest.mark.parametrize("kind", CASES)
def test_single_precision(kind):
    """In float32 as in float64 to a hundredth: a log likelihood of 100 has seven digits, and so a flat maximum four."""
    _, problem = CASES[kind][0]()
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, problem)
    fit = simkit.fit(single, starts=1)
    assert fit.estimate.dtype == jnp.float32
    np.testing.assert_allclose(fit.estimate[:6], list(NLME[kind][0].values()), rtol=0.01)


def test_logarithms_are_correlated_as_their_numbers_are():
    """A population with `LogNormal` residuals is that of the logarithms with `Normal` ones, but for the slope of the logarithm."""
    runs, problem = blood()
    rise = from_response(
        lambda t, p: {"u": jnp.exp(p["a"] + p["b"] * t), "v": jnp.exp(2 * p["a"] + 0 * t)}, {"a": 3.0, "b": 0.5}
    )
    raised = [Experiment(run.name, TIMES, {k: np.exp(y) for k, y in run.data.items()}) for run in runs]
    noise = {"u": LogNormal(1.0), "v": Correlated(LogNormal(1.0), {"u": 0.0})}
    free = {name: Free(bounds=(0.01, 10.0)) for name in ("noise.u.scale", "noise.v.marginal.scale")}
    free |= {"noise.v.correlations.u": Free(bounds=(-0.95, 0.95)), "b": Free(bounds=(-9.0, 9.0), transform="linear")}
    person = Individual(Free(bounds=(-20.0, 20.0)), wide(), transform="linear")
    other = Problem(rise, raised, free={"a": person} | free, noise=noise)
    theta = {"a": 2.8, "b": 0.45, "noise.u.scale": 0.7, "noise.v.marginal.scale": 0.8, "noise.v.correlations.u": -0.5}
    theta |= {"a.spread": 0.9}
    value = []
    for each in (problem, other):
        z = each.coordinates(jnp.array([theta.get(name, 0.1) for name in each.names]))
        found = conditional(each, z, each.population.deviations(z))
        value.append(-found.value.sum())
    slope = sum(np.nansum(y) for run in runs for y in run.data.values())
    np.testing.assert_allclose(value[1], value[0] - slope, rtol=1e-10)


def test_a_population_is_checked_sampled_and_predicted():
    """Residuals given those before are independent: correlations within 4 standard errors, where independent noise leaves -0.7."""
    _runs, problem = blood()
    fit = simkit.fit(problem, starts=1)
    found = simkit.check(problem, fit, draws=20)
    assert not found.warnings
    both = np.isfinite(found.residuals["u"].quantile) & np.isfinite(found.residuals["v"].quantile)
    u, v = (found.residuals[name].quantile[both] for name in "uv")
    assert abs(np.arctanh(np.corrcoef(u, v)[0, 1])) * np.sqrt(u.size - 3) < 4
    raw = [(found.residuals[name].raw / float(fit[path]))[both] for name, path in (("u", "noise.u.scale"),)]
    np.testing.assert_allclose(u, raw[0], rtol=1e-6)  # the first of a row is compared with the simulation itself
    posterior = simkit.sample(problem, start=fit, chains=2, warmup=300, draws=300, key=jax.random.key(1))
    rho = posterior.draws[..., problem.names.index("noise.v.correlations.u")]
    # Some 48 pairs: the posterior is wider than 0.05, and its mean has an error of a tenth of that.
    assert abs(float(rho.mean()) - float(fit["noise.v.correlations.u"])) < 0.1
    assert 0.03 < float(rho.std()) < 0.2
    bands = simkit.predict(problem, posterior, key=jax.random.key(2))
    assert np.isfinite(np.asarray(bands.samples["v"])).all()
    # Curves have the uncertainty of individuals and numbers, new data the scatter of 0.9 as well.
    curve, data = (np.asarray(x["v"]).std(axis=0) for x in (bands.curves, bands.samples))
    np.testing.assert_allclose(np.sqrt(np.mean(data**2 - curve**2)), float(fit["noise.v.marginal.scale"]), rtol=0.1)
    limits = simkit.visual_predictive_check(problem, fit, output="v", replicates=100)
    assert limits.outside.mean() < 0.4


def test_populations_with_correlated_outputs_are_calibrated():
    """Ranks of true numbers among draws are uniform, by chi-square with p > 1e-3 for the worst of six numbers."""
    rows = np.array([0.0, 2.0, 4.0])
    data = {"u": np.ones(3), "v": np.ones(3)}
    positive = Free(dist.LogNormal(-0.5, 0.3))
    free = {
        "a": Individual(Free(dist.Normal(3.0, 0.5)), Free(dist.LogNormal(0.0, 0.3)), transform="linear"),
        "b": Free(dist.Normal(0.5, 0.2), transform="linear"),
        "noise.u.scale": positive,
        "noise.v.marginal.scale": positive,
        "noise.v.correlations.u": Free(dist.Uniform(-0.9, 0.9)),
    }
    noise = {"u": Normal(1.0), "v": Correlated(Normal(1.0), {"u": 0.0})}
    problem = Problem(PAIR, [Experiment(f"{i}", rows, data) for i in range(5)], free=free, noise=noise)
    found = simkit.calibrate(problem, simulations=60, chains=2, warmup=200, starts=1, key=jax.random.key(4))
    ranks = np.asarray(found.ranks)[np.asarray(found.outcome) == 0][:, :6]
    assert len(ranks) > 50
    for column in ranks.T:
        assert scipy.stats.kstest((column + 0.5) / (found.draws + 1), "uniform").pvalue > 1e-3 / 6
