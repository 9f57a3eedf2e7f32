"""Padded lists of the atoms around each atom, for energies that are not sums over pairs.

Every listed pair stands twice, once for each of its atoms, and each place knows that of its twin: what is summed over the places of
the others is gathered and never scattered.
"""

import dataclasses
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ._space import Space, inverse

DENSE_ATOMS = 600
MARGIN = 0.98  # a planned cell of the grid may become this much thinner before the plan is void
SLACK = 1.1


class ListNeed(NamedTuple):
    """What the lists would have needed: atoms in the fullest cell of the grid, neighbours of an atom; and how thin the cell is."""

    cell: Int[Array, ""]
    row: Int[Array, ""]
    plane_distances: Float[Array, " d"]


class AtomLists(NamedTuple):
    """The neighbours of each atom in `row` places; an empty place holds the atom itself."""

    neighbour: Int[Array, "atoms row"]
    image: Int[Array, "atoms row d"]  # lattice vectors to add to the neighbour
    listed: Bool[Array, "atoms row"]
    twin: Int[Array, "atoms row"]  # the place of the same pair among all places, seen from the neighbour
    wrap: Int[Array, "atoms d"]  # lattice vectors to subtract from an atom before
    need: ListNeed


class AtomListPlan(eqx.Module):
    """Everything static about padded lists."""

    range: float = eqx.field(static=True)  # cutoff + skin
    periodic: bool = eqx.field(static=True)
    grid: tuple[int, ...] | None = eqx.field(static=True)  # None: all pairs at their nearest images
    reach: tuple[int, ...] = eqx.field(static=True)  # cells of the grid in each direction
    cell: int = eqx.field(static=True)  # room for atoms in a cell
    row: int = eqx.field(static=True)  # room for neighbours of an atom
    dtype: str = eqx.field(static=True)  # float type of distances and of the energies made of them

    def fits(self, need: ListNeed) -> Bool[Array, ""]:
        return (need.row <= self.row) & (need.cell <= self.cell) & self._reaches(need.plane_distances)

    def _reaches(self, plane_distances: Array) -> Bool[Array, ""]:
        """Whether all images within range are looked at."""
        if not self.periodic:
            return jnp.array(True)
        if self.grid is None:
            return plane_distances.min() >= 2 * self.range
        spans = plane_distances * jnp.asarray(np.divide(self.reach, self.grid), plane_distances.dtype)
        return (spans >= self.range).all()

    def grown(self, need: ListNeed) -> "AtomListPlan":
        """A plan that holds `need`, too; outside jit."""
        plan = self
        if not self._reaches(jnp.asarray(need.plane_distances)):
            grid, reach = _grid(np.asarray(need.plane_distances, float), self.range)
            fewer = math.prod(self.grid or (1,)) / math.prod(grid)
            plan = dataclasses.replace(self, grid=grid, reach=reach, cell=math.ceil(fewer * self.cell))
        return dataclasses.replace(plan, cell=_room(need.cell, plan.cell), row=_room(need.row, plan.row))

    def trimmed(self, need: ListNeed) -> "AtomListPlan":
        """A plan that just holds `need`, with some slack in what varies from configuration to configuration."""
        return dataclasses.replace(self, cell=_room(need.cell, 0), row=_room(need.row, 0))


def _room(need: Array, held: int) -> int:
    """Never below what is held: two regions of a run could alternate otherwise."""
    count = int(need)
    return held if 0 < count <= held else max(math.ceil(SLACK * count), held, 1)


