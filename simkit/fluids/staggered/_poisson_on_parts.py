"""Poisson's equation for the pressure on a grid over several devices."""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ...core import scaled
from ..grids._cells import cells
from ..grids._cosines import evens_and_odds, in_order, inverse, quarter_turns
from ..grids._grid import Grid
from ..grids._parts import filled_up, layout, over, spectral_layout, stages
from ._eigenvectors import eigenvectors, product


def solve_on_parts(grid: Grid, walls: tuple[bool, ...], fixed: tuple[tuple[bool, bool], ...], right: Array) -> Array:
    """The solution of `FastPoisson`, periodic along the axes that are divided.

    An axis is transformed where it is whole, by cosines, eigenvectors or Fourier series; the first one last.
    """
    plan = _plan(grid, walls, fixed)
    d = grid.dimensions

    def local(x: Array, factors: Array) -> Array:
        known = lambda x: jnp.asarray(x, right.dtype)
        sizes = []
        for axes, turn in stages(grid):
            for axis, to, _ in _within(plan.dense, axes):
                x = product(known(to), x, axis)
            for axis in plan.cosine:
                x = _cosines(x, axis) if axis in axes else x
            waves = [axis for axis in axes if axis in plan.fourier]
            if waves:
                x = jnp.fft.fftn(x, axes=waves) if jnp.iscomplexobj(x) else jnp.fft.rfftn(x, axes=waves)
            if turn is not None:
                sizes.append(x.shape[turn.split])
                x = turn.there(x, d)
        x = scaled(factors, x)
        for axes, turn in reversed(stages(grid)):
            if turn is not None:
                x = turn.back(x, d, sizes.pop())
            waves = [axis for axis in axes if axis in plan.fourier]
            if plan.half in waves:
                x = jnp.fft.irfftn(x, s=[grid.shape[axis] for axis in waves], axes=waves)
            elif waves:
                x = jnp.fft.ifftn(x, axes=waves)
            for axis in plan.cosine:
                x = _from_cosines(x, axis, grid.shape[axis]) if axis in axes else x
            for axis, _, back in _within(plan.dense, axes):
                x = product(known(back), x, axis)
        return x

    field, modes = layout(grid, d), spectral_layout(grid, d)
    return over(grid, local, (field, modes), field, right, jnp.asarray(plan.inverse, right.dtype))


def _within(dense: tuple[tuple[int, np.ndarray, np.ndarray], ...], axes: tuple[int, ...]) -> list[Any]:
    return [part for part in dense if part[0] in axes]


class _Plan(NamedTuple):
    fourier: tuple[int, ...]  # periodic axes
    half: int  # the last of them, which is transformed to half a spectrum
    cosine: tuple[int, ...]  # axes of equal cells between walls
    dense: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # stretched axes, and those with an end of value 0
    inverse: np.ndarray  # one over the eigenvalues, filled up along the axes that are dealt out


@functools.cache
def _plan(grid: Grid, walls: tuple[bool, ...], fixed: tuple[tuple[bool, bool], ...]) -> _Plan:
    fourier = tuple(axis for axis in range(grid.dimensions) if not walls[axis])
    half = fourier[-1]
    dense: list[Any] = []
    total = np.zeros(())
    for axis in range(grid.dimensions):
        n, dx = grid.shape[axis], grid.spacing(axis)
        if grid.stretched[axis] is not None or any(fixed[axis]):
            values, to, back = eigenvectors(grid, axis, fixed[axis])
            dense.append((axis, to, back))
        else:
            k = np.arange(n // 2 + 1 if axis == half else n)
            values = (2 * np.cos(np.pi * k / n * (1 if walls[axis] else 2)) - 2) / dx**2
        total = total + values.reshape([-1 if i == axis else 1 for i in range(grid.dimensions)])
    found = inverse(total, not any(map(any, fixed)))
    found = np.pad(found, [(0, filled_up(n, grid, axis) - n) for axis, n in enumerate(found.shape)])
    done = [axis for axis, _, _ in dense]
    cosine = tuple(axis for axis in range(grid.dimensions) if walls[axis] and axis not in done)
    return _Plan(fourier, half, cosine, tuple(dense), found)


def _cosines(x: Array, axis: int) -> Array:
    """The cosines 0 to n - 1 of real values."""
    n = x.shape[axis]
    spectrum = jnp.fft.rfft(evens_and_odds(x, axis), axis=axis)
    spectrum = spectrum * quarter_turns(spectrum, axis, n)
    mirrored = jnp.flip(cells(-spectrum.imag, axis, 1, (n + 1) // 2), axis)
    return jnp.concatenate([spectrum.real, mirrored], axis)


def _from_cosines(x: Array, axis: int, n: int) -> Array:
    """Invert `_cosines`."""
    m = n // 2 + 1
    mirrored = jnp.flip(cells(x, axis, n - m + 1, n), axis)  # the cosine n is none
    mirrored = jnp.concatenate([jnp.zeros_like(cells(x, axis, 0, 1)), mirrored], axis)
    spectrum = lax.complex(cells(x, axis, 0, m), -mirrored)
    spectrum = spectrum * jnp.conj(quarter_turns(spectrum, axis, n))
    return in_order(jnp.fft.irfft(spectrum, n, axis=axis), axis)
