"""One of several processes of `scale.py`: a fit, chains, an ensemble or a grid, that they share.

Arguments: address, processes, number, work, result, and whether each process has a core to itself.
"""

import json
import os
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

GRIDS = {"plane": (512, 512), "volumes": (256, 256, 256)}
"""Modes in a plane, a hundred steps, and a gas in finite volumes, one step; both in single precision."""


def main(address: str, processes: str, number: str, work: str, result: str, pinned: str) -> None:
    if pinned == "True":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(number) % len(cores)]})
    jax.config.update("jax_enable_x64", work not in GRIDS)
    if int(processes) > 1:
        jax.distributed.initialize(coordinator_address=address, num_processes=int(processes), process_id=int(number))
    import _predators

    import simkit

    if work in ("fit", "costly"):
        # Ten times the steps: what two machines are for.
        step = simkit.Adaptive(1e-13, 1e-13) if work == "costly" else None
        problem = _predators.problem(np.linspace(0.5, 100.0, 200), step)
        run = lambda seed: float(simkit.fit(problem, starts=64, key=jax.random.key(seed)).log_likelihood)
    elif work == "sample":
        problem = _predators.problem(np.linspace(0.5, 100.0, 200))
        system = simkit.odes.LotkaVolterra.example().system
        begin = simkit.fit(problem, starts=np.array([[float(getattr(system, path)) for path in problem.names]]))
        asked = {"chains": 8, "draws": 200, "warmup": 200, "start": begin}
        run = lambda seed: float(simkit.sample(problem, key=jax.random.key(seed), **asked).draws.mean())
    elif work in GRIDS:
        run = grid_run(work)
    else:
        system, y0, _, _ = simkit.odes.LotkaVolterra.example()
        over = {"growth": np.linspace(0.3, 1.0, 100_000), "death": np.linspace(0.5, 1.2, 100_000)}
        times = np.array([0.0, 400.0])
        run = lambda seed: float(np.asarray(simkit.ensemble(system, y0, times, over=over).ys.hare)[:, -1].sum())
    spent, worked, value = [], [], run(0)
    for seed in (1,) if work in ("costly", "volumes") else (1, 2, 3):
        began, own = time.perf_counter(), time.process_time()
        value = run(seed)
        spent.append(time.perf_counter() - began)
        worked.append(time.process_time() - own)
    pathlib.Path(f"{result}.{number}").write_text(json.dumps({"seconds": spent, "cpu": worked, "value": value}))
    if int(processes) > 1:
        jax.distributed.shutdown()


def grid_run(work: str):
    """The run of a grid over all devices of all processes, as a function that gives the mean square of its end."""
    import simkit
    from simkit import fluids

    grid, plain = fluids.Grid(GRIDS[work], devices=jax.devices()), fluids.Grid(GRIDS[work])
    if work == "plane":
        velocity = fluids.random_velocity(plain, jax.random.key(0), peak=4.0)
        system = fluids.SpectralFlow2D(grid, viscosity=1e-3)
        start = fluids.SpectralFlow2D.State(np.asarray(fluids.vorticity(plain, velocity), np.float32))
        times, step = np.array([0.0, 0.1]), 1e-3
    else:
        x, *_ = (np.asarray(along, np.float32) for along in plain.mesh())
        system = fluids.CompressibleFlow(grid)
        bump = np.broadcast_to(1 + 0.1 * np.sin(x), grid.shape).astype(np.float32)
        start = system.State(bump, np.zeros((3, *grid.shape), np.float32), np.ones(grid.shape, np.float32))
        times, step = np.array([0.0, 1e-3]), 1e-3
    mean = jax.jit(lambda run: sum(jnp.mean(x[-1] ** 2) for x in jax.tree.leaves(run)))
    return lambda seed: float(mean(simkit.simulate(system, start, times, step=step).ys))


if __name__ == "__main__":
    main(*sys.argv[1:])
