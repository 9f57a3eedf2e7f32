"""Stochastic EM for populations: exact where models are linear, beside quadrature where they are not, and beside published fits."""

import csv
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

import simkit
from simkit import ArgumentError, Experiment, Free, Individual, Problem, SimulationError
from simkit.fitting._saem_statistics import deviations_of, individual_parameters, maximised, numbers_of, statistics_of
from simkit.noise import Combined, Normal, Ordered
from simkit.odes import from_response

DATA = pathlib.Path(__file__).parents[2] / "data"
DOSES = pathlib.Path(__file__).parents[2] / "examples" / "data" / "theophylline_doses.csv"
LEVEL = from_response(lambda x, p: p["level"] + 0 * x, {"level": 1.0})
LINE = from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 1.0, "slope": 1.0})
QUICK = simkit.SAEM(burn_in=100, smoothing=100, chains=2, draws=100)


def distance(fit, exact):
    """Distances of estimates of the population in the standard errors of the exact fit, in the coordinates of the fit."""
    error = np.sqrt(np.diag(exact.of_population().covariance))
    return np.abs(np.asarray(fit.of_population().z, float) - np.asarray(exact.of_population().z)) / error


def groups(prior=None):
    random = np.random.default_rng(4)
    y = 3.0 + random.normal(size=(6, 1)) + 0.5 * random.normal(size=(6, 4))
    free = {
        "level": Individual(Free(prior, start=1.0), Free(bounds=(1e-3, 30.0), start=1.0)),
        "noise.y.scale": Free(bounds=(1e-3, 30.0), start=1.0),
    }
    runs = [Experiment(f"group {i}", np.arange(4), {"y": row}) for i, row in enumerate(y)]
    return Problem(LEVEL, runs, free=free, noise={"y": Normal(1.0)})


def test_balanced_analysis_of_variance():
    """The exact maximum has a closed form, which `Marginal` equals (test_marginal.py); here it is met within Monte Carlo error."""
    problem = groups()
    exact = simkit.fit(problem, starts=1)
    method = simkit.SAEM(chains=10)
    fit = simkit.fit(problem, method=method)
    # 200 iterations of ten chains, which forget in a few: errors of 0.02 standard errors; five times that.
    assert distance(fit, exact).max() < 0.1
    assert fit.log_likelihood_error < 0.03
    assert (
        abs(float(fit.log_likelihood - exact.log_likelihood)) < 4 * float(fit.log_likelihood_error) + 0.5 * 3 * 0.1**2
    )
    np.testing.assert_allclose(fit.standard_error[:3], exact.standard_error[:3], rtol=0.05)
    np.testing.assert_allclose(fit.estimate[3:], exact.estimate[3:], atol=0.05)  # deviations are modes at near numbers
    joint = np.sqrt(np.diag(fit.covariance)), np.sqrt(np.diag(exact.covariance))
    np.testing.assert_allclose(*joint, rtol=0.1)
    assert fit.status[0] == 0
    assert " +- " in repr(fit)
    again = simkit.fit(problem, method=method)
    np.testing.assert_array_equal(again.z, fit.z)
    away = np.concatenate([[9.0, 0.1, 5.0], np.zeros(6)])
    assert distance(simkit.fit(problem, method=method, starts=away, key=jax.random.key(3)), exact).max() < 0.1


