"""Likelihoods of a user's own: the density alone, residuals, information, draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.noise import Normal
from simkit.odes import OrnsteinUhlenbeck, from_response
from simkit.problem import AbstractLikelihood

TIMES = np.concatenate([np.arange(1.0, 41.0) * 0.3, 12.0 + np.arange(1.0, 11.0)])
TRUTH = np.array([0.8, 1.5, 0.6])
NAMES = ("reversion", "mean", "volatility")


def moments(system, before, gap):
    """Mean and variance of the exact transition, in double precision of NumPy or JAX alike."""
    decay = jnp.exp(-system.reversion * gap)
    return system.mean + (before - system.mean) * decay, system.volatility**2 * (1 - decay**2) / (2 * system.reversion)


class Transitions(AbstractLikelihood):
    """The exact density of an Ornstein-Uhlenbeck process that is seen without error, by its transitions."""

    def log_prob(self, theta, model, data):
        def one(setup, times, values):
            path = jnp.concatenate([setup.y0.x[None], values])
            there = jnp.isfinite(values)
            gap = jnp.where(there, jnp.diff(times), 1.0)
            mean, variance = moments(setup.system, jnp.where(jnp.isfinite(path), path, 0)[:-1], gap)
            density = jax.scipy.stats.norm.logpdf(jnp.where(there, values, mean), mean, jnp.sqrt(variance))
            return jnp.sum(jnp.where(there, density, 0))

        return eqx.filter_vmap(one)(model.setups(theta), data.times, data.values["x"])


class Drawn(AbstractLikelihood):
    """The same with draws of new paths."""

    inner: Transitions

    def log_prob(self, theta, model, data):
        return self.inner.log_prob(theta, model, data)

    def sample(self, key, theta, model, data):
        def one(setup, times, key):
            def step(before, now):
                gap, key = now
                mean, variance = moments(setup.system, before, gap)
                after = mean + jnp.sqrt(variance) * jax.random.normal(key, (), before.dtype)
                return after, after

            gaps = jnp.diff(times)
            return jax.lax.scan(step, setup.y0.x, (gaps, jax.random.split(key, len(gaps))))[1]

        keys = jax.random.split(key, len(data.labels))
        return {"x": eqx.filter_vmap(one)(model.setups(theta), data.times, keys)}


def covariance(theta, times):
    """Covariance of the values at these times, after a known one at 0."""
    reversion, _, volatility = theta
    apart, both = np.abs(times[:, None] - times), times[:, None] + times
    return volatility**2 / (2 * reversion) * (np.exp(-reversion * apart) - np.exp(-reversion * both))


def joint(theta, times, start):
    return theta[1] + (start - theta[1]) * np.exp(-theta[0] * times), covariance(theta, times)


def exact(theta, series):
    """The log density of all series as joint Gaussians, by SciPy."""
    return sum(
        scipy.stats.multivariate_normal.logpdf(values, *joint(theta, times, start)) for times, values, start in series
    )


def made(likelihood):
    rng = np.random.default_rng(3)
    series = []
    for times, start in ((TIMES, 4.0), (TIMES[:25], -1.0)):
        values = rng.multivariate_normal(*joint(TRUTH, times, start))
        series.append((times, values, start))
    experiments = [
        Experiment(f"run {i}", times, {"x": values}, start=0.0, y0=type(OrnsteinUhlenbeck.example().y0)(x=start))
        for i, (times, values, start) in enumerate(series)
    ]
    free = dict(
        zip(NAMES, [Free(bounds=(0.05, 10.0)), Free(bounds=(-5.0, 5.0)), Free(bounds=(0.05, 5.0))], strict=True)
    )
    return Problem(OrnsteinUhlenbeck(), experiments, free=free, likelihood=likelihood), series


def test_a_density_alone_is_that_of_the_joint_gaussian():
    problem, series = made(Transitions())
    for theta in (TRUTH, np.array([0.3, 0.2, 1.1])):
        value, status = problem.log_likelihood(jnp.asarray(theta))
        np.testing.assert_allclose(value, exact(theta, series), rtol=1e-10)  # rounding of a 50 x 50 inverse
        assert status.tolist() == [0, 0]
        np.testing.assert_allclose(problem.lean().log_likelihood(jnp.asarray(theta))[0], value, rtol=1e-14)
    assert "Transitions" in repr(problem)
    assert problem.data_count == 75


def weighted_moments(place, covariance, series, count=3000):
    """Means and widths of the posterior, by importance weights of SciPy's density on draws of a wide Student t."""
    wide = scipy.stats.multivariate_t(place, 2 * covariance, df=4, seed=0)
    drawn = wide.rvs(count)
    inside = ((drawn > [0.05, -5.0, 0.05]) & (drawn < [10.0, 5.0, 5.0])).all(axis=1)
    drawn = drawn[inside]
    log_weight = np.array([exact(theta, series) for theta in drawn]) - wide.logpdf(drawn)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 300  # the effective number of draws
    mean = weight @ drawn
    return mean, np.sqrt(weight @ (drawn - mean) ** 2)


