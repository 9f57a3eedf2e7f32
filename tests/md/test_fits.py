"""Potentials found from what a simulation can tell: structure and pressure by reweighting, forces by a network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simkit
from simkit import md

pytestmark = pytest.mark.long
START = md.crystal("fcc", 1.75, 2)
ATOMS = md.Atoms(START.position, md.maxwell_boltzmann(jax.random.key(0), jnp.ones(32), 1.2))


@pytest.fixture(autouse=True)
def _optax_promotes():
    """Schedules of Optax divide whole numbers by floats."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def particles(potential):
    return md.Particles(potential, START.space, dynamics=md.Langevin(1.2, 1.0))


def fluid(theta):
    return particles(md.LennardJones(theta[0], theta[1], cutoff=1.7, truncation=md.ForceShifted()))


def measured(system, atoms):
    """g(r) from 0.9 to 1.7 and the pressure, each divided by what it weighs in the loss."""
    g = md.radial_distribution(system.space, atoms.position, cutoff=1.7, bins=34).g[18:]
    pressure = system.outputs(0.0, atoms, None)["pressure"]
    return jnp.concatenate([g / 0.4, pressure[None]])


def sampled(theta, seed):
    return md.sample_ensemble(
        fluid(theta), ATOMS, np.arange(1101) * 0.08, step=0.008, key=jax.random.key(seed), discard=100
    )


def test_lennard_jones_from_structure_and_pressure_by_reweighting():
    """Diameter and depth are found within four standard errors, of the data and of the frames of the fit alike."""
    truth = jnp.array([1.0, 1.0])
    data = sampled(truth, 7).average(measured, fluid(truth))

    @eqx.filter_jit
    def step(theta, state, frames):
        loss = lambda theta: jnp.sum((frames.average(measured, fluid(theta)).value - data.value) ** 2)
        updates, state = rule.update(jax.grad(loss)(theta), state)
        return optax.apply_updates(theta, updates), state

    theta, rule = jnp.array([0.95, 0.8]), optax.adam(optax.exponential_decay(0.03, 100, 0.05), b1=0.8, b2=0.9)
    state, frames = rule.init(theta), sampled(theta, 8)
    runs = 1
    for i in range(120):
        fresh = frames.refreshed(fluid(theta), key=jax.random.key(100 + i), share=0.5)
        runs += fresh is not frames
        frames = fresh
        theta, state = step(theta, state, frames)
    assert 2 < runs < 20
    # Least squares with noisy data: (J^T J)^-1 J^T C J (J^T J)^-1, with the covariance C of the means by 20 blocks of 50 frames, of
    # which each is longer than what the frames remember; twice, for the frames of the fit are as noisy as the data.
    jacobian = np.asarray(jax.jit(jax.jacfwd(lambda theta: frames.average(measured, fluid(theta)).value))(theta))
    blocks = np.asarray(data.series)[1:].reshape(20, 50, -1).mean(1)
    pull = np.linalg.pinv(jacobian)
    errors = np.sqrt(np.diag(2 * pull @ (np.cov(blocks.T) / 20) @ pull.T))
    assert (errors < [0.01, 0.07]).all()  # well below how far away the fit began: 0.05 and 0.2
    assert (np.abs(theta - truth) < 4 * errors).all(), (theta, errors)


class Network(eqx.Module):
    """Gaussians of the distance, two hidden layers, and a wall that no frame has seen beyond."""

    layers: eqx.nn.MLP

    def __call__(self, r):
        centres = jnp.linspace(0.85, 1.7, 16)
        return self.layers(jnp.exp(-(((r - centres) / 0.1) ** 2)))[0] + jnp.exp(-10 * (r - 1.0))


def test_a_network_from_forces():
    """Forces of a Lennard-Jones fluid, matched: those of frames that it was not shown, and the pair force itself."""
    end = {"cutoff": 1.7, "truncation": md.Switched(1.4)}
    truth = particles(md.LennardJones(**end)).prepared(ATOMS)
    run = simkit.simulate(truth, ATOMS, np.arange(121) * 0.2, step=0.008, key=jax.random.key(1))
    frames = run.ys.position[20:]
    force = lambda system, x: system.forces(md.Atoms(x, x), system.listed(md.Atoms(x, x)))
    forces = jax.jit(jax.vmap(lambda x: force(truth, x)))(frames)
    network = Network(eqx.nn.MLP(16, 1, 16, 2, jax.nn.silu, key=jax.random.key(2)))

    def loss(network, x, forces):
        system = eqx.tree_at(lambda s: s.potential, truth, md.PairFunction(network, **end))
        return jnp.mean((jax.vmap(lambda x: force(system, x))(x) - forces) ** 2)

    rule = optax.adam(optax.cosine_decay_schedule(1e-2, 1200))

    @eqx.filter_jit
    def step(network, state, x, forces):
        updates, state = rule.update(eqx.filter_grad(loss)(network, x, forces), state)
        return eqx.apply_updates(network, updates), state

    state = rule.init(eqx.filter(network, eqx.is_inexact_array))
    for i in range(1200):
        rows = slice(4 * i % 80, 4 * i % 80 + 4)
        network, state = step(network, state, frames[rows], forces[rows])
    # A tenth of the size of the forces: closest encounters of the frames left out are closer than any that were shown.
    assert np.sqrt(eqx.filter_jit(loss)(network, frames[80:], forces[80:])) < 0.1 * np.sqrt(np.mean(forces**2))
    r = jnp.linspace(1.0, 1.4, 9)  # where pairs are: within a hundredth of the largest force there
    slope = lambda u: np.asarray(jax.vmap(jax.grad(u))(r))
    exact = slope(lambda r: 4 * (r**-12 - r**-6))
    np.testing.assert_allclose(slope(network), exact, atol=0.01 * np.abs(exact).max())
