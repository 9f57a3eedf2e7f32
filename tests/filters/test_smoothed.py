"""Smoothed particles against joint normal distributions and against hidden Markov chains, both by NumPy and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.filters import KalmanFilter, ParticleFilter, states
from simkit.noise import Normal
from simkit.odes import OrnsteinUhlenbeck
from simkit.solvers import EulerMaruyama

TIMES = np.array([0.5, 1.0, 1.5, 2.0])
VALUES = np.array([2.1, 1.3, np.nan, 1.9])
THETA = np.array([0.8, 1.5, 0.6, 0.2])
PARTICLES, REPEATS = 300, 64


def wandering(likelihood, **given):
    names = ("reversion", "mean", "volatility", "noise.x.scale")
    return Problem(
        OrnsteinUhlenbeck(0.8, 1.5, 0.6),
        Experiment("a", TIMES, {"x": VALUES}, start=0.0, y0={"x": 3.0}),
        free={name: Free(bounds=(0.01, 9.0)) for name in names},
        noise={"x": Normal(scale=0.2)},
        likelihood=likelihood,
        **given,
    )


def smoothed(theta, substeps=1):
    """Mean and covariance of Euler's chain at the times of the data, with so many steps a row, given all data."""
    k, mean, volatility, scale = theta
    step, size = 0.5 / substeps, len(TIMES) * substeps
    factor, rows = 1 - step * k, np.arange(substeps - 1, size, substeps)
    # x = first + root e, with independent noise e of each step.
    root = volatility * np.sqrt(step) * np.tril(factor ** np.maximum(np.subtract.outer(range(size), range(size)), 0))
    prior, covariance = mean + (3.0 - mean) * factor ** (rows + 1), (root @ root.T)[np.ix_(rows, rows)]
    seen = np.isfinite(VALUES)
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + scale**2 * np.eye(seen.sum()))
    return prior + gain @ (VALUES - prior)[seen], covariance - gain @ covariance[seen]


def test_smoothed_particles_and_paths_of_a_linear_system():
    problem = wandering(ParticleFilter(PARTICLES, key=jax.random.key(0)), solver=EulerMaruyama(), step=0.5)
    keys = jax.random.split(jax.random.key(1), REPEATS)
    found = jax.jit(jax.vmap(lambda key: states(problem, THETA, paths=20, key=key)))(keys)
    mean, covariance = smoothed(THETA)
    means = np.asarray(found.mean.x)[:, 0, 1:]
    width = np.sqrt(np.diag(covariance))
    # A weighted mean has a bias of order 1 / N beside its standard error.
    z = np.abs(means.mean(axis=0) - mean) / (means.std(axis=0, ddof=1) / np.sqrt(REPEATS) + width / PARTICLES)
    assert z.max() < 4, z
    # The number that is told is that of independent draws with the same error, to a factor of two.
    told = np.asarray(found.ancestors)[:, 0, 1:].mean(axis=0)
    ratio = means.var(axis=0, ddof=1) * told / width**2
    assert (ratio > 0.5).all(), ratio
    assert (ratio < 2).all(), ratio
    assert told[0] < told[-1] < PARTICLES
    paths = np.asarray(found.paths.x)[:, 0]
    assert paths.shape == (REPEATS, 20, 5)
    assert (paths[..., 0] == 3.0).all()
    # Products of deviations at the first and the last time: within an ensemble paths share ancestors, so each counts once.
    apart = paths[..., 1:] - mean
    products = (apart[..., 0] * apart[..., 1]).mean(axis=1)
    assert abs(products.mean() - covariance[0, 1]) < 4 * products.std(ddof=1) / np.sqrt(REPEATS)
    with pytest.raises(ArgumentError, match="give both `paths` and `key`"):
        states(wandering(KalmanFilter()), THETA, paths=3)
    with pytest.raises(ArgumentError, match='`given` must be "all"'):
        states(problem, THETA, given="past", paths=3)
    with pytest.raises(ArgumentError, match="`paths` must be a whole number"):
        states(problem, THETA, paths=-1)
    text = repr(states(problem, THETA, paths=2))
    assert "2 paths" in text
    assert "effective number of distinct particles" in text


def test_a_result_says_that_few_particles_are_left():
    few = states(wandering(ParticleFilter(8, key=jax.random.key(0)), solver=EulerMaruyama(), step=0.5), THETA)
    assert float(few.ancestors.min()) < 8
    assert "rest on few particles" in repr(few)


class Herd(simkit.JumpSystem):
    """Arrivals, and deaths one by one."""

    arrival: simkit.Scalar = simkit.quantity(4.0)
    death: simkit.Scalar = simkit.quantity(0.5)

    def propensities(self, t, y, inputs):
        return {"arrival": self.arrival, "death": self.death * y["n"]}

    def jumps(self):
        return {"arrival": {"n": 1}, "death": {"n": -1}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"n": 3.0}, jnp.linspace(0.0, 2.0, 3))


def test_smoothed_particles_of_a_jump_process():
    """The chain on 0 to 50 animals has a matrix exponential for the way between two data, and sums over all states."""
    data = np.array([5.2, 8.9, 4.1])
    problem = Problem(
        Herd(),
        Experiment("herd", [1.0, 2.0, 3.0], {"n": data}, start=0.0, y0={"n": 3.0}),
        free={"arrival": Free(bounds=(0.1, 40.0))},
        noise={"n": Normal(scale=1.5)},
        likelihood=ParticleFilter(PARTICLES, key=jax.random.key(0)),
    )
    keys = jax.random.split(jax.random.key(2), REPEATS)
    found = jax.jit(jax.vmap(lambda key: states(problem, jnp.array([4.0]), key=key).mean["n"]))(keys)
    n = np.arange(51.0)
    rates = np.diag(np.full(50, 4.0), 1) + np.diag(0.5 * n[1:], -1)
    move = scipy.linalg.expm(rates - np.diag(rates.sum(axis=1)))
    density = scipy.stats.norm.pdf(data[:, None], n, 1.5)
    before, after = [(n == 3).astype(float)], [np.ones(51)]
    for row in density:
        before.append((before[-1] @ move) * row)
    for row in density[::-1]:
        after.append(move @ (row * after[-1]))
    weight = np.array(before[1:]) * np.array(after[-2::-1])
    mean = weight @ n / weight.sum(axis=1)
    width = np.sqrt(weight @ n**2 / weight.sum(axis=1) - mean**2)
    means = np.asarray(found)[:, 0, 1:]
    z = np.abs(means.mean(axis=0) - mean) / (means.std(axis=0, ddof=1) / np.sqrt(REPEATS) + width / PARTICLES)
    assert z.max() < 4, z
