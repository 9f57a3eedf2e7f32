"""Fields that stop being finite, by GMRES; and derivatives by a pattern that lacks places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solvers.problems import Field

import simkit
from simkit.solvers import BDF, JacobianPattern, Krylov

BY_PRODUCTS = BDF(krylov=Krylov())
START = jnp.ones(30)


def after_one(t, y, k):
    return -k[0] * (y - jnp.mean(y)) - y + jnp.where(t > 1, jnp.nan, 0.0)


def infinite(t, y, k):
    return -k[0] * (y - jnp.mean(y)) - y + jnp.where(t > 1, jnp.inf, 0.0)


def below_a_half(t, y, k):
    return -k[0] * (y - jnp.mean(y)) - 1 + jnp.where(y < 0.5, jnp.nan, 0.0)


def by_logarithm(t, y, k):
    return -k[0] * (y - jnp.mean(y)) - 1 + 0 * jnp.log(y - 0.5)


def at(field, k, **how):
    return simkit.simulate(Field(jnp.asarray([1.0]) * k, field), START, [0.0, 0.25, 2.0], solver=BY_PRODUCTS, **how)


@pytest.mark.parametrize("field", [after_one, infinite, below_a_half, by_logarithm])
def test_what_is_not_finite_is_a_failure(field):
    """GMRES has no space for a right side that is NaN, and its answer of 0 counted as a correction that had converged."""
    with pytest.raises(simkit.SimulationError, match="finite"):
        at(field, 1e3)
    value = lambda k: at(field, k, on_failure="mark").ys[-1, 0]
    assert np.isnan(value(1e3))
    assert np.isnan(jax.grad(value)(1e3))
    assert np.isfinite(at(field, 1e3, on_failure="mark").ys[1]).all()


def test_members_beside_one_that_fails_are_right():
    field = lambda t, y, k: -1e3 * (y - jnp.mean(y)) - y + jnp.where(k[0] > 1.5, jnp.where(t > 1, jnp.nan, 0.0), 0.0)
    ends = jax.vmap(lambda k: at(field, k, on_failure="mark").ys[-1, 0])(jnp.array([1.0, 2.0]))
    assert float(ends[0]) == pytest.approx(np.exp(-2.0), rel=1e-4)
    assert np.isnan(ends[1])


def test_derivatives_of_bdf_by_a_pattern_that_lacks_places_are_nan():
    """Under `jax.grad` values are traced and a pattern is not compared: a gradient was 2e7 in place of -4e-4."""
    size = 30
    ring = lambda t, y, k: k[0] * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1))
    start = jnp.asarray(1 + 0.5 * np.sin(np.arange(size)))

    def end(k, pattern):
        system = Field(jnp.asarray([1.0]) * k, ring)
        run = simkit.simulate(system, start, [0.0, 1e-3], solver=BDF(pattern=pattern), on_failure="mark")
        return run.final()[3]

    whole = JacobianPattern(np.eye(size) + np.roll(np.eye(size), 1, 1) + np.roll(np.eye(size), -1, 1))
    right = jax.grad(end)(1e3, whole)
    step = 1.0
    assert float(right) == pytest.approx(float(end(1e3 + step, whole) - end(1e3 - step, whole)) / 2, rel=1e-3)
    assert np.isnan(jax.grad(end)(1e3, JacobianPattern(np.eye(size))))