def test_the_numbers_of_a_population_given_its_members():
    """In closed form without priors, by Newton's method with them: scipy's maximum of the density of known members."""
    spreads = {"spread": Free(bounds=(1e-3, 30.0), start=0.7), "correlated": True}

    def problem(prior):
        free = {
            "level": Individual(Free(prior, start=1.0), effects={"w": Free(start=0.1)}, transform="linear", **spreads),
            "slope": Individual(Free(start=2.0), transform="log", **spreads),
        }
        weights = np.random.default_rng(5).normal(size=8)
        runs = [
            Experiment(f"{i}", np.arange(3.0), {"y": np.zeros(3)}, covariates={"w": w}) for i, w in enumerate(weights)
        ]
        return Problem(LINE, runs, free=free, noise={"y": Normal(1.0)})

    for prior in (None, dist.Normal(0.0, 0.3)):
        own = problem(prior)
        population, random = own.population, np.random.default_rng(6)
        z = own.coordinates(jnp.concatenate([jnp.array([1.0, 2.0, 0.7, 0.5, 0.1, 0.2]), jnp.zeros(16)]))
        numbers = numbers_of(population, own.natural(z))
        given = jnp.asarray(random.normal(size=(3, 8, 2)))
        each, added = jax.vmap(lambda x, n=numbers, p=population: individual_parameters(p, n, x))(given)
        back = jax.vmap(lambda x, y, n=numbers, p=population: deviations_of(p, n, x, y))(each, added)
        np.testing.assert_allclose(back, given, rtol=1e-12)
        statistics = statistics_of(population, numbers.mean, each, added)
        # Effects and covariance are best given each other: what an iteration of SAEM does once.
        again = lambda _, z, own=own, given=statistics: maximised(own, given, z, jnp.asarray(False))
        found = np.asarray(jax.lax.fori_loop(0, 30, again, z))[:6]
        weights = np.asarray(population.covariates)[0]

        def density(u, each=np.asarray(each), weights=weights, prior=prior):
            level, slope, a, b, effect, share = u
            a, b = np.exp([a, b])
            covariance = np.array([[a * a, share * a * b], [share * a * b, b * b]])
            left = each - np.stack([level + effect * weights, np.full(8, slope)], axis=1)
            total = scipy.stats.multivariate_normal(np.zeros(2), covariance).logpdf(left).sum() / 3
            return -total - (0 if prior is None else scipy.stats.norm.logpdf(level, 0, 0.3))

        best = scipy.optimize.minimize(density, np.asarray(z)[:6], method="BFGS", options={"gtol": 1e-9}).x
        np.testing.assert_allclose(found, best, atol=2e-5)  # what differences of BFGS reach; three Newton steps


def test_correlated_lines_with_a_covariate_as_statsmodels_fits_them():
    """MixedLM of statsmodels 0.15.0 (maximum likelihood, tolerance of gradients 1e-10) for these numbers."""
    random, x = np.random.default_rng(12), np.arange(5.0)
    weight = np.round(random.normal(size=30), 2)
    own = random.multivariate_normal([0, 0], [[1.0, 0.3], [0.3, 0.25]], size=30)
    y = np.round(5 + 0.8 * weight[:, None] + own[:, :1] + (1 + own[:, 1:]) * x + 0.6 * random.normal(size=(30, 5)), 2)
    spread = {"spread": Free(bounds=(1e-2, 10.0), start=1.0), "correlated": True, "transform": "linear"}
    free = {
        "level": Individual(Free(start=1.0), effects={"w": Free(start=0.0)}, **spread),
        "slope": Individual(Free(start=0.0), **spread),
        "noise.y.scale": Free(bounds=(1e-2, 10.0), start=1.0),
    }
    runs = [
        Experiment(f"{i}", x, {"y": row}, covariates={"w": w}) for i, (row, w) in enumerate(zip(y, weight, strict=True))
    ]
    fit = simkit.fit(Problem(LINE, runs, free=free, noise={"y": Normal(1.0)}), method=simkit.SAEM())
    peer = {"level": 4.82502577863792, "slope": 0.8947333333333348, "level.w": 1.0984532817250054}
    errors = dict(zip(peer, [0.1580025627933279, 0.07705650067169917, 0.18230251062262318], strict=True))
    for name, value in peer.items():
        assert abs(float(fit[name]) - value) < 0.1 * errors[name]
        # Its errors hold the covariance fixed, which the effects do not depend on at the maximum.
        np.testing.assert_allclose(fit.standard_error[fit.names.index(name)], errors[name], rtol=0.05)
    covariance = [[0.53947654376247, 0.06002358814876972], [0.06002358814876972, 0.14326599553905675]]
    found = float(fit["level.spread"]) ** 2, float(fit["slope.spread"]) ** 2, float(fit["noise.y.scale"]) ** 2
    # Variances of 30 individuals have standard errors of 30 %, of 150 data 15 %: a tenth of these.
    np.testing.assert_allclose(found[:2], np.diag(covariance), rtol=0.04)
    np.testing.assert_allclose(found[2], 0.3486513333397023, rtol=0.02)
    assert float(fit["correlation.slope.level"]) == pytest.approx(
        covariance[0][1] / np.sqrt(np.prod(np.diag(covariance))), abs=0.04
    )
    assert abs(float(fit.log_likelihood) + 193.87435552848217) < 4 * float(fit.log_likelihood_error) + 0.05


