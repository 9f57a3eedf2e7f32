"""Matrices whose places lie in a band: elimination block by block along it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Inexact, Int, PyTree

from ._dense import back_substitute, lu_factors
from ._pattern import Pattern
from ._structure import Places


class Band(Places):
    """A band, after the states were ordered to make it narrow, as a block-tridiagonal matrix.

    Pivots are sought within blocks alone. That is stable where I - a J is not far from diagonal dominance, as it is for short
    steps; where it is not, the factors are NaN and the next try is shorter.

    **Arguments:** `order`, the states in their new order; `width`, the size of the blocks, at least the half width of the band.
    """

    name = "band"

    def __init__(self, pattern: Pattern, order: Int[np.ndarray, " n"], width: int) -> None:
        super().__init__(pattern)
        self.width = width
        self.order = order.astype(np.int32)
        self.place = np.argsort(order).astype(np.int32)
        self.count = -(-pattern.size // width)
        # The number of the entry at each place of the three block diagonals; behind the entries stand a 0, and a 1 for padding.
        rows, columns = self.place[pattern.rows], self.place[pattern.columns]
        source = np.full((3, self.count, width, width), pattern.places, np.int32)
        source[columns // width - rows // width + 1, rows // width, rows % width, columns % width] = np.arange(
            pattern.places
        )
        for i in range(pattern.size, self.count * width):
            source[1, i // width, i % width, i % width] = pattern.places + 1
        self.source = source

    def described(self) -> str:
        return f"{self.compression.described()}, a band in {self.count} blocks of {self.width} states"

    def factors(self, w: Inexact[Array, " places"]) -> Any:
        """The factors of W = L (I + U), where L has the blocks on the diagonal and below it, and U those above."""
        entries = jnp.concatenate([w, jnp.zeros_like(w[:1]), jnp.ones_like(w[:1])])
        before, own, after = entries[self.source]

        def eliminate(last: Array, row: tuple[Array, Array, Array]) -> tuple[Array, tuple[Any, Array, Array]]:
            before, own, after = row
            lu = lu_factors(own - before @ last)
            upper = jax.vmap(lambda b: back_substitute(lu, b), in_axes=1, out_axes=1)(after)
            return upper, (lu, before, upper)

        (lu, permutations), before, upper = jax.lax.scan(eliminate, jnp.zeros_like(own[0]), (before, own, after))[1]
        sound = self.sound(w, ((lu, permutations), before, upper))
        return (jnp.where(sound, lu, jnp.nan), permutations), before, upper

    def solve(self, factors: PyTree, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        padded = jnp.concatenate([b[self.order], jnp.zeros_like(b, shape=(self.count * self.width - b.size,))])
        parts = padded.reshape(self.count, self.width)
        solve = _transposed if transpose else _solved
        return solve(factors, parts).ravel()[self.place]


def _solved(factors: PyTree, parts: Inexact[Array, "blocks width"]) -> Inexact[Array, "blocks width"]:
    lu, before, upper = factors

    def down(last: Array, row: tuple[Array, Any, Array]) -> tuple[Array, Array]:
        b, lu, before = row
        found = back_substitute(lu, b - before @ last)
        return found, found

    def up(last: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        found = row[0] - row[1] @ last
        return found, found

    empty = jnp.zeros_like(parts[0])
    inner = jax.lax.scan(down, empty, (parts, lu, before))[1]
    return jax.lax.scan(up, empty, (inner, upper), reverse=True)[1]


def _transposed(factors: PyTree, parts: Inexact[Array, "blocks width"]) -> Inexact[Array, "blocks width"]:
    lu, before, upper = factors

    def down(last: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        found = row[0] - row[1].T @ last
        return found, found

    def up(last: Array, row: tuple[Array, Any, Array]) -> tuple[Array, Array]:
        z, lu, before = row
        found = back_substitute(lu, z - last, transpose=True)
        return before.T @ found, found

    empty = jnp.zeros_like(parts[0])
    above = jnp.concatenate([jnp.zeros_like(upper[:1]), upper[:-1]])
    inner = jax.lax.scan(down, empty, (parts, above))[1]
    return jax.lax.scan(up, empty, (inner, lu, before), reverse=True)[1]
