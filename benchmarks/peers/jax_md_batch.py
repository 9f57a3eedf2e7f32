"""jax-md, `vmap` over many small systems on one core: the Lennard-Jones fluid of `md.py`, from the same positions and velocities.

All pairs at their nearest images, or its ordered sparse list; the faster counts. jax-md always switches its energy off between an
onset and the cutoff; its own defaults are taken.
"""

import _harness
import jax
import numpy as np


def main(arrays, options):
    jax.config.update("jax_enable_x64", options["precision"] == "float64")
    from jax_md import energy, partition, simulate, space

    position = jax.numpy.asarray(arrays["position"].astype(options["precision"]))
    velocity = jax.numpy.asarray(arrays["velocity"].astype(options["precision"]))
    length, steps, found, energies = options["length"], options["steps"], {}, {}
    displacement, shift = space.periodic(length)

    def dense(count):
        potential = energy.lennard_jones_pair(displacement, r_cutoff=2.5)
        start, apply = simulate.nve(potential, shift, 0.005)

        def one(position, velocity):
            state = start(jax.random.PRNGKey(0), position, kT=0.72)
            state = state.set(momentum=velocity, mass=jax.numpy.ones_like(state.mass))
            return jax.lax.fori_loop(0, count, lambda _, state: apply(state), state).position

        return one, jax.jit(potential)(position[0])

    def listed(count):
        neighbour, potential = energy.lennard_jones_neighbor_list(
            displacement, length, r_cutoff=2.5, dr_threshold=0.3, format=partition.OrderedSparse
        )
        first = neighbour.allocate(position[0], extra_capacity=20)
        start, apply = simulate.nve(potential, shift, 0.005)

        def one(position, velocity):
            listed = first.update(position)
            state = start(jax.random.PRNGKey(0), position, kT=0.72, neighbor=listed)
            state = state.set(momentum=velocity, mass=jax.numpy.ones_like(state.mass))

            def step(_, carry):
                state, listed = carry
                state = apply(state, neighbor=listed)
                return state, listed.update(state.position)

            return jax.lax.fori_loop(0, count, step, (state, listed))[0].position

        return one, jax.jit(potential)(position[0], neighbor=first)

    for name, made in (("all pairs", dense), ("list", listed)):
        try:
            one, value = made(steps)
            energies[name] = float(value) / position.shape[1]
            run = jax.jit(jax.vmap(one))
            jax.block_until_ready(run(position, velocity))
        except Exception as error:
            print(f"jax-md, {name}: {type(error).__name__}, left out.", flush=True)
            continue
        spent = []
        for _ in range(options["samples"]):
            began = _harness.clock()
            end = jax.block_until_ready(run(position, velocity))
            spent.append((_harness.clock() - began) / steps / len(position))
        if not np.isfinite(end).all():
            raise RuntimeError(f"jax-md failed with {name}.")
        found[name] = np.array(spent)
    return found, energies


if __name__ == "__main__":
    _harness.serve(main)
