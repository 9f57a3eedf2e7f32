"""Rigid bodies: the free symmetric top, the same water as SETTLE moves, what is conserved, drawn and pressed, and derivatives."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from md_runs import KEY

import simkit
from simkit import md

BOND, ANGLE = 1.1, math.radians(105.0)
HALF, HEIGHT = BOND * math.sin(ANGLE / 2), BOND * math.cos(ANGLE / 2)
WATER = np.array([[0.0, 0.0, 0.0], [HALF, HEIGHT, 0.0], [-HALF, HEIGHT, 0.0]])
PLATE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.7]])
FREE = md.LennardJones(cutoff=1.0, epsilon=1e-30)


def turning(axis, angle):
    """The matrix of a turn, by Rodrigues' formula."""
    k = np.cross(np.eye(3), axis / np.linalg.norm(axis))
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def bodies(shape, mass, dynamics, count=8, spacing=3.0, temperature=1.2, settled=False):
    """Bodies of Lennard-Jones atoms on a grid, turned at random, some of them across the faces of the cell."""
    turn, still = jax.random.split(KEY)
    axes, _ = jnp.linalg.qr(jax.random.normal(turn, (count, 3, 3)))
    axes = axes * jnp.sign(jnp.linalg.det(axes))[:, None, None]
    side = math.ceil(count ** (1 / 3))
    centre = spacing * jnp.stack(jnp.meshgrid(*[jnp.arange(float(side))] * 3), -1).reshape(-1, 3)[:count]
    position = (centre[:, None] + jnp.einsum("ak,mkd->mad", jnp.asarray(shape), axes)).reshape(-1, 3)
    space = md.Orthorhombic(jnp.full(3, spacing * side))
    ends = np.arange(len(shape) * count).reshape(count, -1)
    held = md.RigidWater(ends, BOND, ANGLE) if settled else md.RigidBodies(ends, shape, mass)
    masses = jnp.tile(jnp.asarray(mass), count)
    potential = md.LennardJones(cutoff=2.2, truncation=md.Switched(1.7))
    pairs = md.excluded_pairs(np.concatenate([ends[:, [i, i + 1]] for i in range(len(shape) - 1)]), apart=len(shape))
    system = md.Particles(potential, space, mass=masses, dynamics=dynamics, constraints=held, exclusions=pairs)
    position = position.at[:: len(shape) + 1].add(jnp.array([spacing * side, 0.0, 0.0]))
    return system, md.Atoms(position, md.maxwell_boltzmann(still, masses, temperature))


def test_a_free_symmetric_top_precesses():
    """The axis of the figure goes about the angular momentum at L / I, and the body about it at L_3 (1 / I_3 - 1 / I)."""
    mass = np.array([1.0, 1.0, 1.0, 1.0, 0.5])
    held = md.RigidBodies([[0, 1, 2, 3, 4]], PLATE, mass)
    centre = mass @ PLATE / mass.sum()
    x = (PLATE - centre) @ turning(np.array([1.0, 2.0, 0.5]), 0.8).T
    spin = np.array([0.7, -0.4, 1.1])
    inertia = np.sum(mass * np.sum(x**2, 1)) * np.eye(3) - (mass[:, None] * x).T @ x
    momentum = mass[:, None] * np.cross(np.linalg.solve(inertia, spin), x)
    figure = turning(np.array([1.0, 2.0, 0.5]), 0.8) @ [0.0, 0.0, 1.0]
    about = figure @ inertia @ figure
    across = (np.trace(inertia) - about) / 2
    times = np.linspace(0.0, 4.0, 5)
    own = (spin @ figure) * (1 / about - 1 / across)
    size = np.linalg.norm(spin)
    expected = np.stack([x @ (turning(spin, size / across * t) @ turning(figure, own * t)).T for t in times])
    system = md.Particles(FREE, md.OpenSpace(), mass=jnp.asarray(mass), constraints=held)
    system = dataclasses.replace(system, exclusions=md.excluded_pairs([[0, 1], [1, 2], [2, 3], [3, 4]], apart=4))
    errors = []
    for h in (0.02, 0.01):
        run = simkit.simulate(system, md.Atoms(jnp.asarray(x), jnp.asarray(momentum)), times, step=h)
        errors.append(np.abs(run.ys.position - expected).max())
        np.testing.assert_allclose(
            jnp.sum(jnp.cross(run.ys.position, run.ys.momentum), axis=1), np.tile(spin, (5, 1)), atol=1e-12
        )
    assert errors[1] < 1e-4
    assert 3.8 < errors[0] / errors[1] < 4.2


