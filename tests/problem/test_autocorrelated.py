"""Residuals correlated in time beside dense normal distributions, R's `arima`, and coverage over many data sets."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.noise import Autocorrelated, Normal
from simkit.odes import from_function, from_response

LINE = from_response(lambda t, p: p["a"] + p["b"] * t, {"a": 1.0, "b": 0.5})
LEVEL = from_response(lambda t, p: p["mean"] + 0 * t, {"mean": 2.0})

# Luteinizing hormone in blood samples at 10-minute intervals (Diggle 1990, Time Series, table A.1), as R's data set `lh`.
LH = np.fromstring(
    "2.4 2.4 2.4 2.2 2.1 1.5 2.3 2.3 2.5 2.0 1.9 1.7 2.2 1.8 3.2 3.2 2.7 2.2 2.2 1.9 1.9 1.8 2.7 3.0 "
    "2.3 2.0 2.0 2.9 2.9 2.7 2.7 2.3 2.6 2.4 1.8 1.7 1.5 1.4 2.1 3.3 3.5 3.5 3.1 2.6 2.1 3.4 3.0 2.9",
    sep=" ",
)


def covariance(times, scale, time, white):
    scale = np.broadcast_to(scale, times.shape)
    apart = np.abs(times[:, None] - times[None])
    return scale[:, None] * scale[None] * np.exp(-apart / time) + white**2 * np.eye(len(times))


def series(seed, count, missing=(), scale=0.5, time=1.5, white=0.1):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 10.0, count))
    y = 1 + 0.5 * times + np.linalg.cholesky(covariance(times, scale, time, white)) @ rng.normal(size=count)
    y[list(missing)] = np.nan
    return times, y


FREE = {
    "a": Free(bounds=(-10.0, 10.0)),
    "b": Free(bounds=(-10.0, 10.0)),
    "noise.y.scale": Free(bounds=(0.01, 10.0)),
    "noise.y.time": Free(bounds=(0.05, 50.0)),
    "noise.y.white": Free(bounds=(0.001, 1.0)),
}
THETA = np.array([0.9, 0.6, 0.6, 1.2, 0.2])


def test_density_is_that_of_a_dense_normal_distribution():
    """Uneven times, missing data, experiments of other lengths, known relative errors, another output beside it."""
    one, two = series(0, 40, (3, 17)), series(1, 25, (0,))
    error = np.linspace(0.5, 2.0, 40)
    plain = np.linspace(1.0, 3.0, 40)
    both = from_response(lambda t, p: {"y": p["a"] + p["b"] * t, "z": p["a"] + 0 * t}, {"a": 1.0, "b": 0.5})
    problem = Problem(
        both,
        [
            Experiment("one", one[0], {"y": one[1], "z": plain}, errors={"y": error}),
            Experiment("two", two[0], {"y": two[1]}),
        ],
        free=FREE,
        noise={"y": Autocorrelated(), "z": Normal(0.4)},
    )
    a, b, scale, time, white = THETA
    exact = stats.norm(a, 0.4).logpdf(plain).sum()
    for (times, y), factor in ((one, error), (two, np.ones(25))):
        m = np.isfinite(y)
        exact += stats.multivariate_normal(
            (a + b * times)[m], covariance(times[m], scale * factor[m], time, white)
        ).logpdf(y[m])
    value, status = problem.log_likelihood(jnp.asarray(THETA))
    assert (np.asarray(status) == 0).all()
    np.testing.assert_allclose(value, exact, rtol=1e-12)
    assert "AutocorrelatedData" in repr(problem)


def test_information_is_the_covariance_of_scores():
    """The closed form of a normal distribution whose mean and covariance move, by derivatives of SciPy-like dense algebra."""
    times, y = series(0, 30, (3, 17))
    problem = Problem(LINE, Experiment("one", times, {"y": y}), free=FREE, noise={"y": Autocorrelated()})
    at = times[np.isfinite(y)]
    matrix = lambda th: th[2] ** 2 * jnp.exp(-jnp.abs(at[:, None] - at[None]) / th[3]) + th[4] ** 2 * jnp.eye(len(at))
    theta = jnp.asarray(THETA)
    slope = np.asarray(jax.jacfwd(lambda th: th[0] + th[1] * at)(theta))
    moved = np.moveaxis(np.asarray(jax.jacfwd(matrix)(theta)), 2, 0)
    weight = np.linalg.inv(np.asarray(matrix(theta)))
    exact = slope.T @ weight @ slope + 0.5 * np.einsum("pij,qji->pq", weight @ moved, weight @ moved)
    np.testing.assert_allclose(problem.information(theta), exact, rtol=1e-9, atol=1e-9)
    scores = jax.vmap(lambda data: jax.grad(lambda th: problem.with_data({"y": data}).log_likelihood(th)[0])(theta))
    drawn = jax.vmap(lambda key: problem.simulate_data(theta, key)["y"])(jax.random.split(jax.random.key(0), 4000))
    found = np.asarray(scores(drawn))
    products = found[:, :, None] * found[:, None]
    # Five standard errors of the mean: draws, density and information agree.
    assert (np.abs(products.mean(axis=0) - exact) < 5 * products.std(axis=0) / np.sqrt(4000)).all()


def test_r_arima_of_luteinizing_hormone():
    """`arima(lh, order = c(1,0,0))` of R: ar1 0.5739 (s.e. 0.1161), mean 2.4133 (0.1466), sigma^2 0.1975, log likelihood -29.38."""
    free = {
        "mean": Free(bounds=(0.0, 10.0)),
        "noise.y.scale": Free(bounds=(0.01, 10.0)),
        "noise.y.time": Free(bounds=(0.05, 50.0)),
    }
    problem = Problem(LEVEL, Experiment("lh", np.arange(48.0), {"y": LH}), free=free, noise={"y": Autocorrelated()})
    fit = simkit.fit(problem, starts=4)
    assert int(fit.agreeing()) == 4
    mean, scale, time = np.asarray(fit.estimate)
    rho = np.exp(-1 / time)
    np.testing.assert_allclose([mean, rho, scale**2 * (1 - rho**2)], [2.4133, 0.5739, 0.1975], atol=5e-5)
    np.testing.assert_allclose(fit.log_likelihood, -29.38, atol=5e-3)
    # R's errors come from second derivatives of the density, these from its expectation.
    error = np.sqrt(np.diag(fit.covariance))  # of the mean, and of logarithms
    np.testing.assert_allclose([error[0], error[2] * rho / time], [0.1466, 0.1161], rtol=0.1)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """90 % intervals of a slope over 200 data sets: 87 to 93 % but for chance (binomial, 4 sd); with independent noise fewer."""
    times = np.linspace(0.0, 10.0, 60)
    numbers = {"a": 1.0, "b": 0.5, "noise.y.scale": 0.5, "noise.y.time": 0.5}
    free = {name: FREE[name]._replace(start=value) for name, value in numbers.items()}
    truth = jnp.asarray(list(numbers.values()))
    serial = Problem(LINE, Experiment("one", times, {"y": 0 * times}), free=free, noise={"y": Autocorrelated()})
    del free["noise.y.time"]
    plain = Problem(LINE, Experiment("one", times, {"y": 0 * times}), free=free, noise={"y": Normal()})
    inside = {"serial": 0, "plain": 0}
    for key in jax.random.split(jax.random.key(3), 200):
        data = serial.simulate_data(truth, key)
        for name, problem in (("serial", serial), ("plain", plain)):
            fit = simkit.fit(problem.with_data(data), starts=1)
            error = np.sqrt(float(fit.covariance[1, 1]))
            inside[name] += abs(float(fit.estimate[1]) - 0.5) < stats.norm.ppf(0.95) * error
    chance = 4 * np.sqrt(0.09 / 200)
    assert 0.87 - chance < inside["serial"] / 200 < 0.93 + chance
    assert inside["plain"] / 200 < 0.7


def test_draws_of_the_posterior_and_predictions():
    """A mean under a normal prior, all else known: normal in closed form."""
    times, y = series(2, 30)
    problem = Problem(
        LEVEL,
        Experiment("one", times, {"y": y}),
        free={"mean": Free(dist.Normal(0.0, 5.0))},
        noise={"y": Autocorrelated(0.5, 1.5, 0.1)},
    )
    weight = np.linalg.inv(covariance(times, 0.5, 1.5, 0.1))
    precision = weight.sum() + 1 / 25
    mean, sd = (weight @ y).sum() / precision, precision**-0.5
    fit = simkit.fit(problem, starts=1)
    np.testing.assert_allclose([fit.estimate[0], np.sqrt(fit.covariance[0, 0])], [mean, sd], rtol=1e-8)
    posterior = simkit.sample(problem, start=fit, key=jax.random.key(0), draws=200, warmup=200)
    row = posterior.table()[0]
    assert abs(row["mean"] - mean) < 5 * sd / np.sqrt(row["ess"])
    assert abs(row["sd"] / sd - 1) < 5 / np.sqrt(2 * row["ess"]) + 0.05
    bands = simkit.predict(problem, posterior, np.linspace(0.0, 10.0, 200), key=jax.random.key(1))
    noise = np.asarray(bands.samples["y"][:, 0]) - np.asarray(posterior.flat())[: len(bands.samples["y"])]
    # Neighbours at 0.05 are nearly one: exp(-0.05 / 1.5) 0.25 of a variance of 0.26.
    assert abs(np.corrcoef(noise[:, 100], noise[:, 101])[0, 1] - 0.93) < 0.05


def test_a_simulation_and_its_profile():
    """A differential equation, gradients in reverse, and an interval by likelihood ratio."""
    decay = from_function(lambda t, y, p: {"x": -p["rate"] * y["x"]}, {"rate": 0.5})
    times = np.linspace(0.2, 8.0, 25)
    rng = np.random.default_rng(4)
    y = 3 * np.exp(-0.4 * times) + np.linalg.cholesky(covariance(times, 0.1, 1.0, 0.02)) @ rng.normal(size=25)
    problem = Problem(
        decay,
        Experiment("one", times, {"x": y}, start=0.0),
        y0={"x": 3.0},
        free={"rate": Free(bounds=(0.05, 5.0)), "noise.x.time": Free(bounds=(0.05, 20.0))},
        noise={"x": Autocorrelated(0.1, 1.0, 0.02)},
    )
    fit = simkit.fit(problem, starts=2)
    low, high = simkit.profile(problem, fit, names=["rate"]).intervals[0]
    assert low < 0.4 < high
    ratio = lambda rate: float(
        problem.log_likelihood(fit.estimate)[0] - problem.log_likelihood(jnp.asarray([rate, fit.estimate[1]]))[0]
    )
    # With the other parameter held the ratio is at least that of the profile, half the 95 % point of chi-square.
    assert ratio(low) > 0.999 * 1.9207
    assert ratio(high) > 0.999 * 1.9207


@pytest.mark.parametrize("unit", [1e-12, 1e9])
def test_units_do_not_matter(unit):
    times, y = series(0, 30, (3,))
    here = Problem(LINE, Experiment("one", times, {"y": y}), free=FREE, noise={"y": Autocorrelated()})
    free = {
        name: Free(bounds=tuple(x * (1 if name.endswith("time") else unit) for x in each.bounds))
        for name, each in FREE.items()
    }
    there = Problem(LINE, Experiment("one", times, {"y": y * unit}), free=free, noise={"y": Autocorrelated()})
    factor = np.array([unit, unit, unit, 1.0, unit])
    shift = -29 * np.log(unit)
    np.testing.assert_allclose(
        there.log_likelihood(jnp.asarray(THETA * factor))[0],
        here.log_likelihood(jnp.asarray(THETA))[0] + shift,
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        np.asarray(there.information(jnp.asarray(THETA * factor))) * factor * factor[:, None],
        here.information(jnp.asarray(THETA)),
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: Problem(
                LEVEL,
                Experiment("one", [0.0, 1.0, 1.0], {"y": [1.0, 2.0, 3.0]}),
                free={"mean": Free()},
                noise={"y": Autocorrelated()},
            ),
            "two data of `y` at time 1, which without white noise would have to be equal",
        ),
        (
            lambda: Problem(
                LEVEL,
                Experiment("one", [1.0, 0.0], {"y": [1.0, 2.0]}),
                free={"mean": Free()},
                noise={"y": Autocorrelated()},
            ),
            "needs increasing times, but those of `one` are not",
        ),
        (
            lambda: Problem(
                LEVEL,
                Experiment("one", [0.0, 1.0], {"y": [1.0, 2.0]}),
                free={"mean": Free()},
                noise={"y": Autocorrelated()},
                likelihood=simkit.problem._likelihood.IndependentData(),
            ),
            "The residuals of `y` are `Autocorrelated`, which `IndependentData` does not know",
        ),
        (
            lambda: Problem(
                LEVEL,
                Experiment("one", [0.0], {"y": [1.0]}),
                free={"mean": Free()},
                noise={"y": Autocorrelated(scale=-1.0)},
            ),
            "scale of `y` must be positive",
        ),
    ],
)
def test_what_is_wrong_is_a_sentence(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()
