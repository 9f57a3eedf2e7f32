"""One grid over several devices: each holds the cells between two coordinates along the first axis, or along the first two.

With devices in a row the parts are slabs, with devices in rows and columns pencils. What works cell by cell needs no word: XLA
keeps it where the cells are. What looks at neighbours gets them by an exchange with the devices beside (`exchanged`), one axis
after the other, so that corners come along. Fourier series take an axis at a time, after transpositions between devices (`stages`).
"""

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ._boundary import Boundary, Periodic
from ._cells import cells
from ._checks import Gridded
from ._grid import Grid

MESH = ("slabs", "pencils")
"""Names of the directions of devices: that along the first axis of a grid, and that along the second."""

_ALL = PartitionSpec()


class Seam(Boundary):
    """An end of a part: what stands beyond is on the device beside or, on the first or last device, what `outer` says."""

    serves: ClassVar[tuple[str, ...]] = ()
    outer: Boundary
    count: int = eqx.field(static=True)
    along: str = eqx.field(static=True)


def mesh_of(grid: Grid) -> Mesh:
    """The devices of a grid, in a row or in rows and columns."""
    names = MESH[: len(grid.parts)]
    placed = np.empty(len(grid.devices), object)
    placed[:] = grid.devices
    return Mesh(placed.reshape(grid.parts), names, axis_types=(AxisType.Auto,) * len(names))


def layout(grid: Grid, ndim: int) -> PartitionSpec:
    """Return the layout of fields, arrays that end in the axes of a grid."""
    return _layout(grid, ndim, dict(enumerate(MESH[: len(grid.parts)])))


def spectral_layout(grid: Grid, ndim: int) -> PartitionSpec:
    """Return the layout of transformed fields: all of the first axis is on each device."""
    return _layout(grid, ndim, _spectral(grid))


def _layout(grid: Grid, ndim: int, names: dict[int, Any]) -> PartitionSpec:
    d = grid.dimensions
    return PartitionSpec(*([None] * (ndim - d)), *(names.get(axis) for axis in range(d)))


def _spectral(grid: Grid) -> dict[int, tuple[str, ...]]:
    """The directions of devices that divide each axis of transformed fields."""
    last = grid.dimensions - 1
    if len(grid.parts) < 2:
        return {last: MESH[:1]}
    return {last: MESH} if last == 1 else {1: MESH[:1], 2: MESH[1:]}


def over(
    grid: Grid, function: Callable[..., Any], given: tuple[PartitionSpec, ...], found: PartitionSpec, *arrays: Array
) -> Array:
    """`function(*arrays)` on each device with its parts of arrays of given layouts; that of the result is `found`."""
    return jax.shard_map(function, mesh=mesh_of(grid), in_specs=given, out_specs=found, check_vma=False)(*arrays)


