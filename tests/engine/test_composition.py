"""jit, grad, jvp, vmap and shard_map around simulate, in several nestings, on one system of each deterministic family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import simkit
from simkit.odes import LotkaVolterra, Pendulum
from simkit.solvers import Tsit5, VelocityVerlet

MEMBERS = jnp.array([0.9, 1.0, 1.1, 1.2])
TIMES = jnp.linspace(0.0, 2.0, 5)


def last_hare(factor):
    system = LotkaVolterra(growth=0.55 * factor)
    y0 = jax.tree.map(lambda x: x * factor, LotkaVolterra.example().y0)
    return simkit.simulate(system, y0, TIMES, step=simkit.Fixed(4), solver=Tsit5()).ys.hare[-1]


def last_angle(factor):
    system, y0, _, _ = Pendulum.example()
    system = simkit.core.Setup(system).put({"length": factor}).system
    return simkit.simulate(system, y0, TIMES, step=simkit.Fixed(20), solver=VelocityVerlet()).ys.position[-1]


def adaptive(factor):
    system = LotkaVolterra(growth=0.55 * factor)
    y0 = LotkaVolterra.example().y0
    return simkit.simulate(system, y0, TIMES, solver=Tsit5(), step=simkit.Adaptive(1e-8, 1e-10)).ys.hare[-1]


def spread(function):
    mesh = jax.make_mesh((2,), ("m",), axis_types=(AxisType.Auto,))
    part = PartitionSpec("m")
    return jax.jit(jax.shard_map(jax.vmap(function), mesh=mesh, in_specs=part, out_specs=part, check_vma=False))


@pytest.mark.parametrize("function", [last_hare, last_angle])
def test_fixed_steps_in_every_nesting(function):
    slopes = np.array([jax.grad(function)(m) for m in MEMBERS])
    # the same arithmetic in another order: rounding, amplified some hundred times along the orbit
    close = lambda found: np.testing.assert_allclose(found, slopes, rtol=1e-10)
    close(jax.jit(jax.vmap(jax.grad(function)))(MEMBERS))
    close(jax.vmap(lambda m: jax.jvp(function, (m,), (jnp.ones_like(m),))[1])(MEMBERS))
    close(jax.grad(lambda ms: jax.vmap(function)(ms).sum())(MEMBERS))
    close(spread(jax.grad(function))(MEMBERS))
    close(jax.grad(lambda ms: spread(function)(ms).sum())(MEMBERS))
    h = 1e-4
    second = (jax.grad(function)(MEMBERS[0] + h) - jax.grad(function)(MEMBERS[0] - h)) / (2 * h)
    np.testing.assert_allclose(
        jax.hessian(function)(MEMBERS[0]), second, rtol=1e-5
    )  # differences: some h^2 = 1e-8 relative


def test_adaptive_steps_in_forward_mode_inside_shard_map():
    slope = lambda m: jax.jvp(adaptive, (m,), (jnp.ones_like(m),))[1]
    alone = np.array([slope(m) for m in MEMBERS])
    np.testing.assert_allclose(spread(slope)(MEMBERS), alone, rtol=1e-9)
    h = 1e-5
    central = (adaptive(MEMBERS[1] + h) - adaptive(MEMBERS[1] - h)) / (2 * h)
    # the step sizes are held while differentiating: the tangent is as accurate as the solve, not as its differences
    np.testing.assert_allclose(alone[1], central, rtol=1e-4)


def test_a_gradient_through_an_optimiser():
    """The slope, with respect to the data, of two gradient-descent steps on a fit."""

    def fitted(target):
        factor = jnp.array(1.0)
        for _ in range(2):
            factor = factor - 1e-4 * jax.grad(lambda f: (last_hare(f) - target) ** 2)(factor)
        return factor

    h = 1e-3
    central = (fitted(60.0 + h) - fitted(60.0 - h)) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.grad(fitted))(60.0), central, rtol=1e-6)
