"""Square matrices that are zero but at known places."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Inexact, Int

Places = Int[np.ndarray, " places"]


class SparseMatrix:
    """A square matrix by its entries at known places; 0 stands at all others. It exists within a trace alone.

    **Arguments:** `values`, the entries; `rows` and `columns`, their places, NumPy arrays without repetition; `size`, the number of
    rows.
    """

    __slots__ = ("columns", "rows", "size", "values")

    def __init__(self, values: Inexact[Array, " places"], rows: Places, columns: Places, size: int) -> None:
        self.values, self.rows, self.columns, self.size = values, rows, columns, size

    def __neg__(self) -> "SparseMatrix":
        return SparseMatrix(-self.values, self.rows, self.columns, self.size)

    def __rmul__(self, factor: ArrayLike) -> "SparseMatrix":
        return SparseMatrix(jnp.asarray(factor) * self.values, self.rows, self.columns, self.size)

    def padded(self, more: int) -> "SparseMatrix":
        """The matrix with rows and columns of zeros behind."""
        return SparseMatrix(self.values, self.rows, self.columns, self.size + more)

    def at(self, rows: Places, columns: Places) -> Inexact[Array, " places"]:
        """The entries at places."""
        keys = self.rows.astype(np.int64) * self.size + self.columns
        order = np.argsort(keys)
        wanted = rows.astype(np.int64) * self.size + columns
        near = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)] if len(keys) else 0 * rows
        found = np.where(keys[near] == wanted, near, len(keys)) if len(keys) else 0 * rows
        # Unsigned, so that JAX has no negative ones to look for.
        return jnp.append(self.values, jnp.zeros((), self.values.dtype))[found.astype(np.uint32)]

    def whole(self) -> Inexact[Array, "n n"]:
        """The full matrix."""
        return self.at(*(x.ravel() for x in np.indices((self.size, self.size)))).reshape(self.size, self.size)


def full_matrix(matrix: Any) -> Inexact[Array, "n n"]:
    """A matrix as an array."""
    return matrix.whole() if isinstance(matrix, SparseMatrix) else jnp.asarray(matrix)


def entries_at(matrix: Any, rows: Places, columns: Places) -> Inexact[Array, " places"]:
    """The entries of a matrix at places."""
    return matrix.at(rows, columns) if isinstance(matrix, SparseMatrix) else matrix[rows, columns]
