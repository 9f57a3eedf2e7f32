"""The family of potentials that are not sums over pairs."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Bool, Float, Int

from ..engine import paired
from ._potential import Potential
from ._space import Space


class ManyBodyPotential(Potential):
    r"""Any energy of the atoms, a function of what surrounds them: $U = U(\{x\}, h, \{q\})$ of positions, cell and charges.

    A subclass writes the energy; forces, stresses and all further derivatives follow from it by automatic differentiation.
    """

    cutoff: AbstractVar[float | None]
    """Static: the distance from which atoms do not see each other. None where no list of neighbours is needed."""

    @property
    @abc.abstractmethod
    def species_count(self) -> int | None:
        """How many species it has parameters for; None where species do not matter."""

    @abc.abstractmethod
    def energy(self, view: "AtomView") -> Float[Array, ""]:
        """The energy, a function of the floats of `self` and of `view` that is finite at every distance up to the cutoff."""


class Places(NamedTuple):
    """Where the neighbours stand in a padded list."""

    neighbour: Int[Array, "atoms row"]
    listed: Bool[Array, "atoms row"]
    twin: Int[Array, "atoms row"]


class AtomView(eqx.Module):
    r"""What an energy may depend on.

    - `space`: the space, differentiable by the cell; a periodic one comes as `Triclinic`, whatever it is.
    - `position`: shape (atoms, d), unwrapped.
    - `species`, `charge`: one an atom, or None.

    For potentials with a cutoff, over `row` places for the neighbours of each atom:

    - `index`: shape (atoms, row), which atom it is. Empty places hold the atom itself.
    - `mask`: whether there is a neighbour nearer than the cutoff.
    - `displacement`: shape (atoms, row, d), from the atom to the image of the neighbour. Where `mask` is False it is as long as the
        cutoff and does not depend on anything, so that no function of it need be finite elsewhere.
    - `distance`: its length.

    Without one these are None.
    """

    space: Space
    position: Float[Array, "atoms d"]
    species: Int[Array, " atoms"] | None
    charge: Float[Array, " atoms"] | None
    mask: Bool[Array, "atoms row"] | None = None
    displacement: Float[Array, "atoms row d"] | None = None
    distance: Float[Array, "atoms row"] | None = None
    places: Places | None = None

    @property
    def index(self) -> Int[Array, "atoms row"]:
        return self._places().neighbour

    def gather(self, values: Array) -> Array:
        """The values of the neighbours, (atoms, row, ...), of values of the atoms, (atoms, ...); 0 in empty places of floats."""
        return gathered(self._places(), values)

    def swap(self, values: Array) -> Array:
        """For values of places, (atoms, row, ...), those of the same pairs as the neighbours see them; 0 in empty places."""
        return swapped(self._places(), values)

    def _places(self) -> Places:
        assert self.places is not None, "a potential with a cutoff has lists"
        return self.places


def gathered(places: Places, values: Array) -> Array:
    """Values at the neighbours. The transpose sums over the twins, a gather again: scatters are several times slower."""
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        return values[places.neighbour]
    return paired(_gather, _spread, places, values)


def _gather(places: Places, values: Array) -> Array:
    return _where(places.listed, values[places.neighbour])


def _spread(places: Places, values: Array) -> Array:
    return _swap(places, values).sum(1)


def swapped(places: Places, values: Array) -> Array:
    """Values at the twins of places, its own transpose."""
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        return _swap(places, values)
    return paired(_swap, _swap, places, values)


def _swap(places: Places, values: Array) -> Array:
    return _where(places.listed, values.reshape(-1, *values.shape[2:])[places.twin])


def _where(listed: Array, values: Array) -> Array:
    return jnp.where(listed.reshape(*listed.shape, *[1] * (values.ndim - 2)), values, 0)