def test_occasions_and_priors_of_a_linear_model():
    """`Marginal` is exact here (tests/problem/test_occasions.py), also of the posterior density with priors."""
    random, x, runs = np.random.default_rng(3), np.arange(4.0), []
    for i in range(15):
        level = 2.0 + 0.6 * random.normal()
        for k in range(1 + i % 3):
            y = level + 0.5 * random.normal() + 0.3 * random.normal(size=4)
            runs.append(Experiment(f"{i} {k}", x, {"y": y}, individual=f"{i}", occasions=f"visit {k}"))
    free = {
        "level": Individual(
            Free(dist.Normal(2.5, 0.3)),
            Free(dist.HalfNormal(0.5)),
            occasion_spread=Free(dist.HalfNormal(0.5)),
            transform="linear",
        ),
        "noise.y.scale": Free(dist.HalfNormal(0.3)),
    }
    problem = Problem(LEVEL, runs, free=free, noise={"y": Normal(1.0)})
    exact = simkit.fit(problem, starts=1)
    fit = simkit.fit(problem, method=simkit.SAEM())
    assert distance(fit, exact).max() < 0.15  # spreads share their data, so that chains are slower
    assert abs(float(fit.log_likelihood - exact.log_likelihood)) < 4 * float(fit.log_likelihood_error) + 0.05
    np.testing.assert_allclose(fit.standard_error[:4], exact.standard_error[:4], rtol=0.1)


def test_grades_of_a_population_beside_quadrature():
    """Four grades, six from each of 60 people: Gauss and Hermite's rule with 120 nodes is exact to 1e-6 (with 40 to 0.04)."""
    random, x = np.random.default_rng(8), np.linspace(-1.0, 1.0, 6)
    latent = 2.0 * random.normal(size=(60, 1)) + 1.0 * x + random.logistic(size=(60, 6))
    y = np.searchsorted([-1.0, 1.0, 2.5], latent).astype(float)
    free = {
        "level": Individual(Free(start=0.0), Free(bounds=(1e-2, 20.0), start=1.0), transform="linear"),
        "slope": Free(start=0.0),
        "noise.y.gaps.0": Free(bounds=(0.1, 10.0), start=1.0),
        "noise.y.gaps.1": Free(bounds=(0.1, 10.0), start=1.0),
    }
    runs = [Experiment(f"{i}", x, {"y": row}) for i, row in enumerate(y)]
    problem = Problem(LINE, runs, free=free, noise={"y": Ordered(-1.0, (1.0, 1.0))})
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)

    def exact(u):
        """The negative log likelihood, in the order of the problem's names."""
        level, slope, one, two, spread = u[0], u[1], *np.exp(u[2:])
        cuts = np.array([-np.inf, -1.0, -1.0 + one, -1.0 + one + two, np.inf])
        place = level + slope * x + spread * nodes[:, None]
        grades = y.astype(int)
        mass = scipy.special.expit(cuts[grades + 1][:, None] - place) - scipy.special.expit(
            cuts[grades][:, None] - place
        )
        each = np.log(np.maximum(mass, 1e-300)).sum(axis=2) + np.log(weights / np.sqrt(2 * np.pi))
        return -scipy.special.logsumexp(each, axis=1).sum()

    assert problem.names[:5] == ("level", "slope", "noise.y.gaps.0", "noise.y.gaps.1", "level.spread")
    best = scipy.optimize.minimize(exact, [0.0, 1.0, 0.7, 0.4, 0.7], method="BFGS")
    fit = simkit.fit(problem, method=simkit.SAEM())
    z, error = np.asarray(fit.z)[:5], np.sqrt(np.diag(fit.of_population().covariance))
    assert np.abs((z - best.x) / error).max() < 0.15
    assert abs(float(fit.log_likelihood) + best.fun) < 4 * float(fit.log_likelihood_error) + 0.05
    h = 1e-3 * np.eye(5)
    bend = [[sum(s * t * exact(z + s * a + t * b) for s in (1, -1) for t in (1, -1)) for a in h] for b in h]
    np.testing.assert_allclose(error, np.sqrt(np.diag(np.linalg.inv(np.array(bend) / 4e-6))), rtol=0.03)


