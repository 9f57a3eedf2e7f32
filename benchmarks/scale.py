"""More than one process, more members than memory, and noise: wall seconds beside one process, MiB, CPU time beside a bare scan.

Two processes share a fit of 64 starts, and an ensemble of 100,000 members, by `jax.distributed` on this machine; each has one
device. Results are compared before times are. It needs two cores that nothing else uses.

Run all: `python benchmarks/run.py scale`. Some: `ROWS=fit,ensemble python benchmarks/run.py scale`, of noise, fit, ensemble,
workers and sweep.
"""

import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import time

import _accelerator_kernels as kernels
import jax
import numpy as np

import simkit

HERE = pathlib.Path(__file__).parent
Rows = dict[str, float]
MEMBERS = 10_000_000


def noise() -> Rows:
    """Geometric Brownian motion, 20,000 paths of 100 steps."""
    return {"gbm_vs_scan": kernels.brownian(20_000)["gbm_20000_vs_scan"]}


def shared(work: str, processes: int, pinned: bool) -> tuple[float, float, float]:
    """The least wall seconds of the work that so many processes share, its result, and the cores that the first one kept busy.

    `pinned`: whether each process has one core; XLA's threads of one that has not take any core that is free.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=1"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        words = [sys.executable, HERE / "_scale_process.py", address, str(processes)]
        running = [
            subprocess.Popen([*words, str(number), work, result, str(pinned)], env=environment, cwd=folder)
            for number in range(processes)
        ]
        if any(process.wait() for process in running):
            raise RuntimeError(f"A process of {processes} failed in {work}.")
        found = json.loads(result.read_text())
    return min(found["seconds"]), found["value"], min(found["cpu"]) / min(found["seconds"])


def beside_one(work: str) -> Rows:
    rows: Rows = {}
    for pinned, name in ((True, "a core each"), (False, "any core")):
        alone, together = [], []
        for _ in range(2):  # A B A B
            alone.append(shared(work, 1, pinned))
            together.append(shared(work, 2, pinned))
        values = [value for _, value, _ in alone + together]
        if not np.allclose(values, values[0], rtol=1e-6):
            raise AssertionError(f"Processes do not agree: {values}.")
        (one, _, busy), (two, _, each) = min(alone), min(together)
        print(
            f"{work}, {name}: one process {one:.3g} s ({busy:.2f} cores busy), two {two:.3g} s ({each:.2f} each), "
            f"{one / two:.2f} times",
            flush=True,
        )
        rows |= {f"two_processes_{work}" + "_free" * (not pinned): one / two, f"cores_of_one_{work}": busy}
    return rows


def sweep() -> Rows:
    """Ten million members, their last states on disk: the memory of the process that made them, compilation and all."""
    script = f"import sys; sys.path.insert(0, {str(HERE)!r}); import scale; scale.large_sweep(sys.argv[1])"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", script, str(pathlib.Path(folder) / "store")],
            check=True,
            capture_output=True,
            text=True,
        )
    mib, failed = map(float, done.stdout.split()[-2:])
    print(f"{MEMBERS:.0e} members: {mib:.0f} MiB, {failed:.0f} failed", flush=True)
    return {"sweep_1e7_mib": mib}


def workers() -> Rows:
    """A sweep of 200,000 members by one worker of Dask and by two, each a process with one thread."""
    script = f"import sys; sys.path.insert(0, {str(HERE)!r}); import scale; scale.swept(int(sys.argv[1]))"

    def spent(count: int) -> tuple[float, float]:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=1"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        words = [sys.executable, "-c", script, str(count)]
        done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        seconds, value = map(float, done.stdout.split()[-2:])
        return seconds, value

    found = [(spent(1), spent(2)) for _ in range(2)]
    if len({value for pair in found for _, value in pair}) > 1:
        raise AssertionError(f"Workers do not agree: {found}.")
    one, two = (min(pair[i][0] for pair in found) for i in range(2))
    print(f"sweep: one worker {one:.3g} s, two {two:.3g} s, {one / two:.2f} times", flush=True)
    return {"two_processes_sweep": one / two}


def swept(count: int) -> None:
    from dask.distributed import Client, LocalCluster

    jax.config.update("jax_enable_x64", True)
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    ranges = {"growth": (0.3, 1.0), "death": (0.5, 1.2)}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        times = []
        for seed, members in ((0, 16_384), (1, 200_000), (2, 200_000)):  # the first one compiles
            points = simkit.sweeps.points(ranges, members, key=jax.random.key(seed))
            store, began = pathlib.Path(folder) / str(seed), time.perf_counter()
            found = simkit.sweep(
                system, y0, np.array([0.0, 200.0]), over=points, store=store, chunk=4_096, executor=client
            )
            times.append(time.perf_counter() - began)
        print(min(times[1:]), float(np.asarray(found["hare"]).sum()))


def large_sweep(store: str) -> None:
    jax.config.update("jax_enable_x64", True)
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    ranges = {"growth": (0.3, 1.0), "death": (0.5, 1.2)}
    points = simkit.sweeps.points(ranges, MEMBERS, key=jax.random.key(1))
    found = simkit.sweep(system, y0, np.array([0.0, 10.0]), over=points, store=store, chunk=65_536)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(peak, np.count_nonzero(np.asarray(found.status)))


ROWS = {
    "noise": noise,
    "fit": lambda: beside_one("fit"),
    "ensemble": lambda: beside_one("ensemble"),
    "workers": workers,
    "sweep": sweep,
}


def main() -> Rows:
    jax.config.update("jax_enable_x64", True)
    found: Rows = {}
    for name in [name for name in os.environ.get("ROWS", "").split(",") if name] or list(ROWS):
        found |= ROWS[name]()
    return found
