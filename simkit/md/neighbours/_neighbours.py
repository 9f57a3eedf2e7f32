"""Neighbours: a static plan outside jit, lists inside, and the energy of a potential on them.

Outside jit, at concrete positions::

    plan = plan_neighbours(potential, space, position, skin=0.3)      # static, hashable
    plan = plan.grown(need)                                           # after an overflow

inside jit, vmap, scan and shard_map::

    neighbours = plan.build(space, position)
    stale = plan.stale(neighbours, space, position)                   # an atom has moved too far, or the cell has changed too much
    fits = plan.fits(neighbours.need)                                 # False: energies are not to be trusted, grow the plan
    energy(potential, space, position, neighbours, plan, species=..., charge=...)
    forces(...); gradients(...) -> energy, forces and virial in one sweep

A run keeps the maximum of `need` by `widest(need, other)`; where `fits` is false somewhere it goes back to its last good state with
`plan.grown(need)`. A plan only grows. Plans that compare equal share compiled programs.

A list of pairs that has no room is left empty, and all pairs stand in for it (`SpareSweep`): slowly, but right, and with nothing
that could overflow. For padded lists rows made of all atoms do, with four times the room (`RoomySweep`). `plan.limited()` does
without both.
"""

import dataclasses
import math
from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..._errors import ArgumentError
from ...core import greatest
from ..potentials._potential import Potential
from ..potentials._terms import terms_of
from ..space._boxes import Boxes, boxes_of, of_row
from ..space._space import Space, Triclinic, inverse, times
from ._all_pairs import DensePlan, dense_plan
from ._atom_lists import AtomListPlan, AtomLists, build_lists, first_list_plan
from ._brick import brick
from ._clusters import first_plan
from ._dense_plan import DenseNeed
from ._exclusions import check_room, partner_table
from ._list_plan import ListPlan, PairPlan
from ._manual import varying_like
from ._newcomers import Moves, beyond, newcomers
from ._spare_lists import SpareListNeed, SpareListPlan, spare_list_plan, spare_need

Method: TypeAlias = Literal["automatic", "clusters", "dense"]
CHUNK, SMALL_CHUNK, FEW_ATOMS = 128, 64, 2000
ACCELERATOR_CHUNK = 2**17
"""Work units that are gone over together: fewer where what they take would be much beside the atoms."""
DENSE_ATOMS = 200
FAR = 1000.0
"""Reach of lists without a cutoff, in sizes of the start."""
THINNER = 0.8
"""All pairs stand in also where the cell has shrunk to this part."""


class NeighbourNeed(NamedTuple):
    """The room that pairs and padded lists need, None for what there is none of."""

    pairs: Any
    lists: Any
    spare: DenseNeed | None = None
    spare_lists: SpareListNeed | None = None


class Neighbours(eqx.Module):
    """Neighbours that a plan found at `position` in a cell with `vectors`; valid as long as `stale` is false."""

    pairs: Any
    lists: AtomLists | None
    position: Float[Array, "atoms d"]
    vectors: Float[Array, "*boxes d d"]
    spare: DenseNeed | None = None
    lost: Bool[Array, ""] | None = None  # whether there was no room for the pairs, so that all stand in for them
    real: Bool[Array, " atoms"] | None = None  # which rows are atoms, where some are padding
    spare_lists: SpareListNeed | None = None
    lost_lists: Bool[Array, ""] | None = None  # the same for the padded lists

    @property
    def need(self) -> NeighbourNeed:
        pairs, lists = (None if found is None else found.need for found in (self.pairs, self.lists))
        return NeighbourNeed(pairs, lists, self.spare, self.spare_lists)