def test_a_density_alone_is_fitted_sampled_and_profiled():
    problem, series = made(Transitions())
    fit = simkit.fit(problem, starts=4)
    assert fit.method == "L-BFGS"
    best = scipy.optimize.minimize(
        lambda theta: -exact(theta, series), TRUTH, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}
    )
    # Objectives that agree to 1e-10 leave places 1e-5 of a standard error apart.
    np.testing.assert_allclose(fit.estimate, best.x, rtol=2e-4)
    np.testing.assert_allclose(fit.objective[0], best.fun, rtol=1e-9)
    curvature = jax.hessian(lambda theta: -problem.log_likelihood(theta)[0])(fit.estimate)
    np.testing.assert_allclose(fit.standard_error, np.sqrt(np.diag(np.linalg.inv(curvature))), rtol=1e-3)
    # Without residuals a start far off may end where the density is flat.
    assert fit.agreeing() >= 2
    assert not fit.misfit
    assert np.isnan(fit.chi_squared)
    posterior = simkit.sample(problem, start=fit, draws=500, chains=2, warmup=200, key=jax.random.key(1))
    draws = np.asarray(posterior.flat())
    mean, width = weighted_moments(fit.estimate, np.linalg.inv(curvature), series)
    # A thousand correlated draws count as some three hundred: their widths have errors of 4 %, 7 % where tails are long.
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / width, 0, atol=0.25)
    np.testing.assert_allclose(draws.std(axis=0), width, rtol=0.25)
    found = simkit.profile(problem, fit, names=["mean"], points=4)
    lower, upper = found.interval("mean")
    np.testing.assert_allclose((upper - lower) / (2 * 1.96), fit.standard_error[1], rtol=0.15)


def test_what_a_density_alone_cannot_do_is_refused():
    problem, _ = made(Transitions())
    fit = simkit.fit(problem, starts=1)
    with pytest.raises(
        ArgumentError,
        match="`GaussNewton` needs residuals or a Fisher information, but the likelihood `Transitions` has no method",
    ):
        simkit.fit(problem, method=simkit.GaussNewton())
    with pytest.raises(ArgumentError, match="which the likelihood `Transitions` does not state"):
        simkit.check(problem, fit)
    for call in (
        lambda: simkit.plan(problem, fit, [1.0, 2.0]),
        lambda: simkit.profile_prediction(problem, fit, "x", [1.0]),
        lambda: simkit.gradient_matching(problem),
        lambda: simkit.fit(problem, windows=3),
    ):
        with pytest.raises(ArgumentError, match="the likelihood `Transitions` has data that depend on each other"):
            call()
    with pytest.raises(
        ArgumentError, match="`predict` needs random data, but the likelihood `Transitions` has no method"
    ):
        simkit.predict(problem, np.asarray(fit.estimate)[None])
    with pytest.raises(ArgumentError, match="has no trajectories of its own, since they are random"):
        problem.trajectories(fit.estimate)
    free = {"mean": simkit.Individual(Free())}
    with pytest.raises(
        ArgumentError, match="An `Individual` needs the distribution of each datum given those before it"
    ):
        Problem(
            OrnsteinUhlenbeck(),
            [Experiment("a", [1.0], {"x": [1.0]}, y0={"x": 1.0})],
            free=free,
            likelihood=Transitions(),
        )
    with pytest.raises(ArgumentError, match="is stochastic: the likelihood"):
        made(None)


def test_a_density_with_draws_predicts():
    problem, _ = made(Drawn(Transitions()))
    times = np.array([0.5, 1.0, 30.0])
    found = simkit.predict(problem, np.tile(TRUTH, (4000, 1)), times, count=4000)
    assert found.failed == 0
    mean, spread = joint(TRUTH, times, 4.0)
    samples = np.asarray(found.samples["x"])[:, 0]
    assert samples.shape == (4000, 3)
    # Four standard errors of means and variances over 4000 draws.
    assert (np.abs(samples.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(spread) / 4000)).all()
    np.testing.assert_allclose(np.cov(samples.T), spread, atol=4 * spread.max() * np.sqrt(2 / 4000))
    again = problem.simulate_data(jnp.asarray(TRUTH), jax.random.key(0))["x"]
    assert again.shape == problem.data["x"].shape
    assert np.isfinite(problem.with_data({"x": again}).log_likelihood(jnp.asarray(TRUTH))[0])


