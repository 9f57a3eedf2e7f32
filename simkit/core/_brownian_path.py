"""Brownian paths whose increments are numbered, not stored: the same numbers for a member, whatever the batch it is in."""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p
from jaxtyping import Array, PyTree, UInt32

from .._types import Time

STRIDE = 0x9E3779B9
"""Odd number, the golden ratio of 2^32, by which the words of the numbers of a step differ."""

PIECE = 64
"""Number of parts of a step, cut by events, that are told from pieces, cut by jumps."""


class Increment(NamedTuple):
    """An increment of a Brownian path, and its space-time Levy area, each of the structure of the path."""

    W: PyTree
    H: PyTree


class BrownianPath(eqx.Module):
    r"""A Brownian path that is drawn anew for each step.

    The increment of a step of length h is $\sqrt{h}\, z$ with a normal number z that the cipher Threefry (Salmon et al. 2011,
    doi:10.1145/2063384.2063405) makes of two random words of the path: a step costs one encryption a number, and needs no memory.
    The time is the key of the cipher and the words are its counter, since members share times and the cipher takes a quarter
    longer where its key differs between them.

    Times of steps are sums, which compilers round in different ways. So a step on a grid is told by the start of its window, which
    is given, and its number there, and the part of one that events cut by a number more (`at`). Steps without a place are told by
    their ends in single precision, in which they seldom differ.
    """

    words: tuple[UInt32[Array, ""], UInt32[Array, ""]]
    shape: Any = eqx.field(static=True)
    levy_area: bool = eqx.field(static=True)
    place: tuple[Any, Any, Any] | None = None

    def at(self, start: Time, number: Array, part: Array | None = None) -> "BrownianPath":
        """Return the path as step `number` of the window from `start` reads it, or a part of that; all are held in derivatives."""
        place = jax.lax.stop_gradient((start, number, jnp.zeros((), jnp.int32) if part is None else part))
        return dataclasses.replace(self, place=place)

    def piece(self, number: int | Array, t0: Time) -> "BrownianPath":
        """Return the path as a piece of a step reads it that jumps cut; piece 0 is that of the whole step."""
        start, step, part = (t0, jnp.zeros_like(t0), jnp.zeros((), jnp.int32)) if self.place is None else self.place
        return self.at(start, step, part + PIECE * number)

    def words_of_jump(self) -> tuple[Array, Array]:
        """Return six random words of a piece, on counters that increments do not have, as two arrays of three."""
        assert self.place is not None
        start = self.place[0]
        key, (first, second), number = self._key(start, start, 3)
        numbers = (number + jnp.arange(3, dtype=jnp.uint32)) * jnp.uint32(STRIDE)
        spread = lambda x: jnp.broadcast_to(x, numbers.shape)
        half = jnp.uint32(2**31)  # the parts of increments are below it
        high, low = threefry2x32_p.bind(*map(spread, key), first + numbers, spread(second + half))
        return high, low

    def evaluate(self, t0: Time, t1: Time, *, use_levy: bool = False) -> Any:
        """Return the increment from t0 to t1, with `use_levy` as an `Increment`."""
        leaves, structure = jax.tree.flatten(self.shape)
        copies = 2 if self.levy_area else 1
        sizes = [copies * math.prod(leaf.shape) for leaf in leaves]
        key, words, first = self._key(t0, t1, sum(sizes))
        root, parts = jnp.sqrt(t1 - t0), []
        for leaf, size in zip(leaves, sizes, strict=True):
            drawn = normals(key, words, first, size, leaf.dtype).reshape(copies, *leaf.shape)
            parts.append(root.astype(leaf.dtype) * drawn)
            first = first + size
        w = jax.tree.unflatten(structure, [part[0] for part in parts])
        if not use_levy:
            return w
        return Increment(w, jax.tree.unflatten(structure, [part[1] / math.sqrt(12) for part in parts]))

    def _key(self, t0: Time, t1: Time, count: int) -> tuple[tuple[Array, Array], tuple[Array, Array], Array]:
        """The key of a step's numbers, the words of their counter, and the first of them."""
        if self.place is None:
            ends = jax.lax.stop_gradient((t0, t1))
            first, last = (jax.lax.bitcast_convert_type(t.astype(jnp.float32), jnp.uint32) for t in ends)
            return (first, last), self.words, jnp.zeros((), jnp.uint32)
        start, number, part = self.place
        bits = jax.lax.bitcast_convert_type(start, jnp.uint32)
        key = (bits[0], bits[1]) if bits.ndim else (bits, jnp.zeros_like(bits))
        words = self.words[0], self.words[1] + part.astype(jnp.uint32) * jnp.uint32(STRIDE)
        return key, words, number.astype(jnp.uint32) * count


def normals(key: tuple[Array, Array], words: tuple[Array, Array], first: Array, count: int, dtype: Any) -> Array:
    """Standard normal numbers `first`, `first + 1`, ... of a key."""
    numbers = (first + jnp.arange(count, dtype=jnp.uint32)) * jnp.uint32(STRIDE)
    spread = lambda x: jnp.broadcast_to(x, numbers.shape)
    high, low = threefry2x32_p.bind(*map(spread, key), words[0] + numbers, spread(words[1]))
    if jnp.dtype(dtype).itemsize == 8:
        return _normal(high.astype(jnp.uint64) << 32 | low.astype(jnp.uint64), dtype)
    return _normal(high, dtype)


def _normal(bits: Array, dtype: Any) -> Array:
    """Normal numbers from bits, by the inverse of the distribution function."""
    info = jnp.finfo(dtype)
    one = jnp.asarray(1, dtype).view(bits.dtype)
    mantissa = bits >> jnp.asarray(info.bits - info.nmant, bits.dtype)
    unit = jax.lax.bitcast_convert_type(mantissa | one, dtype) - 1  # in [0, 1)
    least = jnp.nextafter(jnp.asarray(-1, dtype), jnp.asarray(0, dtype))
    return jnp.asarray(math.sqrt(2), dtype) * jax.lax.erf_inv(jnp.maximum(2 * unit - 1, least))
