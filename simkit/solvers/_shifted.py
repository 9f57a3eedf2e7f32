"""Solvers of the equations (M - a J) x = b that implicit steps and consistent starts share."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Inexact, PyTree

from ..linear import Structure

# Up to this many states the tangents of the matrix are formed as a matrix once a step; beyond, once a solve, along its solution.
MATRIX_TANGENTS_UP_TO = 8


def solver_of(
    structure: Structure,
    jacobian: Any,
    a: ArrayLike,
    y: Inexact[Array, " n"],
    mass: Array | None = None,
    times: Callable[[Array], Array] | None = None,
) -> Callable[[Array], Array]:
    """The solver of (M - a J) x = b; its tangents and transposes use the same factors.

    `custom_linear_solve` differentiates the equation through the product `times` with the matrix, never the factorisation, whose
    input is held.

    **Arguments:**

    - `structure`: the way to factorise the matrix.
    - `jacobian`: the product of J with a vector; or J itself where a system knows it, which then has no derivatives.
    - `a`, `y`: the factor of J, and the state at which it is.
    - `mass`: M as a diagonal `(n,)` or a matrix `(n, n)`; the identity where it is None.
    - `times`: the product of the matrix with a vector, as a function of all that derivatives are taken by; from the matrix itself
        where it is None and the system is small.
    """
    w = structure.shifted(jacobian, a, y, mass)
    held = jax.lax.stop_gradient(w)
    # Rows of algebraic equations have other sizes than the others, by the length of a step; pivots are sought among rows alike.
    whole = mass is not None and structure.name == "dense"
    scale = _scale(held) if whole else None
    factors = structure.factors(held if scale is None else scale[:, None] * held)

    def product(v: Array) -> Array:
        return w @ v if times is None or (y.size <= MATRIX_TANGENTS_UP_TO and callable(jacobian)) else times(v)

    # Traced and lowered once for the solves of a step, which XLA writes out again.
    return jax.jit(lambda r: solved(structure, factors, product, r, scale))


def solved(
    structure: Structure,
    factors: PyTree,
    product: Callable[[Array], Array],
    b: Array,
    scale: Array | None = None,
    checked: bool = False,
) -> Array:
    """The solution of equations with a matrix by factors that are held; derivatives are those of its `product` with a vector.

    Factors are those of the matrix, its rows times `scale` where that is given. Where it is `checked`, a solution that leaves a
    residual is NaN, as one by a pattern does that a user stated and that lacks places.
    """

    def solve(times: Any, b: Array) -> Array:
        found = structure.solve(factors, b if scale is None else scale * b, False)
        return _sound(times, found, b) if checked else found

    def transpose_solve(times: Any, b: Array) -> Array:
        found = structure.solve(factors, b, True)
        found = found if scale is None else scale * found
        return _sound(times, found, b) if checked else found

    return jax.lax.custom_linear_solve(product, b, solve, transpose_solve)


def _sound(times: Callable[[Array], Array], x: Array, b: Array) -> Array:
    """A solution, NaN where the residual is more than a small share of the terms."""
    product = times(x)
    size = lambda v: jnp.sqrt(jnp.sum(jnp.square(jnp.abs(v))))
    small = size(b - product) <= jnp.finfo(b.dtype).eps ** 0.25 * (size(b) + size(product))
    return jnp.where(small, x, jnp.nan)


def _scale(w: PyTree) -> Array:
    largest = jnp.max(jnp.abs(w), axis=1)
    return 1 / jnp.where(largest > 0, largest, 1)
