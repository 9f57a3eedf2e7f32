"""Rows of neighbours from all atoms, a few rows at a time: what stands in for padded lists that have no room.

Rows are found anew for every force, in a branch that is taken only where a list was too small, and have several times its places.
"""

import itertools
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from ...core import greatest
from ..space._space import Space, inverse
from ._atom_lists import AtomListPlan, AtomLists, compacted, image_number
from ._derivative_rule import Sweep
from ._list_plan import ListPlan
from ._manual import varying_like
from ._pair_sums import Point, Wanted

PAIRS = 2**17
"""Number of candidates that are tested together."""

ROOM = 4
"""Capacity in units of that of the lists."""


class SpareListNeed(NamedTuple):
    """Neighbours of the fullest atom where lists had no room, else 0; and how thin the cell is."""

    row: Int[Array, ""]
    plane_distances: Float[Array, " d"]


class SpareListPlan(ListPlan):
    """Everything static about rows from all atoms."""

    range: float = eqx.field(static=True)  # cutoff + skin
    cutoff: float = eqx.field(static=True)
    periodic: bool = eqx.field(static=True)
    reach: tuple[int, ...] | None = eqx.field(static=True)  # images in each direction; None: the nearest of each atom
    dimensions: int = eqx.field(static=True)
    row: int = eqx.field(static=True)

    @property
    def images(self) -> tuple[tuple[int, ...], ...]:
        """Lattice vectors to add to a neighbour, in the order of their numbers."""
        spans = (1,) * self.dimensions if self.reach is None else self.reach
        return tuple(itertools.product(*(range(-k, k + 1) for k in spans)))

    def fits(self, need: SpareListNeed) -> Bool[Array, ""]:
        return (need.row <= self.row) & self._reaches(need.plane_distances)

    def _reaches(self, plane_distances: Array) -> Bool[Array, ""]:
        if not self.periodic:
            return jnp.array(True)
        if self.reach is None:
            return plane_distances.min() >= 2 * self.range
        return (plane_distances * jnp.asarray(self.reach, plane_distances.dtype) >= self.range).all()

    def grown(self, need: SpareListNeed) -> "SpareListPlan":
        row = max(self.row, ROOM * int(need.row))
        distances = np.asarray(need.plane_distances, float)
        return _planned(self.range, self.cutoff, self.periodic, distances, row)

    def trimmed(self, need: SpareListNeed) -> "SpareListPlan":
        return self


def spare_list_plan(lists: AtomListPlan, cutoff: float, thinnest: np.ndarray, atoms: int) -> SpareListPlan:
    """Rows for what `lists` have no room for, in cells down to these distances between planes."""
    plan = _planned(lists.range, cutoff, lists.periodic, thinnest, ROOM * lists.row)
    count = 1 if plan.reach is None else len(plan.images)
    return _planned(lists.range, cutoff, lists.periodic, thinnest, max(min(ROOM * lists.row, count * atoms - 1), 1))


def _planned(reach: float, cutoff: float, periodic: bool, thinnest: np.ndarray, row: int) -> SpareListPlan:
    spans = None
    if periodic and thinnest.min() < 2 * reach:
        spans = tuple(math.ceil(reach / distance) for distance in thinnest.tolist())
    return SpareListPlan(reach, cutoff, periodic, spans, len(thinnest), row)


class Found(NamedTuple):
    """Neighbours of every atom: their images, a mask of the places, and the places that the fullest row needs."""

    neighbour: Int[Array, "atoms row"]
    image: Int[Array, "atoms row"]
    listed: Bool[Array, "atoms row"]
    most: Int[Array, ""]


