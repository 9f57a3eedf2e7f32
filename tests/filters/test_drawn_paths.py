"""Paths drawn given all data, by Kalman's filter and by backward simulation, against joint normal distributions."""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from filters.test_smoothed import THETA, smoothed, wandering

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.filters import KalmanFilter, ParticleFilter, states
from simkit.noise import Normal
from simkit.solvers import EulerMaruyama

PULL, DRAG, KICK, ERROR, WIDTH = 2.0, 0.5, 0.7, 0.01, 0.3
TIMES = np.array([0.0, 0.7, 0.7, 1.5, 4.0])  # one at the start, two at one time
VALUES = np.array([0.9, 0.5, np.nan, -0.3, 0.2])


class Spring(simkit.StochasticSystem):
    """Position and velocity, of which the velocity alone is noisy."""

    class State(eqx.Module):
        x: simkit.Scalar
        v: simkit.Scalar

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "additive"
    kick: simkit.Scalar = simkit.quantity(KICK)

    def drift(self, t, y, inputs):
        return self.State(y.v, -PULL * y.x - DRAG * y.v)

    def diffusion(self, t, y, inputs):
        return self.State(jnp.zeros_like(self.kick), self.kick)

    def outputs(self, t, y, inputs):
        return {"x": y.x}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), cls.State(jnp.asarray(1.0), jnp.asarray(0.0)), jnp.linspace(0.0, 4.0, 5))


def spring(likelihood, **given):
    start = Spring.State(jnp.asarray(1.0), jnp.asarray(0.0))
    return Problem(
        Spring(),
        Experiment("a", TIMES, {"x": VALUES}, start=0.0, y0=start, replicates=True),
        free={"kick": Free(bounds=(0.01, 9.0))},
        noise={"x": Normal(ERROR)},
        likelihood=likelihood,
        **given,
    )


def joint():
    """Mean and covariance of all states at the start and the times of data, and the matrix that sees the positions."""
    times = np.append(0.0, TIMES)
    a, noise = np.array([[0.0, 1.0], [-PULL, -DRAG]]), np.diag([0.0, KICK**2])
    size = 2 * len(times)
    mean, covariance = np.zeros(size), np.zeros((size, size))
    # The noise of an interval by Van Loan's matrix exponential.
    states, spread = np.array([1.0, 0.0]), np.diag([WIDTH**2, 0.0])
    moves = []
    for i, gap in enumerate(np.append(0.0, np.diff(times))):
        block = scipy.linalg.expm(gap * np.block([[-a, noise], [np.zeros((2, 2)), a.T]]))
        move = block[2:, 2:].T
        states, spread = move @ states, move @ spread @ move.T + move @ block[:2, 2:]
        moves.append(move)
        rows = slice(2 * i, 2 * i + 2)
        mean[rows], covariance[rows, rows] = states, spread
        for j in range(i):
            before = slice(2 * j, 2 * j + 2)
            covariance[rows, before] = move @ covariance[2 * i - 2 : 2 * i, before]
            covariance[before, rows] = covariance[rows, before].T
    return mean, covariance, np.eye(size)[2::2]


def test_paths_of_a_linear_system_are_draws_from_its_joint_distribution():
    count = 4000
    found = states(spring(KalmanFilter({"x": WIDTH})), [KICK], paths=count, key=jax.random.key(0))
    mean, covariance, see = joint()
    seen = np.isfinite(VALUES)
    see, values = see[seen], VALUES[seen]
    gain = covariance @ see.T @ np.linalg.inv(see @ covariance @ see.T + ERROR**2 * np.eye(seen.sum()))
    mean, covariance = mean + gain @ (values - see @ mean), covariance - gain @ see @ covariance
    np.testing.assert_allclose(
        np.stack([found.mean.x[0], found.mean.v[0]], axis=1).ravel(), mean, atol=1e-8 * np.abs(mean).max()
    )
    paths = np.stack([found.paths.x[0], found.paths.v[0]], axis=-1).reshape(count, -1)
    # Two data at one time have one state, and the velocity at the start is known; both to the root of rounding.
    assert np.abs(paths[:, 4:6] - paths[:, 6:8]).max() < 1e-6
    assert np.abs(paths[:, 1]).max() < 1e-6
    free = [0, 2, 4, 5, 8, 9, 10, 11]
    paths, mean, covariance = paths[:, free], mean[free], covariance[np.ix_(free, free)]
    width = np.sqrt(np.diag(covariance))
    z = (paths.mean(axis=0) - mean) / width * np.sqrt(count)
    assert np.abs(z).max() < 4.5, z
    # The standard error of a covariance of normal numbers; 36 of them.
    error = np.sqrt((np.outer(width, width) ** 2 + covariance**2) / count)
    z = (np.cov(paths.T, bias=True) - covariance) / error
    assert np.abs(z).max() < 4.5, z


