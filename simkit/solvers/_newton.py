"""Newton's iteration with factors that outlive steps; derivatives by the implicit function theorem."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..linear import Structure
from ._krylov import Iterative
from ._shifted import solved

ITERATIONS = 4
"""Most iterations with the same factors."""

LINEAR = 0.1
"""Residual of a solve by GMRES over the error to which the equations are solved."""

DRIFT = 0.3
"""Relative change of the coefficient h / alpha beyond which factors are made again."""


class Kept(NamedTuple):
    """Numbers kept for the next equations: factors, all of them floating-point, the coefficient they were made with (0 of none),
    and the share of an error that an iteration leaves."""

    factors: Any
    coefficient: Array
    rate: Array


class Equations(NamedTuple):
    """Equations for the change of a state.

    `residual` of a change of `y`; `matrix`, the entries of its derivative at a state for a coefficient; `structure`, by which that
    is solved; `c`, the coefficient of the Jacobian in it, which is 0 only where there is nothing to solve; `plain`, whether the
    matrix is the identity less c J; `iterative`, how GMRES solves them, with `structure` as its preconditioner, or None; `stated`,
    whether a user stated the pattern of the structure.
    """

    residual: Callable[[Array], Array]
    matrix: Callable[[Array, Array], Any]
    structure: Structure
    c: Array
    y: Float[Array, " n"]
    plain: bool = True
    iterative: Iterative | None = None
    stated: bool = False


class Found(NamedTuple):
    """Result of an iteration."""

    converged: Array
    finite: Array
    iterations: Array  # with the last factors
    kept: Kept


class _State(NamedTuple):
    change: Array
    kept: Kept
    stale: Array  # factors are to be made
    fresh: Array  # factors are of these equations
    turn: Array
    size: Array  # of the last correction
    converged: Array
    failed: Array
    due: Array  # another round is to come


def solve(equations: Equations, kept: Kept, scale: Array, tolerance: Array) -> tuple[Array, Found]:
    """The root, with its derivatives by all that the residual reads, and what was found on the way, which has none.

    Errors are root mean squares in units of `scale`.
    """
    iterate = lambda: _iterated(equations, kept, scale, tolerance)
    change, (converged, finite, iterations, after) = implicit(equations, iterate)
    return change, Found(converged > 0, finite > 0, iterations, after)


def implicit(equations: Equations, find: Callable[[], tuple[Array, Any]]) -> tuple[Array, Any]:
    """The root that `find` knows how to find, and what else that returns, floating-point numbers all of them.

    Derivatives are those of the equation at the root: loops and factors of `find` have none.
    """
    structure, iterative = equations.structure, equations.iterative

    def tangent_solve(product: Callable[[Array], Array], b: Array) -> Array:
        if equations.plain:
            entries = structure.shifted(lambda v: v - product(v), 1.0, b)
        else:  # whose rows may be so small that nothing of them is left beside 1
            entries = structure.shifted(lambda v: -product(v), 1.0, b, jnp.zeros_like(b))
        factors = structure.factors(jax.lax.stop_gradient(entries))
        if iterative is not None:
            return iterative.derivative(product, factors, b)
        return solved(structure, factors, product, b, checked=equations.stated)

    guess = jnp.zeros_like(equations.y)
    return jax.lax.custom_root(equations.residual, guess, lambda _, guess: find(), tangent_solve, has_aux=True)


def no_factors(equations: Equations) -> Kept:
    """Return what is kept before the first equations: nothing."""
    shapes = jax.eval_shape(lambda: _numbers(equations.structure.factors(equations.matrix(equations.y, equations.c))))
    zero = 0 * equations.c
    return Kept(jax.tree.map(lambda x: jnp.broadcast_to(zero.astype(x.dtype), x.shape), shapes), zero, zero + 1)


def _iterated(equations: Equations, kept: Kept, scale: Array, tolerance: Array) -> tuple[Array, Any]:
    """Rounds of iterations: with the factors at hand, and once more with new ones where that failed.

    All branches are loops of one turn at most: they hand large arrays on without a copy, and a batch of members skips the ones
    that none of them takes. XLA computes before a loop what does not change in it, so factors are made from what seems to change.
    """
    residual, matrix, structure, c, y, _, iterative, _ = equations
    form = jax.eval_shape(lambda: structure.factors(matrix(y, c)))
    no, yes = c != c, c == c
    drift = jnp.abs(c - kept.coefficient) > DRIFT * jnp.abs(kept.coefficient)
    begin = _State(
        change=jnp.zeros_like(y),
        kept=kept,
        stale=drift | (kept.coefficient == 0),
        fresh=no,
        turn=jnp.zeros_like(c),
        size=jnp.zeros_like(c),
        converged=no,
        failed=no,
        due=c != 0,
    )

    def refreshed(s: _State) -> _State:
        now = matrix(jnp.where(s.stale, y, 0), jnp.where(s.stale, c, 0))
        made = Kept(_numbers(structure.factors(now)), c, jnp.ones_like(c))
        return s._replace(kept=made, stale=no & s.stale, fresh=yes | s.fresh)

    def correction_of(s: _State) -> tuple[Array, Array]:
        factors = _restored(s.kept.factors, form)
        if iterative is not None:
            left, product = jax.linearize(residual, s.change)
            correction, found = iterative.solve(product, factors, -left, scale, LINEAR * tolerance)
            # Of what is not finite GMRES makes no space at all, and 0 would be an answer.
            finite = jnp.all(jnp.isfinite(left))
            return jnp.where(finite, correction, jnp.nan), found | ~finite
        # Of factors with another coefficient the correction is scaled: right for the stiffest states and the slow ones in the mean.
        ratio = 2 / (1 + c / s.kept.coefficient)
        return ratio * structure.solve(factors, -residual(s.change), False), yes

    def corrected(s: _State) -> _State:
        correction, found = correction_of(s)
        size = root_mean_square(correction, scale)
        ratio = size / jnp.where(s.size > 0, s.size, 1)
        later = s.turn > 0
        rate = jnp.where(later, jnp.maximum(0.3 * s.kept.rate, ratio), s.kept.rate)
        left = jnp.where(rate < 1, rate / jnp.where(rate < 1, 1 - rate, 1), jnp.inf) * size
        converged = found & jnp.isfinite(size) & ((size == 0) | (left < tolerance))
        turn = s.turn + 1
        hopeless = later & (left * rate ** (ITERATIONS - turn) > tolerance)
        failed = ~converged & (~found | ~jnp.isfinite(size) | hopeless | (turn >= ITERATIONS))
        return s._replace(
            change=s.change + correction,
            kept=s.kept._replace(rate=rate),
            turn=turn,
            size=size,
            converged=converged,
            failed=failed,
        )

    def round_of(s: _State) -> _State:
        s = jax.lax.while_loop(lambda s: s.stale, refreshed, s)
        zero = jnp.zeros_like(c)
        s = s._replace(change=jnp.zeros_like(s.change), turn=zero, size=zero, failed=no)
        s = jax.lax.while_loop(lambda s: ~(s.converged | s.failed), corrected, s)
        again = s.failed & ~s.fresh
        return s._replace(due=again, stale=again)

    s = jax.lax.while_loop(lambda s: s.due, round_of, begin)
    return s.change, (s.converged.astype(c.dtype), jnp.isfinite(s.size).astype(c.dtype), s.turn, s.kept)


def root_mean_square(x: Array, scale: Array) -> Array:
    """The root mean square of a change in units of `scale`."""
    total = jnp.sum(jnp.square(jnp.abs(jax.lax.stop_gradient(x)) / scale))
    return jnp.sqrt(total / max(x.size, 1))


def _numbers(factors: PyTree) -> Any:
    """Factors as floating-point numbers, permutations included: others JAX 0.10 does not let pass beside a root."""
    kind = next(x.dtype for x in jax.tree.leaves(factors) if jnp.issubdtype(x.dtype, jnp.inexact))
    return jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(kind), factors)


def _restored(numbers: PyTree, form: PyTree) -> Any:
    return jax.tree.map(lambda x, as_was: x.astype(as_was.dtype), numbers, form)
