"""The ring of past steps: dense outputs of as many steps as a solve keeps."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core import scaled


class Ring(NamedTuple):
    """Dense outputs of the last steps; the oldest is overwritten by the newest."""

    start: Array  # (kept,): times at which the steps start; infinite where there is none yet
    length: Array  # (kept,): their lengths
    rows: Array  # (kept, 1 + degree, n): the state at the start and the increments of the polynomial
    total: Array  # number of steps that were ever put in

    @property
    def kept(self) -> int:
        return self.start.shape[0]

    @property
    def oldest(self) -> Array:
        """The time at which the oldest step starts; before the ring has gone round it is the first time of the solve."""
        return self.start[jnp.where(self.total >= self.kept, self.total % self.kept, 0)]


def empty_ring(kept: int, degree: int, y: Array, begin: Array, zero: Array) -> Ring:
    """A ring in whose place for the first step the state stays as it begins; `zero` varies over a mesh as the operands do."""
    start = (jnp.full(kept, jnp.inf, begin.dtype) + zero).at[0].set(begin)
    rows = (jnp.zeros((kept, 1 + degree, y.size), y.dtype) + zero.astype(y.dtype)).at[0, 0].set(y)
    return Ring(start, jnp.ones_like(start) + zero, rows, count_zero(zero))


def count_zero(zero: Array) -> Array:
    """The number 0 as a counter that varies over a mesh as a zero does."""
    return jax.lax.stop_gradient(zero).astype(jnp.int32)


def put(ring: Ring, start: Array, length: Array, y: Array, increments: Array, real: Array) -> Ring:
    """The ring with one more step, where that is a real one."""
    place = jnp.where(real, ring.total % ring.kept, ring.kept)
    row = jnp.concatenate([y[None], increments])
    return Ring(
        ring.start.at[place].set(start, mode="drop"),
        ring.length.at[place].set(length, mode="drop"),
        ring.rows.at[place].set(row, mode="drop"),
        ring.total + real.astype(ring.total.dtype),
    )


def state_in(ring: Ring, time: Array, side: Array) -> Array:
    """The state at a time, by the dense output of the step around `side`, a time that is nearly the same."""
    oldest = ring.total - jnp.minimum(ring.total, ring.kept)
    place = (oldest + last_before(jax.lax.stop_gradient(ring.start), oldest, side)) % ring.kept
    share = (time - ring.start[place]) / ring.length[place]
    return valued(ring.rows[place], share)


def last_before(start: Array, oldest: Array, side: Array) -> Array:
    """The number of the last of the kept steps, counted from the oldest, that starts at a time or before it; else 0.

    Steps are in order from the oldest on, and places that are not filled yet start at infinity. So one block of them is looked
    through, after the first ones of all blocks: some 2 sqrt(kept) comparisons in place of `kept`, which were half of a solve.
    """
    kept = start.shape[0]
    size = max(1, math.isqrt(kept))

    def count(numbers: Any) -> Array:
        found = (start[(oldest + numbers) % kept] <= side) & (numbers < kept)
        return jnp.maximum(jnp.sum(found, dtype=jnp.int32), 1) - 1

    block = size * count(size * np.arange(-(-kept // size), dtype=np.int32))
    return block + count(block + np.arange(size, dtype=np.int32))


def valued(rows: Array, share: Array) -> Array:
    """The value of a dense output, rows of the first state and of increments, at a share of its step."""
    y, *increments = [rows[i] for i in range(rows.shape[0])]
    total = jnp.zeros_like(y)
    for increment in reversed(increments):
        total = scaled(share, total + increment)
    return y + total
