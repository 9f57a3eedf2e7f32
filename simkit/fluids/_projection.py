"""The pressure that keeps a flow free of divergence, and what it leaves of a field."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from ..engine import paired
from ._pressure import FastPoisson
from ._staggered import Components, Staggered, held


class Projected(NamedTuple):
    """A field without divergence, and the pressure whose gradient was taken away."""

    velocity: Components
    pressure: Array


def project(at: Staggered, field: Components) -> Projected:
    """The field less a gradient, so that it has no divergence. What passes the boundaries must sum to 0."""
    field = held(field)
    pressure = held(FastPoisson(at.grid, at.walls)(held(at.divergence(field))))
    return Projected(tuple(u - g for u, g in zip(field, at.gradient(pressure), strict=True)), pressure)


def project_through(at: Staggered, field: Components, mobility: Components, tolerance: float, most: int) -> Projected:
    """`mobility` times a field less a gradient, so that the product has no divergence. Mobilities are positive.

    By conjugate gradients, preconditioned with the solution for mobility 1, from which they start: the number of iterations depends
    on the range of the mobility and not on the grid. What has not converged after `most` of them is used as it is: the divergence
    that is left says how much it lacks.
    """
    moved = tuple(m * u for m, u in zip(mobility, field, strict=True))
    pressure = _solve(at, tolerance, most, mobility, at.divergence(moved))
    slope = at.gradient(pressure)
    return Projected(tuple(m * (u - g) for m, u, g in zip(mobility, field, slope, strict=True)), pressure)


def _operator(at: Staggered, mobility: Components, pressure: Array) -> Array:
    return at.divergence(tuple(m * g for m, g in zip(mobility, at.gradient(pressure), strict=True)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _solve(at: Staggered, tolerance: float, most: int, mobility: Components, right: Array) -> Array:
    return iterated(at, tolerance, most, mobility, right)[0]


@_solve.defjvp
def _solve_jvp(at: Staggered, tolerance: float, most: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    mobility, right = primals
    pressure = _solve(at, tolerance, most, mobility, right)
    change = _operator(at, tangents[0], pressure)
    solve = lambda fixed, right: _solve(at, tolerance, most, fixed, right)

    def back(fixed: Components, given: Array) -> Array:
        volumes = _volumes(at, given)
        return volumes * solve(fixed, given / volumes)

    return pressure, paired(solve, back, mobility, tangents[1] - change)


def _volumes(at: Staggered, like: Array) -> Array:
    """Of the cells, relative to their mean."""
    volumes = at.grid.volumes()
    return jnp.asarray(volumes / volumes.mean(), like.dtype)


class _Search(NamedTuple):
    pressure: Array
    residual: Array
    direction: Array
    product: Array
    turns: Array


def iterated(at: Staggered, tolerance: float, most: int, mobility: Components, right: Array) -> tuple[Array, Array]:
    """The pressure and the number of iterations. Sums weigh cells by their volumes, for which the operator is symmetric."""
    poisson, volumes = FastPoisson(at.grid, at.walls), _volumes(at, right)
    inner = lambda a, b: jnp.sum(volumes * a * b)
    right = right - jnp.mean(volumes * right)
    enough = tolerance**2 * inner(right, right)

    def on(s: _Search) -> Array:
        return (inner(s.residual, s.residual) > enough) & (s.turns < most)

    def body(s: _Search) -> _Search:
        image = _operator(at, mobility, s.direction)
        length = s.product / inner(s.direction, image)
        pressure, residual = s.pressure + length * s.direction, s.residual - length * image
        better = poisson(residual)
        product = inner(residual, better)
        return _Search(pressure, residual, better + product / s.product * s.direction, product, s.turns + 1)

    guess = poisson(right)
    residual = right - _operator(at, mobility, guess)
    first = poisson(residual)
    start = _Search(guess, residual, first, inner(residual, first), jnp.zeros((), int))
    found = lax.while_loop(on, body, start)
    return found.pressure, found.turns