def found_rows(plan: SpareListPlan, x: Array, vectors: Array, real: Array | None, reach: float) -> Found:
    """The neighbours nearer than `reach` of atoms that stand in the cell, or as near to it as half a skin."""
    x, vectors = lax.stop_gradient((x, vectors))
    atoms, d = x.shape
    images = jnp.zeros((1, d), x.dtype) if plan.reach is None else jnp.asarray(plan.images, x.dtype)
    each = [(images @ vectors[:, c])[:, None] + x[:, c][None] for c in range(d)]
    each = [a.reshape(1, -1) for a in each]
    count = each[0].shape[1]
    size = min(max(PAIRS // count, 1), atoms)
    turns = -(-atoms // size)
    everyone = jnp.arange(count, dtype=jnp.int32)[None]

    def block(own: Array) -> tuple[Array, ...]:
        apart = [a - x[:, c][own][:, None] for c, a in enumerate(each)]
        number = jnp.zeros((), jnp.int32)
        if plan.periodic and plan.reach is None:
            held = inverse(vectors)
            image = [-jnp.round(sum(apart[c] * held[c, k] for c in range(d))) for k in range(d)]
            apart = [apart[c] + sum(image[k] * vectors[k, c] for k in range(d)) for c in range(d)]
            number = image_number(jnp.stack(image, axis=-1).astype(jnp.int32), (1,) * d)
        near = (sum(a * a for a in apart) < reach**2) & (everyone != own[:, None] + len(images) // 2 * atoms)
        if real is not None:
            near = near & real[own][:, None] & jnp.tile(real, len(images))[None]
        listed, entry, most = compacted(near, plan.row)
        if plan.reach is not None:
            number, entry = entry // atoms, entry % atoms
        elif plan.periodic:
            number = jnp.take_along_axis(number, entry, axis=1)
        else:
            number = jnp.full_like(entry, len(plan.images) // 2)
        # An empty place holds the atom itself.
        return jnp.where(listed, entry, own[:, None]), jnp.where(listed, number, 0), listed, most

    rows = jnp.minimum(jnp.arange(turns * size, dtype=jnp.int32), atoms - 1).reshape(turns, size)
    neighbour, image, listed, most = lax.map(block, rows)
    neighbour, image, listed = (a.reshape(turns * size, -1)[:atoms] for a in (neighbour, image, listed))
    return Found(neighbour, image, listed, most.max())


def spare_need(
    plan: SpareListPlan, space: Space, lists: AtomLists, x: Array, real: Array | None, lost: Array
) -> SpareListNeed:
    """The room that all atoms need as rows where lists have none; nothing is counted elsewhere."""
    vectors = space.vectors().astype(x.dtype)
    inside = x - lists.wrap.astype(x.dtype) @ vectors if plan.periodic else x
    count = lambda: varying_like(found_rows(plan, inside, vectors, real, plan.range).most, (inside, lost))
    most = lax.cond(greatest(lost), count, lambda: varying_like(jnp.zeros((), jnp.int32), (inside, lost)))
    return SpareListNeed(jnp.where(lost, most, 0), space.plane_distances().astype(x.dtype))


class RoomySweep(Sweep):
    """A sweep on lists, and the same on rows from all atoms where the lists have no room."""

    listed: Sweep
    spare: Sweep  # knows the images of the rows
    plan: SpareListPlan = eqx.field(static=True)

    def __call__(
        self, wanted: Wanted, fixed: PyTree, point: Point, direction: Point | None = None
    ) -> tuple[Array, Point]:
        everything = fixed, point, direction
        point, direction = varying_like(point, everything), varying_like(direction, everything)
        usual = self.listed(wanted, fixed, point, direction)

        def instead() -> tuple[Array, Point]:
            rows = found_rows(self.plan, point.position, point.vectors, fixed.real, self.plan.cutoff)
            lists = fixed.lists._replace(neighbour=rows.neighbour, image=rows.image, listed=rows.listed)
            return self.spare(wanted, fixed._replace(lists=lists), point, direction)

        # A branch that no member of a batch needs is not computed.
        found = lax.cond(greatest(fixed.lost), instead, lambda: jax.tree.map(jnp.zeros_like, usual))
        return jax.tree.map(lambda a, b: jnp.where(fixed.lost, b, a), usual, found)
