"""Particle Gibbs against posteriors on grids: a linear system by Kalman's filter, a jump process by sums over its states."""

import itertools
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from engine.jump_cases import Survivors

import simkit
from simkit import ArgumentError, Experiment, Free, ParticleGibbs, Problem
from simkit.filters import KalmanFilter, ParticleFilter, conditional_pass, euler_noise, euler_states, random_noise
from simkit.infer._diagnostics import effective_sample_size
from simkit.noise import Normal
from simkit.odes import OrnsteinUhlenbeck
from simkit.solvers import EulerMaruyama

TIMES, VALUES = np.arange(1.0, 7.0), np.array([2.1, 0.9, np.nan, 1.4, 0.2, 0.6])


def check_draws(posterior, logs, log):
    """Mean and width of the draws of the logarithm of the first parameter are those of its density on a grid."""
    weight = np.exp(np.array(log) - max(log))
    weight /= weight.sum()
    mean = weight @ logs
    width = np.sqrt(weight @ (logs - mean) ** 2)
    draws = np.log(np.asarray(posterior.draws[..., 0]))
    size = effective_sample_size(draws)
    assert size > 80, size
    assert abs(draws.mean() - mean) < 4 * width / np.sqrt(size)
    assert abs(draws.std() / width - 1) < 4 / np.sqrt(2 * size)


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
    log = (
        np.asarray(log) + scipy.stats.norm.logpdf(place[:, 0]) + scipy.stats.norm.logpdf(np.log(place[:, 1]), -0.5, 0.5)
    )
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
    with pytest.raises(
        ArgumentError, match="draws paths by particles, but this problem has the likelihood `KalmanFilter`"
    ):
        simkit.sample(kalman, method=ParticleGibbs(), key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="`moves` must be a whole number"):
        ParticleGibbs(moves=0)


def test_the_conditional_filter_leaves_paths_as_they_are_distributed():
    """Chains of noise at fixed parameters, started anywhere, have the smoothed moments of the linear system at all times."""
    problem = wandering(ParticleFilter(6, key=jax.random.key(0)))
    theta = jnp.array([0.5, 0.6])

    def chain(key):
        begin, run = jax.random.split(key)

        def sweep(noise, key):
            noise, _ = conditional_pass(problem, theta, noise, key, jnp.array(True))
            return noise, euler_states(problem, theta, noise)[0, :, 0, 0]

        return jax.lax.scan(sweep, random_noise(problem, begin), jax.random.split(run, 50))[1][20:]

    states = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(2), 400)))
    factor, size = np.exp(-0.7), len(TIMES)
    root = 0.6 * np.tril(factor ** np.maximum(np.subtract.outer(range(size), range(size)), 0))
    prior, covariance = 0.5 + 1.5 * factor ** np.arange(1, size + 1), root @ root.T
    seen = np.isfinite(VALUES)
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + 0.09 * np.eye(seen.sum()))
    mean, covariance = prior + gain @ (VALUES - prior)[seen], covariance - gain @ covariance[seen]
    apart = states - mean
    each = apart.mean(axis=1)
    assert (
        np.abs(each.mean(axis=0) / (each.std(axis=0, ddof=1) / 20)).max() < 4
    )  # of six numbers, by chance once in 2,600
    products = (apart[..., :-1] * apart[..., 1:]).mean(axis=1), (apart**2).mean(axis=1)
    for found, exact in zip(products, (np.diag(covariance, 1), np.diag(covariance)), strict=True):
        z = (found.mean(axis=0) - exact) / (found.std(axis=0, ddof=1) / 20)
        assert np.abs(z).max() < 4, z


