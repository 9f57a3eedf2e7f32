"""Matrices of any sparse pattern: elimination in rounds, and what remains as a full matrix."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Inexact, Int

from ._dense import back_substitute, lu_factors
from ._elimination_order import Order
from ._pattern import Pattern
from ._ragged_sums import RaggedSums, Terms
from ._structure import Places

Numbers = Int[np.ndarray, "..."]


class Part(NamedTuple):
    """A range of places, and the sums of products that are taken from what stands there; None where there are none."""

    start: int
    stop: int
    sums: RaggedSums | None


class Round(NamedTuple):
    """The pivots of a round, `pivots` in number at the beginning of its part, and what the other numbers are multiplied with.

    `scales` holds, for a number of L, which of these pivots divides it, and for one of U the number of pivots.
    """

    part: Part
    pivots: int
    scales: Numbers


class Factors(NamedTuple):
    """A 0, then round by round 1/pivot and the numbers of L and U; all pivots in a row; the factors of what remains."""

    values: Inexact[Array, " places"]
    pivots: Inexact[Array, " eliminated"]
    rest: Any


class Elimination(Places):
    """Elimination by small Markowitz numbers, all states of a round at once, until the rest is better solved as a full matrix.

    Pivots stand on the diagonal: no rows are exchanged but in the rest. Whether that was stable is tested with one solve, by
    its componentwise backward error; where it was not, the factors are NaN, so that a step is tried again with a smaller
    length, nearer to the identity.

    **Arguments:** `order`, the rounds and what they leave, from `elimination_order`.
    """

    name = "elimination"
    large = True

    def __init__(self, pattern: Pattern, order: Order) -> None:
        super().__init__(pattern)
        self.order = np.array([*(p for pivots in order.rounds for p in pivots), *order.rest], np.int32)
        self.place = np.argsort(self.order).astype(np.int32)
        ends = np.cumsum([0, *(len(pivots) for pivots in order.rounds)])
        self.eliminated, self.side = int(ends[-1]), self.size - int(ends[-1])
        layout = _Layout(self.size, ends, self._renamed(order.rows), self._renamed(order.columns))
        self.source, self.rounds, self.rest = layout.source(pattern, self.place), layout.rounds(), layout.rest()
        # Triangular solves: row by row and, for the transpose, column by column.
        (p, i), (q, j), in_l, in_u = layout.lower, layout.upper, layout.in_l, layout.in_u
        steps = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        forward, backward = [*steps, (self.eliminated, self.size)], steps[::-1]
        sweep = lambda parts, terms: [_part(start, stop, terms, (0, self.size)) for start, stop in parts]
        self.down, self.up = sweep(forward, Terms(i, in_l, p)), sweep(backward, Terms(q, in_u, j))
        self.down_transposed, self.up_transposed = sweep(forward, Terms(j, in_u, q)), sweep(backward, Terms(p, in_l, i))

    def _renamed(self, found: dict[int, list[int]]) -> tuple[Numbers, Numbers]:
        """Pairs of a pivot and another state, in the order of elimination."""
        pivots = np.repeat([*found], [len(others) for others in found.values()]).astype(np.int64)
        others = np.array([other for others in found.values() for other in others], np.int64)
        return self.place[pivots], self.place[others]

    def described(self) -> str:
        made = f"{self.compression.described()}, elimination of {self.eliminated} states in {len(self.rounds)} rounds"
        return f"{made}, then a full matrix of {self.side}"

    def factors(self, w: Inexact[Array, " places"]) -> Factors:
        entries = jnp.append(w, jnp.zeros_like(w[:1]))[self.source]
        values, pivots = jnp.zeros_like(entries), []
        for part, count, scales in self.rounds:
            found = _left(part, entries, values, values)
            pivots.append(1 / found[:count])
            others = found[count:] * jnp.append(pivots[-1], jnp.ones_like(w[:1]))[scales]
            values = values.at[part.start : part.stop].set(jnp.concatenate([pivots[-1], others]))
        rest = lu_factors(_left(self.rest, entries, values, values).reshape(self.side, self.side))
        factors = Factors(values, jnp.concatenate(pivots), rest)
        return factors._replace(pivots=jnp.where(self.sound(w, factors), factors.pivots, jnp.nan))

    def solve(self, factors: Factors, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        values, pivots, rest = factors
        x = jnp.append(b[self.order], jnp.zeros_like(b[:1]))
        for part in self.down_transposed if transpose else self.down:
            found = _left(part, x, values, x)
            if part.start == self.eliminated:
                found = back_substitute(rest, found, transpose)
            elif transpose:
                found = found * pivots[part.start : part.stop]
            x = x.at[part.start : part.stop].set(found)
        for part in self.up_transposed if transpose else self.up:
            found = _left(part, x, values, x)
            if not transpose:
                found = found * pivots[part.start : part.stop]
            x = x.at[part.start : part.stop].set(found)
        return x[self.place]


class _Layout:
    """The places of all numbers: a 0, round by round the pivots and the numbers of L and of U, and the rest row by row.

    `lower` and `upper` hold pairs of a pivot and a row below it, or a column behind it, in the order of elimination.
    """

    def __init__(
        self, size: int, ends: Numbers, lower: tuple[Numbers, Numbers], upper: tuple[Numbers, Numbers]
    ) -> None:
        self.size, self.ends, self.lower, self.upper = size, ends, lower, upper
        eliminated = int(ends[-1])
        state = np.arange(size)
        corner = state[eliminated:]
        rows = np.concatenate([state[:eliminated], lower[1], upper[0], np.repeat(corner, len(corner))])
        columns = np.concatenate([state[:eliminated], lower[0], upper[1], np.tile(corner, len(corner))])
        kind = np.repeat([0, 1, 2, 3], [eliminated, len(lower[0]), len(upper[0]), len(corner) ** 2])
        turn = np.searchsorted(ends, np.minimum(rows, columns), side="right") - 1
        order = np.lexsort((columns, rows, kind, turn))
        self.rows, self.columns, self.kind = rows[order], columns[order], kind[order]
        self.starts = 1 + np.searchsorted(turn[order], np.arange(len(ends)))
        self.total = 1 + len(order)
        self.by_key = np.argsort(self.rows * size + self.columns)
        self.keys = (self.rows * size + self.columns)[self.by_key]
        self.in_l, self.in_u = self.places(lower[1], lower[0]), self.places(*upper)
        self.terms = self._terms()

    def places(self, rows: Numbers, columns: Numbers) -> Numbers:
        """The places of entries."""
        return 1 + self.by_key[np.searchsorted(self.keys, rows.astype(np.int64) * self.size + columns)]

    def source(self, pattern: Pattern, place: Numbers) -> Numbers:
        """The entry of the matrix at each place, or the number of entries where there is none."""
        source = np.full(self.total, pattern.places, np.int32)
        source[self.places(place[pattern.rows], place[pattern.columns])] = np.arange(pattern.places)
        return source

    def rounds(self) -> list[Round]:
        """The rounds of elimination."""
        found = []
        for k, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            own = slice(start - 1, stop - 1)
            pivots = int(self.ends[k + 1] - self.ends[k])
            scales = np.where(self.kind[own] == 1, self.columns[own] - self.ends[k], pivots)[pivots:]
            found.append(Round(_part(int(start), int(stop), self.terms, (0, 0)), pivots, scales.astype(np.int32)))
        return found

    def rest(self) -> Part:
        """The part that remains as a full matrix."""
        return _part(int(self.starts[-1]), self.total, self.terms, (0, 0))

    def _terms(self) -> Terms:
        """The product of each number of L in a column with each number of U in the row of the same pivot, and its target."""
        (p, i), (q, j) = self.lower, self.upper
        by_pivot = [np.argsort(pivots, kind="stable") for pivots in (p, q)]
        count = [np.bincount(pivots, minlength=self.size) for pivots in (p, q)]
        first = [np.concatenate([[0], np.cumsum(c)[:-1]]) for c in count]
        products = count[0] * count[1]
        pivot = np.repeat(np.arange(self.size), products)
        number = np.arange(len(pivot)) - np.repeat(np.cumsum(products) - products, products)
        in_column, in_row = np.divmod(number, np.maximum(count[1], 1)[pivot])
        left, right = by_pivot[0][first[0][pivot] + in_column], by_pivot[1][first[1][pivot] + in_row]
        return Terms(self.places(i[left], j[right]), self.in_l[left], self.in_u[right])


def _part(start: int, stop: int, terms: Terms, nowhere: tuple[int, int]) -> Part:
    own = (terms.target >= start) & (terms.target < stop)
    if not own.any():
        return Part(start, stop, None)
    return Part(
        start, stop, RaggedSums(Terms(terms.target[own] - start, *(x[own] for x in terms[1:])), stop - start, nowhere)
    )


def _left(part: Part, entries: Array, values: Array, others: Array) -> Array:
    """The entries of a part less the products that belong to them."""
    found = entries[part.start : part.stop]
    return found if part.sums is None else found - part.sums(values, others)
