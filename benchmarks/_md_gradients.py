"""The gradient of an average by ninety numbers of a force field, beside the run that it is an average of."""

import time

import _harness
import jax
import jax.numpy as jnp
import numpy as np

from simkit import md

SPECIES, REPEATS, DENSITY, TEMPERATURE = 12, 9, 0.8, 1.2
FRAMES, EVERY, H = 20, 50, 0.005


def average_gradient() -> dict[str, float]:
    """2,916 atoms of 12 species, 78 depths by pairs and 12 diameters, float64: a pressure, by reweighting."""
    start = md.crystal("fcc", (4 / DENSITY) ** (1 / 3), REPEATS)
    count = len(start.position)
    species = jnp.asarray(np.random.default_rng(0).permutation(count) % SPECIES, jnp.int32)
    upper = np.triu_indices(SPECIES)
    theta = jnp.ones(len(upper[0]) + SPECIES)

    def fluid(theta: jax.Array) -> md.Particles:
        depth = jnp.zeros((SPECIES, SPECIES)).at[upper].set(theta[:-SPECIES])
        sigma = 0.5 * (theta[-SPECIES:, None] + theta[None, -SPECIES:])
        table = depth + depth.T - jnp.diag(jnp.diag(depth))
        potential = md.LennardJones(sigma=sigma, epsilon=table, cutoff=2.5, truncation=md.ForceShifted())
        return md.Particles(potential, start.space, species=species, dynamics=md.Langevin(TEMPERATURE, 1.0))

    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jnp.ones(count), TEMPERATURE))
    times = np.arange(FRAMES + 1) * EVERY * H
    sample = lambda key: md.sample_ensemble(fluid(theta), atoms, times, step=H, key=jax.random.key(key))
    frames = sample(1)
    gradient = jax.jit(jax.grad(lambda theta, frames: frames.average("pressure", fluid(theta)).value))
    assert np.isfinite(np.asarray(gradient(theta, frames))).all()
    spent: dict[str, list[float]] = {"run": [], "gradient": []}
    for key in (2, 3, 4):
        began = time.process_time()
        jax.block_until_ready(sample(key).reduced)
        spent["run"].append(time.process_time() - began)
        began = time.process_time()
        jax.block_until_ready(gradient(theta, frames))
        spent["gradient"].append(time.process_time() - began)
    run, own = (min(spent[name]) for name in ("run", "gradient"))
    table = [
        [f"run of {FRAMES * EVERY} steps", f"{run:.2f}", "1"],
        [f"run, and gradient over {FRAMES} frames", f"{run + own:.2f}", f"{(run + own) / run:.2f}"],
    ]
    _harness.print_table(f"{count} atoms, {len(theta)} numbers", ["", "CPU s", "of the run"], table)
    return {"average_gradient_vs_run": (run + own) / run}
