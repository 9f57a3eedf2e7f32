"""XLA's settings for the processor, which must stand before JAX's first computation."""

import importlib.metadata
import os
import re
from pathlib import Path

from .._doors import check_count
from .._errors import ArgumentError

LOOP_BYTES = 2**18
"""XLA of JAX before 0.11 makes one kernel of a loop on CPUs only if an iteration touches fewer bytes than this; its own limit is so
low that lanes are started operation by operation, at twice the time."""

DEVICES = "--xla_force_host_platform_device_count"
"""The setting of XLA for the number of devices."""

MOST_DEVICES = 1024
"""The most devices as which JAX is told to see a processor."""

WIDE = "avx512_vbmi2"
"""Processors from about 2019 on have this; earlier ones slow down when they use vectors of 512 bits."""

WIDE_VECTORS = "--xla_cpu_prefer_vector_width=512"
"""XLA takes half of such a vector unless it is told: ensembles in lanes then take up to 1.9 times as long."""


def enable_processor(devices: int | None = None) -> None:
    """Have XLA use the processor as the command line does: all of its vectors, and loops of many lanes as one program.

    Importing simkit does not touch JAX's configuration; a script calls this before its first computation, and its own programs
    gain as simkit's do. Last digits change. It adds to the environment variable `XLA_FLAGS`, whose own settings stay; worker
    processes inherit it.

    **Arguments:** `devices`: as how many devices JAX sees the processor, over which ensembles and fits spread; by default one. The
    number of cores is a good value.

    **Raises:** an `ArgumentError` where JAX has computed already, since its settings are fixed from then on.

    ```python
    import simkit
    try:
        simkit.enable_processor()
    except simkit.ArgumentError as error:
        print(error)
    ```
    """
    if devices is not None:
        check_count("devices", devices)
        if devices > MOST_DEVICES:
            raise ArgumentError(
                f"Argument `devices` must be at most {MOST_DEVICES}, but it is {devices}. The number of cores is a good value."
            )
    before = os.environ.get("XLA_FLAGS", "")
    set_compiler()
    if devices is not None:
        set_device_count(devices)
    if {*os.environ["XLA_FLAGS"].split()} != {*before.split()} and _has_begun():
        os.environ["XLA_FLAGS"] = before
        raise ArgumentError(
            "`simkit.enable_processor` must be called before JAX computes anything, but it has. Call it at the top of the script."
        )


def set_compiler() -> None:
    """Have XLA use the processor as well as it can; must run before JAX's first computation. What the user has set stays."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags and _version("jax") < (0, 11):
        flags += f" --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={LOOP_BYTES}"
    if "xla_cpu_prefer_vector_width" not in flags and wide_vectors():
        flags += f" {WIDE_VECTORS}"
    os.environ["XLA_FLAGS"] = flags.strip()


def set_device_count(count: int) -> None:
    """Let JAX see the processor as so many devices, whatever it was told before; all other settings of XLA stay."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(DEVICES)]
    os.environ["XLA_FLAGS"] = " ".join([*flags, f"{DEVICES}={count}"])


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


def _has_begun() -> bool:
    """Tell whether JAX has made its devices."""
    from jax._src import xla_bridge  # no public name tells this without making them

    return xla_bridge.backends_are_initialized()
