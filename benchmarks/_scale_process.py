"""One of several processes of `scale.py`: a fit, chains, or an ensemble, that they share.

Arguments: address, processes, number, work, result, and whether each process has a core to itself.
"""

import json
import os
import pathlib
import sys
import time

import jax
import numpy as np


def main(address: str, processes: str, number: str, work: str, result: str, pinned: str) -> None:
    if pinned == "True":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(number) % len(cores)]})
    jax.config.update("jax_enable_x64", True)
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
    else:
        system, y0, _, _ = simkit.odes.LotkaVolterra.example()
        over = {"growth": np.linspace(0.3, 1.0, 100_000), "death": np.linspace(0.5, 1.2, 100_000)}
        times = np.array([0.0, 400.0])
        run = lambda seed: float(np.asarray(simkit.ensemble(system, y0, times, over=over).ys.hare)[:, -1].sum())
    spent, worked, value = [], [], run(0)
    for seed in (1, 2, 3) if work != "costly" else (1,):
        began, own = time.perf_counter(), time.process_time()
        value = run(seed)
        spent.append(time.perf_counter() - began)
        worked.append(time.process_time() - own)
    pathlib.Path(f"{result}.{number}").write_text(json.dumps({"seconds": spent, "cpu": worked, "value": value}))
    if int(processes) > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
