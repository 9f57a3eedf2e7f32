"""Worker processes of a sweep."""

import contextlib
import functools
import logging
import multiprocessing
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any


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
        quiet = {
            "dashboard_address": ":0",  # a free port: another sweep may run on this machine
            "silence_logs": logging.CRITICAL,
        }
        with LocalCluster(count, threads_per_worker=1, **quiet) as cluster, Client(cluster) as client:
            client.run(ignore_interrupts)
            yield client


def ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the one that hands out the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _environment(cache: bool) -> Iterator[None]:
    """Return the environment of worker processes: one device each, as they share the cores, and the compilation cache."""
    from ..core import cache_folder

    flags = re.sub(r"--xla_force_host_platform_device_count=\S*", "", os.environ.get("XLA_FLAGS", ""))
    # Everything else stays: with other vectors than in this process last digits would be others.
    changes = {"XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count=1".strip()}
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
