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
from ._slab_poisson import solve_on_slabs


@dataclasses.dataclass(frozen=True)
class FastPoisson:
    r"""Solves $\nabla^2 p = r$ on cells that are periodic, or end at walls with $\partial_n p = 0$, along each axis.

    The Laplacian is that of differences between neighbours, so that a gradient of p takes away a divergence to rounding. Axes of
    equal cells are transformed by Fourier series, between walls by cosines, in $O(N \log N)$; stretched ones by products with
    their eigenvectors. Right-hand side and solution have the mean 0: a mean of r is left out.

    Cosines are a Fourier transform of as many numbers in another order: Makhoul (1980), IEEE Trans. ASSP 28:27.

    - `grid`; `walls`: for each axis whether it ends at walls, else it is periodic.

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

    def __call__(self, right: Float[Array, "..."]) -> Float[Array, "..."]:
        if self.grid.devices:
            return solve_on_slabs(self.grid, self.walls, right)
        plan, shape = _plan(self.grid, self.walls), self.grid.shape
        known = lambda x: jnp.asarray(x, right.dtype)
        x = right
        for axis, to, _ in plan.dense:
            x = product(known(to), x, axis)
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
        for axis, _, back in plan.dense:
            x = product(known(back), x, axis)
        return x


class _Plan(NamedTuple):
    fast: tuple[int, ...]  # axes of equal cells; the last one is transformed to half a spectrum
    cosine: tuple[int, ...]  # those of them that end at walls
    dense: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # stretched axes with the way to their eigenvectors and back
    inverse: tuple[np.ndarray, np.ndarray]  # one over the eigenvalues; at the mirrored places of the half axis, too


@functools.cache
def _plan(grid: Grid, walls: tuple[bool, ...]) -> _Plan:
    equal = [axis for axis in range(grid.dimensions) if grid.stretched[axis] is None]
    periodic = [axis for axis in equal if not walls[axis]]
    half = (periodic or equal)[-1] if equal else None
    fast = (*(axis for axis in equal if axis != half), half) if half is not None else ()
    dense, total, mirrored = [], np.zeros(()), np.zeros(())
    for axis in range(grid.dimensions):
        n, dx = grid.shape[axis], grid.spacing(axis)
        if axis not in equal:
            values, to, back = eigenvectors(grid, axis)
            dense.append((axis, to, back))
            other = values
        else:
            k = np.arange(n // 2 + 1) if axis == half else np.arange(n)
            angle = lambda k, n=n, axis=axis: np.pi * k / n * (1 if walls[axis] else 2)
            values, other = ((2 * np.cos(angle(m)) - 2) / dx**2 for m in (k, n - k if axis == half else k))
        total = total + _along(values, axis, grid.dimensions)
        mirrored = mirrored + _along(other, axis, grid.dimensions)
    return _Plan(fast, tuple(axis for axis in equal if walls[axis]), tuple(dense), (inverse(total), inverse(mirrored)))


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
