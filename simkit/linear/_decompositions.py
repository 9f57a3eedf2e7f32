"""Decompositions and solutions of small systems that may stand in any batch."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._dense import LOOPED_UP_TO, UNROLLED_UP_TO, lu_factors, small_inverse, unrolled_inverse
from ._one_at_a_time import one_at_a_time


@jax.custom_jvp
def inverse(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse of one matrix, with derivatives of any order in either mode, which are products of matrices."""
    n = a.shape[-1]
    if n <= UNROLLED_UP_TO:
        return unrolled_inverse(a)
    return small_inverse(a) if n <= LOOPED_UP_TO else _library_inverse(a)


@inverse.defjvp
def _inverse_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    found = inverse(*primals)
    return found, -_product(found, _product(tangents[0], found))


def solve(a: Float[Array, "n n"], b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:  # noqa: F821
    """The solution of A x = b by the inverse, made exact by one step of refinement; with derivatives as `inverse`."""
    found = inverse(a)
    x = _product(found, b)
    return x + _product(found, b - _product(a, x))


@jax.custom_jvp
def log_determinant(a: Float[Array, "n n"]) -> Float[Array, ""]:
    """The logarithm of the determinant's size, with derivatives as `inverse`."""
    return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(lu_factors(a)[0]))))


@log_determinant.defjvp
def _log_determinant_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return log_determinant(*primals), jnp.sum(inverse(*primals).T * tangents[0])


@one_at_a_time
def cholesky(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower triangle L of A = L L^T; NaN where A is not positive. No reverse mode."""
    return jnp.linalg.cholesky(a)


@one_at_a_time
def triangle(a: Float[Array, "m n"]) -> Float[Array, "k n"]:
    """R of A = Q R, where k is the smaller of m and n. No reverse mode."""
    return jnp.linalg.qr(a, mode="r")


@one_at_a_time
def singular_values(
    a: Float[Array, "m n"],
) -> tuple[Float[Array, "m k"], Float[Array, " k"], Float[Array, "k n"]]:
    """U, s and V^T of A = U diag(s) V^T, where k is the smaller of m and n. No reverse mode."""
    return tuple(jnp.linalg.svd(a, full_matrices=False))  # pyright: ignore[reportReturnType]


@one_at_a_time
def eigenvalues(a: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues of a symmetric matrix, ascending, and eigenvectors as columns. No reverse mode."""
    return tuple(jnp.linalg.eigh(a))  # pyright: ignore[reportReturnType]


@jax.custom_jvp
def inverse_root(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    r"""The symmetric $A^{-1/2}$ of a symmetric positive matrix, with first derivatives in either mode; NaN where A is not positive.

    The derivative divides by sums of roots of eigenvalues only, so that equal eigenvalues are no exception.
    """
    values, vectors = eigenvalues(a)
    return _product(vectors / jnp.sqrt(values)[None], vectors.T)


def symmetric_root(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    r"""The symmetric $A^{1/2}$ of a symmetric positive matrix, with the derivatives of `inverse_root`."""
    return a @ inverse_root(a)


@inverse_root.defjvp
def _inverse_root_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    values, vectors = eigenvalues(*primals)
    root = jnp.sqrt(values)
    turned = _product(vectors.T, _product(tangents[0], vectors))
    turned = turned / (root[:, None] * root[None] * (root[:, None] + root[None]))
    return _product(vectors / root[None], vectors.T), -_product(vectors, _product(turned, vectors.T))


@one_at_a_time
def _library_inverse(a: Array) -> Array:
    return jnp.linalg.inv(a)


def _product(a: Any, b: Any) -> Array:
    return jnp.matmul(a, b, precision="highest")
