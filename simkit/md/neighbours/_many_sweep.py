"""The sweep of potentials that are not sums over pairs: their energy, differentiated by JAX."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..potentials._formula_terms import FormulaTerms
from ..potentials._many_body import AtomView, ManyBodyPotential
from ..potentials._surroundings import Rows, components_of, seen
from ..potentials._terms import Terms
from ..space._space import OpenSpace, Space, Triclinic
from ._atom_lists import AtomLists
from ._atomic_sweep import AtomicSweep
from ._derivative_rule import Sweep
from ._lane_sweep import LaneSweep
from ._manual import varying_like
from ._neighbours import NeighbourPlan, Neighbours
from ._pair_sums import Point, Wanted, along
from ._spare_lists import RoomySweep


class Fixed(NamedTuple):
    """Operands without a derivative: lists (or None), species, and the integer arrays of potentials."""

    lists: AtomLists | None
    species: Any
    arrays: Any
    real: Any = None  # which rows are atoms, where some are padding
    lost: Any = None  # whether the lists have no room


class ManySweep(Sweep):
    """Sum over all potentials with lists, or over all without; positions of the point are wrapped as the lists say."""

    potentials: tuple[ManyBodyPotential, ...] = eqx.field(static=True)  # without their arrays
    periodic: bool = eqx.field(static=True)
    images: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # lattice vectors to add, by the numbers in the lists
    dtype: str | None = eqx.field(static=True)  # of distances and energies; by default that of the positions

    def __call__(
        self, wanted: Wanted, fixed: Fixed, point: Point, direction: Point | None = None
    ) -> tuple[Array, Point]:
        everything = fixed, point, direction
        point, direction = varying_like(point, everything), varying_like(direction, everything)
        if wanted == "energy" and direction is None:
            return self.energy(fixed, point), point
        found = self._force if wanted == "force" else self._gradient
        return along(lambda point: found(fixed, point), point, direction)

    def _force(self, fixed: Fixed, point: Point) -> tuple[Array, Point]:
        energy, slope = jax.value_and_grad(lambda x: self.energy(fixed, point._replace(position=x)))(point.position)
        return energy, Point(None, None, slope, None)

    def _gradient(self, fixed: Fixed, point: Point) -> tuple[Array, Point]:
        return jax.value_and_grad(lambda p: self.energy(fixed, p))(point)

    def energy(self, fixed: Fixed, point: Point) -> Array:
        total = jnp.zeros((), point.position.dtype)
        views: dict[float | None, AtomView] = {}
        for skeleton, floats, arrays in zip(self.potentials, point.terms, fixed.arrays, strict=True):
            cutoff = skeleton.cutoff
            if cutoff not in views:
                views[cutoff] = self._view(fixed, point, cutoff)
            potential = eqx.combine(self._cast(floats), arrays, skeleton)
            total = total + potential.energy(views[cutoff]).astype(total.dtype)
        return total

    def _cast(self, tree: PyTree) -> Any:
        return tree if self.dtype is None else jax.tree.map(lambda a: a.astype(self.dtype), tree)

    def _view(self, fixed: Fixed, point: Point, cutoff: float | None) -> AtomView:
        vectors, x = point.vectors, point.position
        space: Space = Triclinic(self._cast(vectors)) if self.periodic else OpenSpace(x.shape[1])
        charge = self._cast(point.charge)
        if fixed.lists is None or cutoff is None:
            return AtomView(space, self._cast(x), fixed.species, charge, real=fixed.real)
        lists = fixed.lists
        rows = Rows(lists.neighbour, lists.image, lists.listed)
        every = [x[:, c] for c in range(x.shape[1])]
        shifts, unwrapped = None, x
        if self.periodic:
            shifts = list((jnp.asarray(self.images, x.dtype) @ vectors).T)
            unwrapped = x + lists.wrap.astype(x.dtype) @ vectors
        apart = self._cast(components_of(rows, every, every, shifts))
        found = seen(lists.listed, apart, cutoff)
        return AtomView(space, self._cast(unwrapped), fixed.species, charge, lists.neighbour, *found, None, fixed.real)


def many_sweeps(
    terms: Terms,
    space: Space,
    position: Array,
    neighbours: Neighbours,
    plan: NeighbourPlan,
    species: Array | None,
    charge: Array | None,
) -> list[tuple[Sweep, Fixed, Point]]:
    """Sweep, what is fixed, and the differentiable way to the point, of each family of these potentials that there is."""
    found: list[tuple[Sweep, Fixed, Point]] = []
    lists, real = neighbours.lists, neighbours.real
    beside = not space.periodic and real is None
    laned = [part for part in terms.whole if beside and isinstance(part, FormulaTerms) and part.lanes]
    whole = [part for part in terms.whole if not any(part is other for other in laned)]
    for potentials in (terms.atomic, terms.listed, tuple(whole), tuple(laned)):
        if not potentials:
            continue
        floats, rest = eqx.partition(potentials, eqx.is_inexact_array)
        arrays, skeletons = eqx.partition(rest, eqx.is_array)
        kind, x = position.dtype, position
        sweep: Sweep = ManySweep(skeletons, space.periodic, (), None)
        if laned and potentials[0] is laned[0]:
            sweep = LaneSweep(skeletons)
        held = None
        if potentials[0].cutoff is not None:
            assert plan.lists is not None, "refused before"
            assert lists is not None, "refused before"
            kind_of = AtomicSweep if potentials is terms.atomic else ManySweep
            sweep, held = kind_of(skeletons, space.periodic, plan.lists.images, plan.lists.dtype), lists
            if plan.spare_lists is not None and neighbours.lost_lists is not None:
                spare = kind_of(skeletons, space.periodic, plan.spare_lists.images, plan.lists.dtype)
                sweep = RoomySweep(sweep, spare, plan.spare_lists)
            if space.periodic:
                x = x - lists.wrap.astype(kind) @ space.vectors().astype(kind)
        floats, vectors, charge = jax.tree.map(lambda a, kind=kind: a.astype(kind), (floats, space.vectors(), charge))
        found.append(
            (sweep, Fixed(held, species, arrays, real, neighbours.lost_lists), Point(floats, vectors, x, charge))
        )
    return found
