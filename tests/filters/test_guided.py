"""Guided particles against joint normal distributions, and against hidden states by a sum over their grid."""

import functools
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.filters import ParticleFilter, states
from simkit.noise import Normal, Poisson
from simkit.odes import OrnsteinUhlenbeck, StochasticLotkaVolterra
from simkit.problem import with_fresh_key
from simkit.solvers import EulerMaruyama

K, MEAN, VOLATILITY, ERROR = 0.8, 1.5, 0.6, 0.02
STEP, SUBSTEPS, ROWS, REPEATS = 0.1, 5, 8, 200
TIMES = STEP * SUBSTEPS * np.arange(1, ROWS + 1)
VALUES = np.array([1.93, 1.22, 1.81, 1.3, np.nan, 0.84, 1.1, 2.2])
THETA = np.array([K, VOLATILITY, ERROR])


def wandering(proposal, *, particles=20, unit=1.0, dtype=float):
    cast = lambda x: jnp.asarray(x, dtype)
    return Problem(
        OrnsteinUhlenbeck(cast(K), cast(MEAN * unit), cast(VOLATILITY * unit)),
        Experiment("a", cast(TIMES), {"x": VALUES * unit}, start=0.0, y0={"x": cast(3.0 * unit)}),
        free={name: Free(bounds=(1e-3 * unit, 9.0)) for name in ("reversion", "volatility", "noise.x.scale")},
        noise={"x": Normal(cast(ERROR * unit))},
        solver=EulerMaruyama(),
        step=STEP,
        likelihood=ParticleFilter(particles, key=jax.random.key(0), proposal=proposal),
    )


def joint(theta):
    """Mean and covariance of Euler's chain at the times of the data, which are normal all together."""
    k, volatility, _ = theta
    factor, steps = 1 - STEP * k, SUBSTEPS * ROWS
    apart = np.subtract.outer(range(steps), range(steps))
    root = volatility * np.sqrt(STEP) * np.tril(factor ** np.maximum(apart, 0))
    mean = MEAN + (3.0 - MEAN) * factor ** np.arange(1, steps + 1)
    rows = np.arange(SUBSTEPS - 1, steps, SUBSTEPS)
    return mean[rows], (root @ root.T)[np.ix_(rows, rows)]


def exact(theta):
    mean, covariance = joint(theta)
    seen = np.isfinite(VALUES)
    covariance = covariance + theta[2] ** 2 * np.eye(ROWS)
    return scipy.stats.multivariate_normal.logpdf(VALUES[seen], mean[seen], covariance[np.ix_(seen, seen)])


def estimates(problem, theta, repeats=REPEATS):
    run = jax.jit(lambda key: with_fresh_key(problem, key).log_likelihood(jnp.asarray(theta))[0])
    return np.asarray(jax.lax.map(run, jax.random.split(jax.random.key(1), repeats)))


def test_the_likelihood_of_a_linear_system_is_unbiased_and_has_less_spread_than_the_bootstrap_filter_s():
    guided, blind = (estimates(wandering(proposal), THETA) for proposal in ("guided", "bootstrap"))
    ratio = np.exp(guided - exact(THETA))
    # A mean of independent estimates is within four standard errors of what they estimate, but for 1 case in 16,000.
    assert abs(ratio.mean() - 1) < 4 * ratio.std(ddof=1) / np.sqrt(REPEATS)
    assert guided.std() < 0.3
    # Spreads differ by a factor of some fifty; an F test needs 2 for 200 repeats at a level of 1e-6.
    assert blind.std() > 20 * guided.std()


