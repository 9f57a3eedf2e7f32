"""The W-method: its order whatever stands in for the linear part, and how it damps what is stiff."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, Example, StiffTransportSystem
from simkit.solvers import SSPRK3, WRK3, choose


class Relaxing(StiffTransportSystem):
    """y' = A y + forcing: `stands` is what the solver takes for the stiff part of A."""

    matrix: jax.Array
    stands: jax.Array
    push: jax.Array
    stiff: bool = eqx.field(static=True, default=True)

    def vector_field(self, t, y, inputs):
        return self.matrix @ y + self.push * jnp.cos(3 * t) - 0.3 * y**2

    def smoothed(self, state, change, time):
        return jnp.linalg.solve(jnp.eye(change.size) - time * self.stands, change)

    def longest_step(self, t, state, inputs):
        return jnp.asarray(1e9)

    def decode(self, state):
        return state

    @classmethod
    def example(cls):
        return Example(cls(-jnp.eye(2), -jnp.eye(2), jnp.ones(2)), jnp.ones(2), jnp.linspace(0.0, 1.0, 3))


def test_its_order_is_two_whatever_stands_in():
    """With a matrix that has nothing to do with the system's but its size."""
    rng = np.random.default_rng(0)
    matrix, other = (jnp.asarray(rng.normal(size=(3, 3)) - 2 * np.eye(3)) for _ in range(2))
    system = Relaxing(matrix, other, jnp.array([1.0, -0.5, 0.2]))
    ends = {}
    for steps in (16, 32, 1024):
        run = simkit.simulate(system, jnp.array([0.5, 1.0, -0.5]), [0.0, 1.0], step=simkit.Fixed(steps))
        ends[steps] = np.asarray(run.final())
    assert run.solver.startswith("WRK3")
    errors = [np.abs(ends[n] - ends[1024]).max() for n in (16, 32)]
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.15  # of higher orders at 32 steps


@pytest.mark.parametrize(("true", "left"), [(1.0, 0.35), (2.0, 0.7), (3.0, 0.3)])
def test_what_is_stiff_is_damped(true, left):
    """The factor of one step for a rate that goes to minus infinity, right and where the true one is a few times as large."""
    rate = -1e8
    system = Relaxing(jnp.array([[true * rate]]), jnp.array([[rate]]), jnp.zeros(1))
    field = eqx.tree_at(lambda s: s.matrix, system, system.matrix)
    run = simkit.simulate(field, jnp.array([1e-9]), [0.0, 1.0], step=simkit.Fixed(1))
    assert abs(float(run.final()[0])) < left * 1e-9


def test_an_explicit_solver_is_refused():
    system, y0, times, _ = Relaxing.example()
    assert isinstance(choose(system, y0, times).solver, WRK3)
    with pytest.raises(ArgumentError, match=r"`SSPRK3` is explicit .* `WRK3` fits"):
        simkit.simulate(system, y0, times, solver=SSPRK3(), step=simkit.Fixed(4))
    relaxed = Relaxing(-jnp.eye(2), -jnp.eye(2), jnp.ones(2), stiff=False)
    assert isinstance(choose(relaxed, y0, times).solver, SSPRK3)