class NeighbourPlan(eqx.Module):
    """Everything static about finding neighbours. Made by `plan_neighbours`."""

    cutoff: float = eqx.field(static=True)
    skin: float = eqx.field(static=True)
    pairs: PairPlan | None
    lists: AtomListPlan | None
    partners: Int[Array, "atoms most"] | None = None  # whom the sweep over pairs leaves out
    spare: DensePlan | None = None  # how all pairs are gone over where a list has no room for them
    spare_lists: SpareListPlan | None = None  # how rows are made of all atoms where padded lists have no room

    def build(self, space: Space, position: Float[Array, "atoms d"], real: Array | None = None) -> Neighbours:
        """The neighbours at `position`; inside jit. Rows that are not `real`, shape (atoms,), have none."""
        space, position = lax.stop_gradient((space, position))
        # What is no atom must not widen the cell of open space.
        inside = position if real is None else jnp.where(real[:, None], position, position[:1])
        pairs = lists = None
        if self.pairs is not None:
            pairs = self.pairs.build(space, inside, real)
            if self.partners is not None:
                pairs = self.pairs.without(pairs, self.partners)
        if self.lists is not None:
            lists = build_lists(self.lists, space, inside, real)
        spare = lost = spare_lists = lost_lists = None
        if self.lists is not None and self.spare_lists is not None:
            assert lists is not None
            lost_lists = ~self.lists.fits(lists.need) & jnp.isfinite(position).all()
            spare_lists = spare_need(self.spare_lists, space, lists, inside, real, lost_lists)
        if self.pairs is not None and self.spare is not None:
            spare = DenseNeed(space.plane_distances().astype(position.dtype))
            # A state that blew up needs nothing.
            lost = ~self.pairs.fits(pairs.need) & jnp.isfinite(position).all()  # type: ignore[union-attr]
            pairs = self.pairs.emptied(pairs, lost)
        vectors = space.vectors().astype(position.dtype)
        return Neighbours(pairs, lists, position, vectors, spare, lost, real, spare_lists, lost_lists)

    def fits(self, need: NeighbourNeed) -> Bool[Array, ""]:
        """Tell whether the capacities of the plan hold what was needed."""
        pairs, lists = (plan is None or plan.fits(part) for plan, part in self._each(need)[:2])
        if self.spare is not None and need.spare is not None:  # what was built without all pairs to stand in has none
            pairs = pairs | self.spare.fits(need.spare)
        if self.spare_lists is not None and need.spare_lists is not None:
            lists = lists | self.spare_lists.fits(need.spare_lists)
        return jnp.asarray(pairs) & lists

    def stale(self, neighbours: Neighbours, space: Space, position: Float[Array, "atoms d"]) -> Bool[Array, ""]:
        r"""Tell whether a pair outside the lists may have come within the cutoff.

        With the deformation F of the cell since the build, u the displacements of the atoms beyond it and s the smallest stretch of
        F, a pair that was at least cutoff + skin apart is now at least s (cutoff + skin) - 2 max |u| apart. Where atoms have moved
        farther in a cell that has not changed, the pairs that may have come within the cutoff are looked at (`newcomers`): the
        fastest of many atoms seldom meet. NaN is stale.
        """
        position = lax.stop_gradient(position)
        moved = position - neighbours.position
        void = jnp.array(False)
        if self.pairs is not None:
            void = self.pairs.void(space, position)
        ranges = (
            None if self.pairs is None else self.pairs.list_range,
            None if self.lists is None else self.lists.range,
        )
        ranges = tuple(part for part in ranges if part is not None)
        if not ranges:
            return void
        if neighbours.real is not None:
            moved = jnp.where(neighbours.real[:, None], moved, 0)
        far, still = beyond(moved, jnp.asarray(self.skin, position.dtype)), jnp.array(True)
        if space.periodic:
            vectors = lax.stop_gradient(space.vectors()).astype(position.dtype)
            still = (vectors == neighbours.vectors).all()
            deformed = lambda: _alike(self._deformed(neighbours, space, vectors, moved), (far, still))
            if jax.default_backend() == "cpu":
                far = lax.cond(greatest(~still), deformed, lambda: _alike(far, (far, still)))
            else:  # where a branch makes the host wait, which takes longer
                far = jnp.where(still, far, deformed())
        if boxes_of(space) is not None:  # in each cell its own
            return void | far
        moves = Moves(position, moved)
        look = lambda: _alike(newcomers(ranges, self.skin, lax.stop_gradient(space), moves, far), far)
        return void | lax.cond(greatest(far & still), look, lambda: _alike(far, far)) | (far & ~still)

    def _deformed(self, neighbours: Neighbours, space: Space, vectors: Array, moved: Array) -> Bool[Array, ""]:
        """Tell whether an atom has moved too far in a cell that has changed, or the cell has changed too much."""
        identity = jnp.eye(space.dimensions, dtype=vectors.dtype)

        def changed(before: Array, after: Array) -> tuple[Array, Array]:
            change = inverse(before) @ after - identity
            return change, self.skin - jnp.sqrt(jnp.sum(change**2)) * (self.cutoff + self.skin)

        of = boxes_of(space)
        change, room = (changed if of is None else jax.vmap(changed))(neighbours.vectors, vectors)
        dragged = times(neighbours.position, of_row(change, of))
        if neighbours.real is not None:
            dragged = jnp.where(neighbours.real[:, None], dragged, 0)
        return beyond(moved - dragged, of_row(room, of))

    def grown(self, need: NeighbourNeed) -> "NeighbourPlan":
        """A plan whose capacities hold `need`, too, with some slack; outside jit."""
        return self._with(
            [plan if plan is None or part is None else plan.grown(part) for plan, part in self._each(need)]
        )

    def trimmed(self, need: NeighbourNeed) -> "NeighbourPlan":
        """A plan whose capacities just hold `need` with some slack; outside jit."""
        return self._with(
            [plan if plan is None or part is None else plan.trimmed(part) for plan, part in self._each(need)]
        )

    def limited(self) -> "NeighbourPlan":
        """The plan without all atoms to stand in: where there is no room `fits` is false, and who asks makes more."""
        return dataclasses.replace(self, spare=None, spare_lists=None)

    def _each(self, need: NeighbourNeed) -> list[tuple[ListPlan | None, Any]]:
        return [
            (self.pairs, need.pairs),
            (self.lists, need.lists),
            (self.spare, need.spare),
            (self.spare_lists, need.spare_lists),
        ]

    def _with(self, plans: list[Any]) -> "NeighbourPlan":
        return dataclasses.replace(self, pairs=plans[0], lists=plans[1], spare=plans[2], spare_lists=plans[3])


