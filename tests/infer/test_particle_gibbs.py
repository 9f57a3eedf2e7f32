"""Particle Gibbs against posteriors on grids: a linear system by Kalman's filter, a jump process by sums over its states."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import simkit
from simkit import ArgumentError, Experiment, Free, ParticleGibbs, Problem
from simkit.filters import KalmanFilter, ParticleFilter, conditional_pass
from simkit.infer._diagnostics import effective_sample_size
from simkit.noise import Normal
from simkit.odes import OrnsteinUhlenbeck
from simkit.solvers import EulerMaruyama

TIMES, VALUES = np.arange(1.0, 7.0), np.array([2.1, 0.9, np.nan, 1.4, 0.2, 0.6])


def wandering(likelihood, particles=40):
    """One Euler step of a rate of 1 - exp(-0.7) is the exact step, but for the unit of the volatility."""
    rate = 1 - np.exp(-0.7)
    kalman = isinstance(likelihood, KalmanFilter)
    return Problem(
        OrnsteinUhlenbeck(0.7 if kalman else rate, 0.0, 0.6),
        Experiment("a", TIMES, {"x": VALUES}, start=0.0, y0={"x": 2.0}),
        free={"mean": Free(dist.Normal(0.0, 1.0)), "volatility": Free(dist.LogNormal(-0.5, 0.5))},
        noise={"x": Normal(0.3)},
        likelihood=likelihood,
        **({} if kalman else {"solver": EulerMaruyama(), "step": 1.0}),
    )


def moments(posterior):
    """Means and deviations of the draws, with logarithms of the positive number, and effective numbers."""
    draws = np.asarray(posterior.draws).copy()
    draws[..., 1] = np.log(draws[..., 1])
    flat = draws.reshape(-1, 2)
    sizes = [effective_sample_size(draws[..., i]) for i in range(2)]
    return flat.mean(axis=0), flat.std(axis=0), np.array(sizes)


def test_draws_of_a_linear_system_are_those_of_a_grid():
    posterior = simkit.sample(
        wandering(ParticleFilter(12, key=jax.random.key(0))),
        method=ParticleGibbs(moves=10),
        key=jax.random.key(1),
        draws=1500,
        warmup=300,
        chains=4,
    )
    assert posterior.method == "particle Gibbs"
    unit = np.sqrt((1 - np.exp(-2 * 0.7)) / (2 * 0.7))
    kalman = wandering(KalmanFilter())
    means, logs = np.linspace(-3.0, 4.0, 57), np.linspace(-2.6, 1.6, 57)
    place = np.stack(np.meshgrid(means, np.exp(logs), indexing="ij"), axis=-1).reshape(-1, 2)
    log = jax.jit(jax.vmap(lambda theta: kalman.log_likelihood(theta)[0]))(jnp.asarray(place / np.array([1.0, unit])))
    log = np.asarray(log) + scipy.stats.norm.logpdf(place[:, 0]) + scipy.stats.norm.logpdf(np.log(place[:, 1]), -0.5, 0.5)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    columns = np.stack([place[:, 0], np.log(place[:, 1])], axis=1)
    mean = weight @ columns
    width = np.sqrt(weight @ (columns - mean) ** 2)
    found, spread, sizes = moments(posterior)
    assert sizes.min() > 120, sizes
    assert (np.abs(found - mean) < 4 * width / np.sqrt(sizes)).all(), (found, mean, width, sizes)
    # The deviation of so many draws has a relative error of 1 / sqrt(2 n); posteriors here are nearly normal.
    assert (np.abs(spread / width - 1) < 4 / np.sqrt(2 * sizes)).all(), (spread, width)
    with pytest.raises(ArgumentError, match="draws paths by particles, but this problem has the likelihood `KalmanFilter`"):
        simkit.sample(kalman, method=ParticleGibbs(), key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="`moves` must be a whole number"):
        ParticleGibbs(moves=0)


def test_the_conditional_filter_leaves_paths_as_they_are_distributed():
    """Chains of noise at fixed parameters, started far off, have the smoothed moments of the linear system at the first time."""
    problem = wandering(ParticleFilter(8, key=jax.random.key(0)))
    theta = jnp.array([0.5, 0.6])

    def chain(key):
        begin, run = jax.random.split(key)

        def sweep(noise, key):
            noise, _ = conditional_pass(problem, theta, noise, key, jnp.array(True))
            return noise, noise[0, 0]

        noise = jax.random.split(begin, (1, len(TIMES)))
        _, keys = jax.lax.scan(sweep, noise, jax.random.split(run, 60))
        return keys[20:]

    keys = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(2), 400))
    system = problem.setup(theta).system
    step = lambda key: simkit.simulate(system, {"x": 2.0}, [0.0, 1.0], solver=EulerMaruyama(), step=1.0, key=key).ys.x[-1]
    first = np.asarray(jax.jit(jax.vmap(jax.vmap(step)))(keys))
    factor, size = np.exp(-0.7), len(TIMES)
    root = 0.6 * np.tril(factor ** np.maximum(np.subtract.outer(range(size), range(size)), 0))
    prior, covariance = 0.5 + 1.5 * factor ** np.arange(1, size + 1), root @ root.T
    seen = np.isfinite(VALUES)
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + 0.09 * np.eye(seen.sum()))
    mean = (prior + gain @ (VALUES - prior)[seen])[0]
    variance = (covariance - gain @ covariance[seen])[0, 0]
    each = first.mean(axis=1)
    assert abs(each.mean() - mean) < 4 * each.std(ddof=1) / 20
    square = ((first - mean) ** 2).mean(axis=1)
    assert abs(square.mean() - variance) < 4 * square.std(ddof=1) / 20


class Herd(simkit.JumpSystem):
    """Deaths one by one."""

    death: simkit.Scalar = simkit.quantity(0.5, support=simkit.POSITIVE)

    def propensities(self, t, y, inputs):
        return {"death": self.death * y["n"]}

    def jumps(self):
        return {"death": {"n": -1}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"n": 20.0}, jnp.linspace(0.0, 2.0, 3))


def test_draws_of_a_jump_process(tmp_path):
    """Survivors are binomial, so that the likelihood is a sum over all counts; draws go on from a store."""
    data = np.array([12.4, 7.7, 4.2, 2.5])
    problem = Problem(
        Herd(),
        Experiment("herd", np.arange(1.0, 5.0), {"n": data}, start=0.0, y0={"n": 20.0}),
        free={"death": Free(dist.LogNormal(-1.0, 0.5))},
        noise={"n": Normal(scale=1.0)},
        likelihood=ParticleFilter(30, key=jax.random.key(0)),
    )
    ask = {"method": ParticleGibbs(moves=5), "key": jax.random.key(1), "warmup": 100, "chains": 4, "store": tmp_path / "run"}
    short = simkit.sample(problem, draws=200, **ask)
    posterior = simkit.sample(problem, draws=600, **ask)
    np.testing.assert_array_equal(posterior.draws[:, :200], short.draws)
    logs, counts = np.linspace(-2.5, 0.8, 67), np.arange(21)
    log = []
    for rate in np.exp(logs):
        step = scipy.stats.binom.pmf(counts[None], counts[:, None], np.exp(-rate))
        chance, total = np.eye(21)[20], 0.0
        for value in data:
            chance = chance @ step * scipy.stats.norm.pdf(value, counts, 1.0)
            total += np.log(chance.sum())
            chance /= chance.sum()
        log.append(total + scipy.stats.norm.logpdf(np.log(rate), -1.0, 0.5))
    weight = np.exp(np.array(log) - max(log))
    weight /= weight.sum()
    mean = weight @ logs
    width = np.sqrt(weight @ (logs - mean) ** 2)
    draws = np.log(np.asarray(posterior.draws[..., 0]))
    size = effective_sample_size(draws)
    assert size > 80, size
    assert abs(draws.mean() - mean) < 4 * width / np.sqrt(size)
    assert abs(draws.std() / width - 1) < 4 / np.sqrt(2 * size)
