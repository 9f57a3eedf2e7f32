"""Fields on a staggered grid: components of a velocity on the faces across their axes, all else at the centres of cells.

Along its own axis a component has a value for the lower face of each cell, and where the axis ends at boundaries one more for the
last face. Harlow and Welch (1965), Phys. Fluids 8:2182.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ..grids._boundary import (
    Boundaries,
    Boundary,
    Dirichlet,
    FixedPressure,
    Inflow,
    Neumann,
    NoSlip,
    Periodic,
    Piecewise,
)
from ..grids._ghost import cells
from ..grids._grid import Grid
from ..grids._images import Periods
from ..grids._parts import Seam, exchanged

Components = tuple[Array, ...]


@dataclasses.dataclass(frozen=True)
class Staggered:
    """Coordinates of the values, and their distances.

    - `grid`; `walls`: which axes have ends, else they are periodic.
    - `open`: of each axis the ends with a given pressure, lower and upper, on whose faces the velocity changes; None: none.
    """

    grid: Grid
    walls: tuple[bool, ...]
    open: tuple[tuple[bool, bool], ...] | None = None

    @property
    def dimensions(self) -> int:
        return self.grid.dimensions

    @property
    def finest(self) -> float:
        """The least distance of cells along an axis."""
        return min(self.grid.spacing(axis) for axis in range(self.dimensions))

    @property
    def periods(self) -> Periods:
        """The lengths of periodic axes, None for those with ends."""
        return tuple(None if wall else length for wall, length in zip(self.walls, self.grid.lengths, strict=True))

    def open_ends(self, axis: int) -> tuple[bool, bool]:
        """Tell which ends of an axis, lower and upper, have a given pressure."""
        return self.open[axis] if self.open is not None else (False, False)

    def faces(self, axis: int) -> int:
        """Return the number of faces across an axis with values."""
        return self.grid.shape[axis] + self.walls[axis]

    def shape(self, component: int) -> tuple[int, ...]:
        """The shape of a component of the velocity."""
        return tuple(self.faces(a) if a == component else n for a, n in enumerate(self.grid.shape))

    def mesh(self, component: int | None, dtype: DTypeLike) -> tuple[Array, ...]:
        """Coordinates of a component's faces, or of the centres."""
        along = [
            self.grid.faces(a)[: self.faces(a)] if a == component else self.grid.centres(a)
            for a in range(self.dimensions)
        ]
        return tuple(jnp.asarray(x, dtype) for x in np.meshgrid(*along, indexing="ij"))

    def widths(self, axis: int, like: Array) -> Any:
        """Widths of the cells along an axis, to divide what lies along it; one number where all are equal."""
        if self.grid.stretched[axis] is None:
            return self.grid.spacing(axis)
        return self._along(self.grid.widths(axis), axis, like)

    def between(self, axis: int, like: Array, ends: bool = False) -> Any:
        """Distances between the centres on both sides of the faces that have values; of all faces, the last one too, with `ends`.

        Beyond an end stands the mirror's image of the last cell.
        """
        if self.grid.stretched[axis] is None:
            return self.grid.spacing(axis)
        widths = self.grid.widths(axis)
        padded = np.concatenate([widths[:1], widths, widths[-1:]])
        found = 0.5 * (padded[1:] + padded[:-1])
        return self._along(found if ends else found[: self.faces(axis)], axis, like)

    def spans(self, axis: int, like: Array) -> Any:
        """Widths of the volumes around the faces that have values: `between`, but half a cell at ends with a given pressure."""
        lower, upper = self.open_ends(axis)
        if not (lower or upper):
            return self.between(axis, like)
        widths = self.grid.widths(axis)
        inner = 0.5 * (widths[1:] + widths[:-1])
        ends = widths[0] * (0.5 if lower else 1), widths[-1] * (0.5 if upper else 1)
        return self._along(np.concatenate([ends[:1], inner, ends[1:]]), axis, like)

    def volumes(self, component: int, like: Array) -> Array:
        """Volumes around the faces of a component."""
        d = self.dimensions
        volume: Any = jnp.ones((1,) * d, like.dtype)
        for axis in range(d):
            along = self.spans(axis, like) if axis == component else self.widths(axis, like)
            volume = volume * (along if jnp.ndim(along) else jnp.full((1,) * d, along, like.dtype))
        return volume

    def shares(self, axis: int, like: Array) -> tuple[Any, Any]:
        """Return the shares of the lower and of the upper cell in the space between two centres, by faces with values."""
        if self.grid.stretched[axis] is None:
            return 0.5, 0.5
        widths = self.grid.widths(axis)
        padded = np.concatenate([widths[:1], widths, widths[-1:]])
        lower = padded[:-1] / (padded[1:] + padded[:-1])
        lower = self._along(lower[: self.faces(axis)], axis, like)
        return lower, 1 - lower

    def _along(self, values: np.ndarray, axis: int, like: Array) -> Array:
        return jnp.asarray(values.reshape([-1 if i == axis else 1 for i in range(like.ndim)]), like.dtype)

    def divergence(self, velocity: Sequence[Array]) -> Array:
        """Return the divergence at the centres."""
        total = None
        for axis, u in enumerate(velocity):
            n = self.grid.shape[axis]
            u = u if self.walls[axis] else closed(u, axis, 1)
            part = over(cells(u, axis, 1, n + 1) - cells(u, axis, 0, n), self.widths(axis, u))
            total = part if total is None else total + part
        assert total is not None
        return total

    def gradient(self, field: Array) -> Components:
        """Return the gradient on the faces; on those of boundaries 0, or at open ends that to a value of 0."""
        found = []
        for axis in range(self.dimensions):
            if self.walls[axis]:
                n = field.shape[axis]
                inner = cells(field, axis, 1, n) - cells(field, axis, 0, n - 1)
                if any(self.open_ends(axis)):
                    found.append(over(self._to_ends(axis, field, inner), self.spans(axis, inner)))
                    continue
                inner = jnp.pad(inner, [(int(i == axis), int(i == axis)) for i in range(field.ndim)])
                found.append(over(inner, self.between(axis, inner)))
            else:
                n, wide = field.shape[axis], closed(field, axis, 0)
                found.append(over(cells(wide, axis, 1, n + 1) - cells(wide, axis, 0, n), self.grid.spacing(axis)))
        return tuple(found)

    def _to_ends(self, axis: int, field: Array, inner: Array) -> Array:
        """Differences of a field between centres, with those to 0 at open ends and none at others."""
        n, (lower, upper) = field.shape[axis], self.open_ends(axis)
        first, last = cells(field, axis, 0, 1), cells(field, axis, n - 1, n)
        ends = first if lower else jnp.zeros_like(first), -last if upper else jnp.zeros_like(last)
        return jnp.concatenate([ends[0], inner, ends[1]], axis)

    def moving(self, component: int, values: Array) -> Array:
        """The values on inner faces and on those of open ends, and 0 on those of other boundaries."""
        if not self.walls[component]:
            return values
        kept = np.ones(values.shape[component])
        kept[[0, -1]] = self.open_ends(component)
        return values if kept.all() else jnp.where(self._along(kept, component, values) > 0, values, 0)

    def inner(self, component: int, values: Array, ends: Array | float = 0.0) -> Array:
        """The values on inner faces, and others on those of the boundaries, which have a value for each end or one for both."""
        if not self.walls[component]:
            return values
        n = values.shape[component]
        middle = cells(values, component, 1, n - 1)
        shape = (*values.shape[:component], 1, *values.shape[component + 1 :])
        end = jnp.broadcast_to(jnp.asarray(ends, values.dtype), shape)
        return jnp.concatenate([end, middle, end], component)

    def centred(self, velocity: Sequence[Array]) -> Array:
        """Components at the centres, `(dimensions, *shape)`: means of both faces."""
        found = []
        for axis, u in enumerate(velocity):
            n = self.grid.shape[axis]
            u = u if self.walls[axis] else closed(u, axis, 1)
            found.append(0.5 * (cells(u, axis, 0, n) + cells(u, axis, 1, n + 1)))
        return jnp.stack(found)


