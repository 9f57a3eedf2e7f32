"""Dense systems of equations: factorise once, solve many times, alone or in batches, without calls that wait for others."""

from collections.abc import Callable
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
from jaxtyping import Array, Inexact, Int, PyTree

from ._one_at_a_time import one_at_a_time
from ._threads import one_thread

# Factorise once and solve eight times: scalar code is fastest up to 4 states. Up to some 12 it is an inverse, of a batch by a
# loop without library calls, of a single matrix from LAPACK (8 states: 0.9 and 2.4 us a member under vmap, but 1.2 and 1.0 ms
# for 226 steps of one solve). Beyond, LAPACK's factors. Unrolled code for 20 states would take minutes to compile.
UNROLLED_UP_TO = 4
LOOPED_UP_TO = 12


def factorise(w: Inexact[Array, "n n"]) -> Any:
    """Factorise a matrix for `back_substitute`: the inverse of a small matrix, the LU factors of a larger one."""
    n = w.shape[0]
    if n <= UNROLLED_UP_TO:
        return unrolled_inverse(w)
    if n <= LOOPED_UP_TO:
        return small_inverse(w)
    return lu_factors(w)


def back_substitute(factors: PyTree, b: Inexact[Array, " n"], transpose: bool = False) -> Inexact[Array, " n"]:
    """The solution of W x = b, or of its transpose, from the factors of W."""
    if not isinstance(factors, tuple):
        return factors.T @ b if transpose else factors @ b
    return _substituted[transpose](*factors, b[:, None])[:, 0]


def held_solver(w: Inexact[Array, "n n"]) -> Callable[[Inexact[Array, " n"]], Inexact[Array, " n"]]:
    """The map b -> W^-1 b, linear in b in forward and reverse mode; W is held, its derivatives are left out."""
    w = jax.lax.stop_gradient(w)
    factors = lu_factors(w)
    solve = lambda _, b: back_substitute(factors, b)
    transposed = lambda _, b: back_substitute(factors, b, transpose=True)
    return lambda b: jax.lax.custom_linear_solve(lambda x: w @ x, b, solve, transposed)


@one_at_a_time
def lu_factors(w: Inexact[Array, "n n"]) -> tuple[Inexact[Array, "n n"], Int[Array, " n"]]:
    """L and U in one matrix, and the permutation of the rows."""
    lu, _, permutation = jax.lax.linalg.lu(w)
    return lu, permutation


def _substitution(transpose: bool) -> Callable[..., Any]:
    """Solve with LU factors for right-hand sides that are columns."""

    def columns(lu: Array, permutation: Array, b: Array) -> Array:
        def solve(b: Array, lower: bool) -> Array:
            return jax.lax.linalg.triangular_solve(
                lu, b, left_side=True, transpose_a=transpose, lower=lower, unit_diagonal=lower
            )

        if transpose:
            x = solve(solve(b, False), True)
            return jnp.zeros_like(x).at[permutation].set(x)
        return solve(solve(b[permutation], True), False)

    each = one_at_a_time(columns)
    function = jax.custom_batching.custom_vmap(columns)

    @function.def_vmap
    def batched(size: int, given: list[bool], lu: Array, permutation: Array, b: Array) -> tuple[Array, bool]:
        if given[0] or given[1]:
            axes = tuple(0 if own else None for own in given)
            return jax.vmap(each, axes)(lu, permutation, b), True
        # Factors that all share: more columns.
        found = function(lu, permutation, jnp.moveaxis(b, 0, 1).reshape(b.shape[1], -1))
        return jnp.moveaxis(found.reshape(b.shape[1], size, b.shape[2]), 1, 0), True

    return function


_substituted = {transpose: _substitution(transpose) for transpose in (False, True)}


def unrolled_inverse(w: Inexact[Array, "n n *batch"]) -> Inexact[Array, "n n *batch"]:
    """Gauss-Jordan elimination on scalars, which fuses into one kernel; for up to 4 states, of one matrix or of many.

    Rows are exchanged by compare-and-swap, so that a batch needs no gather.
    """
    n = w.shape[0]
    rows = [[w[i, j] for j in range(n)] + [jnp.asarray(i == j, w.dtype) for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(k + 1, n):
            swap = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
            pairs = list(zip(rows[k], rows[i], strict=True))
            rows[k] = [jnp.where(swap, b, a) for a, b in pairs]
            rows[i] = [jnp.where(swap, a, b) for a, b in pairs]
        pivot = 1 / rows[k][k]
        rows[k] = [x * pivot for x in rows[k]]
        for i in range(n):
            if i != k:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return jnp.stack([jnp.stack(row[n:]) for row in rows])


@jax.custom_batching.custom_vmap
def small_inverse(w: Inexact[Array, "n n"]) -> Inexact[Array, "n n"]:
    """The inverse of one matrix by LAPACK; under `vmap` that of a batch by `looped_inverse`."""
    one_thread()
    return jnp.linalg.inv(w)


@small_inverse.def_vmap
def _batched(axis_size: int, in_batched: list[bool], w: Inexact[Array, "m n n"]) -> tuple[Array, bool]:
    return jax.vmap(looped_inverse)(w), True


def looped_inverse(w: Inexact[Array, "n n"]) -> Inexact[Array, "n n"]:
    """Gauss-Jordan elimination in place with partial pivoting, one rank-1 update a column: small to compile."""
    n = w.shape[0]
    index = jnp.arange(n)

    def eliminate(k: Any, carry: PyTree) -> Any:
        m, order = carry
        p = jnp.argmax(jnp.where(index >= k, jnp.abs(m[:, k]), -1.0))

        def swap(x: Array) -> Array:
            return x.at[k].set(x[p]).at[p].set(x[k])

        m, order = swap(m), swap(order)
        pivot = 1 / m[k, k]
        column = jnp.where(index == k, 0.0, m[:, k])
        row = (m[k] * pivot).at[k].set(pivot)
        m = jnp.where(index[None] == k, 0.0, m) - column[:, None] * row[None]
        return m.at[k].set(row), order

    m, order = jax.lax.fori_loop(0, n, eliminate, (w, index))
    return jnp.zeros_like(m).at[:, order].set(m)
