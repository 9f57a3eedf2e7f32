"""The pressure that keeps a flow free of divergence, and what it leaves of a field."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, PyTree

from ...engine import paired
from ..grids._cells import cells
from ._pressure import FastPoisson
from ._staggered import Components, Staggered, closed, held, over


class Projected(NamedTuple):
    """A field without divergence, and the pressure whose gradient was taken away."""

    velocity: Components
    pressure: Array


def project(at: Staggered, field: Components) -> Projected:
    """The field less a gradient, so that it has no divergence. What passes the boundaries must sum to 0."""
    field = held(field)
    pressure = held(FastPoisson(at.grid, at.walls, at.open)(held(at.divergence(field))))
    return Projected(tuple(u - g for u, g in zip(field, at.gradient(pressure), strict=True)), pressure)


class Yielding(NamedTuple):
    r"""The response of free bodies to the pressure p, with the divergence $\sum_k a_k c_k$ with $a = K \langle c, p\rangle$.

    `fields` are the c, shape (ways, *cells), 0 where no fluid is; `inverse` is K for sums that weigh cells by their volumes over
    the mean of these.
    """

    fields: Array
    inverse: Array


class Medium(NamedTuple):
    """The medium of a pressure: the mobilities of faces, and the response of free bodies, None without."""

    mobility: Components
    yielding: Yielding | None = None


def project_through(
    at: Staggered, moved: Components, mobility: Components, tolerance: float, most: int, left: Array | None = None
) -> Projected:
    """A field less `mobility` times a gradient, so that it has no divergence, or the opposite of what is `left`."""
    right = at.divergence(moved) if left is None else at.divergence(moved) + left
    pressure = pressure_in(at, Medium(mobility), right, tolerance, most)
    slope = at.gradient(pressure)
    return Projected(tuple(u - m * g for m, u, g in zip(mobility, moved, slope, strict=True)), pressure)


def pressure_in(at: Staggered, medium: Medium, right: Array, tolerance: float, most: int) -> Array:
    r"""The pressure p with $\nabla\cdot(m \nabla p) - \sum_k c_k a_k(p)$ = `right`. Mobilities are not negative.

    By conjugate gradients from the solution for mobility 1, with which they are also preconditioned, between two local corrections
    where mobilities are less than 1: some ten iterations, whatever the grid. Where they do not converge within `most` of them,
    the pressure is not a number.
    """
    return held(_solve(at, tolerance, most, medium, right))


def yielding(at: Staggered, mobility: Components, fields: Array, matrix: Array) -> Yielding:
    """Bodies whose accelerations solve `matrix` times them = their forces, with the divergence of a unit of each."""
    reach = _reach(at, mobility, fields[0])
    if at.open is None:
        mean = jnp.sum(reach[None] * fields, axis=tuple(range(1, fields.ndim)), keepdims=True) / jnp.sum(reach)
        fields = fields - mean
    size = at.grid.volume / math.prod(at.grid.shape)
    return Yielding(jnp.where((reach > 0)[None], fields, 0), jnp.linalg.inv(matrix * (1 / size)))


def accelerations(at: Staggered, bodies: Yielding, pressure: Array) -> Array:
    """The accelerations that a pressure gives to bodies."""
    weighted = _volumes(at, pressure) * pressure
    return bodies.inverse @ jnp.tensordot(bodies.fields, weighted, pressure.ndim)


def _operator(at: Staggered, medium: Medium, pressure: Array) -> Array:
    found = at.divergence(tuple(m * g for m, g in zip(medium.mobility, at.gradient(pressure), strict=True)))
    if medium.yielding is None:
        return found
    return found - jnp.tensordot(accelerations(at, medium.yielding, pressure), medium.yielding.fields, 1)


def _reach(at: Staggered, mobility: Components, like: Array) -> Array:
    """The volumes, relative to their mean, of the cells that the fluid reaches, and 0 for others."""
    return jnp.where(_diagonal(at, mobility) > 0, _volumes(at, like), 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _solve(at: Staggered, tolerance: float, most: int, medium: Medium, right: Array) -> Array:
    found = iterated(at, tolerance, most, medium, right)
    # A residual of some times the tolerance is what rounding may leave where the tolerance is close to it.
    return jnp.where(found.left <= 10 * reached(tolerance, right.dtype), found.pressure, jnp.nan)


@_solve.defjvp
def _solve_jvp(at: Staggered, tolerance: float, most: int, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    medium, right = primals
    pressure = _solve(at, tolerance, most, medium, right)
    change = jax.jvp(lambda medium: _operator(at, medium, pressure), (medium,), (tangents[0],))[1]
    solve = lambda fixed, right: _solve(at, tolerance, most, fixed, right)

    def back(fixed: Medium, given: Array) -> Array:
        volumes = _volumes(at, given)
        found = solve(fixed, given / volumes)
        if at.open is None:  # the mean that is taken from the right side, transposed
            reach = _reach(at, fixed.mobility, given)
            found = jnp.where(reach > 0, found - jnp.sum(reach * found) / jnp.sum(reach), 0)
        return volumes * found

    return pressure, paired(solve, back, medium, tangents[1] - change)


def _volumes(at: Staggered, like: Array) -> Array:
    """Return the volumes of the cells, relative to their mean."""
    volumes = at.grid.volumes()
    return jnp.asarray(volumes / volumes.mean(), like.dtype)


def unconverged(at: Staggered, tolerance: float, most: int, medium: Medium, moved: Components) -> str:
    """A sentence on a pressure that does not converge for a known field; "" where it does."""
    right = at.divergence(moved)
    if not bool(jnp.all(jnp.isfinite(right))):
        return ""
    found = jax.jit(iterated, static_argnums=(0, 1, 2))(at, tolerance, most, medium, right)
    if found.left <= 10 * reached(tolerance, right.dtype):
        return ""
    return (
        f"The pressure around the obstacle did not converge: after {int(found.turns)} iterations {float(found.left):.2g} of the "
        f"divergence is left, where `tolerance` asks for {tolerance:.2g}. Give more `iterations`, 100 are plenty, or a larger "
        "`tolerance`, such as 1e-6."
    )


def pressure_outside(at: Staggered, mobility: Components, pressure: Array) -> Array:
    """The pressure with the mean 0 over the cells that the fluid reaches, and 0 in all others; its own level at open ends."""
    volumes = _reach(at, mobility, pressure)
    if at.open is not None:
        return jnp.where(volumes > 0, pressure, 0)
    mean = jnp.sum(volumes * pressure) / jnp.sum(volumes)
    return jnp.where(volumes > 0, pressure - mean, 0)


class _Search(NamedTuple):
    pressure: Array
    residual: Array
    direction: Array
    product: Array
    turns: Array


class Iterated(NamedTuple):
    """A pressure, the number of iterations, and the divergence that is left over the one that there was."""

    pressure: Array
    turns: Array
    left: Array


def reached(tolerance: float, dtype: DTypeLike) -> float:
    """The smallest residual that is asked for: not below rounding."""
    return max(tolerance, 4 * float(jnp.finfo(dtype).eps))


def iterated(at: Staggered, tolerance: float, most: int, medium: Medium, right: Array) -> Iterated:
    """The pressure by conjugate gradients. Sums weigh cells by their volumes, for which the operator is symmetric."""
    # Right side and operator are of order 1: products of small lengths and times are outside of float32.
    area = at.finest**2
    fast = FastPoisson(at.grid, at.walls, at.open)
    poisson, operator = lambda r: fast(r) / area, lambda p: _operator(at, medium, p) * area
    correction = _local(at, medium.mobility) / area
    volumes = _volumes(at, right)
    reach = _reach(at, medium.mobility, right)
    inner = lambda a, b: jnp.sum(volumes * a * b)
    # In cells that no fluid reaches there is nothing to solve for, and nothing may be left there by a mean either.
    mean = jnp.sum(reach * right) / jnp.sum(reach) if at.open is None else 0
    right = jnp.where(reach > 0, right - mean, 0)
    largest = jnp.max(jnp.abs(right))
    size = jnp.where(largest > 0, largest, 1)
    right = right / size
    square = inner(right, right)
    enough = reached(tolerance, right.dtype) ** 2 * square

    def preconditioned(residual: Array) -> Array:
        near = correction * residual
        whole = near + poisson(residual - operator(near))
        return whole + correction * (residual - operator(whole))

    def on(s: _Search) -> Array:
        return (inner(s.residual, s.residual) > enough) & (s.turns < most)

    def body(s: _Search) -> _Search:
        image = operator(s.direction)
        length = s.product / inner(s.direction, image)
        pressure, residual = s.pressure + length * s.direction, s.residual - length * image
        better = preconditioned(residual)
        product = inner(residual, better)
        return _Search(pressure, residual, better + product / s.product * s.direction, product, s.turns + 1)

    guess = poisson(right)
    residual = right - operator(guess)
    first = preconditioned(residual)
    start = _Search(guess, residual, first, inner(residual, first), jnp.zeros((), int))
    found = lax.while_loop(on, body, start)
    left = jnp.sqrt(inner(found.residual, found.residual) / jnp.where(square > 0, square, 1))
    return Iterated(size * (area * found.pressure), found.turns, left)


def _local(at: Staggered, mobility: Components) -> Array:
    """Return the local part of a pressure correction where mobilities are less than 1: a damped Jacobi step."""
    diagonal, whole = _diagonal(at, mobility), _diagonal(at, tuple(map(jnp.ones_like, mobility)))
    near = (diagonal > 0) & (diagonal < 0.999 * whole)
    return jnp.where(near, -0.8 / jnp.where(near, diagonal, 1), 0)


def _diagonal(at: Staggered, mobility: Components) -> Array:
    """The sizes of the diagonal of the operator: 0 in cells that no fluid reaches."""
    total: Any = 0.0
    for axis, m in enumerate(mobility):
        n = at.grid.shape[axis]
        rate = over(at.moving(axis, m), at.spans(axis, m))
        rate = rate if at.walls[axis] else closed(rate, axis, 1)
        total = total + over(cells(rate, axis, 0, n) + cells(rate, axis, 1, n + 1), at.widths(axis, m))
    return total
