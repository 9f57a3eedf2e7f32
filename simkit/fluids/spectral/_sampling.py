"""Fields of periodic grids at other places: exact for what the grid resolves, since it shifts waves and interpolates
nothing."""

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ...core import as_float_array, scaled
from ..grids._compiled import compiled
from ..grids._grid import Grid
from ._waves import Waves


@compiled
def shift(grid: Grid, field: ArrayLike, offsets: Array | np.ndarray | Sequence[ArrayLike]) -> Float[Array, "..."]:
    """A periodic field at its points moved by `offsets`, a length for each axis.

    `field` is `(..., *grid.shape)`. The highest wave of an even axis has no phase, so that half a cell on it is gone.
    """
    grid.check_uniform("a spectral shift")
    if len(offsets) != grid.dimensions:
        raise ArgumentError(
            f"Argument `offsets` must have one length for each of {grid.dimensions} axes, but has {len(offsets)}."
        )
    axes, field = tuple(range(-grid.dimensions, 0)), as_float_array(field)
    modes = jnp.fft.rfftn(field, axes=axes)
    real = modes.real.dtype
    for axis, offset in enumerate(offsets):
        if isinstance(offset, int) and offset == 0:
            continue
        n, length = grid.shape[axis], grid.lengths[axis]
        index = np.fft.rfftfreq(n, 1 / n) if axis == grid.dimensions - 1 else np.fft.fftfreq(n, 1 / n)
        angle = jnp.asarray(2 * np.pi / length * index, real) * jnp.asarray(offset, real)
        highest = jnp.asarray((2 * np.abs(index) == n), bool)
        turn = lax.complex(jnp.cos(angle), jnp.where(highest, 0, jnp.sin(angle)))
        modes = modes * turn.reshape(
            [-1 if i == axis else 1 for i in range(-(modes.ndim - grid.dimensions), grid.dimensions)]
        )
    return jnp.fft.irfftn(modes, s=grid.shape, axes=axes)


def centres_to_faces(grid: Grid, field: ArrayLike, axis: int) -> Float[Array, "..."]:
    """A periodic field from the centres of cells to the lower faces of an axis, by its Fourier series."""
    return _half(grid, field, axis, -0.5)


def faces_to_centres(grid: Grid, field: ArrayLike, axis: int) -> Float[Array, "..."]:
    """A periodic field from the lower faces of an axis to the centres of cells, by its Fourier series."""
    return _half(grid, field, axis, 0.5)


def velocity_between(grid: Grid, velocity: Array | np.ndarray, to: Literal["faces", "centres"]) -> Float[Array, "..."]:
    """A velocity `(dimensions, *shape)` from centres to faces, each component to those across its axis, or back; all
    periodic."""
    grid.check_field(velocity, "velocity", (grid.dimensions,))
    move = centres_to_faces if to == "faces" else faces_to_centres
    return jnp.stack([move(grid, velocity[axis], axis) for axis in range(grid.dimensions)])


@compiled
def probe(grid: Grid, field: ArrayLike, points: ArrayLike | Sequence[Sequence[ArrayLike]]) -> Float[Array, "..."]:
    """A periodic field at any points: its Fourier series summed there.

    **Arguments:**

    - `grid`: with equal cells.
    - `field`: `(..., *grid.shape)` at the centres.
    - `points`: `(points, dimensions)`, differentiable; points outside the box see its images.

    **Returns:** `(..., points)`.
    """
    waves, field = Waves(grid, 1), as_float_array(field)
    points = jnp.asarray(points, field.dtype)
    if points.ndim != 2 or points.shape[1] != grid.dimensions:
        raise ArgumentError(
            f"Argument `points` must have the shape (points, {grid.dimensions}), but it has {points.shape}."
        )
    lead = field.ndim - grid.dimensions
    modes = scaled(waves.weights(field.dtype).reshape((1,) * lead + waves.shape), waves.modes(field))

    def at(point: Array) -> Array:
        found = modes
        for axis in range(grid.dimensions):  # each product takes the first wave axis away
            first = grid.origin[axis] + 0.5 * grid.spacing(axis)
            angle = (point[axis] - first) * waves.wavenumber(axis, field.dtype).reshape(-1)
            found = jnp.tensordot(found, lax.complex(jnp.cos(angle), jnp.sin(angle)), axes=([lead], [0]))
        return found.real

    return jax.vmap(at, out_axes=-1)(points)


def _half(grid: Grid, field: ArrayLike, axis: int, cells: float) -> Float[Array, "..."]:
    return shift(grid, field, [cells * grid.spacing(i) if i == axis else 0 for i in range(grid.dimensions)])
