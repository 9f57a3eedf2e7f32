"""Fits and draws of averages over frames with a store, which tests interrupt."""

import os
import signal

import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import md


def energy(system, atoms):
    return system.energy(atoms) / 32


def problem(target=-1.6):
    """A Lennard-Jones crystal, from which neighbours move as it melts, and the depth of the well by its energy."""
    start = md.crystal("fcc", 1.8, 2)
    potential = md.LennardJones(cutoff=1.7, truncation=md.ForceShifted())
    fluid = md.Particles(potential, start.space, dynamics=md.Langevin(1.5, 1.0))
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jnp.ones(32), 1.5))
    averages = md.EquilibriumAverages(
        fluid, atoms, {"energy": energy}, times=np.arange(40) * 0.1, step=0.005, discard=8
    )
    free = {"particles.potential.epsilon": simkit.Free(bounds=(0.3, 3.0), start=0.8)}
    data = simkit.Experiment("fluid", [0.0], {"energy": [target]})
    return simkit.Problem(averages, data, free=free, noise={"energy": simkit.noise.Normal(0.05)})


def run(verb, store=None, within=None):
    if verb == "fit":
        found = simkit.fit(problem(), key=jax.random.key(3), store=store, within=within)
        return np.asarray(found.thetas)
    sampled = {"chains": 2, "draws": 24, "warmup": 16, "every": 8, "within": within}
    return np.asarray(simkit.sample(problem(), key=jax.random.key(4), store=store, **sampled).draws)


def main(verb, store, files):
    """The work in a process that ends by SIGKILL as it puts the file after so many in its place."""
    jax.config.update("jax_enable_x64", True)
    replace, done = os.replace, 0

    def counted(*places):
        nonlocal done
        if done == int(files):
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        replace(*places)

    os.replace = counted
    run(verb, store)
