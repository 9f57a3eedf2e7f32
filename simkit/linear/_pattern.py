"""Sparsity patterns of Jacobians."""

import dataclasses
import functools

import numpy as np
from jaxtyping import Bool, Int


class AbstractPlaces:
    """Places of a square matrix, compared by value: `rows` and `columns`, sorted by row and then by column, and the `size`."""

    rows: Int[np.ndarray, " places"]
    columns: Int[np.ndarray, " places"]
    size: int

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AbstractPlaces)
            and type(self) is type(other)
            and self.size == other.size
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.columns, other.columns)
        )

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.size, self.rows.tobytes(), self.columns.tobytes()))

    def matrix(self) -> Bool[np.ndarray, "n n"]:
        """The places as a matrix of truth values."""
        full = np.zeros((self.size, self.size), bool)
        full[self.rows, self.columns] = True
        return full


@dataclasses.dataclass(frozen=True, eq=False)
class Pattern(AbstractPlaces):
    """The places of a square matrix that may hold numbers other than 0, row by row; the diagonal is always one of them.

    **Arguments:** `rows` and `columns`, the indices of the places, sorted by row and then by column; `size`, the number of rows.
    """

    rows: Int[np.ndarray, " places"]
    columns: Int[np.ndarray, " places"]
    size: int

    @staticmethod
    def of(rows: Int[np.ndarray, " places"], columns: Int[np.ndarray, " places"], size: int) -> "Pattern":
        """The pattern of places in any order, with the diagonal added and repetitions removed."""
        diagonal = np.arange(size)
        keys = np.unique(np.concatenate([rows * size + columns, diagonal * size + diagonal]).astype(np.int64))
        return Pattern(keys // size, keys % size, size)

    @staticmethod
    def dense(size: int) -> "Pattern":
        """The pattern of a full matrix."""
        rows, columns = np.divmod(np.arange(size * size, dtype=np.int64), size)
        return Pattern(rows, columns, size)

    @property
    def places(self) -> int:
        """The number of places."""
        return len(self.rows)

    @property
    def density(self) -> float:
        """The number of places over that of a full matrix."""
        return self.places / self.size**2
