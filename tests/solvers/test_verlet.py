"""Velocity Verlet: symplectic, reversible, one force a step."""

import jax
import jax.numpy as jnp
import numpy as np
from solvers.problems import Swing

import simkit
from simkit import Fixed, SeparableSystem
from simkit.core import SystemTerm
from simkit.solvers import VelocityVerlet


def one_step(z, h=0.3):
    solver, term = VelocityVerlet(), SystemTerm(Swing(), None)
    start = SeparableSystem.State(z[:2], z[2:])
    end = solver.advance(
        term, jnp.zeros(()), jnp.asarray(h), jnp.asarray(h), start, solver.init(term, 0.0, start)
    ).state
    return jnp.concatenate([end.position, end.momentum])


def test_a_step_is_symplectic():
    """The Jacobian M of a step keeps the symplectic form: M' J M = J."""
    jacobian = jax.jacfwd(one_step)(jnp.asarray([0.7, -1.2, 0.4, 0.9]))
    form = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(2))
    np.testing.assert_allclose(jacobian.T @ form @ jacobian, form, atol=1e-14)  # exact but for round-off
    assert np.abs(jacobian - np.eye(4)).max() > 0.1


def test_a_step_backwards_returns():
    z = jnp.asarray([0.7, -1.2, 0.4, 0.9])
    np.testing.assert_allclose(one_step(one_step(z), -0.3), z, atol=1e-15)


def test_energy_does_not_drift():
    times = jnp.linspace(0.0, 2000.0, 2001)
    result = simkit.simulate(Swing(), Swing.start(), times, step=Fixed(5))
    assert result.solver.startswith("VelocityVerlet")
    energy = jax.vmap(lambda y: Swing().invariants(0.0, y)["energy"])(result.ys)
    error = np.abs(np.asarray(energy - energy[0]))
    # h^2 / 8 times energies of order 1 bounds the swing at h = 0.2; a method that drifts would have grown with time.
    assert error.max() < 0.2**2 / 4
    assert error[-500:].max() < 1.1 * error[:500].max()


def test_one_force_a_step():
    calls = []

    class Counted(Swing):
        def force(self, t, position, inputs):
            jax.debug.callback(lambda: calls.append(1))
            return jax.tree.map(lambda q: -q, position)

    simkit.simulate(Counted(), Swing.start(), jnp.linspace(0.0, 1.0, 5), step=Fixed(3))
    jax.effects_barrier()
    assert len(calls) == 4 * 3 + 1


def test_positions_may_be_trees():
    class Pair(Swing):
        def velocity(self, momentum):
            return jax.tree.map(lambda p: p, momentum)

    position = {"x": jnp.ones(2), "y": jnp.zeros(3)}
    start = SeparableSystem.State.__new__(SeparableSystem.State)
    object.__setattr__(start, "position", position)
    object.__setattr__(start, "momentum", jax.tree.map(jnp.zeros_like, position))
    solver, term = VelocityVerlet(), SystemTerm(Pair(), None)
    end = solver.advance(
        term, jnp.zeros(()), jnp.asarray(0.1), jnp.asarray(0.1), start, solver.init(term, 0.0, start)
    ).state
    np.testing.assert_allclose(end.position["x"], 1 - 0.005 * np.sin(1.0))
    np.testing.assert_allclose(end.position["y"], 0.0)
