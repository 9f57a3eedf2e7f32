"""The protocol of all ways to find neighbours: what a list must say of its capacities, and what one of all pairs must do."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Float

from ..space._space import Space
from ._pair_sums import Point, Wanted

Need = Any
"""The capacities that one build required: a named tuple of whole numbers, and of lengths of the cell, that `widest` combines."""
Found = Any
"""The result of a build: an Equinox module or a named tuple with its `need`."""


class ListPlan(eqx.Module):
    """Everything static about lists of one kind. Plans that compare equal share compiled programs."""

    @abc.abstractmethod
    def fits(self, need: Need) -> Bool[Array, ""]:
        """Tell whether the capacities of the plan hold what was needed; inside jit."""

    @abc.abstractmethod
    def grown(self, need: Need) -> "ListPlan":
        """A plan whose capacities hold `need`, too, with some slack; outside jit."""

    @abc.abstractmethod
    def trimmed(self, need: Need) -> "ListPlan":
        """A plan whose capacities just hold `need`, with some slack; outside jit."""


class PairPlan(ListPlan):
    """A way to go over all pairs within reach: how they are found, how atoms are laid out for the sweep, and the sweep.

    A new way is one subclass; `AllPairs` (no list) is the shortest. Positions have three components in a sweep, also in two
    dimensions. `found` is what `build` returned.
    """

    pair_dtype: eqx.AbstractVar[str]
    skewed: eqx.AbstractVar[bool]  # a cell that is not a brick

    @property
    @abc.abstractmethod
    def list_range(self) -> float | None:
        """Cutoff and skin, within which pairs are listed. None where nothing is remembered of the positions of the build."""

    @abc.abstractmethod
    def build(self, space: Space, position: Float[Array, "atoms d"], real: Array | None) -> Found:
        """The pairs at `position`; rows that are not `real` have none."""

    @abc.abstractmethod
    def void(self, space: Space, position: Float[Array, "atoms d"]) -> Bool[Array, ""]:
        """Tell whether the cell has become too thin for the plan, whatever the atoms did."""

    @abc.abstractmethod
    def without(self, found: Found, partners: Array) -> Found:
        """The same without the pairs of the atoms and their `partners`, shape (atoms, most)."""

    @abc.abstractmethod
    def emptied(self, found: Found, lost: Bool[Array, ""]) -> Found:
        """The same, without any pairs where they were `lost`, because the capacities did not hold them."""

    @abc.abstractmethod
    def wraps(self, found: Found, position: Float[Array, "atoms 3"], vectors: Array) -> Array:
        """Numbers of lattice vectors to subtract from each atom, (atoms, 3)."""

    @abc.abstractmethod
    def laid_out(self, found: Found, rows: Array) -> Array:
        """Vectors (atoms, 3) or numbers (atoms,) of the atoms in the order and shape in which the sweep reads them."""

    @abc.abstractmethod
    def gathered(self, found: Found, rows: Array, real: Array | None) -> Float[Array, "atoms 3"]:
        """Vectors of the atoms from the shape of the sweep."""

    @abc.abstractmethod
    def species_rows(self, found: Found, species: Array, count: int) -> Array:
        """Rows of zeros and a one for the species of each atom, (groups, species, atoms of a group)."""

    @abc.abstractmethod
    def sweep(
        self, wanted: Wanted, found: Found, species: Array | None, point: Point, direction: Point | None
    ) -> tuple[Array, Point]:
        """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it."""
