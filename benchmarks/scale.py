"""More than one process, more members than memory, and noise: wall seconds beside one process, MiB, CPU time beside a bare scan.

Two processes share a fit of 64 starts, eight chains, and an ensemble of 100,000 members, by `jax.distributed` on this machine;
each has one device. Results are compared before times are. Wall times need two cores that nothing else uses; the CPU time of one
process over the most of two says, on any machine, what two cores could give.

Run all: `python benchmarks/run.py scale`. Some: `ROWS=fit,ensemble python benchmarks/run.py scale`, of noise, fit, costly,
sample, ensemble, workers and sweep.
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
MEMBERS = int(float(os.environ.get("MEMBERS", "1e7")))
"""Members of the large sweep."""


def noise() -> Rows:
    """Geometric Brownian motion, 20,000 paths of 100 steps."""
    return {"gbm_vs_scan": kernels.brownian(20_000)["gbm_20000_vs_scan"]}


def shared(work: str, processes: int, pinned: bool) -> tuple[float, float, float]:
    """The least wall seconds of the work that so many processes share, its result, and the most CPU seconds of one of them.

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
        found = [json.loads(pathlib.Path(f"{result}.{number}").read_text()) for number in range(processes)]
    return min(found[0]["seconds"]), found[0]["value"], max(min(one["cpu"]) for one in found)


def beside_one(work: str) -> Rows:
    rows: Rows = {}
    for pinned, name in ((True, "a core each"), (False, "any core")):
        alone, together = [], []
        for _ in range(2):  # A B A B
            alone.append(shared(work, 1, pinned))
            together.append(shared(work, 2, pinned))
        values = [value for _, value, _ in alone + together]
        # Trajectories of chains enlarge rounding, which differs with the number of lanes; their mean is known to some thousandths.
        if not np.allclose(values, values[0], rtol=1e-3 if work == "sample" else 1e-6):
            raise AssertionError(f"Processes do not agree: {values}.")
        one, two = min(alone)[0], min(together)[0]
        whole, part = min(cpu for *_, cpu in alone), min(cpu for *_, cpu in together)
        print(
            f"{work}, {name}: one process {one:.3g} s ({whole:.3g} CPU s), two {two:.3g} s ({part:.3g} CPU s at the most), "
            f"{one / two:.2f} times, by CPU time {whole / part:.2f}",
            flush=True,
        )
        rows |= {f"two_processes_{work}" + "_free" * (not pinned): one / two, f"cores_of_one_{work}": whole / one}
        rows |= {f"two_processes_{work}_cpu" + "_free" * (not pinned): whole / part}
    return rows


def sweep() -> Rows:
    """Ten million members, their last states on disk: the memory of the process that made them, compilation and all, with points
    that are held and with a rule (`MEMBERS=1e8`: the rule alone);
    then how long another process takes to open the store and to read some members, and its memory.
    """
    rows: Rows = {}
    for kind in ("held", "rule") if MEMBERS <= 10_000_000 else ("rule",):
        with tempfile.TemporaryDirectory() as folder:
            store = str(pathlib.Path(folder) / "store")
            seconds, mib, failed = _alone(f"scale.large_sweep({store!r}, {kind!r})")
            files = len(os.listdir(store))
            opened, reader = _alone(f"scale.read({store!r})")
        print(
            f"{MEMBERS:.0e} members, {kind}: {seconds:.0f} s, {mib:.0f} MiB, {failed:.0f} failed, {files} files; opened in "
            f"{opened:.2g} s, {reader:.0f} MiB",
            flush=True,
        )
        rows |= {f"sweep_1e7_mib_{kind}": mib, f"sweep_1e7_open_s_{kind}": opened}
    return rows


def _alone(call: str) -> list[float]:
    """The numbers that a call prints in a process of its own."""
    script = f"import sys; sys.path.insert(0, {str(HERE)!r}); import scale; {call}"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


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


def large_sweep(store: str, kind: str) -> None:
    jax.config.update("jax_enable_x64", True)
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    ranges, key = {"growth": (0.3, 1.0), "death": (0.5, 1.2)}, jax.random.key(1)
    if kind == "held":
        over = simkit.sweeps.points(ranges, MEMBERS, key=key)
    else:
        over = simkit.sweeps.PointsRule(ranges, MEMBERS, key=key, method="latin")
    began = time.perf_counter()
    found = simkit.sweep(system, y0, np.array([0.0, 10.0]), over=over, store=store, chunk=65_536)
    spent, failed = time.perf_counter() - began, sum(len(members) for _, members in found.failures())
    print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, failed)


def read(store: str) -> None:
    began = time.perf_counter()
    found = simkit.sweeps.open(store)
    members = found.members // 2, found.members - 1
    found["hare"][list(members)], found["growth"][list(members)], found.finished
    print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


ROWS = {
    "noise": noise,
    "fit": lambda: beside_one("fit"),
    "costly": lambda: beside_one("costly"),
    "sample": lambda: beside_one("sample"),
    "ensemble": lambda: beside_one("ensemble"),
    "plane": lambda: beside_one("plane"),
    "volumes": lambda: beside_one("volumes"),
    "workers": workers,
    "sweep": sweep,
}


def main() -> Rows:
    jax.config.update("jax_enable_x64", True)
    found: Rows = {}
    for name in [name for name in os.environ.get("ROWS", "").split(",") if name] or list(ROWS):
        found |= ROWS[name]()
    return found