def part_of(system: Gridded) -> Any:
    """A system as one device sees it: the grid of a part, with seams at the ends of the axes that are divided."""
    grid = system.grid
    counts = (*grid.parts, *([1] * (grid.dimensions - len(grid.parts))))
    shape = tuple(n // count for n, count in zip(grid.shape, counts, strict=True))
    lengths = tuple(length / count for length, count in zip(grid.lengths, counts, strict=True))
    found = copy.copy(system)
    object.__setattr__(found, "grid", Grid(shape, lengths, grid.origin, faces=grid.stretched))
    for name in ("boundaries", "scalar_boundaries"):
        pairs = getattr(system, name, None)
        if pairs is not None:
            _check_profiles(grid, pairs)
            seams = [
                tuple(Seam(outer, count, along) for outer in pair)
                for pair, count, along in zip(pairs, grid.parts, MESH, strict=False)
            ]
            object.__setattr__(found, name, (*seams, *pairs[len(seams) :]))
    return found


def _check_profiles(grid: Grid, pairs: Any) -> None:
    """Refuse profiles of boundaries along an axis that is divided.

    **Raises:** an `ArgumentError`.
    """
    for axis, pair in enumerate(pairs):
        others = [other for other in range(grid.dimensions) if other != axis]
        cut = [other for other in others if other < len(grid.parts)]
        shape = tuple(grid.shape[other] for other in others)
        vector = (grid.dimensions,)
        for leaf in jax.tree.leaves(eqx.filter(pair, eqx.is_array)):
            along = leaf.shape[max(leaf.ndim - len(shape), 0) :]
            if cut and shape and along == shape and leaf.shape != vector:
                raise ArgumentError(
                    f"What boundaries give at axis {axis} of a grid over devices must be the same along axis {cut[0]}, which is "
                    "divided, but is a profile. Give numbers, or leave `devices` out."
                )


def on_its_parts(system: Gridded, function: Callable[..., Any], y: PyTree, like: PyTree = None) -> Any:
    """`function(system, y)` for fields on a grid, on one device or with each device doing its part.

    `y` and what comes back end in the axes of the grid; that is a tree of the form of `like`, by default of `y`. The coordinates of
    a part start at the origin of the whole grid on all devices.
    """
    if not system.grid.devices:
        return function(system, y)
    grid, d = system.grid, system.grid.dimensions
    arrays, rest = eqx.partition(system, eqx.is_array)
    field = lambda x: layout(grid, x.ndim)
    parts = jax.tree.map(lambda x: field(x) if x.ndim >= d and x.shape[x.ndim - d :] == grid.shape else _ALL, arrays)
    local = lambda arrays, y: function(part_of(eqx.combine(arrays, rest)), y)
    specs = (parts, jax.tree.map(field, y))
    out = jax.tree.map(field, y if like is None else like)
    return jax.shard_map(local, mesh=mesh_of(grid), in_specs=specs, out_specs=out, check_vma=False)(arrays, y)


def laid_out(grid: Grid, tree: PyTree) -> Any:
    """Fields on a grid, each device with its part. It also tells `jit` which devices there are, whatever hides inside."""
    if not grid.devices:
        return tree
    return jax.tree.map(lax.with_sharding_constraint, tree, shardings_of(grid, tree))


def shardings_of(grid: Grid, tree: PyTree, form: Callable[[Grid, int], PartitionSpec] = layout) -> Any:
    """Return the shardings of fields on a grid, or with `spectral_layout` of modes; None on one device."""
    if not grid.devices:
        return None
    mesh = mesh_of(grid)
    return jax.tree.map(lambda x: NamedSharding(mesh, form(grid, x.ndim)), tree)


def beside(rows: list[Array], axis: int, ghosts: int, end: Seam) -> tuple[list[Array], list[Array]]:
    """The last cells of the part before and the first ones of that behind, around at the ends; one message each way."""
    n, count = rows[0].shape[axis], end.count
    if ghosts > n:
        raise ArgumentError(
            f"Each device must hold at least {ghosts} cells along axis {axis}, but it holds {n}. Take fewer devices along it."
        )
    onwards = [(i, (i + 1) % count) for i in range(count)]
    backwards = [(i, (i - 1) % count) for i in range(count)]
    below = lax.ppermute(jnp.stack([cells(x, axis, n - ghosts, n) for x in rows]), end.along, onwards)
    above = lax.ppermute(jnp.stack([cells(x, axis, 0, ghosts) for x in rows]), end.along, backwards)
    return list(below), list(above)


def exchanged(
    rows: list[Array],
    axis: int,
    ghosts: int,
    ends: tuple[Seam, Seam],
    outside: Callable[[int], list[Array]] | None = None,
) -> list[Array]:
    """Rows with `ghosts` cells more at both ends of a divided axis, from the devices beside.

    `outside(side)` makes those of the ends of the whole grid, where it is not periodic.
    """
    below, above = beside(rows, axis, ghosts, ends[0])
    if not isinstance(ends[0].outer, Periodic):
        assert outside is not None
        place = lax.axis_index(ends[0].along)
        first, last = place == 0, place == ends[0].count - 1
        below = [jnp.where(first, a, b) for a, b in zip(outside(0), below, strict=True)]
        above = [jnp.where(last, a, b) for a, b in zip(outside(1), above, strict=True)]
    return [jnp.concatenate(parts, axis) for parts in zip(below, rows, above, strict=True)]


APART = 8
"""Numbers between the rows of what is transposed: rows whose lengths are powers of two fall upon each other in a cache."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """A transposition between the devices of some directions: axis `split`, whole on each, is dealt out, and `join` gathered.

    Axes count from the first of the grid. `there` fills the axis up with zeros, so that all get as much; `back` inverts it.
    """

    along: tuple[str, ...]
    split: int
    join: int
    count: int

    def there(self, x: Array, dimensions: int) -> Array:
        split, join = (x.ndim - dimensions + axis for axis in (self.split, self.join))
        more = -x.shape[split] % self.count
        x = jnp.pad(x, [(0, more if i == split else 0) for i in range(x.ndim)]) if more else x
        return lax.all_to_all(x, self.along, split, join, tiled=True)

    def back(self, x: Array, dimensions: int, size: int | None = None) -> Array:
        """Invert `there`, which took `size` values along the axis that it split; None where it did not fill it up."""
        split, join = (x.ndim - dimensions + axis for axis in (self.split, self.join))
        x = lax.all_to_all(x, self.along, join, split, tiled=True)
        return x if size is None else cells(x, split, 0, size)

    def back_from_last(self, x: Array, dimensions: int, size: int | None = None) -> Array:
        """`back` of an array whose axis `join` stands behind all others, as a transform along it leaves it."""
        split, join = (x.ndim - dimensions + axis for axis in (self.split, self.join))
        own = x.shape[-1] // self.count
        apart = jnp.pad(x.reshape(*x.shape[:-1], self.count, own), [(0, 0)] * x.ndim + [(0, APART)])
        place = split - (split > join)
        found = lax.squeeze(lax.all_to_all(apart, self.along, x.ndim - 1, place, tiled=True), (x.ndim - 1,))
        found = cells(found, place, 0, found.shape[place] if size is None else size)
        return jnp.moveaxis(cells(found, x.ndim - 1, 0, own), -1, join)


class Stage(NamedTuple):
    """A stage of a transform: the axes that are whole on each device, and the transposition that follows; None after the last."""

    axes: tuple[int, ...]
    turn: Turn | None


def stages(grid: Grid) -> tuple[Stage, ...]:
    """The order in which the axes of a divided grid are transformed, from the last one to the first.

    Pencils of three dimensions are transposed among the devices of a row, then among those of a column. In two dimensions no axis
    is whole: the first transposition makes slabs of pencils.
    """
    d, last = grid.dimensions, grid.dimensions - 1
    if len(grid.parts) == 1:
        return Stage(tuple(range(1, d)), Turn(MESH[:1], last, 0, grid.parts[0])), Stage((0,), None)
    rows, columns = grid.parts
    if d == 2:
        whole = Turn(MESH, 1, 0, rows * columns)
        return Stage((), Turn(MESH[1:], 0, 1, columns)), Stage((1,), whole), Stage((0,), None)
    return (
        Stage((2,), Turn(MESH[1:], 2, 1, columns)),
        Stage((1,), Turn(MESH[:1], 1, 0, rows)),
        Stage((0,), None),
    )


def check_stages(grid: Grid, what: str) -> None:
    """Refuse pencils in two dimensions whose first axis cannot be dealt out among all devices.

    **Raises:** an `ArgumentError`.
    """
    count = len(grid.devices)
    if len(grid.parts) == 2 and grid.dimensions == 2 and grid.shape[0] % count:
        raise ArgumentError(
            f"The first axis of a plane grid over {' x '.join(map(str, grid.parts))} devices must have a multiple of {count} cells "
            f"for {what}, but it has {grid.shape[0]}. Take {filled(grid.shape[0], count)} cells, or devices in a row."
        )


def filled(n: int, count: int) -> int:
    """The next multiple of a count."""
    return -(-n // count) * count


def filled_up(n: int, grid: Grid, axis: int) -> int:
    """The next number of modes along an axis that can be dealt to all devices alike."""
    if not grid.devices:
        return n
    sizes: dict[str, int] = dict(zip(MESH, grid.parts, strict=False))
    return filled(n, math.prod(sizes[name] for name in _spectral(grid).get(axis, ())))
