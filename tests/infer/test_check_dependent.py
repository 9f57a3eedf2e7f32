"""Checks of problems whose residuals depend on each other, beside dense linear algebra and fits without single data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

import simkit
from simkit import Experiment, Free, Problem
from simkit.infer._influence import in_numpy, influences, local_view
from simkit.noise import Autocorrelated, Combined, Correlated, LogNormal, Normal
from simkit.odes import from_response

TRIO = from_response(
    lambda t, p: {"u": p["a"] + p["b"] * t, "v": 2 * p["a"] + 0 * t, "w": p["a"] + 0.2 * p["b"] * t},
    {"a": 3.0, "b": 0.5},
)
LINE = from_response(lambda t, p: p["a"] + p["b"] * t, {"a": 3.0, "b": 0.5})
FREE = {"a": Free(bounds=(-30.0, 30.0), transform="linear"), "b": Free(bounds=(-9.0, 9.0), transform="linear")}


def trio(noise, rows=40, seed=1, unit=1.0):
    """Three outputs drawn from the model, two of them with gaps."""
    times = np.linspace(0.0, 4.0, rows)
    empty = {name: np.ones(rows) for name in "uvw"}
    free = {
        "a": Free(bounds=(-30.0 * unit, 30.0 * unit), start=unit, transform="linear"),
        "b": Free(bounds=(-9.0 * unit, 9.0 * unit), start=unit, transform="linear"),
    }
    problem = Problem(TRIO, Experiment("one", times, empty), free=free, noise=noise)
    drawn = problem.simulate_data(jnp.array([3.0, 0.5]) * unit, jax.random.key(seed))
    data = {name: np.array(y[0]) for name, y in drawn.items()}
    data["u"][1::9] = np.nan
    data["w"][2::7] = np.nan
    return times, data, Problem(TRIO, Experiment("one", times, data), free=free, noise=noise)


def test_residuals_of_correlated_outputs_are_whitened_by_the_outputs_before_them():
    """By Cholesky's factor of the correlations of what was seen in each row; `Combined` scatter and logarithms among them."""
    noise = {
        "u": Normal(0.7),
        "v": Correlated(Combined(0.3, 0.1), {"u": 0.6}),
        "w": Correlated(LogNormal(0.2), {"u": -0.3, "v": 0.1}),
    }
    times, data, problem = trio(noise)
    fit = simkit.fit(problem, starts=2)
    found = simkit.check(problem, fit, draws=10)
    a, b = map(float, fit.estimate)
    z = np.stack(
        [
            (data["u"] - a - b * times) / 0.7,
            (data["v"] - 2 * a) / np.hypot(0.3, 0.1 * 2 * a),
            (np.log(data["w"]) - np.log(a + 0.2 * b * times)) / 0.2,
        ],
        axis=1,
    )
    matrix = np.array([[1, 0.6, -0.3], [0.6, 1, 0.1], [-0.3, 0.1, 1]])
    white = np.full_like(z, np.nan)
    for row in range(len(z)):
        k = np.isfinite(z[row])
        white[row, k] = np.linalg.solve(np.linalg.cholesky(matrix[np.ix_(k, k)]), z[row, k])
    for i, name in enumerate("uvw"):
        np.testing.assert_allclose(found.residuals[name].quantile[0], white[:, i], atol=1e-8)
    for name, i in (("u", 0), ("v", 1)):
        np.testing.assert_allclose(found.residuals[name].standardised[0], white[:, i], atol=1e-8)
    # A parameter each for two numbers: what they take of all data together.
    assert sum(np.nansum(part.leverage) for part in found.influence.values()) == pytest.approx(2.0, rel=0.02)


