"""Capabilities of this machine: the two slopes of its roofline, measured, and its energy counter."""

import functools
import pathlib
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp

ENERGY = pathlib.Path("/sys/class/powercap/intel-rapl:0/energy_uj")


class Machine(NamedTuple):
    """Operations a second of a large product of matrices, and bytes a second through memory, of the default device."""

    device: str
    flops: float
    bandwidth: float

    def limit(self, intensity: float) -> float:
        """The most operations a second that a program of this intensity can reach."""
        return min(self.flops, intensity * self.bandwidth)


@functools.cache
def machine(double: bool) -> Machine:
    """Measure, once a process: about 0.2 s."""
    dtype = jnp.float64 if double else jnp.float32
    size, words = 768, 1 << 23
    matrix, array = jnp.ones((size, size), dtype), jnp.ones(words, dtype)
    product = _best(jax.jit(lambda x: x @ x), matrix)
    triad = _best(jax.jit(lambda x: 1.5 * x + 0.5), array)
    device = jax.devices()[0]
    return Machine(
        f"{device.platform} {device.device_kind}", 2 * size**3 / product, 2 * words * array.dtype.itemsize / triad
    )


def _best(function: jax.stages.Wrapped, argument: jax.Array) -> float:
    jax.block_until_ready(function(argument))
    spent = []
    for _ in range(4):
        begin = time.perf_counter()
        jax.block_until_ready(function(argument))
        spent.append(time.perf_counter() - begin)
    return min(spent)


def joules() -> float | None:
    """The energy that the processor has counted, where it does and may be read."""
    try:
        return int(ENERGY.read_text(encoding="utf-8")) * 1e-6
    except (OSError, ValueError):
        return None