def test_first_row_of_a_linear_system_is_exact_and_so_is_its_derivative():
    """All particles begin at one place, and the guide is the law itself, so that all weights of the first row are alike."""
    times, value = TIMES[:1], 1.93

    def closed(theta):
        k, volatility, error = theta
        factor = 1 - STEP * k
        mean = MEAN + (3.0 - MEAN) * factor**SUBSTEPS
        variance = error**2 + volatility**2 * STEP * jnp.sum(factor ** (2.0 * np.arange(SUBSTEPS)))
        return -0.5 * ((value - mean) ** 2 / variance + jnp.log(2 * jnp.pi * variance))

    whole = wandering("guided")
    problem = Problem(
        whole.base.system,
        Experiment("a", times, {"x": np.array([value])}, start=0.0, y0={"x": 3.0}),
        free={name: Free(bounds=(1e-3, 9.0)) for name in ("reversion", "volatility", "noise.x.scale")},
        noise={"x": Normal(ERROR)},
        solver=EulerMaruyama(),
        step=STEP,
        likelihood=whole.likelihood,
    )
    found = jax.jit(jax.value_and_grad(lambda theta: problem.log_likelihood(theta)[0]))(jnp.asarray(THETA))
    told = jax.value_and_grad(closed)(jnp.asarray(THETA))
    np.testing.assert_allclose(found[0], told[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], told[1], rtol=1e-8)


def test_the_mean_derivative_is_that_of_the_likelihood():
    problem = wandering("guided")
    run = jax.jit(jax.value_and_grad(lambda theta, key: with_fresh_key(problem, key).log_likelihood(theta)[0]))
    keys = jax.random.split(jax.random.key(3), 300)
    value, slope = jax.lax.map(lambda key: run(jnp.asarray(THETA), key), keys)
    weighted = np.exp(np.asarray(value) - exact(THETA))[:, None] * np.asarray(slope)
    told = [(exact(THETA + 1e-5 * e) - exact(THETA - 1e-5 * e)) / 2e-5 for e in np.eye(3)]
    z = (weighted.mean(axis=0) - told) / (weighted.std(axis=0, ddof=1) / np.sqrt(len(keys)))
    assert np.abs(z).max() < 4, z


def test_smoothed_states_of_guided_particles():
    found = states(wandering("guided", particles=2000), THETA)
    mean, covariance = joint(THETA)
    seen = np.isfinite(VALUES)
    gain = covariance[:, seen] @ np.linalg.inv((covariance + ERROR**2 * np.eye(ROWS))[np.ix_(seen, seen)])
    width = np.sqrt(np.diag(covariance - gain @ covariance[seen]))
    z = (np.asarray(found.mean.x)[0, 1:] - (mean + gain @ (VALUES - mean)[seen])) / width
    z *= np.sqrt(np.asarray(found.ancestors)[0, 1:])
    assert np.abs(z).max() < 4, z


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_single_precision(unit):
    theta = THETA * np.array([1, unit, unit])
    problem = wandering("guided", unit=unit, dtype=jnp.float32)
    found = estimates(problem, theta.astype(np.float32), 20) + np.isfinite(VALUES).sum() * np.log(unit)
    # Residuals of a hundredth of the state have five digits, and terms of the order of their squares by the errors' are summed.
    np.testing.assert_allclose(found.mean(), exact(THETA), atol=0.1)


class Turning(simkit.StochasticSystem):
    """Position and velocity, of which the velocity alone is noisy, with a drift that is not linear and noise that depends on it."""

    class State(eqx.Module):
        x: simkit.Scalar
        v: simkit.Scalar

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "general"
    pull: simkit.Scalar = simkit.quantity(2.0)

    def drift(self, t, y, inputs):
        return self.State(y.v, -self.pull * jnp.sin(y.x) - 0.5 * y.v)

    def diffusion(self, t, y, inputs):
        return self.State(jnp.zeros(1), jnp.stack([0.3 + 0.2 * jnp.sin(y.x)]))

    def outputs(self, t, y, inputs):
        return {"height": 20 * (1.5 - jnp.cos(y.x)), "x": y.x}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), cls.State(jnp.asarray(1.0), jnp.asarray(0.0)), jnp.linspace(0.0, 4.0, 5))


