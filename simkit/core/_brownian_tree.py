"""Brownian paths that are the same whatever the steps: a tree of midpoints, none of which is stored."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree, UInt32

from .._types import Time
from ._brownian_path import normals

DEPTHS = {8: 26, 4: 18}
"""Halvings of the span, by the bytes of a number of the time: below the last one the path is a straight line."""
ROOT = 0xFFFFFFFF
"""Level of the end of the whole span among the keys of normal numbers."""
NEAR = 8
"""Units of rounding within which a time is a save time: steps end and begin just beside these."""


class BrownianTree(eqx.Module):
    r"""A Brownian path between two times, as a function of time.

    Its end is a normal number; the middle of each interval of length l lies about the mean of both ends with the deviation
    $\sqrt{l} / 2$ (Levy's construction), halving by halving down to the time that is asked for. Each number is made by the cipher
    Threefry of the level and the place of the interval, as for `BrownianPath`, so that nothing is stored, and any two solves with
    one key see one path, whatever their steps.

    **Arguments:** `times`: the save times, between the first and the last of which the path lies.

    **Reference:** Gaines and Lyons (1997), SIAM J. Appl. Math. 57:1455, doi:10.1137/S0036139995286515; Li et al. (2020),
    arXiv:2001.01328, for the tree that is not stored.
    """

    words: tuple[UInt32[Array, ""], UInt32[Array, ""]]
    times: Float[Array, " times"]
    shape: Any = eqx.field(static=True)

    def at(self, t: Time) -> PyTree:
        """The path at a time; it begins with zero."""
        like = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self.shape)
        flat, unravel = ravel_pytree(like)
        times, t = jax.lax.stop_gradient((self.times, t))
        words, span = self.words, times[-1] - times[0]
        place = jnp.clip((snapped(t, times) - times[0]) / jnp.where(span > 0, span, 1), 0, 1)
        root = jnp.sqrt(span).astype(flat.dtype)

        def drawn(level: Array, index: Array) -> Array:
            # The cipher takes words that are all batched alike, which its rule for `vmap` does not see to.
            same = 0 * index
            counter = words[0] + same, words[1] + same
            return normals((level + same, index), counter, jnp.zeros((), jnp.uint32), flat.size, flat.dtype)

        end = root * drawn(jnp.uint32(ROOT), jnp.uint32(0))

        def halved(carry: Any, level: Array) -> tuple[Any, None]:
            left, right, place, index, width = carry
            middle = 0.5 * (left + right) + 0.5 * width * drawn(level, index)
            beyond = place >= 0.5
            left, right = jnp.where(beyond, middle, left), jnp.where(beyond, right, middle)
            place = 2 * place - beyond.astype(place.dtype)
            return (left, right, place, 2 * index + beyond.astype(jnp.uint32), width * math.sqrt(0.5)), None

        depth = DEPTHS[jnp.dtype(times.dtype).itemsize]
        begin = flat, end, place, jnp.zeros((), jnp.uint32), root
        (left, right, place, _, _), _ = jax.lax.scan(halved, begin, jnp.arange(depth, dtype=jnp.uint32))
        return unravel(left + (right - left) * place.astype(flat.dtype))

    def evaluate(self, t0: Time, t1: Time, *, use_levy: bool = False) -> PyTree:
        """Return the increment from t0 to t1."""
        assert not use_levy, "A tree of midpoints knows no Levy area."
        return jax.tree.map(jnp.subtract, self.at(t1), self.at(t0))


class KnownIncrement(eqx.Module):
    """An increment of a path, for a step that asks for it."""

    increment: PyTree

    def evaluate(self, t0: Time, t1: Time, *, use_levy: bool = False) -> PyTree:
        return self.increment


def snapped(t: Time, times: Float[Array, " times"]) -> Time:
    """A time, or the save time that it equals up to rounding."""
    later = jnp.clip(jnp.searchsorted(times, t), 0, times.shape[0] - 1)
    for place in (later, jnp.maximum(later - 1, 0)):
        rounding = NEAR * float(jnp.finfo(times.dtype).eps) * jnp.maximum(jnp.abs(times[place]), times[-1] - times[0])
        t = jnp.where(jnp.abs(t - times[place]) <= rounding, times[place], t)
    return t


def brownian_tree(shape: Any, key: Any, times: Float[Array, " times"]) -> BrownianTree:
    """Return a Brownian path over the span of the save times from a random key."""
    words = jax.random.bits(jax.random.fold_in(key, 0x74726565), (2,), jnp.uint32)
    return BrownianTree((words[0], words[1]), times, shape)
