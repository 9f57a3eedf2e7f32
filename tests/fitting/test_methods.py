"""Optax's methods reach the optimum of Gauss-Newton."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest

from simkit import Experiment, Free, Problem
from simkit.fitting import LBFGS, Optimiser, fit
from simkit.fitting._local_model import local_model, objective
from simkit.noise import LogNormal, Normal
from simkit.odes import ExponentialDecay, from_response

TIMES = np.linspace(0.0, 3.0, 13)
SCATTER = np.array([0.3, -0.1, 0.25, -0.4, 0.05, 0.2, -0.3, 0.1, -0.15, 0.35, -0.2, 0.0, -0.1])


@pytest.fixture(scope="module")
def problem():
    """One coordinate between two bounds, one beside a bound, one without; simulations fail where the offset is below -1."""
    system = from_response(
        lambda x, p: p["size"] * jnp.exp(-p["rate"] * x) + jnp.sqrt(1 + p["offset"]),
        {"size": 1.0, "rate": 1.0, "offset": 0.0},
    )
    free = {
        "size": Free(dist.Normal(1.0, 2.0), bounds=(0.1, 10.0)),
        "rate": Free(dist.LogNormal(0.0, 1.0), bounds=(0.0, None), transform="linear"),
        "offset": Free(dist.Normal(0.0, 0.5)),
    }
    y = 2.0 * np.exp(-0.7 * TIMES) + 1.0 + 0.2 * SCATTER
    return Problem(system, Experiment("decay", TIMES, {"y": y}), free=free, noise={"y": Normal(0.1)})


@pytest.fixture(scope="module")
def expected(problem):
    return fit(problem, starts=4)


def test_lbfgs_reaches_the_same_optimum(problem, expected):
    result = fit(problem, starts=4, method=LBFGS())
    assert result.agreeing() == 4
    # A relative gradient of 1e-8 is some 1e-6 of a standard error here, and those are a tenth of the values.
    np.testing.assert_allclose(result.estimate, expected.estimate, rtol=1e-5)
    np.testing.assert_allclose(result.covariance, expected.covariance, rtol=1e-4)
    assert (np.asarray(result.status) == 0).all()


def test_adam_reaches_the_same_optimum(problem, expected):
    adam = optax.adam(optax.exponential_decay(0.1, 1000, 0.1))
    result = fit(problem, starts=4, method=Optimiser(adam, steps=4000))
    # A start at a fast rate has next to no gradient, and 4000 steps hardly bring it back.
    assert result.agreeing() >= 3
    np.testing.assert_allclose(result.estimate, expected.estimate, rtol=1e-4)
    short = fit(problem, starts=4, method=Optimiser(adam, steps=5))
    assert (np.asarray(short.status) == 1).all()
    assert (np.asarray(short.iterations) == 5).all()
    assert "had not converged" in repr(short)


@pytest.mark.parametrize("noise", [Normal(0.1), LogNormal(0.1)], ids=["normal", "log_normal"])
def test_local_model_is_the_gradient_and_the_information(noise):
    """Value and gradient against the objective itself; R^T R against the Jacobian in closed form."""
    y0 = ExponentialDecay.example().y0
    names = list(vars(y0))
    free = {"rate": Free(dist.LogNormal(0.0, 1.0)), f"noise.{names[0]}.scale": Free(dist.LogNormal(-2.0, 1.0))}
    y = 2.0 * np.exp(-0.7 * TIMES[1:]) + 0.1 * SCATTER[1:]
    data = Experiment("decay", TIMES[1:], {names[0]: y}, start=0.0)
    problem = Problem(ExponentialDecay(), data, free=free, noise={names[0]: noise}, y0=type(y0)(2.0), step=0.05)
    z = jnp.log(jnp.array([0.6, 0.15]))
    model = jax.jit(local_model)(problem, z)
    value, gradient = jax.jit(jax.value_and_grad(objective))(z, problem)
    np.testing.assert_allclose(model.value, value, rtol=1e-12)
    np.testing.assert_allclose(model.gradient, gradient, rtol=1e-10)
    location = 2.0 * np.exp(-0.6 * TIMES[1:])
    slope = -0.6 * TIMES[1:] * (location if isinstance(noise, Normal) else 1)
    # The closed form is the exact solution, the model's a solve with fixed steps of 0.05 by a method of fifth order.
    found = np.asarray(model.rows.T @ model.rows)
    np.testing.assert_allclose(found, np.diag([np.sum(slope**2) / 0.15**2, 2 * 12]), rtol=1e-7, atol=1e-7)
    # -log prior of a log-normal in the logarithm l is (l - m)^2 / (2 s^2) + l up to a constant: curvature 1 / s^2.
    np.testing.assert_allclose(model.curvature, [1.0, 1.0], rtol=1e-12)


def test_failed_simulation_is_infinite_and_without_gradient(problem):
    z = jnp.array([1.0, 1.0, -2.0])
    value, gradient = jax.value_and_grad(objective)(z, problem)
    assert value == jnp.inf
    np.testing.assert_array_equal(gradient, 0)
    model = local_model(problem, z)
    assert model.value == jnp.inf
    assert not model.good
    np.testing.assert_array_equal(model.rows, 0)