ORAL = from_response(
    lambda t, p: (
        p["dose"]
        * p["ka"]
        / (p["v"] * (p["ka"] - p["cl"] / p["v"]))
        * (jnp.exp(-p["cl"] / p["v"] * t) - jnp.exp(-p["ka"] * t))
    ),
    {"dose": 300.0, "ka": 1.5, "cl": 2.7, "v": 32.0},
)


def theophylline():
    """The table `theo_sd` of nlmixr2data (Boeckmann, Sheiner & Beal 1994), with its samples before the dose."""
    subjects = simkit.io.read_doses(DOSES, compartments=("depot", "central"), outputs="y")
    with DOSES.open() as file:
        doses = {row["ID"]: float(row["AMT"]) for row in csv.DictReader(file) if row["EVID"] == "1"}
    runs = [Experiment(s.name, s.times, s.data, set={"dose": doses[s.name]}) for s in subjects]
    start = {"ka": (0.45, 0.6), "cl": (1.0, 0.3), "v": (3.45, 0.1)}
    free = {
        name: Individual(
            Free(bounds=(0.01, 1000.0), start=float(np.exp(mean))),
            Free(bounds=(1e-2, 5.0), start=variance**0.5),
            transform="log",
        )
        for name, (mean, variance) in start.items()
    }
    free["noise.y.scale"] = Free(bounds=(1e-2, 10.0), start=0.7)
    return Problem(ORAL, runs, free=free, noise={"y": Normal(0.7)})


def test_theophylline_as_nlmixr2_fits_it_by_saem():
    """The page of nlmixr2est on CRAN and GitHub (README, `est="saem"`) prints tka 0.464 (0.195), tcl 1.01 (0.085), tv 3.46
    (0.0447), scatter 0.696, and variabilities of 71.1, 27.4 and 13.1 %, coefficients of variation of log-normals."""
    problem = theophylline()
    fit = simkit.fit(problem, method=simkit.SAEM(), key=jax.random.key(1))
    for name, value, error in (("ka", 0.464, 0.195), ("cl", 1.01, 0.085), ("v", 3.46, 0.0447)):
        # Both are Monte Carlo estimates, and its numbers have three digits.
        assert abs(np.log(float(fit[name])) - value) < 0.2 * error
        found = float(fit.standard_error[fit.names.index(name)] / fit[name])
        np.testing.assert_allclose(found, error, rtol=0.15)  # by linearisation there
    cv = {name: np.sqrt(np.expm1(float(fit[f"{name}.spread"]) ** 2)) for name in ("ka", "cl", "v")}
    # Spreads of twelve people have standard errors of 23 to 30 %.
    for name, value in (("ka", 0.711), ("cl", 0.274), ("v", 0.131)):
        np.testing.assert_allclose(cv[name], value, rtol=0.08)
    assert float(fit["noise.y.scale"]) == pytest.approx(0.696, abs=0.005)
    assert abs(float(fit.log_likelihood) - quadrature(problem, fit)) < 4 * float(fit.log_likelihood_error) + 2e-3


