"""Linear algebra of the stiffness probe for many states: a sparse Jacobian, solves by it, and its extreme eigenvalues."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..linear import Compression, Pattern, band_cost, band_order, dense_cost, half_width

KRYLOV = 20
"""Arnoldi vectors. They give the extreme eigenvalues to some percent, far less than what the probe has to tell apart."""

CALL, PLACE, MULTIPLICATION = 5.0, 2e-3, 5e-4
"""Microseconds: an operation on all states apart from its size, a place of a Jacobian, a multiplication of a factorisation."""

EVALUATIONS = 6
"""Evaluations of the field in a step of an explicit method of order 5."""

STEP, SOLVES, COMPILED, LEAST_WIDTH = 60.0, 9, 6.0, 8
"""A linearly implicit step: microseconds apart from its size, solves in it, its operations' time over those of a library, and
the least width of a band."""

LEAST_RATIO = 10.0
"""Explicit steps that cost as much as one linearly implicit step on small systems."""

FACTORISED_UP_TO, KRYLOV_RATIO = 8.0, 40.0
"""Estimated cost of a linearly implicit step, in explicit ones, from which on solutions without factors take less time; and the
explicit steps that cost as much as all steps of `BDF` by GMRES for one that accuracy asks of `Rodas5P`. Of lines in one dimension
the first is 2 to 4, and factors took a third to a seventieth of the time; of squares and networks it is 9 to 130, and they took 3
to 28 times as long."""

MOST_FULL = 500
"""States with a Jacobian without structure that is still factorised."""

MOST_TIME, LEAST_JACOBIANS, MOST_JACOBIANS = 1.5e5, 20, 100
"""The most microseconds of a walk, and the least and the most Jacobians in it."""

MOST_TRIAL, MOST_FACTORISATION = 2e5, 2e4
"""Microseconds: beyond the first the number of operations of a factorisation is not found out, beyond the second no walk begun."""


INVARIANT = 1e-10
"""Share of a product with the matrix that is rounding: a space from which no more than that leads is invariant."""


class SparseAlgebra:
    """The operations of a walk, on Jacobians whose pattern is known.

    `budget` is the number of Jacobians that a walk may take, and `ratio` how many explicit steps cost as much as one implicit step,
    which is better taken without factors where it is not `factorised`: all from the sizes of the pattern alone, so that a choice is
    the same on all machines. Factors are `held` for a whole step.
    """

    held = True

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        width, n = half_width(pattern, band_order(pattern)), pattern.size
        explicit = EVALUATIONS * (CALL + PLACE * pattern.places)
        implicit = min(band_cost(n, max(width, LEAST_WIDTH)), dense_cost(n))
        factorisation = MULTIPLICATION * min(
            n * width**2, n**3 / 3
        )  # at most, in the order of a band or as a full matrix
        if factorisation <= MOST_TRIAL:
            factors = self._factors(self.matrix(np.full(pattern.places, 1 / n)))
            made = np.diff(factors.L.indptr) * np.diff(factors.U.tocsr().indptr)  # multiplications of each elimination
            factorisation = min(factorisation, MULTIPLICATION * float(made.sum()))
            implicit = min(implicit, COMPILED * (factorisation + SOLVES * MULTIPLICATION * factors.nnz) + STEP)
        self.direct = factorisation <= MOST_FACTORISATION
        self.factorised = implicit <= FACTORISED_UP_TO * explicit
        self.ratio = LEAST_RATIO if self.factorised else KRYLOV_RATIO
        krylov = KRYLOV * (CALL + PLACE * pattern.places + 2 * MULTIPLICATION * KRYLOV * pattern.size)
        whole = factorisation + krylov
        self.budget = int(np.clip(MOST_TIME / whole, LEAST_JACOBIANS, MOST_JACOBIANS))

    @functools.cached_property
    def compression(self) -> Compression:
        """The directional derivatives that give all entries, which only a walk needs."""
        return Compression(self.pattern)

    def jacobian(self, push: Callable[[Any], Any], y: Any) -> Any:
        """The entries of a Jacobian, in a compiled program."""
        return self.compression(push, y)

    def matrix(self, entries: Any) -> Any:
        """The Jacobian of entries."""
        import scipy.sparse as sp

        places = (self.pattern.rows, self.pattern.columns)
        return sp.csc_array((np.asarray(entries, float), places), shape=(self.pattern.size,) * 2)

    def solver(self, h: float, jacobian: Any) -> Callable[[Any], Any]:
        """The solver of (1 - h J) x = b; NaN where the matrix is singular, which makes a step fail."""
        if np.isfinite(jacobian.data).all():
            try:
                return self._factors(-h * jacobian).solve
            except RuntimeError:  # exactly singular
                pass
        return lambda b: np.full_like(b, np.nan)

    def _factors(self, matrix: Any) -> Any:
        """The factors of 1 + a matrix."""
        import scipy.sparse as sp
        from scipy.sparse import linalg

        return linalg.splu((sp.eye_array(self.pattern.size, format="csc") + matrix).tocsc())

    def rates(self, jacobian: Any) -> Any:
        """The extreme eigenvalues of a Jacobian."""
        return krylov_rates(lambda v: jacobian @ v, self.pattern.size)


def krylov_rates(times: Callable[[Any], Any], states: int) -> Any:
    """Eigenvalues of the projection of a matrix onto a Krylov space (Arnoldi 1951), its extreme ones among them.

    **Arguments:** `times`, the product of the matrix with a vector; `states`, the number of its rows.
    """
    # Sums of NumPy's own, since threads of its BLAS fight those of XLA.
    size, norm = min(KRYLOV, states), lambda v: math.sqrt(np.einsum("i,i->", v, v))
    basis, projected = np.zeros((size + 1, states)), np.zeros((size + 1, size))
    start = np.random.default_rng(0).standard_normal(states)
    basis[0] = start / norm(start)
    for k in range(size):
        v = np.asarray(times(basis[k]), float)
        whole = norm(v)
        for _ in range(2):  # the second time for what rounding has left
            shares = np.einsum("ki,i->k", basis[: k + 1], v)
            projected[: k + 1, k] += shares
            v = v - np.einsum("k,ki->i", shares, basis[: k + 1])
        left = norm(v)
        if not left > INVARIANT * whole:  # the space is invariant
            return np.linalg.eigvals(projected[: k + 1, : k + 1])
        projected[k + 1, k], basis[k + 1] = left, v / left
    return np.linalg.eigvals(projected[:size])


@functools.lru_cache(16)
def sparse_algebra(pattern: Pattern) -> SparseAlgebra:
    """The operations for a pattern, whose colours are found once."""
    return SparseAlgebra(pattern)
