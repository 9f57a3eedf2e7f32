"""The memory that square matrices over all unknowns need, asked for before they are made."""

import os

import jax
import numpy as np
from jax.typing import DTypeLike

from .._errors import ArgumentError

MANY = 1000
"""Fewer unknowns are never refused: their matrices take megabytes."""


def check_dense(count: int, dtype: DTypeLike, what: str, copies: float = 1.0) -> None:
    """Refuse square matrices over so many unknowns where they do not fit.

    **Arguments:** `what`: subject of the sentence; `copies`: how many of them there are at once.

    **Raises:** an `ArgumentError`, before anything is allocated.
    """
    needed, memory = copies * count**2 * np.dtype(dtype).itemsize, _memory()
    if count >= MANY and needed > memory:
        raise ArgumentError(
            f"{what} needs {needed / 2**30:.3g} GiB for matrices over {count} unknowns, but there are {memory / 2**30:.3g} GiB of "
            "memory. Take `fit` with `method=simkit.GaussNewtonCG()`, which needs no matrix, or fewer unknowns."
        )


def _memory() -> float:
    """The bytes of the device that arrays are put on, or of the machine; infinite where neither is known."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")