def quadrature(problem, fit):
    """The log likelihood at the estimate by Gauss and Hermite's rule with 16 nodes in each of three directions, at the modes."""
    mean = np.log([float(fit[name]) for name in ("ka", "cl", "v")])
    spread = np.array([float(fit[f"{name}.spread"]) for name in ("ka", "cl", "v")])
    noise = problem.setup(fit.estimate).noise["y"]
    scatter = lambda place: (
        noise.scale if isinstance(noise, Normal) else np.hypot(noise.additive, noise.proportional * place)
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(16)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.prod(np.stack(np.meshgrid(weights, weights, weights, indexing="ij"), axis=-1), axis=-1).ravel()
    total, times, data = 0.0, np.asarray(problem.times), np.asarray(problem.data["y"])
    for i, label in enumerate(problem.labels):
        dose, t, y = float(problem.setup(fit.estimate, label).get("dose")), times[i][-data.shape[1] :], data[i]
        seen = np.isfinite(y)

        def joint(eta, dose=dose, t=t[seen], y=y[seen]):
            ka, cl, v = np.exp(mean + spread * np.atleast_2d(eta)).T[..., None]
            rate = cl / v
            place = dose * ka / (v * (ka - rate)) * (np.exp(-rate * t) - np.exp(-ka * t))
            prior = scipy.stats.norm.logpdf(np.atleast_2d(eta)).sum(axis=1)
            return scipy.stats.norm.logpdf(y, place, np.asarray(scatter(place))).sum(axis=1) + prior

        mode = scipy.optimize.minimize(lambda eta: -joint(eta)[0], np.zeros(3), method="BFGS")
        lower = np.linalg.cholesky(mode.hess_inv)
        places = mode.x + grid @ lower.T
        logs = joint(places) + 0.5 * np.sum(grid**2, axis=1) + np.log(weight)
        total += scipy.special.logsumexp(logs) + np.log(np.diag(lower)).sum()
    return total


def warfarin():
    """Concentrations after one dose in 32 people (O'Reilly & Aggeler 1968), the table of the courses of nlmixr2."""
    with (DATA / "warfarin" / "warfarin_PKS.csv").open() as file:
        rows = list(csv.DictReader(file))
    runs = []
    for who in dict.fromkeys(row["ID"] for row in rows):
        own = [row for row in rows if row["ID"] == who]
        dose, seen = float(own[0]["AMT"]), [row for row in own if row["EVID"] == "0"]
        times, values = (np.array([float(row[name]) for row in seen]) for name in ("TIME", "DV"))
        runs.append(Experiment(who, times, {"y": values}, set={"dose": dose}))
    free = {
        name: Individual(
            Free(bounds=(1e-3, 1e3), start=float(np.exp(at))), Free(bounds=(1e-2, 5.0), start=1.0), transform="log"
        )
        for name, at in (("ka", 0.15), ("cl", -2.0), ("v", 2.0))
    }
    free |= {"noise.y.proportional": Free(bounds=(1e-3, 2.0), start=0.2)}
    free |= {"noise.y.additive": Free(bounds=(1e-2, 10.0), start=0.5)}
    return Problem(ORAL, runs, free=free, noise={"y": Combined(0.5, 0.2)})


def test_warfarin_as_nonmem_fits_it():
    """NONMEM's estimates and errors (FOCE with interaction, run005.ext of the courses of nlmixr2) of the same model.

    They are log ka, log cl, log v, both scatters and standard deviations; its objective leaves n log(2 pi) out.
    """
    problem = warfarin()
    assert problem.data_count == 251
    foce = simkit.fit(problem, starts=1)
    order = ("ka", "cl", "v", "noise.y.proportional", "noise.y.additive", "ka.spread", "cl.spread", "v.spread")
    estimate = np.array([-0.568793, -2.00723, 2.05853, 0.117044, 0.722490, 0.689132, 0.281120, 0.219716])
    error = np.array([0.246005, 0.0538472, 0.0459975, 0.0265320, 0.153970, 0.162707, 0.0426084, 0.0328511])

    def found(fit):
        values = np.array([float(fit[name]) for name in order])
        return np.concatenate([np.log(values[:3]), values[3:]])

    nonmem = -0.5 * (423.327278202764 + 251 * np.log(2 * np.pi))
    np.testing.assert_allclose(float(foce.log_likelihood), nonmem, atol=1e-4)  # six digits of its objective
    assert np.abs((found(foce) - estimate) / error).max() < 0.01  # it stops at three digits
    # Without linearisation the maximum is elsewhere, by a quarter of an error at most, and its likelihood is lower.
    fit = simkit.fit(problem, method=simkit.SAEM())
    assert np.abs((found(fit) - estimate) / error).max() < 0.35
    exact = quadrature(problem, fit)
    assert abs(float(fit.log_likelihood) - exact) < 4 * float(fit.log_likelihood_error) + 2e-3
    assert exact < nonmem - 0.5
    assert exact > quadrature(problem, foce) - 0.01  # it is the better maximum of the likelihood itself


def test_single_precision_and_numbers_that_nothing_moves():
    """In float32 as in float64 within Monte Carlo error; without a free number of the noise there are no steps to take."""
    random = np.random.default_rng(4)
    y = 3.0 + random.normal(size=(6, 1)) + 0.5 * random.normal(size=(6, 4))
    free = {"level": Individual(Free(start=1.0), Free(bounds=(1e-3, 30.0), start=1.0))}
    runs = [Experiment(f"group {i}", np.arange(4), {"y": row}) for i, row in enumerate(y)]
    problem = Problem(LEVEL, runs, free=free, noise={"y": Normal(0.5)})
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, problem)
    exact = simkit.fit(problem, starts=1)
    fit = simkit.fit(single, method=simkit.SAEM(chains=10))
    assert fit.estimate.dtype == jnp.float32
    assert distance(fit, exact).max() < 0.1


