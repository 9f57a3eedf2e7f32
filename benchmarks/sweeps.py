"""Claim: a chunk of a sweep costs some 10 ms beside its simulations, and one that is finished 1 to 2 ms when it is called again.

The members are as cheap as can be, so that all the time is the sweep's own: the chunk files, confirmed by the disk, and their
hashes. Beside it stands the least that can be done: plain files of the same bytes, forced to disk one by one.
"""

import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import _harness
import jax
import numpy as np

import simkit

MEMBERS = 200_000
SAMPLES = 3


def main() -> dict[str, float]:
    simkit.enable_x64()
    system = simkit.from_response(lambda x, p: {"y": p["a"] * x + p["b"] ** 2}, {"a": 1.0, "b": 2.0})
    points = simkit.sweeps.points({"a": (0.0, 1.0), "b": (0.0, 1.0)}, MEMBERS, key=jax.random.key(1), method="random")
    folder = pathlib.Path(tempfile.mkdtemp())
    figures, rows = {}, []
    try:
        for chunk in (1024, 8192):
            for name, seconds in measure(system, points, folder, chunk).items():
                each = 1e3 * seconds / -(-MEMBERS // chunk)
                rows.append([name, str(chunk), f"{each:.2f}", f"{MEMBERS / seconds:.3g}"])
                figures[f"{name}, chunks of {chunk}, ms a chunk"] = each
    finally:
        shutil.rmtree(folder)
    _harness.print_table(f"{MEMBERS} members, least of {SAMPLES}", ["", "chunk", "ms a chunk", "members/s"], rows)
    return figures


def measure(system: Any, points: Any, folder: pathlib.Path, chunk: int) -> dict[str, float]:
    """Seconds of a sweep in this process, in two threads, of one that is finished already, and of the bare files."""
    store, plain, count = folder / f"store{chunk}", folder / "plain", -(-MEMBERS // chunk)

    def run(executor: Any = None) -> simkit.Sweep:
        return simkit.sweep(system, None, [1.0], over=points, store=store, chunk=chunk, executor=executor)

    run()  # compiles
    with ThreadPoolExecutor(2) as executor:
        threads = least(lambda: run(executor), store)
    here = least(run, store)
    again = least(run)
    assert np.array_equal(run()["y"][:, 0], points["a"] + points["b"] ** 2)
    size = sum(path.stat().st_size for path in store.glob("chunk-*")) // count
    files = least(lambda: write_files(plain, count, size), plain)
    return {"sweep": here, "two threads": threads, "finished already": again, "files alone": files}


def least(work: Callable[[], Any], fresh: pathlib.Path | None = None) -> float:
    """The least wall seconds of some runs, each into a fresh folder where one is named."""
    taken = []
    for _ in range(SAMPLES):
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def write_files(folder: pathlib.Path, count: int, size: int) -> None:
    folder.mkdir()
    content = os.urandom(size)
    for index in range(count):
        with (folder / str(index)).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