X = np.linspace(0.0, 5.0, 30)
MEMORY = 0.7 ** np.abs(np.subtract.outer(np.arange(30), np.arange(30))) * 0.3**2


class Correlated(AbstractLikelihood):
    """Normal scatter with a known covariance around a deterministic prediction."""

    root: jax.Array

    def white(self, theta, model, data):
        location = model.heads(theta, data)[0]["y"][0]
        return jax.scipy.linalg.solve_triangular(self.root, (data.values["y"] - location)[0], lower=True)

    def log_prob(self, theta, model, data):
        return -0.5 * jnp.sum(self.white(theta, model, data) ** 2)


class WithResiduals(AbstractLikelihood):
    inner: Correlated

    def log_prob(self, theta, model, data):
        return self.inner.log_prob(theta, model, data)

    def residuals(self, theta, model, data):
        return self.inner.white(theta, model, data)


class WithInformation(AbstractLikelihood):
    inner: Correlated

    def log_prob(self, theta, model, data):
        return self.inner.log_prob(theta, model, data)

    def information(self, theta, model, data):
        slope = jax.jacfwd(lambda theta: self.inner.white(theta, model, data))(theta)
        return slope.T @ slope


def generalised(kind):
    rng = np.random.default_rng(5)
    design = np.stack([X, np.ones_like(X)], axis=1)
    y = design @ [2.0, -1.0] + rng.multivariate_normal(np.zeros(30), MEMORY)
    line = from_response(lambda x, p: p["a"] * x + p["b"], {"a": 1.0, "b": 0.0})
    inner = Correlated(jnp.asarray(np.linalg.cholesky(MEMORY)))
    problem = Problem(
        line,
        Experiment("one", X, {"y": y}),
        free={"a": Free(bounds=(0.1, 10.0), transform="log"), "b": Free(bounds=(-10.0, 10.0))},
        noise={"y": Normal(1.0)},
        likelihood=inner if kind is None else kind(inner),
    )
    spread = np.linalg.inv(design.T @ np.linalg.solve(MEMORY, design))
    return problem, spread @ design.T @ np.linalg.solve(MEMORY, y), np.sqrt(np.diag(spread))


@pytest.mark.parametrize("kind", [None, WithResiduals, WithInformation], ids=["density", "residuals", "information"])
def test_scatter_with_a_memory_is_generalised_least_squares(kind):
    problem, estimate, error = generalised(kind)
    fit = simkit.fit(problem, starts=3)
    assert fit.method == ("L-BFGS" if kind is None else "Gauss-Newton trust region")
    # L-BFGS stops at a gradient of 1e-8 of the objective.
    np.testing.assert_allclose(fit.estimate, estimate, rtol=1e-5)
    np.testing.assert_allclose(fit.standard_error, error, rtol=1e-5)
    assert fit.agreeing() == 3
    if kind is WithResiduals:
        np.testing.assert_allclose(fit.chi_squared, 2 * fit.objective[0], rtol=1e-10)
    curves = simkit.predict(problem, np.asarray(fit.estimate)[None], [0.0, 1.0]).curves["y"]
    np.testing.assert_allclose(curves[0, 0], [fit.estimate[1], fit.estimate.sum()], rtol=1e-12)


def test_independent_data_state_their_residuals_and_information():
    line = from_response(lambda x, p: p["a"] * x, {"a": 1.0})
    y = 2.0 * X + np.random.default_rng(1).normal(0, 0.3, 30)
    y[4] = np.nan
    free = {"a": Free(bounds=(0.1, 10.0)), "noise.y.scale": Free(bounds=(0.01, 3.0))}
    problem = Problem(line, Experiment("one", X, {"y": y}), free=free, noise={"y": Normal(1.0)})
    theta = jnp.array([1.9, 0.25])
    np.testing.assert_allclose(problem.residuals(theta), np.nan_to_num((1.9 * X - y) / 0.25), rtol=1e-12)
    seen = np.isfinite(y)
    expected = np.diag([np.sum(X[seen] ** 2), 2 * seen.sum()]) / 0.25**2
    np.testing.assert_allclose(problem.information(theta), expected, rtol=1e-10, atol=1e-8)
    value, _ = problem.likelihood.log_prob(theta, problem.model, problem.dataset)
    np.testing.assert_allclose(value, scipy.stats.norm.logpdf(y, 1.9 * X, 0.25)[seen].sum(), rtol=1e-12)
