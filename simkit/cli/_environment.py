"""Settings of the command line before JAX starts: devices, float type, compilation cache."""

import _thread
import importlib.metadata
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MOST_DEVICES = 16
"""More host devices than this give a fit of some ten starts and a few chains nothing."""


LOOP_BYTES = 2**18
"""XLA of JAX before 0.11 makes one kernel of a loop on CPUs only if an iteration touches fewer bytes than this; its own limit is so
low that lanes are started operation by operation, at twice the time."""

WIDE = "avx512_vbmi2"
"""Processors from about 2019 on have this; earlier ones slow down when they use vectors of 512 bits."""

WIDE_VECTORS = "--xla_cpu_prefer_vector_width=512"
"""XLA takes half of such a vector unless it is told: ensembles in lanes then take up to 1.9 times as long."""


def set_devices(count: int | None = None) -> None:
    """Let JAX see as many CPU devices as there are cores; must run before JAX's first computation.

    What the user has set in XLA_FLAGS stays.
    """
    set_compiler()
    flags = os.environ["XLA_FLAGS"]
    if "xla_force_host_platform_device_count" not in flags:
        count = min(cores(), MOST_DEVICES) if count is None else count
        flags += f" --xla_force_host_platform_device_count={count}"
    os.environ["XLA_FLAGS"] = flags.strip()


def set_compiler() -> None:
    """Have XLA use the processor as well as it can; must run before JAX's first computation. What the user has set stays."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags and _version("jax") < (0, 11):
        flags += f" --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={LOOP_BYTES}"
    if "xla_cpu_prefer_vector_width" not in flags and wide_vectors():
        flags += f" {WIDE_VECTORS}"
    os.environ["XLA_FLAGS"] = flags.strip()


def wide_vectors(text: str | None = None) -> bool:
    """Tell whether the processor has fast vectors of 512 bits, from what Linux reports; tests give that as `text`."""
    if text is None:
        try:
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        except OSError:
            return False
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return flags is not None and WIDE in flags[1].split()


def _version(package: str) -> tuple[int, ...]:
    return tuple(int(part) for part in importlib.metadata.version(package).split(".")[:2])


def set_jax(*, x64: bool, cache: bool) -> None:
    """The float type, and the cache on disk that spares a second run nearly all compilation."""
    import jax

    jax.config.update("jax_enable_x64", x64)
    if not cache:
        return
    from ..core import enable_cache

    enable_cache()


@contextmanager
def keep_interrupts() -> Iterator[None]:
    """Let no Ctrl-C get lost.

    Python raises it wherever it happens to be, and drops it inside a callback of the garbage collector, such as JAX installs:
    where it often is after a long compilation. It is raised again a moment later.
    """
    before = sys.unraisablehook

    def again(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            before(dropped)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
