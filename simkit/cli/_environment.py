"""Settings of the command line before JAX starts: devices, float type, compilation cache."""

import _thread
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core import set_compiler, set_device_count

MOST_DEVICES = 16
"""More host devices than this give a fit of some ten starts and a few chains nothing."""


def set_devices(count: int | None = None) -> None:
    """Let JAX see as many CPU devices as there are cores; must run before JAX's first computation.

    What the user has set in XLA_FLAGS stays.
    """
    set_compiler()
    if "xla_force_host_platform_device_count" not in os.environ["XLA_FLAGS"]:
        set_device_count(min(cores(), MOST_DEVICES) if count is None else count)


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