def over(x: Array, distance: ArrayLike) -> Array:
    """x divided by distances that are known: a product takes a third of the time."""
    return x * (1 / distance)


def closed(x: Array, axis: int, side: int) -> Array:
    """Values along a periodic axis and one more: the last one before them (side 0), or the first one behind them.

    Two readings of it take less than an array and its `roll`, which XLA makes of two copies.
    """
    n = x.shape[axis]
    return jnp.concatenate([cells(x, axis, n - 1, n), x] if side == 0 else [x, cells(x, axis, 0, 1)], axis)


def with_ghosts(x: Array, axis: int, ends: tuple[Any, Any], ghost: Callable[[Array, Any, int], Array]) -> Array:
    """One value more at both ends of an axis: around a periodic one, else `ghost(last value, boundary, side)`."""
    n = x.shape[axis]
    if isinstance(ends[0], Seam):
        return exchanged([x], axis, 1, ends)[0]
    first, last = cells(x, axis, 0, 1), cells(x, axis, n - 1, n)
    if isinstance(ends[0], Periodic):
        return jnp.concatenate([last, x, first], axis)
    return jnp.concatenate([ghost(first, ends[0], 0), x, ghost(last, ends[1], 1)], axis)


def along_walls(at: Staggered, component: int, axis: int) -> Callable[[Array, Any, int], Array]:
    """Ghosts of a component beyond an end that it runs along: their mean with the last value is the boundary's."""

    def ghost(last: Array, boundary: Boundary, side: int) -> Array:
        if isinstance(boundary, Piecewise):
            parts = (ghost(last, part, side) for part in (boundary.first, boundary.second))
            return blended(at, boundary, axis, component, *parts)
        if not isinstance(boundary, NoSlip | Inflow):
            return last
        value = jnp.asarray(boundary.velocity, last.dtype)
        if value.ndim == 0:  # that of an inflow is across the end
            given = jnp.zeros_like(last) if isinstance(boundary, Inflow) else jnp.broadcast_to(value, last.shape)
        else:
            given = _face(at, value[component], axis, component, last)
        return 2 * given - last

    return ghost


