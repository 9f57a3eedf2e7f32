"""From a study to a sweep, by as many workers as are asked for."""

import contextlib
import functools
import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._errors import SimkitError, StudyError
from ..core import Setup, StochasticSystem
from ..io import Study
from ..stores import write_text
from ..sweeps import Sweep, grid, latin_hypercube, open, random_points, sobol_points, sweep
from ._environment import cache_folder
from ._particles import MemberAverages, is_simulation, prepared

CHUNK_OF_PARTICLES = 16
"""So many members a file: the states of all of them at all times are in memory together."""

SAMPLERS = {"random": random_points, "latin": latin_hypercube, "sobol": sobol_points}


def sweep_study(
    study: Study, store: Path, *, seed: int | None = None, executor: Any = None, progress: Any = None
) -> Sweep:
    """Run the sweep of a study into a folder, or go on with it.

    Members differ in the paths of [sweep.over] alone; times are those of [sweep], or where predictions are made. Of particles the
    averages of each member are kept, as [averages] says, and not the states.

    **Raises:** a `StudyError` where the study gives no sweep or no initial state, and whatever `sweep` raises.
    """
    if not study.sweep:
        raise StudyError(
            f"`{study.name}` must say what to sweep over in [sweep], but it does not. Add [sweep.over] and a line such as "
            "growth = { from = 0.1, to = 1.0, count = 10 }."
        )
    if study.y0 is None:
        raise StudyError(f"`{study.name}` must give the initial state in [y0] to be simulated, but it does not.")
    seed = study.seed if seed is None else seed
    over = study_points(study, seed)
    particles = is_simulation(study)
    times = study.sweep.get("times")
    if times is None:
        times = study.simulation_times if particles else study.prediction_times
    random = particles or isinstance(study.system, StochasticSystem)
    try:
        return sweep(
            prepared(study) if particles else study.system,
            study.y0,
            times,
            over=over,
            store=store,
            chunk=study.sweep.get("chunk", CHUNK_OF_PARTICLES if particles else 1024),
            executor=executor,
            measure=MemberAverages.of(study, times) if particles else None,
            solver=study.solve["solver"],
            step=study.solve["step"],
            inputs=study.inputs,
            key=jax.random.key(seed) if random else None,
            progress=progress,
        )
    finally:
        _keep_text(study, store)


def _keep_text(study: Study, store: Path) -> None:
    """Put the study beside its results; the folder of another sweep, or of none, is left alone."""
    with contextlib.suppress(SimkitError, OSError):
        if not (store / "study.toml").exists() and open(store).finished:
            write_text(store / "study.toml", study.text)


def study_points(study: Study, seed: int) -> dict[str, np.ndarray]:
    """The members of a study's sweep, as `over` takes them."""
    over, method = study.sweep["over"], study.sweep["method"]
    setup = Setup(study.system, study.y0, study.inputs)
    for path in over:
        try:
            setup.locate(path)
        except KeyError as error:
            raise type(error)(f"[sweep.over] of `{study.name}`: {error}") from error
    if method == "zip":
        return over
    if method == "grid":
        return grid(over)
    return SAMPLERS[method](over, study.sweep["count"], seed=study.sweep.get("seed", seed))


def finished_so_far(store: Path) -> str:
    """What an interrupted sweep has left, in words."""
    found = open(store)
    return f"{found.finished} of {found.members} members"


@contextlib.contextmanager
def workers(count: int, *, cache: bool) -> Iterator[Any]:
    """An executor with so many worker processes: Dask where it is installed, else a pool that is replaced when it breaks.

    None for a single one: the work is then done in this process.
    """
    if count == 1:
        yield None
        return
    with _environment(cache):
        try:
            from dask.distributed import Client, LocalCluster
        except ImportError:
            spawn = multiprocessing.get_context("spawn")
            yield functools.partial(ProcessPoolExecutor, count, mp_context=spawn, initializer=ignore_interrupts)
            return
        quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
        with LocalCluster(count, threads_per_worker=1, **quiet) as cluster, Client(cluster) as client:
            client.run(ignore_interrupts)
            yield client


def ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the one that hands out the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _environment(cache: bool) -> Iterator[None]:
    """What worker processes inherit: one device each, as they share the cores, and the compilation cache."""
    changes = {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    if cache:
        changes |= {
            "JAX_COMPILATION_CACHE_DIR": str(cache_folder()),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            # Of a cache that cannot be read or written, JAX would warn once a program.
            "PYTHONWARNINGS": ",".join(
                f"ignore:Error {verb} persistent compilation cache entry" for verb in ("reading", "writing")
            ),
        }
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