@functools.cache
def swinging(proposal, particles):
    start = Turning.State(jnp.asarray(1.0), jnp.asarray(0.0))
    seen = {"height": np.array([28.0, 12.0, 17.0]), "x": np.array([-0.6, 0.1, 0.62])}
    return Problem(
        Turning(),
        Experiment("a", [1.5, 3.0, 4.5], seen, start=0.0, y0=start),
        free={"pull": Free(bounds=(0.1, 9.0))},
        noise={"height": Poisson(), "x": Normal(0.02)},
        solver=EulerMaruyama(),
        step=0.1,
        likelihood=ParticleFilter(particles, key=jax.random.key(0), proposal=proposal),
    )


def test_counts_and_noise_of_low_rank_have_the_likelihood_of_many_blind_particles():
    guided, blind = estimates(swinging("guided", 100), [2.0], 60), estimates(swinging("bootstrap", 3000), [2.0], 60)
    middle = guided.mean()
    first, second = np.exp(guided - middle), np.exp(blind - middle)
    error = np.hypot(first.std(ddof=1), second.std(ddof=1)) / np.sqrt(60)
    assert abs(first.mean() - second.mean()) < 4 * error
    # A thirtieth as many guided particles have less spread.
    assert guided.std() < blind.std()


def test_iterated_filtering_takes_guided_particles():
    problem = wandering("guided", particles=50)
    fixed = Problem(
        problem.base.system,
        Experiment("a", TIMES, {"x": VALUES}, start=0.0, y0={"x": 3.0}),
        free={"volatility": Free(bounds=(0.05, 5.0), start=1.5)},
        noise={"x": Normal(ERROR)},
        solver=EulerMaruyama(),
        step=STEP,
        likelihood=problem.likelihood,
    )
    method = simkit.IteratedFiltering(iterations=40, repeats=5)
    fit = simkit.fit(fixed, starts=1, method=method, key=jax.random.key(0))
    grid = np.linspace(0.2, 1.5, 1301)
    best = grid[np.argmax([exact([K, v, ERROR]) for v in grid])]
    # Half a standard error of the estimate, which the spread of the filter's estimate leaves room for.
    assert abs(fit["volatility"] - best) < 0.5 * fit.standard_error[0], (fit, best)


def test_refused():
    with pytest.raises(ArgumentError, match="`proposal` must be one of"):
        ParticleFilter(10, key=jax.random.key(0), proposal="blind")
    with pytest.raises(ArgumentError, match="must be `EulerMaruyama"):
        Problem(
            OrnsteinUhlenbeck(K, MEAN, VOLATILITY),
            Experiment("a", TIMES, {"x": VALUES}, start=0.0, y0={"x": 3.0}),
            free={"reversion": Free(bounds=(0.1, 9.0))},
            noise={"x": Normal(0.1)},
            step=0.1,
            likelihood=ParticleFilter(10, key=jax.random.key(0), proposal="guided"),
        )
    with pytest.raises(ArgumentError, match="cannot be guided"):
        simkit.sample(wandering("guided"), method=simkit.ParticleGibbs(), key=jax.random.key(0), draws=2, warmup=2)
    assert with_fresh_key(wandering("guided"), jax.random.key(2)).likelihood.proposal == "guided"


def test_start_states_of_a_predator_system_that_leave_the_positive_numbers():
    """A path whose state left the numbers has no weight, and the others go on."""
    system = StochasticLotkaVolterra()
    start = system.State(jnp.asarray(2.0), jnp.asarray(1.0))
    problem = Problem(
        system,
        Experiment("a", [1.0, 2.0], {"hare": np.array([1.0, 2.0])}, start=0.0, y0=start),
        free={"growth": Free(bounds=(0.1, 9.0))},
        noise={"hare": Normal(0.5)},
        solver=EulerMaruyama(),
        step=0.5,
        likelihood=ParticleFilter(50, key=jax.random.key(0), proposal="guided"),
    )
    assert np.isfinite(estimates(problem, [float(system.growth)], 3)).all()
