"""Linear algebra of the stiffness probe for many states: a sparse Jacobian, solves by it, and its extreme eigenvalues."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..linear import Compression, Pattern, band_cost, band_order, half_width

# So many Arnoldi vectors give the extreme eigenvalues to some percent, which is far less than what the probe has to tell apart.
KRYLOV = 30
# Microseconds: an operation on all states beside its calls, one place of a Jacobian, one multiplication of a factorisation.
CALL, PLACE, MULTIPLICATION = 5.0, 2e-3, 1e-3
# Evaluations of the field in a step of an explicit method of order 5.
EVALUATIONS = 6
# The most microseconds of a walk's solves, and the most Jacobians in it.
MOST_TIME, MOST_JACOBIANS = 3e5, 150
# A factorisation of more microseconds is not made; iterations take its place.
MOST_FACTORISATION = 2e4
# Iterations for an answer to this relative error.
ITERATIONS, ACCURATE = 60, 1e-2


class SparseAlgebra:
    """The operations of a walk, on Jacobians whose pattern is known.

    `budget` is the number of Jacobians that a walk may take, and `ratio` how many explicit steps cost as much as one linearly
    implicit step, both from the sizes of the pattern alone, so that a choice is the same on all machines.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern, self.compression = pattern, Compression(pattern)
        width = half_width(pattern, band_order(pattern))
        self.factorisation = pattern.size * (CALL / 10 + MULTIPLICATION * width**2)
        self.direct = self.factorisation <= MOST_FACTORISATION
        explicit = EVALUATIONS * (CALL + PLACE * pattern.places)
        self.ratio = band_cost(pattern.size, max(width, 8)) / explicit
        step = 2 * self.factorisation if self.direct else 3 * ITERATIONS * (CALL + PLACE * pattern.places)
        krylov = KRYLOV * (CALL + PLACE * pattern.places + 2e-3 * KRYLOV * pattern.size)
        self.budget = int(np.clip(MOST_TIME / (step + krylov), 6, MOST_JACOBIANS))

    def jacobian(self, push: Callable[[Any], Any], y: Any) -> Any:
        """The entries of a Jacobian, in a compiled program."""
        return self.compression(push, y)

    def matrix(self, entries: Any) -> Any:
        """The Jacobian of entries."""
        import scipy.sparse as sp

        places = (self.pattern.rows, self.pattern.columns)
        return sp.csc_array((np.asarray(entries, float), places), shape=(self.pattern.size,) * 2)

    def solver(self, h: float, jacobian: Any) -> Callable[[Any], Any]:
        """The solver of (1 - h J) x = b; NaN where iterations do not converge, which makes a step fail."""
        import scipy.sparse as sp
        from scipy.sparse import linalg

        matrix = (sp.eye_array(self.pattern.size, format="csc") - h * jacobian).tocsc()
        if not np.isfinite(matrix.data).all():
            return lambda b: np.full_like(b, np.nan)
        if self.direct:
            try:
                return linalg.splu(matrix).solve
            except RuntimeError:  # exactly singular
                return lambda b: np.full_like(b, np.nan)
        diagonal = matrix.diagonal()
        diagonal = np.where(diagonal != 0, diagonal, 1)
        scaled = (sp.diags_array(1 / diagonal) @ matrix).tocsr()

        def iterated(b: Any) -> Any:
            if not np.isfinite(b).all():
                return np.full_like(b, np.nan)
            x, failed = linalg.bicgstab(scaled, b / diagonal, rtol=ACCURATE, maxiter=ITERATIONS)
            return np.full_like(x, np.nan) if failed else x

        return iterated

    def rates(self, jacobian: Any) -> Any:
        """Eigenvalues of the projection onto a Krylov space (Arnoldi 1951), the extreme ones of the matrix among them."""
        size = min(KRYLOV, jacobian.shape[0])
        basis, projected = np.zeros((size + 1, jacobian.shape[0])), np.zeros((size + 1, size))
        start = np.random.default_rng(0).standard_normal(jacobian.shape[0])
        basis[0] = start / np.linalg.norm(start)
        for k in range(size):
            v = jacobian @ basis[k]
            whole = np.linalg.norm(v)
            for _ in range(2):  # the second time for what rounding has left
                shares = basis[: k + 1] @ v
                projected[: k + 1, k] += shares
                v = v - shares @ basis[: k + 1]
            left = np.linalg.norm(v)
            if not left > 1e-12 * whole:  # the space is invariant
                return np.linalg.eigvals(projected[: k + 1, : k + 1])
            projected[k + 1, k], basis[k + 1] = left, v / left
        return np.linalg.eigvals(projected[:size])

    def largest_rate(self, jacobian: Any) -> float:
        """A bound on the magnitudes of all eigenvalues (Gershgorin)."""
        sums = lambda axis: float(np.max(np.asarray(abs(jacobian).sum(axis=axis)), initial=0.0))
        return min(sums(0), sums(1))


@functools.lru_cache(16)
def sparse_algebra(pattern: Pattern) -> SparseAlgebra:
    """The operations for a pattern, whose colours are found once."""
    return SparseAlgebra(pattern)
