"""Fits of 46 parameters from 20 starts in fresh processes: each must come to its end, on few cores, on one device and on two.

Usage: `python benchmarks/standstill.py [RUNS] [--visible 1 2 4] [--devices 1 2] [--python PYTHON ...] [--limit SECONDS]`; all that
is asked for takes `python benchmarks/standstill.py 50 --visible 1 2 4`. Prints a line a process, and how many of each kind ended,
failed, or stood still: used no processor time for 30 seconds. Its exit code is 1 where one did not end, and 2 where this machine
has too few cores. Processes after the first read their compiled programs from a folder: what stands still is what runs.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time

STILL = 30.0
"""So many seconds without processor time are a standstill. The watchdog of simkit takes 60, so it does not hide one."""


PROGRAMS = "STANDSTILL_PROGRAMS"
"""The environment variable that names the folder of compiled programs."""


def fit() -> None:
    """Fifteen compartments, 46 rates between them, 60 data: the size of PEtab's Zheng problem."""
    import jax.numpy as jnp
    import numpy as np
    import numpyro.distributions as dist

    import simkit

    simkit.enable_x64()
    if folder := os.environ.get(PROGRAMS):
        simkit.enable_cache(folder)
    rng = np.random.default_rng(0)
    ends = (
        [(i, (i + 1) % 15) for i in range(15)]
        + [((i + 1) % 15, i) for i in range(15)]
        + [(i, (i + 4) % 15) for i in range(15)]
    )
    ends.append((0, 7))
    source, target = np.array(ends).T
    moved = np.zeros((15, 46))
    moved[source, np.arange(46)], moved[target, np.arange(46)] = -1.0, 1.0

    def field(t, y, p):
        rates = jnp.stack([p[f"k{i}"] for i in range(46)])
        return {"x": moved @ (rates * y["x"][source])}

    rates = {f"k{i}": float(k) for i, k in enumerate(np.exp(rng.normal(size=46)))}
    system = simkit.from_function(field, rates, outputs=lambda t, y, p: {f"x{i}": y["x"][i] for i in range(0, 12, 2)})
    y0 = {"x": np.eye(15)[0]}
    times = np.linspace(0.0, 3.0, 11)
    truth = simkit.simulate(system, y0, times)
    data = {f"x{i}": np.asarray(truth.ys["x"])[1:, i] + 0.01 * rng.normal(size=10) for i in range(0, 12, 2)}
    prior = dist.LogNormal(0.0, 2.0)
    free = {name: simkit.Free(prior, bounds=(1e-3, 1e3)) for name in rates}
    noise = {name: simkit.noise.Normal(0.01) for name in data}
    experiment = simkit.Experiment("tracer", times[1:], data, start=0.0)
    problem = simkit.Problem(system, experiment, y0=y0, free=free, noise=noise)
    begin = time.perf_counter()
    found = simkit.fit(problem, starts=20, method=simkit.GaussNewton(max_steps=10))
    print(
        f"objective {float(found.objective[0]):.6f} after {time.perf_counter() - begin:.1f} s, {time.process_time():.1f} CPU s"
    )


def watched(python: str, cores: str, devices: int, limit: float) -> tuple[str, str]:
    """How one process ended, and its last line."""
    environment = {name: value for name, value in os.environ.items() if name not in ("NPROC", "OPENBLAS_NUM_THREADS")}
    environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    run = ["taskset", "-c", cores, python, __file__, "fit"]
    process = subprocess.Popen(run, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    begin = changed = time.monotonic()
    spent = 0.0
    while process.poll() is None:
        time.sleep(0.5)
        now, busy = time.monotonic(), _spent(process.pid)
        if busy > spent + 0.02:
            spent, changed = busy, now
        if now - changed > STILL or now - begin > limit:
            process.kill()
            process.wait()
            return "stood still" if now - changed > STILL else "not ended", f"after {spent:.0f} CPU s"
    lines = (process.stdout.read() if process.stdout else "").strip().splitlines() or [""]
    return "ended" if process.returncode == 0 else "failed", lines[-1]


def _spent(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
    except (OSError, ValueError):
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", default=3, help="so many processes of each kind; `fit` for one fit here")
    parser.add_argument(
        "--visible", nargs="+", type=int, default=[1, 2], help="numbers of cores that a process may use"
    )
    parser.add_argument("--cores", nargs="+", default=[], help="in place of numbers, cores as for taskset")
    parser.add_argument("--devices", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--limit", type=float, default=400.0, help="seconds after which a process is ended")
    asked = parser.parse_args()
    if asked.runs == "fit":
        return fit()
    here = sorted(os.sched_getaffinity(0))
    if not asked.cores and max(asked.visible) > len(here):
        parser.error(f"{max(asked.visible)} cores are asked for, but this process may use {len(here)}.")
    chosen = asked.cores or [",".join(map(str, here[:count])) for count in asked.visible]
    ended = True
    with tempfile.TemporaryDirectory() as folder:
        os.environ[PROGRAMS] = folder
        for python, cores, devices in itertools.product(asked.python, chosen, asked.devices):
            counts: dict[str, int] = {}
            for _ in range(int(asked.runs)):
                how, line = watched(python, cores, devices, asked.limit)
                counts[how] = counts.get(how, 0) + 1
                print(f"  {how}: {line}", flush=True)
            ended = ended and set(counts) == {"ended"}
            print(f"{python}, cores {cores}, {devices} devices: {counts}", flush=True)
    if not ended:
        sys.exit(1)


if __name__ == "__main__":
    main()