def first_list_plan(
    lengths: np.ndarray, plane_distances: np.ndarray, atoms: int, reach: float, dtype: str
) -> AtomListPlan:
    """A plan with room that the first build will correct; `lengths` are those of what the atoms occupy.

    Without a period the cells of the grid are as wide as the range, and those whose numbers agree modulo its size are one.
    """
    periodic = bool(np.isfinite(plane_distances).all())
    if atoms <= DENSE_ATOMS and (not periodic or plane_distances.min() >= 2 * reach / MARGIN):
        return AtomListPlan(reach, periodic, None, (), 1, min(atoms, 32), dtype)
    if periodic:
        grid, cells = _grid(plane_distances, reach)
    else:
        grid = tuple(min(max(math.ceil(length / reach) + 1, 3), 32) for length in lengths.tolist())
        cells = (1,) * len(grid)
    return AtomListPlan(reach, periodic, grid, cells, max(2 * atoms // math.prod(grid), 4), 32, dtype)


def _grid(plane_distances: np.ndarray, reach: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cells in each direction, and how many of them the range spans."""
    thin = MARGIN * plane_distances
    grid = tuple(max(math.floor(h / reach), 1) for h in thin.tolist())
    return grid, tuple(math.ceil(reach * n / h) for n, h in zip(grid, thin.tolist(), strict=True))


def build_lists(plan: AtomListPlan, space: Space, position: Float[Array, "atoms d"]) -> AtomLists:
    """The lists of `position`; the cost grows with the number of atoms for any shape of the cell."""
    space, x = lax.stop_gradient((space, position))
    vectors = space.vectors().astype(x.dtype)
    wrap = jnp.zeros(x.shape, jnp.int32)
    if plan.periodic:
        wrap = jnp.floor(x @ inverse(vectors)).astype(jnp.int32)
        x = x - wrap.astype(x.dtype) @ vectors
    build = _all_pairs if plan.grid is None else _on_grid
    index, image, listed, twin, cell, row = build(plan, x, vectors)
    distances = space.plane_distances().astype(x.dtype)
    return AtomLists(index, image, listed, twin, wrap, ListNeed(cell, row, distances))


def _all_pairs(plan: AtomListPlan, x: Array, vectors: Array) -> tuple[Array, ...]:
    atoms = len(x)
    apart = x[None] - x[:, None]
    image = jnp.zeros(apart.shape, jnp.int32)
    if plan.periodic:
        image = -jnp.round(apart @ inverse(vectors)).astype(jnp.int32)
        apart = apart + image.astype(x.dtype) @ vectors
    near = (jnp.sum(apart**2, -1) < plan.range**2) & ~jnp.eye(atoms, dtype=bool)
    own = jnp.arange(atoms, dtype=jnp.int32)
    running = jnp.cumsum(near, axis=1, dtype=jnp.int32)
    listed, entry = _entries(plan, running)
    index = jnp.where(listed, entry, own[:, None])
    image = jnp.where(listed[..., None], jnp.take_along_axis(image, index[..., None], axis=1), 0)
    twin = _places(plan, listed, index, running[index, own[:, None]])
    return index, image, listed, twin, jnp.zeros((), jnp.int32), running[:, -1].max()


def _on_grid(plan: AtomListPlan, x: Array, vectors: Array) -> tuple[Array, ...]:
    """Candidates of all atoms of a cell of the grid stand in the cells around it. Offset number n is opposite to the n-th last."""
    assert plan.grid is not None
    atoms, d = x.shape
    cells, room = math.prod(plan.grid), plan.cell
    home, table, place, fullest = _filled(plan, x, vectors)
    around, images = _around(plan.grid, plan.reach)
    offsets = around.shape[1]
    padded = jnp.concatenate([x, x[:1]])[table]  # (cells, room, d)
    theirs = padded[around]  # (cells, offsets, room, d)
    shift = images.astype(x.dtype) @ vectors if plan.periodic else jnp.zeros((), x.dtype)
    square = jnp.zeros((), x.dtype)
    for c in range(d):
        # First the difference, then the image: so both atoms of a pair see the same rounded distance.
        apart = theirs[:, None, :, :, c] - padded[:, :, None, None, c]
        apart = apart + shift[:, None, :, None, c] if plan.periodic else apart
        square = square + apart**2
    real = table < atoms
    near = (square < plan.range**2) & real[:, :, None, None] & real[around][:, None]
    own = jnp.eye(room, dtype=bool)[None, :, None] & (jnp.arange(offsets) == offsets // 2)[None, None, :, None]
    running = jnp.cumsum((near & ~own).reshape(cells * room, -1), axis=1, dtype=jnp.int32)
    row = home * room + place
    mine = running[row]
    listed, entry = _entries(plan, mine)
    offset, slot = entry // room, entry % room
    index = jnp.where(listed, table[around[home[:, None], offset], slot], jnp.arange(atoms, dtype=jnp.int32)[:, None])
    image = jnp.where(listed[..., None], images[home[:, None], offset], 0)
    twin = running[row[index], (offsets - 1 - offset) * room + place[:, None]]
    return index, image, listed, _places(plan, listed, index, twin), fullest, mine[:, -1].max()


def _filled(plan: AtomListPlan, x: Array, vectors: Array) -> tuple[Array, Array, Array, Array]:
    """The cell of each atom, the atoms of each cell, the place of each atom in its cell, and how many are in the fullest."""
    assert plan.grid is not None
    atoms, count, room = len(x), math.prod(plan.grid), plan.cell
    numbers = jnp.asarray(plan.grid, jnp.int32)[None]
    if plan.periodic:
        cell = jnp.floor((x @ inverse(vectors)) * numbers.astype(x.dtype)).astype(jnp.int32)
        cell = jnp.clip(cell, 0, numbers - 1)
    else:
        cell = jnp.mod(jnp.floor(x / plan.range).astype(jnp.int32), numbers)
    home = jnp.zeros(atoms, jnp.int32)
    for c, n in enumerate(plan.grid):
        home = home * n + cell[:, c]
    home_sorted, order = lax.sort((home, jnp.arange(atoms, dtype=jnp.int32)), num_keys=1)
    start = jnp.searchsorted(home_sorted, jnp.arange(count + 1, dtype=jnp.int32), method="scan").astype(jnp.int32)
    slots = start[:-1, None] + jnp.arange(room, dtype=jnp.int32)[None]
    table = jnp.where(slots < start[1:, None], order[jnp.minimum(slots, atoms - 1)], atoms)
    place = (
        jnp.zeros(atoms, jnp.int32)
        .at[order]
        .set(jnp.arange(atoms, dtype=jnp.int32) - start[home_sorted], unique_indices=True)
    )
    return home, table, jnp.minimum(place, room - 1), jnp.diff(start).max()


def _around(grid: tuple[int, ...], reach: tuple[int, ...]) -> tuple[Array, Array]:
    """For each cell of the grid the cells around it, (cells, offsets), and the images they belong to, (cells, offsets, d)."""
    cells = np.stack(np.unravel_index(np.arange(math.prod(grid)), grid), -1)
    offsets = np.stack(np.meshgrid(*(np.arange(-k, k + 1) for k in reach), indexing="ij"), -1).reshape(-1, len(grid))
    images, other = np.divmod(cells[:, None] + offsets[None], np.array(grid))
    number = np.ravel_multi_index(tuple(np.moveaxis(other, -1, 0)), grid)
    return jnp.asarray(number, jnp.int32), jnp.asarray(images, jnp.int32)


def _entries(plan: AtomListPlan, running: Array) -> tuple[Array, Array]:
    """The candidates of each row that are neighbours, in `plan.row` places, by bisection."""
    places = jnp.arange(1, plan.row + 1, dtype=jnp.int32)
    find = jax.vmap(lambda counts: jnp.searchsorted(counts, places, method="scan_unrolled"))
    listed = places[None] <= running[:, -1:]
    return listed, jnp.where(listed, find(running).astype(jnp.int32), 0)


def _places(plan: AtomListPlan, listed: Array, index: Array, number: Array) -> Array:
    """Places among all, from a neighbour and the number of the pair in its row; where there is too little room, any."""
    return jnp.where(listed, index * plan.row + jnp.clip(number - 1, 0, plan.row - 1), 0)
