"""Diffusion for a time by one solution: fields on a staggered grid smoothed along all axes at once."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ...core import scaled
from ..grids._boundary import Boundaries, Dirichlet, Inflow, NoSlip, WallModel
from ..grids._cells import cells
from ..grids._grid import Grid
from ._eigenvectors import product
from ._staggered import Staggered


def smoothed(at: Staggered, boundaries: Boundaries, component: int | None, slope: Array, amount: ArrayLike) -> Array:
    r"""$(1 - a \nabla^2)^{-1}$ times a change of a component, or of what stands at the centres, with nothing at the boundaries.

    `amount` a is the diffusivity times a time. Values on faces of boundaries stay as they are, but for open ends.
    Periodic axes are transformed by Fourier series, others by products with the eigenvectors of their differences.
    """
    fixed = tuple(
        tuple(isinstance(end, NoSlip | WallModel | Inflow | Dirichlet) for end in pair) for pair in boundaries
    )
    across = component if component is not None and at.walls[component] else None
    lower, upper = (False, False) if across is None else at.open_ends(across)
    plan = _plan(at.grid, at.walls, fixed, component, (lower, upper))
    x = slope if across is None else cells(slope, across, 1 - lower, slope.shape[across] - 1 + upper)
    known = lambda values: jnp.asarray(values, slope.dtype)
    for axis, to, _ in plan.dense:
        x = product(known(to), x, axis)
    weights = 1 / (1 - jnp.asarray(amount, slope.dtype) * known(plan.values))
    if plan.fast:
        spectrum = scaled(weights, jnp.fft.rfftn(x, axes=plan.fast))
        x = jnp.fft.irfftn(spectrum, s=[x.shape[axis] for axis in plan.fast], axes=plan.fast)
    else:
        x = weights * x
    for axis, _, back in plan.dense:
        x = product(known(back), x, axis)
    if across is None:
        return x
    n = slope.shape[across]
    ends = ([] if lower else [cells(slope, across, 0, 1)]), ([] if upper else [cells(slope, across, n - 1, n)])
    return jnp.concatenate([*ends[0], x, *ends[1]], across)


class _Plan(NamedTuple):
    fast: tuple[int, ...]  # periodic axes; the last one is transformed to half a spectrum
    dense: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # others with the way to their eigenvectors and back
    values: np.ndarray  # eigenvalues of the Laplacian


@functools.cache
def _plan(
    grid: Grid,
    walls: tuple[bool, ...],
    fixed: tuple[tuple[bool, bool], ...],
    component: int | None,
    moving: tuple[bool, bool],
) -> _Plan:
    fast = tuple(axis for axis in range(grid.dimensions) if not walls[axis])
    dense, total = [], np.zeros(())
    for axis in range(grid.dimensions):
        if axis in fast:
            n = grid.shape[axis]
            k = np.arange(n // 2 + 1) if axis == fast[-1] else np.arange(n)
            values = (2 * np.cos(2 * np.pi * k / n) - 2) / grid.spacing(axis) ** 2
        else:
            across = axis == component
            values, to, back = _across(grid, axis, moving) if across else _along(grid, axis, fixed[axis])
            dense.append((axis, to, back))
        total = total + values.reshape([-1 if i == axis else 1 for i in range(grid.dimensions)])
    return _Plan(fast, tuple(dense), total)


def _across(grid: Grid, axis: int, moving: tuple[bool, bool]) -> tuple[np.ndarray, ...]:
    """Return the eigenvalues of second differences along an axis of values on its faces, the matrix to eigenvectors, its inverse.

    An outer face has nothing, or a value of its own where it is `moving`, with half a cell around it and no slope beyond.
    """
    widths = grid.widths(axis)
    weight = 0.5 * np.concatenate([widths[:1], widths[1:] + widths[:-1], widths[-1:]])
    links = np.concatenate([[0.0], 1 / widths, [0.0]])
    kept = slice(0 if moving[0] else 1, None if moving[1] else -1)
    operator = np.diag(links[1:-1], 1) + np.diag(links[1:-1], -1) - np.diag(links[1:] + links[:-1])
    return _diagonalised(operator[kept, kept], weight[kept])


def _along(grid: Grid, axis: int, fixed: tuple[bool, bool]) -> tuple[np.ndarray, ...]:
    """Return the same of values at the centres: beyond a fixed end stands a ghost of the other sign, else of the same sign."""
    widths = grid.widths(axis)
    padded = np.concatenate([widths[:1], widths, widths[-1:]])
    apart = 0.5 * (padded[1:] + padded[:-1])
    links = np.concatenate([[2.0 * fixed[0]], np.ones(widths.size - 1), [2.0 * fixed[1]]]) / apart
    operator = np.diag(links[1:-1], 1) + np.diag(links[1:-1], -1) - np.diag(links[1:] + links[:-1])
    return _diagonalised(operator, widths)


def _diagonalised(operator: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    root = np.sqrt(weight)
    values, vectors = np.linalg.eigh(operator / np.outer(root, root))
    return values, vectors.T * root, vectors / root[:, None]
