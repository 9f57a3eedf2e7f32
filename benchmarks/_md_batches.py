"""A thousand small Lennard-Jones systems at once, beside jax-md's `vmap`; and systems of different sizes."""

import subprocess

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import md

MEMBERS, STEPS, H, DENSITY = 1000, 20, 0.005, 0.8442
JAX_MD = ["jax-md", "numpy"]


def batches() -> dict[str, float]:
    """1,000 systems of 108 atoms in one ensemble, float64, from starts of their own."""
    start = md.crystal("fcc", (4 / DENSITY) ** (1 / 3), (3,) * 3)
    count, length = len(start.position), float(start.space.lengths[0])
    momenta = jax.vmap(lambda key: md.maxwell_boltzmann(key, jnp.ones(count), 1.44, exact=True))(
        jax.random.split(jax.random.key(0), MEMBERS)
    )
    system = md.Particles(md.LennardJones(), start.space)
    # Melted: from one lattice to as many configurations as there are momenta.
    run = lambda y0, times, over: simkit.ensemble(system, y0, times, over=over, step=H)
    melted = run(md.Atoms(start.position, momenta[0]), [0.0, 0.5], {"y0.momentum": momenta}).final()
    y0 = md.Atoms(melted.position[0], melted.momentum[0])
    over = {"y0.position": melted.position % length, "y0.momentum": melted.momentum}
    times = np.array([0.0, STEPS * H])
    timing = _harness.compare({"ours": lambda: run(y0, times, over).ys.position}, samples=3)["ours"]
    ours = timing.minimum / STEPS / MEMBERS
    arrays = {"position": np.asarray(melted.position) % length, "velocity": np.asarray(melted.momentum)}
    options = {"length": length, "steps": STEPS, "samples": 3, "precision": "float64"}
    energy = float(system.prepared(y0).energy(y0)) / count
    table = [["simkit, one ensemble", f"{1e6 * ours:.1f}", f"{energy:.4f}", ""]]
    rows = {"batch_1000x108_us_a_system_step": 1e6 * ours}
    try:
        theirs, energies = _harness.run_peer("jax_md", JAX_MD, "jax_md_batch.py", arrays, options)
    except subprocess.CalledProcessError as error:
        print(f"jax-md did not run here ({error}): its rows are left out.", flush=True)
        theirs, energies = {}, {}
    for name, spent in theirs.items():
        least = float(np.min(spent))
        table.append([f"jax-md, vmap, {name}", f"{1e6 * least:.1f}", f"{energies[name]:.4f}", f"{least / ours:.2f}"])
    if theirs:
        rows["batch_1000x108_vs_jax_md"] = min(float(np.min(spent)) for spent in theirs.values()) / ours
    _harness.print_table(
        f"{MEMBERS} systems of {count} atoms", ["", "CPU us a system and step", "energy an atom", "x"], table
    )
    return rows


REPEATS = ((3, 3, 3), (3, 3, 4), (4, 4, 4), (4, 4, 5), (5, 5, 5), (5, 5, 6), (6, 6, 6), (10, 10, 10))


def sizes() -> dict[str, float]:
    """Fluids of 108 to 4,000 atoms, float64: in one list, padded to one size, one after the other."""
    starts = [md.crystal("fcc", (4 / DENSITY) ** (1 / 3), repeats) for repeats in REPEATS]
    counts, steps = [len(start.position) for start in starts], 40
    momenta = [
        md.maxwell_boltzmann(jax.random.key(k), jnp.ones(count), 1.44, exact=True) for k, count in enumerate(counts)
    ]
    boxes = md.Boxes([start.space for start in starts], counts)
    fluid = lambda space: md.Particles(md.LennardJones(), space)
    cold = boxes.joined([md.Atoms(start.position, momentum) for start, momentum in zip(starts, momenta, strict=True)])
    y = simkit.simulate(fluid(boxes), cold, [0.0, 0.5], step=H).final()
    members, times = boxes.parted(y), np.array([0.0, steps * H])
    together, stack = fluid(boxes).prepared(y), md.stack_atoms(members)
    cells = {"space.lengths": jnp.stack([start.space.lengths for start in starts])}
    padded = stack.prepared(fluid(starts[int(np.argmax(counts))].space), cells)
    alone = [fluid(space).prepared(own) for space, own in zip(boxes.spaces, members, strict=True)]
    energies = together.gradients(y).energy
    for k, (system, own) in enumerate(zip(alone, members, strict=True)):
        np.testing.assert_allclose(energies[k], system.energy(own), rtol=1e-9)
    run = lambda system, own: simkit.simulate(system, own, times, step=H).ys.position
    timings = _harness.compare(
        {
            "Boxes": lambda: run(together, y),
            "padded": lambda: (
                simkit.ensemble(padded, stack.largest, times, over=stack.over | cells, step=H).ys.position
            ),
            "one by one": lambda: [run(system, own) for system, own in zip(alone, members, strict=True)],
        },
        samples=3,
    )
    spent = {name: timing.minimum / steps for name, timing in timings.items()}
    table = [[name, f"{1e3 * t:.3f}", f"{1e9 * t / sum(counts):.0f}"] for name, t in spent.items()]
    _harness.print_table(f"{counts} atoms", ["", "CPU ms a step", "ns an atom"], table)
    return {
        "sizes_padded_vs_boxes": spent["padded"] / spent["Boxes"],
        "sizes_one_by_one_vs_boxes": spent["one by one"] / spent["Boxes"],
    }