def test_the_residuals_of_a_true_model_are_independent_and_those_of_a_wrong_one_are_not():
    """3,000 rows: no test fails, and correlations lie within 4 of their standard errors, 1 in 16,000 by chance."""
    true = {"u": Normal(0.7), "v": Correlated(Normal(0.5), {"u": 0.8}), "w": Normal(0.4)}
    _, data, problem = trio(true, rows=3000, seed=3)
    found = simkit.check(problem, simkit.fit(problem, starts=2), draws=20)
    assert not found.warnings, found.warnings
    u, v = (found.residuals[name].quantile[0] for name in "uv")
    k = np.isfinite(u) & np.isfinite(v)
    assert abs(np.arctanh(np.corrcoef(u[k], v[k])[0, 1])) * np.sqrt(k.sum() - 3) < 4
    for z in (u, v):
        assert stats.kstest(z[np.isfinite(z)], "norm").pvalue > 1e-4
    other = {"u": Normal(0.7), "v": Correlated(Normal(0.5), {"u": 0.3}), "w": Normal(0.4)}
    wrong = Problem(TRIO, Experiment("one", problem.times[0], data), free=FREE, noise=other)
    told = simkit.check(wrong, simkit.fit(wrong, starts=2), draws=20)
    assert any(f.test == "cross-correlation" and f.where == "`u` and `v`" and f.failed for f in told.findings)


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_correlated_data_left_out_move_the_estimates_as_a_fit_without_them(unit):
    """For a linear model with stated normal noise one Gauss-Newton step is exact, whatever the unit."""
    noise = {
        "u": Normal(0.7 * unit),
        "v": Correlated(Normal(0.5 * unit), {"u": 0.8}),
        "w": Correlated(Normal(0.4 * unit), {"v": -0.4}),
    }
    times, data, problem = trio(noise, unit=unit)
    whole = simkit.fit(problem, starts=2)
    part = influences(problem, in_numpy(problem, local_view(problem.lean(), whole.z)))
    for name, place in (("u", 0), ("v", 5), ("w", 39), ("v", 1)):
        fewer = {key: y.copy() for key, y in data.items()}
        fewer[name][place] = np.nan
        start = np.asarray(whole.estimate)[None]
        left = simkit.fit(problem.with_parts(dataset=_of(times, fewer)), starts=start)
        moved = (np.asarray(left.z) - np.asarray(whole.z)) / np.asarray(whole.standard_error)
        np.testing.assert_allclose(part[name].shift[0, place], moved, atol=1e-6)


def _of(times, data):
    return Problem(TRIO, Experiment("one", times, data), free=FREE, noise=dict.fromkeys("uvw", Normal())).dataset


def walk(seed, count, noise, missing=()):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 20.0, count))
    problem = Problem(LINE, Experiment("one", times, {"y": np.ones(count)}), free=FREE, noise={"y": noise})
    y = np.array(problem.simulate_data(jnp.array([3.0, 0.5]), jax.random.key(seed))["y"][0])
    y[list(missing)] = np.nan
    return times, y


@pytest.mark.parametrize("white", [0.0, 0.2])
def test_residuals_of_series_are_the_innovations(white):
    """One step ahead, by Cholesky's factor of the covariance of the whole series; and single data left out."""
    noise = Autocorrelated(0.6, 1.5, white)
    times, y = walk(4, 30, noise, (3, 17))
    made = lambda y: Problem(LINE, Experiment("one", times, {"y": y}), free=FREE, noise={"y": noise})
    problem = made(y)
    fit = simkit.fit(problem, starts=2)
    found = simkit.check(problem, fit, draws=10)
    k = np.isfinite(y)
    apart = np.abs(times[:, None] - times)[np.ix_(k, k)]
    root = np.linalg.cholesky(0.36 * np.exp(-apart / 1.5) + white**2 * np.eye(k.sum()))
    left = (y - float(fit.estimate[0]) - float(fit.estimate[1]) * times)[k]
    np.testing.assert_allclose(found.residuals["y"].quantile[0][k], np.linalg.solve(root, left), atol=1e-8)
    np.testing.assert_allclose(np.nansum(found.influence["y"].leverage), 2.0, rtol=1e-9)
    for place in (0, 12, 16, 29):
        fewer = y.copy()
        fewer[place] = np.nan
        other = simkit.fit(made(fewer), starts=2)
        moved = (np.asarray(other.z) - np.asarray(fit.z)) / np.asarray(fit.standard_error)
        np.testing.assert_allclose(found.influence["y"].shift[0, place], moved, atol=1e-6)


