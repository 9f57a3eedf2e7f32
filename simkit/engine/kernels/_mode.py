"""The choice between a kernel and a program of XLA's."""

import contextlib
import os
from collections.abc import Iterator
from typing import Literal

import jax

from ..._errors import ArgumentError

Mode = Literal["off", "triton", "interpret"]

VARIABLE = "SIMKIT_KERNELS"
"""Environment variable that overrules the choice: `off`, or `interpret` to run kernels step by step, as the tests do."""

_forced: list[Mode] = []


class NotInKernel(Exception):
    """Raised where a program does not become a kernel, with the reason; the caller takes the program of XLA's instead."""


def mode() -> Mode:
    """Return how kernels run: on GPUs of NVIDIA's compiled by Triton, elsewhere not at all."""
    if _forced:
        return _forced[-1]
    found = os.environ.get(VARIABLE)
    if found in ("off", "interpret"):
        return found
    if found not in (None, "", "auto"):
        raise ArgumentError(
            f'Environment variable {VARIABLE} must be "auto", "off" or "interpret", but it is {found!r}.'
        )
    return "triton" if jax.default_backend() == "gpu" and "cuda" in _version() else "off"


@contextlib.contextmanager
def forced(kind: Mode) -> Iterator[None]:
    """Run kernels in a way of one's own within a block; programs compiled before are forgotten."""
    _forced.append(kind)
    jax.clear_caches()
    try:
        yield
    finally:
        _forced.pop()
        jax.clear_caches()


def _version() -> str:
    return str(getattr(jax.devices()[0].client, "platform_version", "")).lower()