@pytest.mark.slow
def test_water_moves_as_settle_moves_it():
    """Two second-order steps of one motion: what they differ by falls with the square of the step."""
    apart = []
    for h in (0.004, 0.002):
        ends = []
        for settled in (False, True):
            system, y0 = bodies(WATER, [16.0, 1.0, 1.0], md.NVE(), settled=settled)
            body = system._body(y0)
            start = md.Atoms(y0.position, body.constraints[0].tangent(body.space, body.mass, y0.position, y0.momentum))
            ends.append(simkit.simulate(system, start, [0.0, 0.2], step=h).final())
        apart.append(np.abs(ends[0].position - ends[1].position).max())
    assert apart[1] < 2e-4
    assert 3.5 < apart[0] / apart[1] < 4.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "mass"), [(WATER, [16.0, 1.0, 1.5]), (PLATE, [1.0, 2.0, 1.0, 3.0, 0.5])], ids=["water", "tent"]
)
def test_shapes_are_kept_and_the_energy_is_conserved_to_second_order(shape, mass):
    system, y0 = bodies(shape, mass, md.NVE(), spacing=3.3)
    system, drifts = system.prepared(y0), []
    for h in (0.004, 0.002):
        ys = simkit.simulate(system, y0, np.linspace(0.0, 0.4, 11), step=h).ys
        energy = jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)["energy"]))(ys)
        drifts.append(np.ptp(energy[1:]))  # the first row has momenta that would bend the bodies
    assert 3.3 < drifts[0] / drifts[1] < 4.7
    held = system.constraints
    own = ys.position[-1][held.atoms]
    arm = system.space.displacement(own, jnp.broadcast_to(own[:, :1], own.shape))
    apart, expected = (
        np.linalg.norm(x[..., :, None, :] - x[..., None, :, :], axis=-1) for x in (np.asarray(arm), shape)
    )
    np.testing.assert_allclose(apart, np.broadcast_to(expected, apart.shape), atol=1e-12)
    assert np.abs(ys.momentum.sum(1)).max() < 1e-10


@pytest.mark.slow
def test_the_pressure_of_bodies_far_apart_is_that_of_their_centres():
    """The virial of what holds them takes away what their turning adds, at every moment."""
    mass = [1.0, 2.0, 1.0, 3.0, 0.5]
    system, y0 = bodies(PLATE, mass, md.NVE(), spacing=30.0)
    system = system.prepared(y0)
    y = simkit.simulate(system, y0, [0.0, 0.5], step=0.005).final()
    found = jax.jit(lambda y: system.outputs(0.0, y, None))(y)
    centre = y.momentum.reshape(-1, 5, 3).sum(1)
    np.testing.assert_allclose(found["pressure"], (centre**2).sum() / sum(mass) / (3 * 60.0**3), rtol=1e-10)
    doubled = (np.asarray(y.momentum) ** 2 / np.asarray(system.masses(y.position))).sum()
    np.testing.assert_allclose(found["temperature"], doubled / (6 * 8 - 3), rtol=1e-12)


@pytest.mark.slow
def test_a_bath_draws_the_kinetic_energy_of_the_freedom_that_is_left():
    system, y0 = bodies(WATER, [16.0, 1.0, 1.5], md.Langevin(1.5, 2.0), spacing=300.0)
    ys = simkit.simulate(system, y0, np.arange(0.0, 600.0, 3.0), step=0.05, key=KEY).ys  # six relaxations apart
    drawn = (np.asarray(ys.momentum) ** 2 / np.asarray(system.masses(y0.position))).sum((1, 2))[5:] / 1.5
    freedom, n = 6 * 8, drawn.size
    # Standard deviations of mean and variance; the step, a twentieth of a turn, makes the temperature wrong by its square / 12.
    assert abs(drawn.mean() - freedom) < 4 * np.sqrt(2 * freedom / n) + 0.01 * freedom
    assert abs(drawn.var() - 2 * freedom) < 4 * np.sqrt((8 * freedom**2 + 48 * freedom) / n)


@pytest.mark.long
def test_derivatives_of_a_run():
    """By a parameter of the potential, the shape and momenta: reverse mode, forward mode and differences agree."""
    system, y0 = bodies(WATER, [16.0, 1.0, 1.5], md.NVE())
    system = system.prepared(y0)

    def loss(q):
        put = simkit.core.Setup(system, y0, None).put({"potential.sigma": 1.0 + q[0]}).system
        held = eqx.tree_at(lambda s: s.constraints.shape, put, put.constraints.shape * (1 + q[1]))
        start = md.Atoms(y0.position, y0.momentum * (1 + q[2]))
        end = simkit.simulate(held, start, [0.0, 0.02, 0.04], step=0.004).final()
        return jnp.mean(jnp.sum((end.position - y0.position) ** 2, -1)) + 1e-3 * jnp.mean(end.momentum[0])

    q = jnp.zeros(3)
    found = jax.jit(jax.grad(loss))(q)
    close(jax.jit(jax.jacfwd(loss))(q), found)
    compiled, e = jax.jit(loss), 1e-5
    expected = jnp.stack([(compiled(q + e * v) - compiled(q - e * v)) / (2 * e) for v in jnp.eye(3)])
    close(found, expected, 1e-6)  # differences: e^2, and rounding 1e-16 / e


def test_what_cannot_be_is_refused():
    system, y0 = bodies(WATER, [16.0, 1.0, 1.5], md.NVE())
    with pytest.raises(simkit.ArgumentError, match="its place in the shape"):
        system.prepared(md.Atoms(y0.position.at[4].add(0.1), y0.momentum))
    with pytest.raises(simkit.ArgumentError, match="on a line"):
        md.RigidBodies([[0, 1, 2]], [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    with pytest.raises(simkit.ArgumentError, match="name each atom once"):
        md.RigidBodies([[0, 1, 1]], WATER)
