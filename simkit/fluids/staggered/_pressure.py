"""Poisson's equation for the pressure by fast transforms."""

import dataclasses
import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ...core import scaled
from ..grids._cells import cells
from ..grids._cosines import evens_and_odds, in_order, inverse, quarter_turns
from ..grids._grid import Grid
from ._eigenvectors import eigenvectors, product
from ._poisson_on_parts import solve_on_parts


@dataclasses.dataclass(frozen=True)
class FastPoisson:
    r"""Solves $\nabla^2 p = r$ on cells along axes that are periodic, or end at walls with $\partial_n p = 0$ or at $p = 0$.

    The Laplacian is that of differences between neighbours, so that a gradient of p takes away a divergence to rounding. Axes of
    equal cells are transformed by Fourier series, between walls by cosines, in $O(N \log N)$; stretched ones by products with
    their eigenvectors. Where no end has p = 0, right-hand side and solution have the mean 0: a mean of r is left out.

    Cosines are a Fourier transform of as many numbers in another order: Makhoul (1980), IEEE Trans. ASSP 28:27. Between two ends
    with p = 0 they become sines by the signs $(-1)^j$ of the cells; with one such end an axis is doubled, odd around it.

    - `grid`; `walls`: for each axis whether it ends, else it is periodic.
    - `fixed`: for each axis whether its lower and its upper end have p = 0; None: nowhere.

    ```python
    import jax.numpy as jnp
    from simkit.fluids import Grid
    from simkit.fluids.staggered._pressure import FastPoisson
    grid = Grid((32, 32), 1.0)
    x, y = grid.mesh()
    pressure = FastPoisson(grid, (True, True))(jnp.cos(jnp.pi * x) * jnp.cos(2 * jnp.pi * y))
    ```
    """

    grid: Grid
    walls: tuple[bool, ...]
    fixed: tuple[tuple[bool, bool], ...] | None = None

    def __call__(self, right: Float[Array, "..."]) -> Float[Array, "..."]:
        fixed = self.fixed or ((False, False),) * self.grid.dimensions
        if self.grid.devices:
            return solve_on_parts(self.grid, self.walls, fixed, right)
        plan = _plan(self.grid, self.walls, fixed)
        shape = plan.shape
        known = lambda x: jnp.asarray(x, right.dtype)
        x = right
        for axis, to, _ in plan.dense:
            x = product(known(to), x, axis)
        for axis, lower in plan.doubled:
            mirrored = -jnp.flip(x, axis)
            x = jnp.concatenate([mirrored, x] if lower else [x, mirrored], axis)
        if plan.signs is not None:
            x = known(plan.signs) * x
        for axis in plan.cosine:
            x = evens_and_odds(x, axis)
        if not plan.fast:
            x = known(plan.inverse[0]) * x
        else:
            half = plan.fast[-1]
            whole = [axis for axis in plan.cosine if axis != half]
            spectrum = jnp.fft.rfftn(x, axes=plan.fast)
            for axis in whole:
                spectrum = _to_cosines(spectrum, axis)
            if half in plan.cosine:  # real and imaginary part are the cosines k and n - k
                turn = quarter_turns(spectrum, half, shape[half])
                spectrum = spectrum * turn
                spectrum = lax.complex(known(plan.inverse[0]) * spectrum.real, known(plan.inverse[1]) * spectrum.imag)
                spectrum = spectrum * jnp.conj(turn)
            else:
                spectrum = scaled(known(plan.inverse[0]), spectrum)
            for axis in reversed(whole):
                spectrum = _from_cosines(spectrum, axis)
            x = jnp.fft.irfftn(spectrum, s=[shape[axis] for axis in plan.fast], axes=plan.fast)
        for axis in plan.cosine:
            x = in_order(x, axis)
        if plan.signs is not None:
            x = known(plan.signs) * x
        for axis, lower in plan.doubled:
            n = shape[axis] // 2
            x = cells(x, axis, n, 2 * n) if lower else cells(x, axis, 0, n)
        for axis, _, back in plan.dense:
            x = product(known(back), x, axis)
        return x


