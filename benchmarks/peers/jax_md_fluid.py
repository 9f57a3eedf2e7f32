"""jax-md, its ordered sparse list on one core: the Lennard-Jones fluid of `md.py`, from the same positions and velocities.

jax-md always switches its energy off between an onset and the cutoff; its own defaults are taken.
"""

import functools

import _harness
import jax
import numpy as np


def main(arrays, options):
    jax.config.update("jax_enable_x64", options["precision"] == "float64")
    from jax_md import energy, partition, simulate, space

    found, energies = {}, {}
    for name, length in options["lengths"].items():
        position = arrays[f"{name}.position"].astype(options["precision"])
        velocity = arrays[f"{name}.velocity"].astype(options["precision"])
        displacement, shift = space.periodic(length)
        neighbour, potential = energy.lennard_jones_neighbor_list(
            displacement, length, r_cutoff=2.5, dr_threshold=0.3, format=partition.OrderedSparse
        )
        listed = neighbour.allocate(position)
        start, apply = simulate.nve(potential, shift, 0.005)
        position = jax.numpy.asarray(position)
        state = start(jax.random.PRNGKey(0), position, kT=0.72, neighbor=listed)
        state = state.set(momentum=jax.numpy.asarray(velocity), mass=jax.numpy.ones_like(state.mass))
        energies[name] = float(jax.jit(potential)(position, neighbor=listed)) / len(position)

        def step(_, carry, apply=apply):
            state, listed = carry
            state = apply(state, neighbor=listed)
            return state, listed.update(state.position)

        steps = options["steps"][name]
        run = jax.jit(functools.partial(jax.lax.fori_loop, 0, steps, step))
        carry = jax.block_until_ready(run((state, listed)))
        spent = []
        for _ in range(options["samples"]):
            began = _harness.clock()
            carry = jax.block_until_ready(run(carry))
            spent.append((_harness.clock() - began) / steps)
        if carry[1].did_buffer_overflow or not np.isfinite(carry[0].position).all():
            raise RuntimeError(f"jax-md failed on {name}.")
        found[name] = np.array(spent)
    return found, energies


if __name__ == "__main__":
    _harness.serve(main)
