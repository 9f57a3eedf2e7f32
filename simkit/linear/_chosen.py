"""The choice of a structure for the Jacobian of a function."""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Array, Inexact, Int

from ._band import Band
from ._blocks import SIZES, Blocks, largest_block
from ._dense import LOOPED_UP_TO
from ._dependence import jacobian_pattern, jacobian_places
from ._elimination import Elimination
from ._elimination_order import dense_cost, elimination_order
from ._pattern import Pattern
from ._reordered import Reordered
from ._structure import Dense, Structure

Stated: TypeAlias = tuple[Int[np.ndarray, " places"], Int[np.ndarray, " places"]]
"""Rows and columns of the places of a Jacobian that a user stated."""

# A matrix of this density or more is treated as full.
FULL_FROM = 0.3
# Bands that are narrower than this are taken as wide as that.
LEAST_WIDTH = 8
# Importing SciPy's graphs takes a tenth of a second, which the first solve of a small system need not wait for.
IN_ROUNDS_UP_TO = 200
# Microseconds for a band, for a block of it, and for the cube of its width: a factorisation and nine solves on one core.
WHOLE, BLOCK, CUBE = 60, 13, 1e-3
# A band's program is the smaller one: it is taken up to this many times the time of an elimination. No elimination of states
# in so large a number is planned, nor where a band takes less time than this.
BAND_UP_TO = 1.5
MOST_STATES, SHORT = 20_000, 100
# Of narrow bands the elimination fills in little, and its plan takes 30 us a state: 1 s for 30,000, whose steps take a tenth then.
NARROW, MOST_NARROW = 16, 200_000


def structure_of(
    function: Callable[[Array], Array], y: Inexact[Array, " n"], stated: Stated | None = None
) -> Structure:
    """The structure of the Jacobian of a function, found from the operations that it is made of where its places are not stated."""
    if y.size <= LOOPED_UP_TO:
        return Dense()
    pattern = sparse_pattern(function, y, stated)
    return Dense() if pattern is None else chosen(pattern)


def sparse_pattern(
    function: Callable[[Array], Array], y: Inexact[Array, " n"], stated: Stated | None = None
) -> Pattern | None:
    """The pattern of the Jacobian of a function, or None where it is full or nearly so."""
    pattern = jacobian_pattern(function, y) if stated is None else Pattern.of(*stated, y.size)
    return None if pattern is None or pattern.density >= FULL_FROM else pattern


def constrained_structure_of(
    function: Callable[[Array], Array], y: Inexact[Array, " n"], stated: Stated | None = None
) -> Structure:
    """The same for equations some of which may not contain the unknown of their own number. Stated places are added to those found.

    Where no order of the equations gives each of them an unknown of its own, the matrix is singular whatever its numbers are; it is
    then treated as full, and `unmatched` names what is missing.
    """
    if y.size <= LOOPED_UP_TO:
        return Dense()
    found = jacobian_places(function, y)
    if found is None:
        return Dense()
    if stated is not None:
        keys = np.unique(np.concatenate([rows * y.size + columns for rows, columns in (found, stated)]))
        found = keys // y.size, keys % y.size
    pattern = Pattern.of(*found, y.size)
    if pattern.density >= FULL_FROM:
        return Dense()
    if np.sum(found[0] == found[1]) == y.size:
        return chosen(pattern)
    order = _matching(*found, y.size)
    if (order < 0).any():
        return Dense()
    place = np.argsort(order)
    return Reordered(pattern, order, chosen(Pattern.of(place[found[0]], found[1], y.size)))


def unmatched(function: Callable[[Array], Array], y: Inexact[Array, " n"]) -> tuple[list[int], list[int]]:
    """The equations and the unknowns that no order of a Jacobian's rows puts on the diagonal: it is structurally singular."""
    found = jacobian_places(function, y)
    if found is None:
        return [], []
    order = _matching(*found, y.size)
    missing = np.setdiff1d(np.arange(y.size), order[order >= 0])
    return missing.tolist(), np.flatnonzero(order < 0).tolist()


def _matching(
    rows: Int[np.ndarray, " places"], columns: Int[np.ndarray, " places"], size: int
) -> Int[np.ndarray, " n"]:
    """The equation for each unknown, or -1."""
    import scipy.sparse as sp
    from scipy.sparse import csgraph

    matrix = sp.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(size, size))
    return np.asarray(csgraph.maximum_bipartite_matching(matrix, perm_type="row"), np.int64)


@functools.lru_cache(64)
def chosen(pattern: Pattern) -> Structure:
    """The structure by which equations of a pattern are solved fastest."""
    component = components(pattern)
    if largest_block(component) <= min(SIZES[-1], pattern.size // 2):
        return Blocks(pattern, component)
    order = band_order(pattern)
    width = max(half_width(pattern, order), LEAST_WIDTH)
    band = band_cost(pattern.size, width)
    if band > SHORT and pattern.size <= (MOST_NARROW if width <= NARROW else MOST_STATES):
        rounds = elimination_order(pattern)
        if rounds.rounds and BAND_UP_TO * rounds.cost < band:
            return Elimination(pattern, rounds)
    return Band(pattern, order, width) if band < dense_cost(pattern.size) else Dense(pattern)


def components(pattern: Pattern) -> Int[np.ndarray, " n"]:
    """The number of the connected component of each state, by the states with the least number among neighbours."""
    if pattern.size > IN_ROUNDS_UP_TO:
        from scipy.sparse import csgraph

        return csgraph.connected_components(_as_sparse(pattern), directed=False)[1]
    rows, columns = np.concatenate([pattern.rows, pattern.columns]), np.concatenate([pattern.columns, pattern.rows])
    least, before = np.arange(pattern.size), None
    while before is None or (least != before).any():
        before = least.copy()
        np.minimum.at(least, rows, before[columns])
        least = least[least]
    return np.unique(least, return_inverse=True)[1]


def _as_sparse(pattern: Pattern) -> Any:
    import scipy.sparse as sp

    ones = np.ones(pattern.places, bool)
    return sp.csr_array((ones, (pattern.rows, pattern.columns)), shape=(pattern.size, pattern.size))


def band_order(pattern: Pattern) -> Int[np.ndarray, " n"]:
    """An order of the states in which the places are near the diagonal (Cuthill and McKee 1969, backwards)."""
    from scipy.sparse import csgraph

    matrix = _as_sparse(pattern)
    return csgraph.reverse_cuthill_mckee((matrix + matrix.T).tocsr(), symmetric_mode=True)


def half_width(pattern: Pattern, order: Int[np.ndarray, " n"]) -> int:
    """The largest distance of a place from the diagonal, with the states in an order."""
    place = np.argsort(order)
    return int(np.abs(place[pattern.rows] - place[pattern.columns]).max())


def band_cost(size: int, width: int) -> float:
    """The time of a factorisation and nine solves of a band, in microseconds."""
    return WHOLE - (-size // width) * (BLOCK + CUBE * width**3)