def test_backward_simulation_of_a_linear_system():
    """Paths that are drawn backwards have the smoothed moments, and early rows rest on as many particles as late ones."""
    particles, repeats = 100, 200
    problem = wandering(ParticleFilter(particles, key=jax.random.key(0)), solver=EulerMaruyama(), step=0.5)
    keys = jax.random.split(jax.random.key(1), repeats)
    draw = lambda key: states(problem, THETA, paths=particles, backward=True, key=key)
    found = jax.jit(lambda keys: jax.lax.map(draw, keys))(keys)
    mean, covariance = smoothed(THETA)
    width = np.sqrt(np.diag(covariance))
    means = np.asarray(found.mean.x)[:, 0, 1:]
    # A weighted mean has a bias of order 1 / N beside its standard error.
    z = np.abs(means.mean(axis=0) - mean) / (means.std(axis=0, ddof=1) / np.sqrt(repeats) + width / particles)
    assert z.max() < 4, z
    apart = np.asarray(found.paths.x)[:, 0, :, 1:] - mean
    products = np.einsum("rpi,rpj->rij", apart, apart) / particles
    error = products.std(axis=0, ddof=1) / np.sqrt(repeats) + np.outer(width, width) / particles
    z = (products.mean(axis=0) - covariance) / error
    assert np.abs(z).max() < 4, z
    lines = jax.jit(lambda keys: jax.lax.map(lambda key: states(problem, THETA, key=key).ancestors, keys))(keys)
    back = np.asarray(found.ancestors)[:, 0, 1:].mean(axis=0)
    assert back[0] > 1.5 * np.asarray(lines)[:, 0, 1].mean()
    assert (np.asarray(found.paths.x)[:, 0, :, 0] == 3.0).all()


def test_backward_paths_of_guided_particles_with_short_steps():
    problem = wandering(
        ParticleFilter(400, key=jax.random.key(0), proposal="guided"), solver=EulerMaruyama(), step=0.125
    )
    found = states(problem, THETA, paths=400, backward=True, key=jax.random.key(2))
    mean, covariance = smoothed(THETA, 4)
    z = (found.mean.x[0, 1:] - mean) / np.sqrt(np.diag(covariance)) * np.sqrt(found.ancestors[0, 1:])
    assert np.abs(z).max() < 4, z


def test_refused():
    particles = wandering(ParticleFilter(20, key=jax.random.key(0)), step=0.5)
    with pytest.raises(ArgumentError, match="density of a step"):
        states(particles, THETA, paths=3, backward=True)
    with pytest.raises(ArgumentError, match="`paths` must be at least 2"):
        states(particles, THETA, backward=True)
    with pytest.raises(ArgumentError, match="`backward` is for `ParticleFilter`"):
        states(wandering(KalmanFilter()), THETA, paths=3, backward=True, key=jax.random.key(0))


def test_noise_that_moves_one_state_alone_keeps_its_ancestors():
    """Steps of the spring have no density, so paths that are drawn backwards are lines of ancestors."""
    problem = spring(ParticleFilter(200, key=jax.random.key(0), proposal="guided"), solver=EulerMaruyama(), step=0.05)
    found = states(problem, [KICK], paths=200, backward=True)
    path, times = np.asarray(found.paths.x)[0], np.append(0.0, TIMES)
    rows = np.diff(times) > 0
    assert (path[:, 1:][:, ~rows] == path[:, :-1][:, ~rows]).all()
    assert np.abs(path[:, 2] - VALUES[1]).max() < 5 * ERROR
