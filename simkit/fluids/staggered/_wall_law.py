r"""Stresses that a wall model puts on the cells beside it: the law of the wall, and where it takes its velocity.

Spalding's law in one formula for sublayer, buffer layer and logarithm, with $u^+ = u / u_\tau$ and $y^+ = y u_\tau / \nu$,

$$y^+ = u^+ + e^{-\kappa B} \Big(e^{x} - 1 - x - \tfrac{x^2}{2} - \tfrac{x^3}{6}\Big), \qquad x = \kappa u^+$$

(Spalding 1961, J. Appl. Mech. 28:455). With the Reynolds number of the sample $R = u y / \nu = u^+ y^+$ the stress for each unit of
density is that of laminar flow, $\nu u / y$, times $F = y^+ / u^+$. F is 1 at R = 0, and has all derivatives by the implicit
function theorem.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ...core import traced
from ..grids._boundary import Boundaries, Boundary, Piecewise, WallModel, conditions_of, pieces_of
from ..grids._ghost import cells
from ..grids._grid import Grid
from ._momentum import Surrounded, at_edges
from ._staggered import Components, Staggered, blended, on_end

STEPS = 12
"""Newton steps of the law: from above in the logarithm of u+, where the function is convex; ten reach rounding for R below 1e30."""


def _remainder(x: Array) -> Array:
    """(e^x - 1 - x - x^2/2 - x^3/6) / x^2, by its series below 2, where differences would cancel."""
    small = jnp.minimum(x, 2)
    series = jnp.ones_like(small)
    for n in range(24, 4, -1):
        series = 1 + small * (1 / n) * series
    large = jnp.maximum(x, 2)
    exact = (jnp.exp(large) - 1 - large * (1 + large * (0.5 + large / 6))) / large**2
    return jnp.where(x < 2, small**2 / 24 * series, exact)


def _ratio(u: Array, kappa: Array, intercept: Array) -> tuple[Array, Array]:
    """y+ / u+ for a velocity u+, and its derivative."""
    x, share = kappa * u, jnp.exp(-kappa * intercept) * kappa
    found = _remainder(x)
    return 1 + share * x * found, share * kappa * (x * found + x**2 / 6 - found)


@jax.custom_jvp
def friction_factor(reynolds: Array, kappa: Array, intercept: Array) -> Array:
    """The stress at a smooth wall by that of laminar flow, y+ / u+, for the Reynolds number u y / nu of a sample."""
    moves = reynolds > 0
    known = jnp.where(moves, reynolds, 1)
    most = (4 + jnp.maximum(kappa * intercept, 0) + jnp.log1p(kappa * known)) / kappa
    # Above the solution: y+ >= u+, and beyond kappa u+ = 4 the parenthesis is more than half of the exponential.
    aim = jnp.log(known)

    def closer(_: ArrayLike, u: Array) -> Array:
        value, change = _ratio(u, kappa, intercept)
        return u * jnp.exp((aim - 2 * jnp.log(u) - jnp.log(value)) / (2 + u * change / value))

    u = lax.fori_loop(0, STEPS, closer, jnp.minimum(jnp.sqrt(known), most))
    return jnp.where(moves, _ratio(u, kappa, intercept)[0], 1)


@friction_factor.defjvp
def _friction_factor_jvp(primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    reynolds, kappa, intercept = primals
    found = friction_factor(reynolds, kappa, intercept)
    u = root(reynolds / found)
    slope = _ratio(u, kappa, intercept)[1]
    held = jax.jvp(lambda k, b: _ratio(u, k, b)[0], (kappa, intercept), tuple(tangents[1:]))[1]
    steeper = jnp.where(u > 0, slope / jnp.where(u > 0, u, 1), 0)
    return found, held + steeper * (tangents[0] - u**2 * held) / (2 * found + u * slope)


def root(square: Array) -> Array:
    """A square root whose derivative at 0 is 0."""
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def check_wall_models(grid: Grid, boundaries: Boundaries) -> None:
    """Refuse wall models whose sample lies outside the grid or in the roughness.

    **Raises:** an `ArgumentError`.
    """
    for axis, pair in enumerate(boundaries):
        for side, end in enumerate(pair):
            for piece in pieces_of(end):
                if isinstance(piece, WallModel):
                    _check_sample(grid, axis, side, piece)


def _check_sample(grid: Grid, axis: int, side: int, wall: WallModel) -> None:
    if wall.cell > grid.shape[axis]:
        raise ArgumentError(
            f"Argument `cell` of WallModel at axis {axis} must be at most the {grid.shape[axis]} cells of that axis, "
            f"but it is {wall.cell}. Take 1 to 3."
        )
    height = _height(grid, axis, side, wall.cell)
    known = None if wall.roughness is None or traced(wall.roughness) else np.asarray(wall.roughness)
    if known is not None and not np.all((known > 0) & (known < height)):
        raise ArgumentError(
            f"Argument `roughness` of WallModel at axis {axis} must be above 0 and below the height {height:.6g} of the "
            f"cell whose velocity it takes, but it is {wall.roughness}. Take a higher `cell`, or wider cells."
        )


def check_smooth_walls(boundaries: Boundaries, viscosity: ArrayLike) -> None:
    """Refuse smooth wall models in a fluid without viscosity.

    **Raises:** an `ArgumentError`.
    """
    smooth = any(isinstance(end, WallModel) and end.roughness is None for end in conditions_of(boundaries))
    if smooth and not traced(viscosity) and not np.all(np.asarray(viscosity) > 0):
        raise ArgumentError(
            f"Argument `viscosity` must be positive beside a smooth WallModel, but it is {viscosity}. "
            "Give it, or give the wall a `roughness`."
        )


def has_wall_models(boundaries: Boundaries) -> bool:
    """Tell whether there is an end with a wall model."""
    return any(isinstance(end, WallModel) for end in conditions_of(boundaries))


def _height(grid: Grid, axis: int, side: int, cell: int) -> float:
    """The distance of the middle of a cell, counted from 1 at the wall, from the end of an axis."""
    widths = grid.widths(axis) if side == 0 else grid.widths(axis)[::-1]
    return float(np.sum(widths[: cell - 1]) + 0.5 * widths[cell - 1])


def wall_stress(
    at: Staggered, boundaries: Boundaries, flow: Surrounded, i: int, j: int, side: int, viscosity: Array
) -> Array | None:
    """The stress by the density of component i on the wall at an end of axis j, by the faces along it; None without a model."""
    end = boundaries[j][side]
    if i == j or not any(isinstance(piece, WallModel) for piece in pieces_of(end)):
        return None
    return _of_end(at, end, flow, i, j, side, viscosity)


def _of_end(at: Staggered, end: Boundary, flow: Surrounded, i: int, j: int, side: int, viscosity: Array) -> Array:
    n = at.grid.shape[j]
    if isinstance(end, Piecewise):
        parts = (_of_end(at, part, flow, i, j, side, viscosity) for part in (end.first, end.second))
        return blended(at, end, j, i, *parts)
    if not isinstance(end, WallModel):
        return jnp.zeros_like(cells(flow.velocity[i], j, 0, 1))
    k = end.cell - 1 if side == 0 else n - end.cell
    height = _height(at.grid, j, side, end.cell)
    own = cells(flow.velocity[i], j, k, k + 1)
    speeds = {i: own - _of_wall(at, end.velocity, i, j, i, own)}
    for other in range(at.dimensions):
        if other not in (i, j):
            beside = cells(at_edges(at, flow, other, i), j, k, k + 1)
            middle = 0.5 * (
                cells(beside, other, 0, at.grid.shape[other]) + cells(beside, other, 1, at.grid.shape[other] + 1)
            )
            speeds[other] = middle - _of_wall(at, end.velocity, other, j, i, own)
    speed = root(jnp.sum(jnp.stack([u**2 for u in speeds.values()]), 0))
    kappa, intercept = (jnp.asarray(x, own.dtype) for x in (end.kappa, end.intercept))
    if end.roughness is not None:
        rough = on_end(at, end.roughness, j, own, i)
        return (kappa / jnp.log(height / rough)) ** 2 * speed * speeds[i]
    laminar = viscosity * (1 / height)
    return laminar * speeds[i] * friction_factor(speed * (height / viscosity), kappa, intercept)


def _of_wall(at: Staggered, velocity: Array, component: int, axis: int, place: int, like: Array) -> Array:
    """A component of the velocity of a wall across an axis, at the faces where another component stands there."""
    value = jnp.asarray(velocity, like.dtype)
    return on_end(at, value[component] if value.ndim else value, axis, like, place)


def held_by_walls(
    at: Staggered, boundaries: Boundaries, flow: Surrounded, slope: Components, viscosity: Array
) -> Components:
    """The slope of the velocity with what wall models take from the cells beside them."""
    found = []
    for i, s in enumerate(slope):
        for j, side in _ends(at):
            stress = wall_stress(at, boundaries, flow, i, j, side, viscosity)
            if stress is None:
                continue
            n, width = s.shape[j], float(at.grid.widths(j)[-side])
            near = cells(s, j, n - 1, n) if side else cells(s, j, 0, 1)
            parts = [near - stress * (1 / width), cells(s, j, 0, n - 1) if side else cells(s, j, 1, n)]
            s = jnp.concatenate(parts[::-1] if side else parts, j)
        found.append(s)
    return tuple(found)


def mean_wall_stress(at: Staggered, boundaries: Boundaries, flow: Surrounded, viscosity: Array) -> Array:
    """The mean stress by the density on each modelled end, shape (ends, dimensions)."""
    rows = []
    for j, side in _ends(at):
        found = [wall_stress(at, boundaries, flow, i, j, side, viscosity) for i in range(at.dimensions)]
        if any(stress is not None for stress in found):
            rows.append(jnp.stack([_mean(at, i, j, stress) for i, stress in enumerate(found)]))
    return jnp.stack(rows)


def _mean(at: Staggered, i: int, j: int, stress: Array | None) -> Array:
    """The mean over an end of axis j of what stands at the faces of component i there."""
    if stress is None:
        return jnp.zeros(())  # across the wall
    found: Array = stress
    for axis in range(at.dimensions):
        if axis != j:
            # By shares of the end: areas of other units are not for single precision.
            sizes = at.spans(axis, found) if axis == i else at.widths(axis, found)
            found = found * (sizes * (1 / float(at.grid.lengths[axis])))
    return jnp.sum(found)


def _ends(at: Staggered) -> list[tuple[int, int]]:
    return [(axis, side) for axis in range(at.dimensions) if at.walls[axis] for side in (0, 1)]