def onwards(last: Array, boundary: Boundary, side: int) -> Array:
    """Ghosts of a component beyond the end that it runs through: no more than a place holder."""
    return last


def of_scalar(at: Staggered, axis: int) -> Callable[[Array, Any, int], Array]:
    """Ghosts of a scalar, as far beyond the ends of an axis as the last centre is before it."""
    widths = at.grid.widths(axis)

    def ghost(last: Array, boundary: Boundary, side: int) -> Array:
        if isinstance(boundary, Piecewise):
            parts = (ghost(last, part, side) for part in (boundary.first, boundary.second))
            return blended(at, boundary, axis, None, *parts)
        if isinstance(boundary, Dirichlet):
            return 2 * _face(at, boundary.value, axis, None, last) - last
        assert isinstance(boundary, Neumann)
        return last + float(widths[-side]) * _face(at, boundary.gradient, axis, None, last)

    return ghost


def across(at: Staggered, value: Array, axis: int, like: Array, lower: bool) -> Array:
    """The velocity of an inflow across the face of an axis' end; a single number points into the box."""
    value = jnp.asarray(value, like.dtype)
    if value.ndim == 0:
        return jnp.broadcast_to(value if lower else -value, like.shape)
    return _face(at, value[axis], axis, axis, like)


def on_end(at: Staggered, value: Array, axis: int, like: Array, component: int | None = None) -> Array:
    """A number, or a profile by the cells along an end of an axis, in the shape of `like` at the end's faces, or at those of a
    component along it."""
    return _face(at, value, axis, component, like)


def blended(at: Staggered, boundary: Piecewise, axis: int, component: int | None, first: Array, second: Array) -> Array:
    """The values of the two conditions of an end, each in its cells; on faces between cells of both, their mean."""
    share = _face(at, boundary.where, axis, component, first)
    return share * first + (1 - share) * second


def _face(at: Staggered, value: Array, axis: int, component: int | None, like: Array) -> Array:
    """A number, or a profile by the cells along an end of an axis, where a component stands there, in the shape of `like`."""
    value = jnp.asarray(value, like.dtype)
    if value.ndim == 0:
        return jnp.broadcast_to(value, like.shape)
    cells_along = tuple(n for a, n in enumerate(at.grid.shape) if a != axis)
    if value.shape != cells_along:
        raise ArgumentError(
            f"A profile over an end of axis {axis} must have the shape {cells_along} of its cells, but it has {value.shape}."
        )
    value = jnp.expand_dims(value, axis)
    for a in range(at.dimensions):
        if a == component and a != axis:
            value = to_faces(at, value, a)
        if like.shape[a] == value.shape[a] + 2:  # ghosts
            around = [(int(i == a), int(i == a)) for i in range(at.dimensions)]
            value = jnp.pad(value, around, mode="edge" if at.walls[a] else "wrap")
    return value


def to_faces(at: Staggered, x: Array, axis: int) -> Array:
    """Values at the centres on the faces across an axis: means of both sides, at ends the last value."""
    n = x.shape[axis]
    first, last = cells(x, axis, 0, 1), cells(x, axis, n - 1, n)
    wide = jnp.concatenate([first, x, last] if at.walls[axis] else [last, x, first], axis)
    m = at.faces(axis)
    lower, upper = at.shares(axis, x)
    return upper * cells(wide, axis, 0, m) + lower * cells(wide, axis, 1, m + 1)


def held(x: PyTree) -> Any:
    """Arrays that are computed once, whatever reads them."""
    return lax.optimization_barrier(x)


def ends_of(boundaries: Boundaries) -> tuple[bool, ...]:
    """Return the axes that have ends."""
    return tuple(not isinstance(pair[0], Periodic | Seam) for pair in boundaries)


def open_ends_of(boundaries: Boundaries) -> tuple[tuple[bool, bool], ...] | None:
    """Return the ends of each axis with a given pressure; None where there are none."""
    found = tuple((isinstance(a, FixedPressure), isinstance(b, FixedPressure)) for a, b in boundaries)
    return found if any(map(any, found)) else None


def check_alike(velocity: Boundaries, scalar: Boundaries) -> None:
    """Refuse a scalar that is periodic along other axes than the velocity."""
    for axis, (a, b) in enumerate(zip(ends_of(velocity), ends_of(scalar), strict=True)):
        if a != b:
            raise ArgumentError(
                f"Argument `scalar_boundaries` must be periodic where `boundaries` are, but axis {axis} is so for one of them only."
            )
