"""What the tests of runs share: a fluid whose force is smooth up to the cutoff, and atoms that do not meet."""

import jax
import jax.numpy as jnp

from simkit import md

H = 0.005
KEY = jax.random.key(1)


def fluid(cells=3, temperature=1.0, **changes):
    """A Lennard-Jones fluid whose force is smooth up to the cutoff, with some disorder."""
    start = md.crystal("fcc", 1.68, (cells,) * 3)
    shape = start.position.shape
    position = start.position + 0.08 * jax.random.normal(KEY, shape)
    potential = md.LennardJones(cutoff=2.2, truncation=md.Switched(1.7))
    system = md.Particles(potential, start.space, **changes)
    momentum = md.maxwell_boltzmann(KEY, jnp.ones(shape[0]), temperature, exact=True)
    return system, md.Atoms(position, momentum)


def ideal(dynamics, count=150):
    """Atoms that do not meet, so that all is known about them."""
    space = md.Orthorhombic(jnp.full(3, 1000.0))
    position = 100.0 * jnp.stack(jnp.meshgrid(*[jnp.arange(8.0)] * 3), -1).reshape(-1, 3)[:count]
    mass = jnp.where(jnp.arange(count) % 2 == 0, 1.0, 5.0)
    system = md.Particles(md.LennardJones(), space, mass=mass, dynamics=dynamics)
    return system, md.Atoms(position, md.maxwell_boltzmann(KEY, mass, 0.2)), mass