def test_noise_and_states_of_the_stochastic_lotka_volterra_system():
    """Three processes drive two states; the way from noise to states and back, and a path that simulate has made."""
    system = simkit.odes.StochasticLotkaVolterra()
    start = system.State(jnp.asarray(50.0), jnp.asarray(100.0))
    times = np.arange(1.0, 4.0)
    problem = Problem(
        system,
        Experiment("pond", times, {"hare": [60.0, 70.0, np.nan], "lynx": [90.0, 80.0, 75.0]}, start=0.0, y0=start),
        free={"growth": Free(dist.LogNormal(0.0, 0.5))},
        noise={"hare": Normal(10.0), "lynx": Normal(10.0)},
        solver=EulerMaruyama(),
        step=0.1,
        likelihood=ParticleFilter(4, key=jax.random.key(0)),
    )
    theta = jnp.array([1.1])
    noise = random_noise(problem, jax.random.key(1))
    assert noise.shape == (1, 3, 10, 2)
    states = euler_states(problem, theta, noise)
    again, density = euler_noise(problem, theta, states)
    np.testing.assert_allclose(again, noise, rtol=1e-9, atol=1e-9)
    # The density of a path that was simulated by another program: normal steps with the drift and the covariance of the model.
    path = simkit.simulate(
        problem.setup(theta).system, start, np.linspace(0.0, 3.0, 31), step=0.1, key=jax.random.key(2)
    ).ys
    flat = np.stack([path.hare, path.lynx], axis=1)
    exact = 0.0
    for before, after in itertools.pairwise(flat):
        hare, lynx = before
        a1, a2, a3 = 1.1 * hare, 0.005 * hare * lynx, 0.6 * lynx
        mean = before + 0.1 * np.array([a1 - a2, a2 - a3])
        covariance = 0.1 * np.array([[a1 + a2, -a2], [-a2, a2 + a3]])
        exact += scipy.stats.multivariate_normal.logpdf(after, mean, covariance) + np.log(2 * np.pi * 0.1)
    for row, (hare, lynx) in enumerate([(60.0, 90.0), (70.0, 80.0), (np.nan, 75.0)]):
        at = flat[10 * (row + 1)]
        exact += scipy.stats.norm.logpdf(lynx, at[1], 10.0) + (
            0 if np.isnan(hare) else scipy.stats.norm.logpdf(hare, at[0], 10.0)
        )
    _, density = euler_noise(problem, theta, jnp.asarray(flat[1:].reshape(1, 3, 10, 2)))
    np.testing.assert_allclose(density, exact, rtol=1e-9)
    # A number that nothing drives leaves a step without a density.
    _, none = euler_noise(problem, theta, jnp.zeros((1, 3, 10, 2)))
    assert none == -jnp.inf


class Pushed(simkit.StochasticSystem):
    """A place that only its speed makes uncertain: its steps have no density."""

    class State(eqx.Module):
        x: simkit.Scalar
        v: simkit.Scalar

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "additive"
    strength: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)

    def drift(self, t, y, inputs):
        return self.State(y.v, -y.v)

    def diffusion(self, t, y, inputs):
        return self.State(0 * y.x, self.strength)

    @classmethod
    def example(cls):
        return simkit.Example(cls(), cls.State(0.0, 0.0), np.linspace(0.0, 1.0, 3))


def test_steps_without_a_density_keep_their_ancestors():
    data, gain = np.array([0.6, 1.1, 0.2]), np.array([[1.0, 0.5], [0.0, 0.5]])
    problem = Problem(
        Pushed(),
        Experiment("a", np.arange(1.0, 4.0), {"x": data}, start=0.0, y0=Pushed.State(0.0, 0.0)),
        free={"strength": Free(dist.LogNormal(0.0, 0.5))},
        noise={"x": Normal(0.3)},
        solver=EulerMaruyama(),
        step=0.5,
        likelihood=ParticleFilter(30, key=jax.random.key(0)),
    )
    ask = {"method": ParticleGibbs(moves=5), "key": jax.random.key(1)}
    posterior = simkit.sample(problem, draws=800, warmup=150, chains=4, **ask)
    logs, log = np.linspace(-2.0, 2.0, 81), []
    for strength in np.exp(logs):
        mean, covariance, total = np.zeros(2), np.zeros((2, 2)), 0.0
        for value in data:
            for _ in range(2):
                mean, covariance = gain @ mean, gain @ covariance @ gain.T + np.diag([0.0, 0.5 * strength**2])
            spread = covariance[0, 0] + 0.09
            total += scipy.stats.norm.logpdf(value, mean[0], np.sqrt(spread))
            pull = covariance[:, 0] / spread
            mean, covariance = mean + pull * (value - mean[0]), covariance - np.outer(pull, covariance[0])
        log.append(total + scipy.stats.norm.logpdf(np.log(strength), 0.0, 0.5))
    check_draws(posterior, logs, log)


def test_draws_of_a_jump_process(tmp_path):
    """Survivors are binomial, so that the likelihood is a sum over all counts; draws go on from a store."""
    data = np.array([12.4, 7.7, 4.2, 2.5])
    problem = Problem(
        Survivors(),
        Experiment("herd", np.arange(1.0, 5.0), {"n": data}, start=0.0, y0={"n": 20.0}),
        free={"death": Free(dist.LogNormal(-1.0, 0.5))},
        noise={"n": Normal(scale=1.0)},
        likelihood=ParticleFilter(30, key=jax.random.key(0)),
    )
    ask = {
        "method": ParticleGibbs(moves=5),
        "key": jax.random.key(1),
        "warmup": 100,
        "chains": 4,
        "store": tmp_path / "run",
    }
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
    check_draws(posterior, logs, log)