def _alike(truth: Array, others: PyTree) -> Bool[Array, ""]:
    """Give values the varying mesh axes of `others`."""
    return varying_like(truth.astype(jnp.int32), others) > 0


def widest(need: NeighbourNeed, other: NeighbourNeed) -> NeighbourNeed:
    """Combine two requirements: the larger counts, and the thinner cell."""

    def wider(one: PyTree, other: PyTree) -> Any:
        if one is None:
            return None
        lengths = {"lengths", "plane_distances"}
        pairs = zip(one._fields, one, other, strict=True)
        return type(one)(*(jnp.minimum(a, b) if name in lengths else jnp.maximum(a, b) for name, a, b in pairs))

    return NeighbourNeed(*(wider(a, b) for a, b in zip(need, other, strict=True)))


def plan_neighbours(
    potential: Potential,
    space: Space,
    position: Float[Array, "atoms d"],
    *,
    skin: float = 0.3,
    method: Method = "automatic",
    precision: Literal["float32", "float64"] | None = None,
    exclusions: object = None,
    real: Array | None = None,
) -> NeighbourPlan:
    """Choose how to find the neighbours of a system like this one; outside jit.

    **Arguments:**

    - `potential`: the largest cutoff of its pair potentials decides, and that of its many-body potentials for padded lists.
    - `space`, `position`: one concrete configuration, as dense as any that will come.
    - `skin`: what atoms may move together before the list is built again, in the length unit. Larger skins are rebuilt less often
        and hold more pairs that do not interact.
    - `method`: "clusters" for a list, "dense" for all pairs, "automatic" to choose by size.
    - `precision`: float type of distances and pair energies; sums keep that of the positions. By default the positions' own.
    - `exclusions`: pairs of atoms that pair potentials leave out, (pairs, 2); the cell must then be wider than two cutoffs.
    - `real`: which rows are atoms, shape (atoms,), where some are padding.

    **Good values:** a skin of 0.3 diameters for a liquid, 0.1-0.2 of the cutoff elsewhere.
    """
    position = jnp.asarray(position)
    terms = terms_of(potential)
    _check(space, position, skin)
    between = [part.cutoff for part in terms.pairs]
    around = [part.cutoff for part in (*terms.atomic, *terms.listed) if part.cutoff is not None]
    dtype, skin = str(np.dtype(precision or position.dtype)), float(skin)
    pairs = _first(space, position, max(between), skin, method, dtype) if between else None
    lists = None
    if around:
        distances, lengths = np.asarray(space.plane_distances(), float), np.ptp(np.asarray(position, float), axis=0)
        lists = first_list_plan(lengths, distances, len(position), max(around) + skin, dtype)
    partners = None
    if exclusions is not None and between:
        partners = partner_table(exclusions, len(position))
        check_room(np.asarray(space.plane_distances(), float), max(between))
    spare, thinner = None, THINNER * np.asarray(space.plane_distances(), float)
    if between and not isinstance(space, Boxes):
        spare = dense_plan(thinner, max(between), space.periodic, True, dtype)
    plan = NeighbourPlan(max([*between, *around, 0.0]), skin, pairs, lists, partners)
    while True:
        need = jax.block_until_ready(_need(plan, space, position, real))
        if plan.fits(need):
            plan = dataclasses.replace(plan.trimmed(need), spare=spare)
            if plan.lists is None:
                return plan
            rows = spare_list_plan(plan.lists, max(around), thinner, len(position))
            return dataclasses.replace(plan, spare_lists=rows)
        plan = plan.grown(need)


