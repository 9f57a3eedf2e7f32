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
from ..grids._slabs import filled_up, over, to_columns, to_slabs
from ._eigenvectors import eigenvectors, product


def solve_on_slabs(grid: Grid, walls: tuple[bool, ...], fixed: tuple[tuple[bool, bool], ...], right: Array) -> Array:
    """The solution of `FastPoisson`, its first axis periodic.

    All other axes are transformed where they are, by cosines, eigenvectors or Fourier series, and the first after a transposition.
    """
    plan = _plan(grid, walls, fixed)

    def local(slab: Array, factors: Array) -> Array:
        known = lambda x: jnp.asarray(x, right.dtype)
        x = slab
        for axis, to, _ in plan.dense:
            x = product(known(to), x, axis)
        for axis in plan.cosine:
            x = _cosines(x, axis)
        if plan.fourier:
            x = jnp.fft.rfftn(x, axes=plan.fourier)
        size, more = x.shape[-1], factors.shape[-1] * len(grid.devices) - x.shape[-1]
        x = to_columns(jnp.pad(x, [(0, more if i == x.ndim - 1 else 0) for i in range(x.ndim)]), 0)
        if plan.fourier:
            x = jnp.fft.ifft(scaled(factors, jnp.fft.fft(x, axis=0)), axis=0)
        else:
            x = jnp.fft.irfft(scaled(factors, jnp.fft.rfft(x, axis=0)), grid.shape[0], axis=0)
        x = cells(to_slabs(x, 0), x.ndim - 1, 0, size)
        if plan.fourier:
            x = jnp.fft.irfftn(x, s=[grid.shape[axis] for axis in plan.fourier], axes=plan.fourier)
        for axis in plan.cosine:
            x = _from_cosines(x, axis, grid.shape[axis])
        for axis, _, back in plan.dense:
            x = product(known(back), x, axis)
        return x

    return over(grid, local, (0, right.ndim - 1), 0, right, jnp.asarray(plan.inverse, right.dtype))


class _Plan(NamedTuple):
    fourier: tuple[int, ...]  # periodic axes beside the first; the last one to half a spectrum
    cosine: tuple[int, ...]  # axes of equal cells between walls
    dense: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # stretched axes, and those with an end of value 0
    inverse: np.ndarray  # one over the eigenvalues, its last axis filled up


@functools.cache
def _plan(grid: Grid, walls: tuple[bool, ...], fixed: tuple[tuple[bool, bool], ...]) -> _Plan:
    others = range(1, grid.dimensions)
    fourier = tuple(axis for axis in others if not walls[axis])
    half = fourier[-1] if fourier else 0
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
    more = filled_up(found.shape[-1], grid) - found.shape[-1]
    found = np.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, more)])
    done = [axis for axis, _, _ in dense]
    cosine = tuple(axis for axis in others if walls[axis] and axis not in done)
    return _Plan(fourier, cosine, tuple(dense), found)


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
