"""Rows of sparse matrices of truth values, picked, joined and united; SciPy is imported where it is needed."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

# More places than this in one array's dependence are as good as a full matrix.
PLACES_UP_TO = 5 * 10**6


class Full(Exception):
    """A matrix of too many places to be treated as sparse."""


def places(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    """The matrix with these places; those given twice count once."""
    import scipy.sparse as sp

    return sp.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)


def chosen_rows(source: np.ndarray, count: int | None = None) -> Any:
    """The matrix that picks a row for each result; -1 picks none."""
    kept = np.flatnonzero(source >= 0)
    width = int(source.max(initial=-1)) + 1 if count is None else count
    return _Choice((source, kept, width))


class _Choice:
    """A matrix of one place a row at most, multiplied from the left."""

    def __init__(self, what: tuple[np.ndarray, np.ndarray, int]) -> None:
        self.source, self.kept, self.width = what

    def __matmul__(self, dependence: Any) -> Any:
        if len(self.kept) == len(self.source):
            return picked(dependence, self.source)
        return self.matrix(dependence.shape[0]) @ dependence

    def matrix(self, width: int) -> Any:
        return places(self.kept, self.source[self.kept], (len(self.source), width))

    @property
    def T(self) -> Any:
        return self.matrix(self.width).T


def kept_rows(kept: np.ndarray) -> Any:
    """The diagonal matrix that keeps some rows and empties the others."""
    import scipy.sparse as sp

    return sp.diags_array(np.asarray(kept, bool), dtype=bool).tocsr()


def picked(dependence: Any, source: np.ndarray) -> Any:
    """Rows of a dependence by their numbers."""
    check_room(int(np.diff(dependence.indptr)[source].sum()))
    return dependence[source]


def check_room(places: int) -> None:
    """Give up where a matrix would have too many places."""
    if places > PLACES_UP_TO:
        raise Full


def stacked(parts: list[Any]) -> Any:
    """Matrices one below the other."""
    import scipy.sparse as sp

    return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")


def union(parts: Sequence[Any]) -> Any:
    """The places of any of several matrices; None stands for a matrix without places."""
    present = [x for x in parts if x is not None]
    return functools.reduce(lambda a, b: a + b, present) if present else None
