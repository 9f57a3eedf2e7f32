"""A bias on a grid of one or two collective variables, as a sum of cubic B-splines."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core import quantity
from ..potentials._b_splines import cubic_shares
from ..potentials._many_body import AtomView, ManyBodyPotential
from ..space._atoms import Atoms
from ._bias import seen_as_atoms


class GridBias(ManyBodyPotential):
    r"""$U = \sum_j c_j\, B(\xi/h - j)$ with cubic B-splines of one variable, or products of them of two.

    - `cv`: from `Atoms` to one number, or to an array of two.
    - `coefficients`: c, one a grid point, shape (points,) or (points, points).
    - `lower`, `upper`: of the grid, shape (1,) or (2,). The bias is level at the edge of the grid and beyond.
    - `periodic`: one a variable, those that are the same at `upper` as at `lower`, such as angles. Their grid has no point at
        `upper`, and the bias goes on there as from `lower`.
    """

    cv: Callable[[Atoms], Any]
    coefficients: Float[Array, "*grid"] = quantity(unit="energy", doc="coefficients of the splines")
    lower: Float[Array, " d"] = quantity(doc="lowest grid point")
    upper: Float[Array, " d"] = quantity(doc="highest grid point")
    periodic: tuple[bool, ...] = eqx.field(static=True, default=(False, False))
    cutoff: float | None = eqx.field(static=True, default=None, init=False)

    def value(self, cv: Float[Array, " d"]) -> Float[Array, ""]:
        """The bias at a value of the variables, an array of one or two."""
        found = self.coefficients
        for axis in range(found.ndim):
            index, weights = self._splines(cv[axis], axis)
            found = jnp.tensordot(weights, found[index], axes=1)
        return found

    def energy(self, view: AtomView) -> Array:
        return self.value(jnp.atleast_1d(jnp.asarray(self.cv(seen_as_atoms(view)))))

    def grid(self, axis: int = 0) -> Float[Array, " points"]:
        """The grid points of an axis."""
        points = self.coefficients.shape[axis]
        share = jnp.linspace(0, 1, points, endpoint=not self.periodic[axis], dtype=self.lower.dtype)
        return self.lower[axis] + share * (self.upper[axis] - self.lower[axis])

    def spacing(self) -> Float[Array, " d"]:
        """The distance of grid points, one a variable."""
        gaps = [n if wraps else n - 1 for n, wraps in zip(self.coefficients.shape, self.periodic, strict=False)]
        return (self.upper - self.lower) / jnp.asarray(gaps, self.lower.dtype)

    def values(self) -> Float[Array, "*grid"]:
        """The bias at all grid points: 1/6, 4/6 and 1/6 of the coefficients next to each."""
        found = self.coefficients
        for axis in range(found.ndim):
            before, after = (-1, 0) if self.periodic[axis] else (1, -2)
            padded = jnp.concatenate(
                [jnp.take(found, jnp.array([before]), axis), found, jnp.take(found, jnp.array([after]), axis)], axis
            )
            part = lambda begin, padded=padded, axis=axis: jnp.take(
                padded, jnp.arange(begin, begin + self.coefficients.shape[axis]), axis
            )
            found = (part(0) + 4 * part(1) + part(2)) / 6
        return found

    def _splines(self, x: Array, axis: int) -> tuple[Array, Array]:
        """Four neighbouring grid points, with the inner ones for those beyond an edge, or those that follow on the circle, and the
        values of their splines."""
        points = self.coefficients.shape[axis]
        low, high = self.lower[axis].astype(x.dtype), self.upper[axis].astype(x.dtype)
        if self.periodic[axis]:
            place = (x - low) / (high - low) * points
            cell = jnp.floor(place)
            index = cell.astype(jnp.int32) + jnp.arange(-1, 3, dtype=jnp.int32)
            return index % points, cubic_shares(place - cell).astype(self.coefficients.dtype)
        place = jnp.clip((x - low) / (high - low), 0, 1) * (points - 1)
        cell = jnp.clip(jnp.floor(place), 0, points - 2)
        weights = cubic_shares(place - cell)
        index = cell.astype(jnp.int32) + jnp.arange(-1, 3, dtype=jnp.int32)
        last = points - 1
        return last - jnp.abs(last - jnp.abs(index)), weights.astype(self.coefficients.dtype)
