"""GMRES with restarts, whose programs serve lanes and devices: no call of a library, and loops that end early."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

Product = Callable[[Array], Array]


class _Space(NamedTuple):
    """The Krylov space so far: its vectors, the triangle R, the rotations, the right side in that base, and its dimension."""

    basis: Float[Array, "vectors+1 n"]
    triangle: Float[Array, "vectors vectors+1"]  # a column of R in each row
    rotations: Float[Array, "vectors 2"]
    right: Float[Array, " vectors+1"]
    dimension: Array


def gmres(
    product: Product,
    b: Float[Array, " n"],
    precondition: Product,
    tolerance: ArrayLike,
    *,
    vectors: int,
    rounds: int,
) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """The solution of A x = b by restarted GMRES with a preconditioner from the right (Saad and Schultz 1986), from x = 0.

    **Arguments:** `product` and `precondition`, A v and an approximation of its inverse times v; `tolerance`, the Euclidean norm of
    b - A x at which it ends; `vectors`, the dimension of a Krylov space, and `rounds`, the most spaces.

    **Returns:** x, and whether the tolerance was met.
    """
    tolerance = jnp.asarray(tolerance, b.dtype)

    def round_of(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        x, residual, size, turn = carry
        space = _spanned(product, precondition, residual, size, tolerance, vectors)
        x = x + precondition(_combination(space) @ space.basis)
        residual = b - product(x)
        return x, residual, _norm(residual), turn + 1

    size = _norm(b)
    begin = (jnp.zeros_like(b), b, size, 0 * size)
    goes_on = lambda carry: (carry[2] > tolerance) & (carry[3] < rounds)
    x, _, size, _ = jax.lax.while_loop(goes_on, round_of, begin)
    # The residual is computed anew at the end of a round, with rounding of its own.
    return x, size <= SLACK * tolerance


SLACK = 2.0
"""Residual over its tolerance at which a solve still counts as one."""


def _norm(x: Float[Array, " n"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(x * x))


def _over(x: Array, size: Array) -> Array:
    """The quotient, 0 where the divisor is 0."""
    return jnp.where(size > 0, x, 0) / jnp.where(size > 0, size, 1)


def _spanned(
    product: Product, precondition: Product, residual: Array, size: Array, tolerance: Array, vectors: int
) -> _Space:
    """A Krylov space that holds a solution to the tolerance, or the largest there may be."""
    zero = 0 * residual[0]

    def extended(s: _Space) -> _Space:
        i = s.dimension
        w = product(precondition(s.basis[i]))

        # Modified Gram-Schmidt over the vectors that there are: passes over all places of the basis took most of the time.
        def reduced(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            w, column = carry
            part = jnp.sum(s.basis[j] * w)
            return w - part * s.basis[j], column.at[j].set(part)

        w, column = jax.lax.fori_loop(0, i + 1, reduced, (w, jnp.zeros_like(s.right)))
        length = _norm(w)
        basis = s.basis.at[i + 1].set(_over(w, length))

        def rotated(j: Array, column: Array) -> Array:
            c, d = s.rotations[j]
            first, second = column[j], column[j + 1]
            return column.at[j].set(c * first + d * second).at[j + 1].set(c * second - d * first)

        column = jax.lax.fori_loop(0, i, rotated, column.at[i + 1].set(0))
        whole = jnp.hypot(column[i], length)
        c, d = jnp.where(whole > 0, _over(column[i], whole), 1), _over(length, whole)
        right = s.right.at[i + 1].set(-d * s.right[i]).at[i].set(c * s.right[i])
        return _Space(
            basis,
            s.triangle.at[i].set(column.at[i].set(whole)),
            s.rotations.at[i].set(jnp.stack([c, d])),
            right,
            i + 1,
        )

    begin = _Space(
        basis=(jnp.zeros((vectors + 1, residual.size), residual.dtype) + zero).at[0].set(_over(residual, size)),
        triangle=jnp.zeros((vectors, vectors + 1), residual.dtype) + zero,
        rotations=jnp.zeros((vectors, 2), residual.dtype) + zero,
        right=(jnp.zeros(vectors + 1, residual.dtype) + zero).at[0].set(size),
        dimension=jnp.zeros((), jnp.int32) + zero.astype(jnp.int32),
    )
    goes_on = lambda s: (s.dimension < vectors) & (jnp.abs(s.right[s.dimension]) > tolerance)
    return jax.lax.while_loop(goes_on, extended, begin)


def _combination(s: _Space) -> Float[Array, " basis"]:
    """The weights of the vectors in the solution, none of the last one: R y = g, from the last row to the first."""
    most = len(s.triangle)

    def row(k: Array, y: Array) -> Array:
        i = s.dimension - 1 - k
        known = jnp.sum(jnp.where(jnp.arange(most, dtype=jnp.int32) > i, s.triangle[:, i] * y[:-1], 0))
        return y.at[i].set(_over(s.right[i] - known, jnp.abs(s.triangle[i, i])) * jnp.sign(s.triangle[i, i]))

    return jax.lax.fori_loop(0, s.dimension, row, jnp.zeros_like(s.triangle[0]))
