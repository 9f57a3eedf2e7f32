"""Look-ups in tables of energies and slopes on even grids, whose derivative is that of the table."""

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.lax.linalg import tridiagonal_solve
from jaxtyping import Array, Float, Int


class Grid(NamedTuple):
    """Even grids, of each table its first knot and its spacing; `period` is the number of knots of periodic ones, else 0."""

    starts: tuple[float, ...]
    steps: tuple[float, ...]
    period: int = 0

    def place(self, x: Array, row: Array) -> tuple[Array, Array]:
        """Distance from the first knot, and the spacing, of the tables in these rows."""
        starts, steps = (jnp.asarray(values, x.dtype)[row] for values in (self.starts, self.steps))
        return x - starts, steps


Column: TypeAlias = tuple[Float[Array, "tables knots"], Float[Array, "tables knots"] | None]
"""Values at the knots and, of a spline, their second derivatives times a sixth of the squared spacing."""


def column(values: Array, ends: Array | None, grid: Grid, spline: bool) -> Column:
    """Values joined by straight lines, or by cubic splines with these slopes at both ends, shape (tables, 2).

    Periodic grids have no ends.
    """
    if not spline:
        return values, None
    if grid.period:
        around = jnp.roll(values, -1, axis=1) - 2 * values + jnp.roll(values, 1, axis=1)
        angles = 2 * jnp.pi * jnp.arange(grid.period // 2 + 1, dtype=values.dtype) / grid.period
        waves = jnp.fft.rfft(around)
        return values, jnp.fft.irfft(waves / (4 + 2 * jnp.cos(angles))[None].astype(waves.dtype), grid.period)
    assert ends is not None, "refused before"
    slopes = ends * jnp.asarray(grid.steps, values.dtype)[:, None]
    rise = jnp.diff(values, axis=1)
    right = jnp.concatenate([rise[:, :1] - slopes[:, :1], jnp.diff(rise, axis=1), slopes[:, 1:] - rise[:, -1:]], axis=1)
    ones = jnp.ones_like(values)
    diagonal = (4 * ones).at[:, jnp.array([0, -1], jnp.int32)].set(2)
    below, above = ones.at[:, 0].set(0), ones.at[:, -1].set(0)
    return values, tridiagonal_solve(below, diagonal, above, right[..., None])[..., 0]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def looked_up(
    grid: Grid, x: Float[Array, "*n"], row: Int[Array, "*n"], energies: Column, slopes: Column | None
) -> Array:
    """The energy at x, whose derivative by x is what stands in the slopes, or that of the energy where there are none.

    Beyond the ends of a table the energy goes on in a straight line.
    """
    inside, apart = _inside(grid, x, row, energies[0].shape[1])
    return _joined(grid, inside, row, energies) + apart * _slope(grid, inside, row, energies, slopes)


@looked_up.defjvp
def _looked_up_tangent(grid: Grid, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (x, row, energies, slopes), (dx, _, more, steeper) = primals, tangents
    inside, apart = _inside(grid, x, row, energies[0].shape[1])
    slope = _slope(grid, inside, row, energies, slopes)
    change = _joined(grid, inside, row, more) + apart * _slope(grid, inside, row, more, steeper)
    # The value is looked up anew, so that a derivative of it, too, is what stands in the slopes.
    return looked_up(grid, x, row, energies, slopes), change + slope * dx


def _inside(grid: Grid, x: Array, row: Array, knots: int) -> tuple[Array, Array]:
    """The nearest place within the table, and how far x is from it."""
    if grid.period:
        return x, jnp.zeros_like(x)
    from_start, steps = grid.place(x, row)
    apart = jnp.minimum(from_start, 0) + jnp.maximum(from_start - (knots - 1) * steps, 0)
    return x - apart, apart


def _interval(grid: Grid, x: Array, row: Array, knots: int) -> tuple[Array, Array, Array, Array]:
    """The knot below, the next one, the fraction of the way, and the spacing."""
    from_start, steps = grid.place(x, row)
    k = jnp.clip(jnp.floor(from_start / steps), 0, knots - (1 if grid.period else 2))
    fraction = (from_start - k * steps) / steps
    k = k.astype(jnp.int32)
    return k, (k + 1) % grid.period if grid.period else k + 1, fraction, steps


def _joined(grid: Grid, x: Array, row: Array, column: Column) -> Array:
    """A column by straight lines, or by a spline where it has second derivatives."""
    values, curved = column
    k, after, b, _ = _interval(grid, x, row, values.shape[1])
    a = 1 - b
    found = a * values[row, k] + b * values[row, after]
    if curved is None:
        return found
    return found + (a * a * a - a) * curved[row, k] + (b * b * b - b) * curved[row, after]


def _slope(grid: Grid, x: Array, row: Array, energies: Column, slopes: Column | None) -> Array:
    if slopes is not None:
        return _joined(grid, x, row, slopes)
    values, curved = energies
    k, after, b, steps = _interval(grid, x, row, values.shape[1])
    a = 1 - b
    found = values[row, after] - values[row, k]
    if curved is not None:
        found = found + (3 * b * b - 1) * curved[row, after] - (3 * a * a - 1) * curved[row, k]
    return found / steps
