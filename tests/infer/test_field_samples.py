"""Draws of fields by NUTS in white coordinates, against the normal distribution of a linear problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import Experiment, Free, Problem
from simkit.fields import Matern
from simkit.infer._coordinates import unconstrained_coordinates
from simkit.noise import Normal

SIZE = 8


class Rest(simkit.PlainSystem):
    """Decay at each place, du/dt = -u."""

    def vector_field(self, t, y, inputs):
        return -y

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.ones(SIZE), jnp.linspace(0.0, 1.0, 3))


def decaying(transform=None):
    """Every second place of a field seen once."""
    data = np.where(np.arange(SIZE) % 2, np.nan, np.linspace(0.2, 1.0, SIZE))[None]
    prior = Matern(1.0, length=0.3, box=1.0, mean=0.5)
    free = {"y0": Free(prior, transform=transform)}
    experiment = Experiment("ring", [0.5], {"y": data}, start=0.0)
    return Problem(Rest(), experiment, free=free, noise={"y": Normal(0.2)}, y0=jnp.ones(SIZE), solver="rk4", step=0.1)


def test_draws_of_a_field_are_those_of_the_normal_posterior():
    problem = decaying()
    fit = simkit.fit(problem, method=simkit.GaussNewtonCG(tolerance=1e-10, modes=SIZE))
    posterior = simkit.sample(problem, start=fit, chains=2, draws=600, warmup=100, key=jax.random.key(0))
    draws = np.asarray(posterior.flat())
    deviations = np.asarray(fit.standard_error("y0"))
    # 1200 draws, nearly independent with the exact covariance as mass matrix: 5 errors of a mean of 600, and of a deviation.
    np.testing.assert_allclose(draws.mean(axis=0), fit["y0"], atol=5 * deviations.max() / np.sqrt(600))
    np.testing.assert_allclose(draws.std(axis=0), deviations, rtol=5 / np.sqrt(2 * 600))
    with pytest.raises(simkit.ArgumentError, match="`store` does not go with the prior of fields of `y0`"):
        simkit.sample(problem, start=fit, store="draws", key=jax.random.key(0))


@pytest.mark.parametrize("transform", [None, "log"])
def test_the_volume_of_white_coordinates_is_the_determinant(transform):
    problem = decaying(transform)
    coordinates, u = unconstrained_coordinates(problem), jnp.linspace(-1.0, 1.0, SIZE)
    theta = coordinates.natural(u)
    np.testing.assert_allclose(coordinates.unconstrained(theta), u, atol=1e-12)  # rounding
    slope = jax.jacfwd(coordinates.natural)(u)
    np.testing.assert_allclose(coordinates.log_volume(u), np.linalg.slogdet(slope)[1], atol=1e-12)
    # The prior in natural units with the volume is a standard normal density of white coordinates.
    white = -0.5 * u @ u - 0.5 * SIZE * np.log(2 * np.pi)
    np.testing.assert_allclose(problem.log_prior(theta) + coordinates.log_volume(u), white, rtol=1e-12)
