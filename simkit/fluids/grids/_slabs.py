"""One grid over several devices: each holds a slab, the cells between two coordinates along the first axis.

What works cell by cell needs no word: XLA keeps it where the cells are. What looks at neighbours gets them by an exchange with the
devices beside (`exchanged`), and Fourier series along the first axis by a transposition between all of them (`to_columns`).
"""

import copy
from collections.abc import Callable
from typing import Any, ClassVar

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

SLABS = "slabs"

_ALL = PartitionSpec()


class Seam(Boundary):
    """An end of a slab: what stands beyond is on the device beside or, on the first or last device, what `outer` says."""

    serves: ClassVar[tuple[str, ...]] = ()
    outer: Boundary
    count: int = eqx.field(static=True)


def mesh_of(grid: Grid) -> Mesh:
    """The devices of a grid in a row."""
    return Mesh(np.array(grid.devices), (SLABS,), axis_types=(AxisType.Auto,))


def layout(ndim: int, axis: int) -> PartitionSpec:
    """Return the layout of an array that is cut along one axis."""
    return PartitionSpec(*(SLABS if i == axis else None for i in range(ndim)))


def over(grid: Grid, function: Callable[..., Any], cut: tuple[int, ...], out: int, *arrays: Array) -> Array:
    """`function(*arrays)` on each device with its parts of arrays that are cut along the axes `cut`; the result is, along `out`."""
    specs = tuple(layout(x.ndim, axis) for x, axis in zip(arrays, cut, strict=True))
    result = layout(arrays[0].ndim, out)
    return jax.shard_map(function, mesh=mesh_of(grid), in_specs=specs, out_specs=result, check_vma=False)(*arrays)


def slab_of(system: Gridded) -> Any:
    """A system as one device sees it: the grid of a slab, with seams at the ends of the first axis."""
    grid, count = system.grid, len(system.grid.devices)
    shape, lengths = (grid.shape[0] // count, *grid.shape[1:]), (grid.lengths[0] / count, *grid.lengths[1:])
    found = copy.copy(system)
    object.__setattr__(found, "grid", Grid(shape, lengths, grid.origin, faces=grid.stretched))
    for name in ("boundaries", "scalar_boundaries"):
        pairs = getattr(system, name, None)
        if pairs is not None:
            seams = (tuple(Seam(outer, count) for outer in pairs[0]), *pairs[1:])
            object.__setattr__(found, name, seams)
    return found


def on_its_slabs(system: Gridded, function: Callable[..., Any], y: PyTree, like: PyTree = None) -> Any:
    """`function(system, y)` for fields on a grid, on one device or with each device doing its slab.

    `y` and what comes back end in the axes of the grid; that is a tree of the form of `like`, by default of `y`.
    """
    if not system.grid.devices:
        return function(system, y)
    grid, d = system.grid, system.grid.dimensions
    arrays, rest = eqx.partition(system, eqx.is_array)
    field = lambda x: layout(x.ndim, x.ndim - d)
    parts = jax.tree.map(lambda x: field(x) if x.ndim >= d and x.shape[x.ndim - d :] == grid.shape else _ALL, arrays)
    local = lambda arrays, y: function(slab_of(eqx.combine(arrays, rest)), y)
    specs = (parts, jax.tree.map(field, y))
    out = jax.tree.map(field, y if like is None else like)
    return jax.shard_map(local, mesh=mesh_of(grid), in_specs=specs, out_specs=out, check_vma=False)(arrays, y)


def laid_out(grid: Grid, tree: PyTree) -> Any:
    """Fields on a grid, each device with its slab. It also tells `jit` which devices there are, whatever hides inside."""
    if not grid.devices:
        return tree
    mesh, d = mesh_of(grid), grid.dimensions
    place = lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh, layout(x.ndim, x.ndim - d)))
    return jax.tree.map(place, tree)


def beside(rows: list[Array], axis: int, ghosts: int, count: int) -> tuple[list[Array], list[Array]]:
    """The last cells of the slab before and the first ones of that behind, around at the ends; one message each way."""
    n = rows[0].shape[axis]
    if ghosts > n:
        raise ArgumentError(
            f"Each device must hold at least {ghosts} cells along the first axis, but it holds {n}. Take fewer devices."
        )
    onwards = [(i, (i + 1) % count) for i in range(count)]
    backwards = [(i, (i - 1) % count) for i in range(count)]
    below = lax.ppermute(jnp.stack([cells(x, axis, n - ghosts, n) for x in rows]), SLABS, onwards)
    above = lax.ppermute(jnp.stack([cells(x, axis, 0, ghosts) for x in rows]), SLABS, backwards)
    return list(below), list(above)


def exchanged(
    rows: list[Array],
    axis: int,
    ghosts: int,
    ends: tuple[Seam, Seam],
    outside: Callable[[int], list[Array]] | None = None,
) -> list[Array]:
    """Rows with `ghosts` cells more at both ends of the first axis, from the devices beside.

    `outside(side)` makes those of the ends of the whole grid, where it is not periodic.
    """
    below, above = beside(rows, axis, ghosts, ends[0].count)
    if not isinstance(ends[0].outer, Periodic):
        assert outside is not None
        place = lax.axis_index(SLABS)
        first, last = place == 0, place == ends[0].count - 1
        below = [jnp.where(first, a, b) for a, b in zip(outside(0), below, strict=True)]
        above = [jnp.where(last, a, b) for a, b in zip(outside(1), above, strict=True)]
    return [jnp.concatenate(parts, axis) for parts in zip(below, rows, above, strict=True)]


def to_columns(x: Array, first: int) -> Array:
    """Redistribute slabs along the axis `first` to columns along the last axis, each with all of the first."""
    return lax.all_to_all(x, SLABS, x.ndim - 1, first, tiled=True)


def to_slabs(x: Array, first: int) -> Array:
    """Invert `to_columns`."""
    return lax.all_to_all(x, SLABS, first, x.ndim - 1, tiled=True)


def filled_up(n: int, grid: Grid) -> int:
    """The next number that can be dealt to all devices alike."""
    count = max(1, len(grid.devices))
    return -(-n // count) * count
