"""The numbers of a sparse Jacobian from few directional derivatives, forwards and backwards."""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Inexact

from ..core import SparseMatrix, entries_at
from ._colours import column_colours
from ._pattern import Pattern

Jacobian: TypeAlias = Callable[[Array], Array] | Inexact[Array, "n n"] | SparseMatrix
"""A Jacobian as its product with a vector, or as the matrix where a system knows it."""

# A derivative backwards takes about as long as so many forwards.
BACKWARD = 2


class Compression:
    """Directional derivatives that give all numbers of a pattern: one a colour, and rows that many columns share backwards.

    Columns of one colour share no row. A row that holds most columns would make a colour of each of them; it is one derivative
    backwards instead.
    """

    def __init__(self, pattern: Pattern, backwards: bool = True) -> None:
        counts = np.bincount(pattern.rows, minlength=pattern.size)
        fullest = np.argsort(-counts, kind="stable")
        # At least so many derivatives are needed when the first rows are taken backwards.
        expected = BACKWARD * np.arange(pattern.size) + counts[fullest]
        self.pattern = pattern
        self.rows = fullest[: int(expected.argmin()) if backwards else 0]
        forwards = ~np.isin(pattern.rows, self.rows)
        rest = Pattern.of(pattern.rows[forwards], pattern.columns[forwards], pattern.size)
        colours = column_colours(rest)
        self.count = int(colours.max()) + 1
        self.seeds = np.arange(self.count)[:, None] == colours
        number = np.zeros(pattern.size, np.int64)
        number[self.rows] = self.count + np.arange(len(self.rows))
        # Unsigned, so that JAX has no negative ones to look for.
        self.products = np.where(forwards, colours[pattern.columns], number[pattern.rows]).astype(np.uint32)
        self.elements = np.where(forwards, pattern.rows, pattern.columns).astype(np.uint32)

    @property
    def cost(self) -> int:
        """The number of directional derivatives, one backwards counted as several forwards."""
        return self.count + BACKWARD * len(self.rows)

    def described(self) -> str:
        """Return the number of derivatives, as a clause."""
        return f"{self.count} derivatives" + (f" and {len(self.rows)} backwards" if len(self.rows) else "")

    def __call__(self, jacobian: Jacobian, like: Inexact[Array, " n"]) -> Inexact[Array, " places"]:
        """The numbers at the places of the pattern."""
        if not callable(jacobian):
            return entries_at(jacobian, self.pattern.rows, self.pattern.columns)
        along = lambda seeds: jnp.asarray(seeds, like.dtype) + jnp.zeros_like(like)[None]
        products = jax.vmap(jacobian)(along(self.seeds))
        if len(self.rows):
            transposed = _transposed(jacobian, like)
            if transposed is None:
                return Compression(self.pattern, backwards=False)(jacobian, like)
            units = np.arange(self.pattern.size) == self.rows[:, None]
            products = jnp.concatenate([products, jax.vmap(transposed)(along(units))])
        return products[self.products, self.elements]


def _transposed(product: Callable[[Array], Array], like: Inexact[Array, " n"]) -> Callable[[Array], Any] | None:
    """The product with the transpose, or None where a field has no derivative backwards, such as one with a `while_loop`."""
    try:
        transposed = jax.linear_transpose(product, like)
        jax.eval_shape(transposed, like)
    except (NotImplementedError, TypeError, ValueError):
        return None
    return lambda v: transposed(v)[0]