class _Plan(NamedTuple):
    fast: tuple[int, ...]  # axes of equal cells; the last one is transformed to half a spectrum
    cosine: tuple[int, ...]  # those of them that end
    dense: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # stretched axes with the way to their eigenvectors and back
    doubled: tuple[tuple[int, bool], ...]  # axes with one end of value 0, and whether it is the lower one
    signs: np.ndarray | None  # of cells, where an axis has two such ends
    shape: tuple[int, ...]  # cells of each axis, twice as many where it is doubled
    inverse: tuple[np.ndarray, np.ndarray]  # one over the eigenvalues; at the mirrored places of the half axis, too


@functools.cache
def _plan(grid: Grid, walls: tuple[bool, ...], fixed: tuple[tuple[bool, bool], ...]) -> _Plan:
    equal = [axis for axis in range(grid.dimensions) if grid.stretched[axis] is None]
    periodic = [axis for axis in equal if not walls[axis]]
    half = (periodic or equal)[-1] if equal else None
    fast = (*(axis for axis in equal if axis != half), half) if half is not None else ()
    once = [axis for axis in equal if fixed[axis][0] != fixed[axis][1]]
    twice = [axis for axis in equal if all(fixed[axis])]
    shape = tuple(2 * n if axis in once else n for axis, n in enumerate(grid.shape))
    dense, total, mirrored = [], np.zeros(()), np.zeros(())
    for axis in range(grid.dimensions):
        n, dx = shape[axis], grid.spacing(axis)
        if axis not in equal:
            values, to, back = eigenvectors(grid, axis, fixed[axis])
            dense.append((axis, to, back))
            other = values
        else:
            k = np.arange(n // 2 + 1) if axis == half else np.arange(n)
            order = (lambda k, n=n: n - k) if axis in twice else (lambda k: k)
            angle = lambda k, n=n, axis=axis, order=order: np.pi * order(k) / n * (1 if walls[axis] else 2)
            values, other = ((2 * np.cos(angle(m)) - 2) / dx**2 for m in (k, n - k if axis == half else k))
        total = total + _along(values, axis, grid.dimensions)
        mirrored = mirrored + _along(other, axis, grid.dimensions)
    cosine = tuple(axis for axis in equal if walls[axis])
    doubled = tuple((axis, fixed[axis][0]) for axis in once)
    signs = np.ones(()) if twice else None
    for axis in twice:
        signs = signs * _along((-1.0) ** np.arange(shape[axis]), axis, grid.dimensions)
    # The constant of a doubled axis has the eigenvalue 0, but is no part of what is odd.
    singular = bool(once) or not any(map(any, fixed))
    both = inverse(total, singular), inverse(mirrored, singular)
    return _Plan(fast, cosine, tuple(dense), doubled, signs, shape, both)


def _to_cosines(spectrum: Array, axis: int) -> Array:
    """Return the cosine coefficients from the Fourier coefficients of reordered values."""
    turn = quarter_turns(spectrum, axis, spectrum.shape[axis])
    there = turn * spectrum
    back = jnp.conj(turn) * jnp.roll(jnp.flip(spectrum, axis), 1, axis)
    return lax.complex(0.5 * (there.real + back.real), 0.5 * (there.imag + back.imag))


def _from_cosines(spectrum: Array, axis: int) -> Array:
    n = spectrum.shape[axis]
    turn = quarter_turns(spectrum, axis, n)
    mirrored = jnp.flip(cells(spectrum, axis, 1, n), axis)  # the cosine n is none
    mirrored = jnp.concatenate([jnp.zeros_like(cells(spectrum, axis, 0, 1)), mirrored], axis)
    return jnp.conj(turn) * lax.complex(spectrum.real + mirrored.imag, spectrum.imag - mirrored.real)


def _along(values: ArrayLike, axis: int, dimensions: int) -> np.ndarray:
    return np.asarray(values).reshape([-1 if i == axis else 1 for i in range(dimensions)])
