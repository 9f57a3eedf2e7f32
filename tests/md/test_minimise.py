"""Minima: published clusters, crystals with their cell, and how minima move with parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import KEY
from scipy.optimize import minimize_scalar

import simkit
from simkit import md


def icosahedron():
    """Thirteen atoms near the best cluster."""
    golden = (1 + 5**0.5) / 2
    corners = [np.roll([0.0, a, b * golden], k) for k in range(3) for a in (1, -1) for b in (1, -1)]
    x = np.concatenate([np.zeros((1, 3)), np.array(corners) * 1.1 / np.hypot(1, golden)])
    x = jnp.asarray(x + 0.05 * np.random.default_rng(0).normal(size=x.shape))
    return md.Atoms(x, jnp.zeros_like(x))


CLUSTER = md.Particles(md.LennardJones(cutoff=20.0), md.OpenSpace())


@pytest.mark.parametrize("method", [md.LBFGS(), md.FIRE()], ids=lambda method: method.name)
def test_the_best_cluster_of_thirteen_atoms(method):
    """Its energy as published: Hoare and Pal (1971); Wales and Doye, doi:10.1021/jp970984n, to all digits."""
    found = md.minimise(CLUSTER, icosahedron(), method=method, tolerance=1e-8)
    np.testing.assert_allclose(found.energy, -44.326801, atol=5e-7)
    assert found.largest_force <= 1e-8
    force = CLUSTER.prepared(found.atoms).gradients(found.atoms).forces
    np.testing.assert_allclose(jnp.linalg.norm(force, axis=1).max(), found.largest_force, atol=1e-12)
    assert f"found in {int(found.steps)} steps" in repr(found)


@pytest.mark.slow
def test_derivatives_of_a_minimum_are_known():
    r"""A cluster of one substance scales with $\sigma$, and its energy with $\epsilon$."""
    y0 = icosahedron()
    system = CLUSTER.prepared(y0)

    def cluster(sigma, epsilon):
        named = {"potential.sigma": sigma, "potential.epsilon": epsilon}
        found = md.minimise(simkit.core.Setup(system, y0, None).put(named).system, y0, tolerance=1e-10)
        x = found.atoms.position
        return jnp.linalg.norm(x[1:] - x[:1], axis=1), found.energy

    lengths, energy = jax.jit(cluster)(1.0, 1.0)
    forward = jax.jit(jax.jacfwd(cluster, argnums=(0, 1)))(1.0, 1.0)
    backward = jax.jit(jax.jacrev(cluster, argnums=(0, 1)))(1.0, 1.0)
    for (by_sigma, by_epsilon), (energy_by_sigma, energy_by_epsilon) in (forward, backward):
        # The minimum is known to 1e-10 / stiffness, and the conjugate gradients end at 1e-13.
        np.testing.assert_allclose(by_sigma, lengths, rtol=1e-8)
        np.testing.assert_allclose(by_epsilon, 0.0, atol=1e-8)
        np.testing.assert_allclose(energy_by_sigma, 0.0, atol=1e-7)
        np.testing.assert_allclose(energy_by_epsilon, energy, rtol=1e-10)


def crystal(space=md.Orthorhombic):
    start = md.crystal("fcc", 1.6, (3, 3, 3))
    x = start.position + 0.05 * jax.random.normal(KEY, start.position.shape)
    system = md.Particles(md.LennardJones(cutoff=2.2, truncation=md.Switched(1.7)), start.space)
    if space is md.Triclinic:
        system = dataclasses.replace(system, space=md.Triclinic(start.space.vectors()))
    return system, md.Atoms(x, jnp.zeros_like(x))


@pytest.mark.slow
def test_a_crystal_relaxes_with_its_cell():
    system, y0 = crystal()
    found = md.minimise(system, y0, tolerance=1e-9, cell=True)
    perfect = md.crystal("fcc", 1.0, (3, 3, 3)).position
    dense = md.plan_neighbours(system.potential, md.Orthorhombic(jnp.full(3, 4.5)), 1.5 * perfect, method="dense")

    @jax.jit
    def energy(a):
        alike = dataclasses.replace(system, plan=dense, space=md.Orthorhombic(3 * a * jnp.ones(3)))
        return alike.energy(md.Atoms(a * perfect, perfect))

    best = minimize_scalar(lambda a: float(energy(a)), bounds=(1.5, 1.6), method="bounded", options={"xatol": 1e-9})
    np.testing.assert_allclose(found.energy, best.fun, rtol=1e-10)
    np.testing.assert_allclose(found.atoms.cell / 3, best.x * np.eye(3), atol=1e-7)  # flat to the root of rounding


@pytest.mark.slow
def test_derivatives_of_a_relaxed_cell():
    """The edge under pressure, by a parameter and the pressure, as differences say; under jit."""
    system, y0 = crystal(md.Triclinic)
    # With room for what the cell becomes.
    system = system.prepared(md.minimise(system, y0, cell=True, pressure=1.0).atoms)

    def edge(sigma, pressure):
        put = simkit.core.Setup(system, y0, None).put({"potential.sigma": sigma}).system
        found = md.minimise(put, y0, cell=True, tolerance=1e-10, pressure=pressure)
        return found.atoms.cell[0, 0], found.status

    value, slopes, e = jax.jit(lambda s, p: edge(s, p)[0]), jax.jit(jax.grad(edge, (0, 1), has_aux=True)), 1e-4
    (by_sigma, by_pressure), status = slopes(1.0, 0.5)
    assert status == 0
    np.testing.assert_allclose(by_sigma, (value(1 + e, 0.5) - value(1 - e, 0.5)) / (2 * e), rtol=1e-6)
    np.testing.assert_allclose(by_pressure, (value(1.0, 0.5 + e) - value(1.0, 0.5 - e)) / (2 * e), rtol=1e-6)


def test_what_does_not_end_or_cannot_be_says_so():
    y0 = icosahedron()
    with pytest.raises(simkit.SimulationError, match="STEP_LIMIT"):
        md.minimise(CLUSTER, y0, max_steps=3)
    assert md.minimise(CLUSTER, y0, max_steps=3, on_failure="mark").status == int(simkit.Status.STEP_LIMIT)
    with pytest.raises(simkit.ArgumentError, match="open space"):
        md.minimise(CLUSTER, y0, cell=True)
    with pytest.raises(simkit.ArgumentError, match="no constraints"):
        md.minimise(dataclasses.replace(CLUSTER, constraints=md.Constraints([[0, 1]], 1.0)), y0)
    system, start = crystal()
    system = system.prepared(start)
    with pytest.raises(simkit.ArgumentError, match="triclinic"):
        jax.jit(lambda x: md.minimise(system, md.Atoms(x, x), cell=True).energy)(start.position)