@eqx.filter_jit
def _need(plan: NeighbourPlan, space: Space, position: Array, real: Array | None) -> Any:
    """Return the capacities that lists of this plan require; compiled once for all systems of one plan."""
    return plan.build(space, position, real).need


def _first(space: Space, position: Array, cutoff: float, skin: float, method: Method, dtype: str) -> PairPlan:
    if isinstance(space, Boxes):
        method, skewed, counts = "clusters", space.skewed, space.counts
    else:
        skewed, counts = isinstance(space, Triclinic), (len(position),)
    distances = np.asarray(space.plane_distances(), float)
    if method == "dense" or (method == "automatic" and len(position) <= DENSE_ATOMS and distances.min() >= 2 * cutoff):
        return dense_plan(distances, cutoff, space.periodic, skewed, dtype)
    if math.isinf(cutoff):  # all pairs, however far the atoms spread
        cutoff = FAR * max(float(np.max(np.ptp(np.asarray(position, float), axis=0))), skin)
    reach = cutoff + skin
    lengths = np.asarray(brick(space, position, (reach, reach, reach)).lengths, float)
    flat = space.dimensions == 2
    return first_plan(lengths.reshape(-1, 3), counts, reach, space.periodic, skewed, flat, _chunk(len(position)), dtype)


def _chunk(atoms: int) -> int:
    """Work units whose pairs are computed at once: so many as a core's cache holds, or enough to fill an accelerator."""
    if jax.default_backend() == "cpu":
        return SMALL_CHUNK if atoms < FEW_ATOMS else CHUNK
    return max(CHUNK, min(ACCELERATOR_CHUNK, 2 ** math.ceil(math.log2(atoms))))


def _check(space: Space, position: Array, skin: float) -> None:
    if position.ndim != 2 or position.shape[1] != space.dimensions or not len(position):
        raise ArgumentError(
            f"Argument `position` must have shape (atoms, {space.dimensions}) in this space, but has {position.shape}. "
            "Give one row for each atom."
        )
    if not bool(jnp.isfinite(position).all()):
        raise ArgumentError(
            "Argument `position` must be finite, but holds NaN or infinity. Look for overlapping atoms at the start."
        )
    if not skin > 0:
        raise ArgumentError(
            f"Argument `skin` must be positive, but is {skin}. 0.3 diameters are a good value for a liquid."
        )
