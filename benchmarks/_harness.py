"""What the benchmarks share: timing side by side, tables, and peers that run in environments of their own.

Peers import this file too, so it needs NumPy alone.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).parent
ENVIRONMENTS = HERE / ".envs"

# A sample shorter than this is mostly the clock and the call.
SHORTEST_SAMPLE = 0.02


class Timing(NamedTuple):
    """Seconds a call, one entry a sample; `first` is the first call with compilation.

    `cpu` is by `clock`: all threads of the process.
    """

    cpu: np.ndarray
    wall: np.ndarray
    first: float

    @property
    def median(self) -> float:
        """Median CPU seconds a call."""
        return float(np.median(self.cpu))

    @property
    def minimum(self) -> float:
        """Least CPU seconds a call: on a shared machine the figure least touched by others."""
        return float(np.min(self.cpu))

    @property
    def spread(self) -> float:
        """The interquartile range of the CPU seconds, as a fraction of their median."""
        lower, upper = np.quantile(self.cpu, [0.25, 0.75])
        return float((upper - lower) / self.median) if self.median > 0 else 0.0


def compare(functions: Mapping[str, Callable[[], Any]], *, samples: int = 15) -> dict[str, Timing]:
    """Time functions of no arguments side by side.

    The first call of each is timed apart. Then samples are taken in turns, A B A B, so that a disturbance of the machine
    meets all of them; a sample is as many calls as take some 20 ms.
    """
    firsts, calls = {}, {}
    for name, function in functions.items():
        firsts[name] = _sample(function, 1)[0]
        once = max(_sample(function, 1)[1], 1e-7)
        calls[name] = max(1, round(SHORTEST_SAMPLE / once))
    taken = {name: [] for name in functions}
    for _ in range(samples):
        for name, function in functions.items():
            taken[name].append(_sample(function, calls[name]))
    timings = {}
    for name, pairs in taken.items():
        cpu, wall = np.array(pairs).T
        timings[name] = Timing(cpu, wall, firsts[name])
    return timings


def clock() -> float:
    """Seconds of this process's CPU; where JAX computes on an accelerator, of the wall, since the processor only waits."""
    jax = sys.modules.get("jax")
    return time.process_time() if jax is None or jax.default_backend() == "cpu" else time.perf_counter()


def least_cpu(function: Callable[[], Any], *, seconds: float = 0.5, samples: int = 5) -> tuple[Any, float]:
    """What a compiled function returns, and its least CPU seconds over samples of some 20 ms until `seconds` are spent.

    Of one that takes longer the first call is the only one.
    """
    start = clock()
    value = function()
    _wait(value)
    spent = [clock() - start]
    if spent[0] < seconds:
        calls = max(1, round(SHORTEST_SAMPLE / max(_sample(function, 1)[1], 1e-7)))
        spent = [_sample(function, calls)[0]]
        while len(spent) < samples and calls * sum(spent) < seconds:
            spent.append(_sample(function, calls)[0])
    return value, min(spent)


def _sample(function: Callable[[], Any], calls: int) -> tuple[float, float]:
    cpu, wall = clock(), time.perf_counter()
    for _ in range(calls):
        _wait(function())
    return (clock() - cpu) / calls, (time.perf_counter() - wall) / calls


def _wait(value: Any) -> None:
    """JAX returns before it has computed."""
    jax = sys.modules.get("jax")
    if jax is not None:
        jax.block_until_ready(value)


def print_timings(title: str, timings: Mapping[str, Timing], *, reference: str | None = None) -> None:
    """A table of timings in milliseconds a call; ratios are of the least CPU times, to the reference row."""
    base = timings[reference].minimum if reference else None
    rows = []
    for name, timing in timings.items():
        ratio = f"{timing.minimum / base:.2f}" if base else ""
        times = (timing.minimum, timing.median, float(np.median(timing.wall)))
        rows.append([name, *(f"{1e3 * x:.4g}" for x in times), f"{timing.spread:.0%}", f"{timing.first:.2f}", ratio])
    head = ["", "CPU min, ms", "CPU median, ms", "wall median, ms", "spread", "first call, CPU s"]
    print_table(title, [*head, f"x {reference}" if reference else ""], rows)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    print(f"\n{title}")
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())
    sys.stdout.flush()


def read_off(curve: Sequence[tuple[float, float]], error: float) -> float:
    """The cost at an error, by interpolation of the logarithms between points of errors and costs; beyond them that of the end."""
    errors, costs = np.log(np.array(sorted(curve))).T
    return float(np.exp(np.interp(np.log(error), errors, costs)))


def environment(name: str, packages: Sequence[str]) -> pathlib.Path:
    """The Python of the environment `.envs/NAME` with these packages, made where it is missing or holds others.

    Where nothing can be installed, the environment variable `PEERS_PYTHON` names a Python that has them all.
    """
    if "PEERS_PYTHON" in os.environ:
        return pathlib.Path(os.environ["PEERS_PYTHON"])
    folder = ENVIRONMENTS / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "packages.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != list(packages):
        print(f"Setting up {folder.relative_to(HERE.parent)} with {', '.join(packages)}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, stdin=subprocess.DEVNULL)
        stamp.write_text(json.dumps(list(packages)))
    return python


def run_peer(
    environment_name: str,
    packages: Sequence[str],
    script: str,
    arrays: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Run `benchmarks/peers/SCRIPT` in its own environment, give it arrays and options, and take arrays and figures back.

    The script ends in `_harness.serve(main)`, where `main(arrays, options)` returns the pair that comes back.
    """
    python = environment(environment_name, packages)
    with tempfile.TemporaryDirectory() as folder:
        given, found = pathlib.Path(folder, "given"), pathlib.Path(folder, "found")
        np.savez(given.with_suffix(".npz"), **dict(arrays or {}))
        given.with_suffix(".json").write_text(json.dumps(dict(options or {})))
        command = [python, HERE / "peers" / script, given, found]
        path = {"PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])}
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, env={**os.environ, **path})
        with np.load(found.with_suffix(".npz")) as stored:
            return dict(stored), json.loads(found.with_suffix(".json").read_text())


def serve(main: Callable[[dict[str, np.ndarray], dict[str, Any]], tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
    """The peer's side of `run_peer`."""
    given, found = (pathlib.Path(word) for word in sys.argv[1:3])
    with np.load(given.with_suffix(".npz")) as stored:
        arrays = dict(stored)
    arrays, figures = main(arrays, json.loads(given.with_suffix(".json").read_text()))
    np.savez(found.with_suffix(".npz"), **dict(arrays))
    found.with_suffix(".json").write_text(json.dumps(dict(figures)))