def test_series_of_a_true_model_pass_and_white_noise_does_not():
    """A correlation time of three steps over 400 data: innovations have none, which independent noise denies."""
    noise = Autocorrelated(0.6, 0.15, 0.1)
    times, y = walk(5, 400, noise)
    made = lambda noise: Problem(LINE, Experiment("one", times, {"y": y}), free=FREE, noise={"y": noise})
    found = simkit.check(made(noise), simkit.fit(made(noise), starts=2), draws=20)
    assert not found.warnings, found.warnings
    z = found.residuals["y"].quantile[0]
    # The autocorrelation of 400 independent numbers is normal with variance 1 / 400.
    assert abs(z[1:] @ z[:-1] / (z @ z)) < 4 / np.sqrt(400)
    wrong = made(Normal(0.61))
    told = simkit.check(wrong, simkit.fit(wrong, starts=2), draws=20)
    assert told.warnings


def test_checks_in_single_precision():
    """Quantile residuals in float32 as in float64 to 1e-3: of predictions with seven digits, over scatters of a tenth of them."""
    noise = {"u": Normal(0.7), "v": Correlated(Normal(0.5), {"u": 0.8}), "w": Normal(0.4)}
    _, _, problem = trio(noise)
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, problem)
    both = [simkit.check(p, simkit.fit(p, starts=2), draws=5).residuals["v"].quantile for p in (problem, single)]
    np.testing.assert_allclose(*both, atol=1e-3)


class Steps(simkit.problem.AbstractLikelihood):
    """Residuals of equal steps that follow the one before by a half."""

    @property
    def sequential(self):
        return True

    def conditional(self, heads, data):
        location, noise = heads["y"]
        before = jnp.pad(0.5 * (data.values["y"] - location)[:, :-1], ((0, 0), (1, 0)))
        share = jnp.full(location.shape, 0.75**0.5).at[:, 0].set(1.0)
        return {"y": (location + before, Normal(noise.scale * share))}

    def log_prob(self, theta, model, data):
        heads, status = model.heads(theta, data)
        (location, noise) = self.conditional(heads, data)["y"]
        return jnp.sum(noise.log_prob(data.values["y"], location)), status


def test_a_likelihood_of_ones_own_that_says_what_each_datum_adds():
    """An autoregressive process of first order is that of `Autocorrelated` of equal steps, in fits, checks and populations."""
    times, rng = np.arange(24.0), np.random.default_rng(6)
    runs = [Experiment(f"{i}", times, {"y": 3 + rng.normal() + 0.5 * times + rng.normal(size=24)}) for i in range(4)]
    person = simkit.Individual(FREE["a"], Free(bounds=(0.01, 9.0)), transform="linear")
    known = {"y": Autocorrelated(0.8, 1 / np.log(2.0))}
    for free in (FREE, FREE | {"a": person}):
        own = Problem(LINE, runs, free=free, noise={"y": Normal(0.8)}, likelihood=Steps())
        same = Problem(LINE, runs, free=free, noise=known)
        fits = simkit.fit(own, starts=1), simkit.fit(same, starts=1)
        np.testing.assert_allclose(fits[0].log_likelihood, fits[1].log_likelihood, atol=1e-6)
        checks = [simkit.check(p, f, draws=5).residuals["y"].quantile for p, f in zip((own, same), fits, strict=True)]
        np.testing.assert_allclose(*checks, atol=1e-3)  # L-BFGS ends that far from the optimum, in standard errors