def test_what_does_not_go_with_the_method():
    problem, plain = (
        groups(),
        Problem(
            LEVEL,
            Experiment(
                "a",
                [0.0],
                {"y": [1.0]},
            ),
            free={"level": Free(start=1.0)},
            noise={"y": Normal(1.0)},
        ),
    )
    with pytest.raises(ArgumentError, match="`SAEM` is for populations"):
        simkit.fit(plain, method=QUICK)
    with pytest.raises(ArgumentError, match="`horizons` does not go with `SAEM`"):
        simkit.fit(problem, method=QUICK, horizons=(0.5, 1.0))
    with pytest.raises(ArgumentError, match="`starts` must be at least 1"):
        simkit.fit(problem, method=QUICK, starts=0)
    for name in ("burn_in", "smoothing", "chains", "sweeps", "draws"):
        with pytest.raises(ArgumentError, match=f"`{name}` must be a whole number"):
            simkit.SAEM(**{name: 0})


def test_a_population_that_never_simulates_is_told():
    lost = from_response(lambda x, p: jnp.sqrt(-1 - p["level"] ** 2) + 0 * x, {"level": 1.0})
    free = {"level": Individual(Free(start=1.0), transform="linear")}
    runs = [Experiment(name, [0.0, 1.0], {"y": [1.0, 2.0]}) for name in "ab"]
    with pytest.raises(SimulationError, match=r"No simulation ended.*Tried: "):
        simkit.fit(Problem(lost, runs, free=free, noise={"y": Normal(1.0)}), method=QUICK)


def test_too_few_iterations_and_draws_are_said():
    """Far from the maximum after a handful of iterations, the result says so and by how much."""
    found = simkit.fit(
        groups(),
        method=simkit.SAEM(burn_in=1, smoothing=1, chains=1, draws=40),
        starts=np.r_[20.0, 1.0, 0.5, np.zeros(6)],
    )
    assert any("standard errors away" in sentence for sentence in found.misfit)
    assert found.status[0] == 1
