"""Censored data of residuals that depend on each other, beside the normal distribution's probabilities of boxes by SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import simkit
from simkit import ArgumentError, Censored, Experiment, Free, Problem
from simkit.noise import Autocorrelated, Correlated, LogNormal, Normal
from simkit.odes import from_response
from simkit.problem import CensoredRows, CensoredSeries
from simkit.problem._normal_between import normal_between

LINE = from_response(lambda t, p: p["a"] + p["b"] * t, {"a": 1.0, "b": 0.1})
"""Of double precision."""
FREE = {
    "a": Free(bounds=(-10.0, 10.0)),
    "b": Free(bounds=(-10.0, 10.0)),
    "noise.y.scale": Free(bounds=(0.01, 10.0)),
    "noise.y.time": Free(bounds=(0.05, 50.0)),
    "noise.y.white": Free(bounds=(0.001, 1.0)),
}
THETA = np.array([1.0, 0.1, 0.5, 1.5, 0.1])


def covariance(times, scale=0.5, time=1.5, white=0.1):
    return scale**2 * np.exp(-np.abs(times[:, None] - times[None]) / time) + white**2 * np.eye(len(times))


def series(seed, count, mean=lambda t: 1 + 0.1 * t):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 10.0, count))
    return times, mean(times) + np.linalg.cholesky(covariance(times)) @ rng.normal(size=count)


def of_box(residual, matrix, lower, upper):
    """The log density of what is known of a normal vector: exact numbers, NaN where it lies between two ends."""
    seen = np.isfinite(residual)
    known = matrix[np.ix_(seen, seen)]
    found = stats.multivariate_normal(np.zeros(seen.sum()), known).logpdf(residual[seen]) if seen.any() else 0.0
    if seen.all():
        return found
    gain = matrix[np.ix_(~seen, seen)] @ np.linalg.inv(known)
    rest = stats.multivariate_normal(
        gain @ residual[seen],
        matrix[np.ix_(~seen, ~seen)] - gain @ matrix[np.ix_(seen, ~seen)],
        maxpts=10**6,
        abseps=1e-9,
    )
    return found + np.log(rest.cdf(upper[~seen], lower_limit=lower[~seen]))


@pytest.mark.parametrize("bits", [64, 32])
def test_a_censored_series_is_a_normal_box(bits):
    """Two series of other lengths, data below a limit, above one and between two, one missing."""
    with jax.enable_x64(bits == 64):
        one, two = series(0, 14), series(3, 9)
        data = [
            Censored(one[1], below=1.3),
            Censored(np.where(np.arange(9) == 4, np.nan, two[1]), above=1.6, below=0.9, floor=0.2),
        ]
        experiments = [Experiment(n, t, {"y": y}) for n, t, y in zip("ab", (one[0], two[0]), data, strict=True)]
        line = from_response(lambda t, p: p["a"] + p["b"] * t, {"a": 1.0, "b": 0.1})
        problem = Problem(line, experiments, free=FREE, noise={"y": Autocorrelated()}, likelihood=CensoredSeries(4096))
        exact = 0.0
        for (times, y), own in zip((one, two), data, strict=True):
            keep = np.isfinite(own.values)
            mean, hidden = 1 + 0.1 * times, own.mask
            lower = np.where(y <= own.limits["low"], own.limits["floor"], own.limits["high"])
            upper = np.where(y <= own.limits["low"], own.limits["low"], own.limits["ceiling"])
            residual = np.where(hidden, np.nan, y - mean)
            cut = [x[keep] for x in (residual, lower - mean, upper - mean)]
            exact += of_box(cut[0], covariance(times[keep]), *cut[1:])
        assert sum(own.mask.sum() for own in data) >= 6
        value, status = problem.log_likelihood(jnp.asarray(THETA, problem.times.dtype))
        assert (np.asarray(status) == 0).all()
        np.testing.assert_allclose(value, exact, atol=2e-3)
        usual = Problem(line, experiments, free=FREE, noise={"y": Autocorrelated()})
        assert "CensoredSeries" in repr(usual)
        np.testing.assert_allclose(usual.log_likelihood(jnp.asarray(THETA, problem.times.dtype))[0], exact, atol=0.03)


def test_derivatives_and_units():
    times, y = series(0, 14)

    def problem(unit):
        data = {"y": Censored(unit * y, below=1.3 * unit)}
        free = {
            name: Free(bounds=tuple(np.array(f.bounds) * (1 if "time" in name else unit))) for name, f in FREE.items()
        }
        return Problem(
            LINE,
            Experiment("a", times, data),
            free=free,
            noise={"y": Autocorrelated(unit, 1.0, unit)},
            likelihood=CensoredSeries(32),
        )

    theta = jnp.asarray(THETA)

    def of(unit):
        made = problem(unit)
        return jax.jit(lambda theta: made.log_likelihood(theta)[0])

    density, slope, bent = of(1), jax.jit(jax.grad(of(1))), jax.jit(jax.hessian(of(1)))
    for i in range(5):
        h = jnp.zeros(5).at[i].set(1e-5)
        np.testing.assert_allclose(slope(theta)[i], (density(theta + h) - density(theta - h)) / 2e-5, rtol=1e-6)
        np.testing.assert_allclose(bent(theta)[i], (slope(theta + h) - slope(theta - h)) / 2e-5, rtol=1e-5, atol=1e-5)
    small = jnp.array([1e-12, 1e-12, 1e-12, 1.0, 1e-12])
    exact = np.asarray(Censored(y, below=1.3).mask == 0).sum()
    np.testing.assert_allclose(of(1e-12)(theta * small) + exact * np.log(1e-12), density(theta), atol=1e-9)


def test_fits_of_censored_series():
    """Half of the data below a limit: the slope is found with its error, which taking limits for data misses by many."""
    found, naive = [], []
    trend = {name: FREE[name] for name in ("a", "b", "noise.y.scale")}
    for seed in range(6):
        times, y = series(seed, 60, lambda t: 1 + 0.2 * t)
        experiment = Experiment("a", times, {"y": Censored(y, below=2.0)})
        problem = Problem(LINE, experiment, free=trend, noise={"y": Autocorrelated(0.5, 1.5, 0.1)})
        fit = simkit.fit(problem, starts=1)
        error = float(fit.standard_error[list(fit.names).index("b")])
        found.append((float(fit["b"]) - 0.2) / error)
        plain = Problem(LINE, Experiment("a", times, {"y": np.maximum(y, 2.0)}), free=trend, noise=problem.base.noise)
        naive.append(simkit.fit(plain, starts=1)["b"] - 0.2)
    assert np.sum(np.square(found)) < stats.chi2(6).ppf(0.999)
    assert np.mean(naive) < -0.05


TWO = from_response(
    lambda t, p: {"a": p["a"] + 0 * t, "b": p["b"] * jnp.exp(-t), "c": p["a"] + p["b"] * t}, {"a": 1.0, "b": 2.0}
)
MATRIX = np.array([[1.0, 0.7, 0.3], [0.7, 1.0, -0.2], [0.3, -0.2, 1.0]])


def test_censored_rows_are_normal_boxes():
    """Three outputs, one of logarithms, with limits from below and above; one number missing."""
    rng, count = np.random.default_rng(1), 6
    times = np.linspace(0.2, 2.0, count)
    z = rng.multivariate_normal(np.zeros(3), MATRIX, count)
    data = {"a": 1 + 0.5 * z[:, 0], "b": 2 * np.exp(0.3 * z[:, 1] - times), "c": 1 + 2 * times + 0.4 * z[:, 2]}
    data["a"][2] = np.nan
    limits = {"a": {"below": 0.9}, "b": {"below": 0.8}, "c": {"above": 4.0}}
    experiment = Experiment("e", times, {name: Censored(data[name], **limits[name]) for name in data})
    noise = {
        "a": Correlated(Normal(0.5), {"b": 0.7, "c": 0.3}),
        "b": Correlated(LogNormal(0.3), {"c": -0.2}),
        "c": Normal(0.4),
    }
    free = {"a": Free(bounds=(-5.0, 5.0)), "b": Free(bounds=(0.1, 5.0))}
    problem = Problem(TWO, experiment, free=free, noise=noise, likelihood=CensoredRows(4096))
    a, b = theta = np.array([0.9, 1.8])
    standard = lambda x: (
        np.array([(x["a"] - a) / 0.5, (np.log(x["b"] / b) + times) / 0.3, (x["c"] - a - b * times) / 0.4]).T
    )
    found, at = standard(data), standard({n: np.full(count, x) for n, x in {"a": 0.9, "b": 0.8, "c": 4.0}.items()})
    hidden = np.array([data["a"] <= 0.9, data["b"] <= 0.8, data["c"] >= 4.0]).T
    exact = 0.0
    for i in range(count):
        keep = np.isfinite(found[i])
        lower, upper = np.array([-np.inf, -np.inf, at[i, 2]]), np.array([at[i, 0], at[i, 1], np.inf])
        box = of_box(np.where(hidden[i], np.nan, found[i])[keep], MATRIX[np.ix_(keep, keep)], lower[keep], upper[keep])
        sizes = np.log([0.5, 0.3 * data["b"][i], 0.4])
        exact += box - np.sum(sizes[keep & ~hidden[i]])
    assert hidden.sum() >= 6
    np.testing.assert_allclose(problem.log_likelihood(jnp.asarray(theta))[0], exact, atol=2e-3)
    usual = Problem(TWO, experiment, free=free, noise=noise)
    assert "CensoredRows" in repr(usual)
    np.testing.assert_allclose(usual.log_likelihood(jnp.asarray(theta))[0], exact, atol=0.03)
    drawn = usual.likelihood.sample(jax.random.key(0), jnp.asarray(theta), usual.model, usual.dataset)
    assert {name: x.shape for name, x in drawn.items()} == dict.fromkeys(data, (1, count))


def test_wrong_ways_are_refused():
    times, y = series(0, 14)
    experiment = Experiment("a", times, {"y": Censored(y, below=1.3)})
    for paths in (1, 100, True):
        with pytest.raises(ArgumentError, match="power of two"):
            CensoredSeries(paths)
    problem = Problem(LINE, experiment, free=FREE, noise={"y": Autocorrelated()})
    with pytest.raises(ArgumentError, match="check"):
        simkit.check(problem, simkit.fit(problem, starts=1))


@pytest.mark.parametrize(
    ("lower", "upper"), [(-np.inf, 0.3), (0.2, 0.9), (5.0, np.inf), (-38.0, -37.0), (-np.inf, np.inf)]
)
def test_numbers_between_two_ends(lower, upper):
    share = np.array([0.01, 0.3, 0.99])
    z = normal_between(jnp.asarray(share), jnp.asarray(lower), jnp.asarray(upper))
    flipped = lower > 0
    ends = (-upper, -lower) if flipped else (lower, upper)
    exact = stats.truncnorm(*ends).ppf(1 - share if flipped else share)
    np.testing.assert_allclose(z, -exact if flipped else exact, rtol=1e-9, atol=1e-9)


def test_second_derivatives_hold_in_loops():
    """A rule of `custom_jvp` is lost where a loop is differentiated backwards and then again (JAX before 0.12)."""
    ends = lambda x: (jnp.asarray(-jnp.inf), 0.3 - x)
    one = lambda x: normal_between(jnp.asarray(0.3), *ends(x))
    both = jnp.array([0.1, 0.2])
    looped = jax.hessian(lambda x: jax.lax.map(one, x).sum())(both)
    np.testing.assert_allclose(looped, jax.hessian(lambda x: one(x[0]) + one(x[1]))(both), rtol=1e-12)
