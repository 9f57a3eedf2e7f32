"""Padded lists of the atoms around each atom, for energies that are not sums over pairs.

Candidates stand in the cells of a grid around that of an atom. Which of them are neighbours is a bit each, 32 bits a word, so that
little is written; numbers of neighbours are counts of bits.
"""

import dataclasses
import itertools
import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..space._space import Space, inverse
from ._list_plan import ListPlan

DENSE_ATOMS = 600
MARGIN = 0.98  # a planned cell of the grid may become this much thinner before the plan is void
SLACK = 1.1


class ListNeed(NamedTuple):
    """Required capacities: atoms in the fullest cell of the grid, neighbours of an atom; and the thickness of the cell."""

    cell: Int[Array, ""]
    row: Int[Array, ""]
    plane_distances: Float[Array, " d"]


class AtomLists(NamedTuple):
    """The neighbours of each atom in `row` places; an empty place holds the atom itself."""

    neighbour: Int[Array, "atoms row"]
    image: Int[Array, "atoms row"]  # which of the plan's images it is
    listed: Bool[Array, "atoms row"]
    wrap: Int[Array, "atoms d"]  # lattice vectors to subtract from an atom before
    need: ListNeed


class AtomListPlan(ListPlan):
    """Everything static about padded lists."""

    range: float = eqx.field(static=True)  # cutoff + skin
    periodic: bool = eqx.field(static=True)
    dimensions: int = eqx.field(static=True)
    grid: tuple[int, ...] | None = eqx.field(static=True)  # None: all pairs at their nearest images
    reach: tuple[int, ...] = eqx.field(static=True)  # cells of the grid in each direction
    cell: int = eqx.field(static=True)  # room for atoms in a cell
    row: int = eqx.field(static=True)  # room for neighbours of an atom
    dtype: str = eqx.field(static=True)  # float type of distances and of the energies made of them

    @property
    def images(self) -> tuple[tuple[int, ...], ...]:
        """Lattice vectors to add to a neighbour: every image that may be listed, in the order of their numbers."""
        return tuple(itertools.product(*(range(-k, k + 1) for k in self._spans())))

    def _spans(self) -> tuple[int, ...]:
        if self.grid is None:
            return (1,) * self.dimensions
        return tuple(math.ceil(k / n) for k, n in zip(self.reach, self.grid, strict=True))

    def fits(self, need: ListNeed) -> Bool[Array, ""]:
        return (need.row <= self.row) & (need.cell <= self.cell) & self._reaches(need.plane_distances)

    def _reaches(self, plane_distances: Array) -> Bool[Array, ""]:
        """Tell whether all images within range are searched."""
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
        return AtomListPlan(reach, periodic, len(lengths), None, (), 1, min(atoms, 32), dtype)
    if periodic:
        grid, cells = _grid(plane_distances, reach)
    else:
        grid = tuple(min(max(math.ceil(length / reach) + 1, 3), 32) for length in lengths.tolist())
        cells = (1,) * len(grid)
    return AtomListPlan(reach, periodic, len(lengths), grid, cells, max(2 * atoms // math.prod(grid), 4), 32, dtype)


def _grid(plane_distances: np.ndarray, reach: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cells in each direction, and how many of them the range spans."""
    thin = MARGIN * plane_distances
    grid = tuple(max(math.floor(h / reach), 1) for h in thin.tolist())
    return grid, tuple(math.ceil(reach * n / h) for n, h in zip(grid, thin.tolist(), strict=True))


def build_lists(
    plan: AtomListPlan, space: Space, position: Float[Array, "atoms d"], real: Bool[Array, " atoms"] | None = None
) -> AtomLists:
    """The lists of `position`; the cost grows with the number of atoms for any shape of the cell. Only what is `real` is listed."""
    space, x = lax.stop_gradient((space, position))
    vectors = space.vectors().astype(x.dtype)
    wrap = jnp.zeros(x.shape, jnp.int32)
    if plan.periodic:
        wrap = jnp.floor(x @ inverse(vectors)).astype(jnp.int32)
        x = x - wrap.astype(x.dtype) @ vectors
    build = _all_pairs if plan.grid is None else _on_grid
    index, image, listed, cell, row = build(plan, x, vectors, real)
    own = jnp.arange(len(x), dtype=jnp.int32)[:, None]
    need = ListNeed(cell, row, space.plane_distances().astype(x.dtype))
    return AtomLists(jnp.where(listed, index, own), jnp.where(listed, image, 0), listed, wrap, need)


def _all_pairs(plan: AtomListPlan, x: Array, vectors: Array, real: Array | None) -> tuple[Array, ...]:
    atoms, d = x.shape
    apart = x[None] - x[:, None]
    number = jnp.zeros((atoms, atoms), jnp.int32)
    if plan.periodic:
        image = -jnp.round(apart @ inverse(vectors))
        apart = apart + image @ vectors
        number = image_number(image.astype(jnp.int32), (1,) * d)
    near = (jnp.sum(apart**2, -1) < plan.range**2) & ~jnp.eye(atoms, dtype=bool)
    if real is not None:
        near = near & real[:, None] & real[None]
    listed, index, row = compacted(near, plan.row)
    return index, jnp.take_along_axis(number, index, axis=1), listed, jnp.zeros((), jnp.int32), row


def _on_grid(plan: AtomListPlan, x: Array, vectors: Array, atom: Array | None) -> tuple[Array, ...]:
    assert plan.grid is not None
    atoms, d = x.shape
    cells, room = math.prod(plan.grid), plan.cell
    home, table, place, fullest = _filled(plan, x, vectors, atom)
    around, images = _around(plan.grid, plan.reach)
    offsets = around.shape[1]
    padded = jnp.concatenate([x, x[:1]])[table]  # (cells, room, d)
    square = jnp.zeros((), x.dtype)
    for c in range(d):
        mine, theirs = padded[..., c], padded[..., c][around]
        if plan.periodic:
            theirs = theirs + (images.astype(x.dtype) @ vectors[:, c])[..., None]
        theirs = lax.optimization_barrier(theirs.reshape(cells, 1, offsets * room))
        square = square + (theirs - mine[:, :, None]) ** 2
    real = table < atoms
    candidate = jnp.arange(offsets * room) - offsets // 2 * room
    own = candidate[None, None, :] == jnp.arange(room)[None, :, None]
    near = (square < plan.range**2) & real[:, :, None] & real[around].reshape(cells, 1, -1) & ~own
    listed, entry, row = compacted(near.reshape(cells * room, -1), plan.row, home * room + place)
    listed = listed if atom is None else listed & atom[:, None]
    offset, slot = entry // room, entry % room
    index = jnp.minimum(table[around[home[:, None], offset], slot], atoms - 1)
    number = image_number(images, plan._spans())
    return index, number[home[:, None], offset], listed, fullest, row


def image_number(image: Array, spans: tuple[int, ...]) -> Array:
    """Return the number of an image among all."""
    found = jnp.zeros(image.shape[:-1], jnp.int32)
    for c, span in enumerate(spans):
        found = found * (2 * span + 1) + jnp.clip(image[..., c], -span, span) + span
    return found


def _filled(plan: AtomListPlan, x: Array, vectors: Array, atom: Array | None) -> tuple[Array, Array, Array, Array]:
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
    if atom is not None:
        home = jnp.where(atom, home, count)
    home_sorted, order = lax.sort((home, jnp.arange(atoms, dtype=jnp.int32)), num_keys=1)
    start = jnp.searchsorted(home_sorted, jnp.arange(count + 1, dtype=jnp.int32), method="scan").astype(jnp.int32)
    slots = start[:-1, None] + jnp.arange(room, dtype=jnp.int32)[None]
    table = jnp.where(slots < start[1:, None], order[jnp.minimum(slots, atoms - 1)], atoms)
    place = (
        jnp.zeros(atoms, jnp.int32)
        .at[order]
        .set(jnp.arange(atoms, dtype=jnp.int32) - start[home_sorted], unique_indices=True)
    )
    return jnp.minimum(home, count - 1), table, jnp.minimum(place, room - 1), jnp.diff(start).max()


def _around(grid: tuple[int, ...], reach: tuple[int, ...]) -> tuple[Array, Array]:
    """Return for each cell the cells around it, (cells, offsets), and the images they belong to, (cells, offsets, d)."""
    cells = np.stack(np.unravel_index(np.arange(math.prod(grid)), grid), -1)
    offsets = np.stack(np.meshgrid(*(np.arange(-k, k + 1) for k in reach), indexing="ij"), -1).reshape(-1, len(grid))
    images, other = np.divmod(cells[:, None] + offsets[None], np.array(grid))
    number = np.ravel_multi_index(tuple(np.moveaxis(other, -1, 0)), grid)
    return jnp.asarray(number, jnp.int32), jnp.asarray(images, jnp.int32)


def compacted(near: Array, room: int, rows: Array | None = None) -> tuple[Array, Array, Array]:
    """Compact candidates into `room` places: which places are taken, their candidates, and the need of the fullest row."""
    count = near.shape[1]
    words = math.ceil(count / 32)
    near = jnp.pad(near, ((0, 0), (0, words * 32 - count))).reshape(-1, words, 32)
    bits = jnp.left_shift(jnp.uint32(1), jnp.arange(32, dtype=jnp.uint32))
    word = lax.optimization_barrier(jnp.sum(jnp.where(near, bits, jnp.uint32(0)), axis=-1, dtype=jnp.uint32))
    word = word if rows is None else word[rows]
    running = jnp.cumsum(lax.population_count(word).astype(jnp.int32), axis=1)
    number = jnp.arange(room, dtype=jnp.int32)[None]
    listed = number < running[:, -1:]
    low = jnp.zeros(listed.shape, jnp.int32)  # the first word whose running count exceeds the number, by bisection
    for step in (1 << k for k in reversed(range(max(words - 1, 1).bit_length()))):
        ahead = jnp.minimum(low + step, words) - 1
        low = jnp.where(jnp.take_along_axis(running, ahead, axis=1) <= number, ahead + 1, low)
    low = jnp.minimum(low, words - 1)
    found = jnp.take_along_axis(word, low, axis=1)
    before = jnp.take_along_axis(running, low, axis=1) - lax.population_count(found).astype(jnp.int32)
    return listed, jnp.where(listed, 32 * low + _nth_bit(found, number - before), 0), running[:, -1].max()


def _nth_bit(word: Array, n: Array) -> Array:
    """The place of the n-th bit that is set, n from 0 on, by halves."""
    place = jnp.zeros(word.shape, jnp.int32)
    for width in (16, 8, 4, 2, 1):
        lower = lax.population_count(word & jnp.uint32((1 << width) - 1)).astype(jnp.int32)
        above = n >= lower
        n = jnp.where(above, n - lower, n)
        place = jnp.where(above, place + width, place)
        word = jnp.where(above, word >> jnp.uint32(width), word)
    return place
