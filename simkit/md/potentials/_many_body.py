"""The family of potentials that are not sums over pairs."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Bool, Float, Int

from ._potential import Potential
from ._surroundings import taken


class ManyBodyPotential(Potential):
    r"""Any energy of the atoms, a function of what surrounds them: $U = U(\{x\}, h, \{q\})$ of positions, cell and charges.

    A subclass writes the energy; forces, stresses and all further derivatives follow from it by automatic differentiation.
    """

    cutoff: AbstractVar[float | None]
    """Static: the distance from which atoms do not see each other. None where no list of neighbours is needed."""

    @property
    def charged(self) -> bool:
        """Tell whether atoms must have charges; by default not."""
        return False

    @property
    def species_count(self) -> int | None:
        """Number of species with parameters; by default None, for species that do not matter."""
        return None

    @abc.abstractmethod
    def energy(self, view: "AtomView") -> Float[Array, ""]:
        """The energy, a function of the floats of `self` and of `view` that is finite at every distance up to the cutoff."""


class AtomicPotential(ManyBodyPotential):
    r"""A sum over atoms, $U = \sum_i u_i$, in which each sees its own neighbours only and reads no charge.

    `cutoff` is a number. Forces are summed a few atoms at a time, so that what is in between stays in the fastest memory: several
    times faster than the same energy written as a `ManyBodyPotential`.
    """

    def energy(self, view: "AtomView") -> Float[Array, ""]:
        return jnp.sum(self.atom_energies(view))

    @abc.abstractmethod
    def atom_energies(self, view: "AtomView") -> Float[Array, " rows"]:
        """The energies of the atoms whose rows the view has: some of all, whose own values are `view.own(values)`."""


class AtomView(eqx.Module):
    r"""Quantities on which an energy may depend.

    - `space`: the space, differentiable by the cell; a periodic one comes as `Triclinic`, whatever it is.
    - `position`: shape (atoms, d), unwrapped.
    - `species`, `charge`: one an atom, or None.

    For potentials with a cutoff, over `row` places for the neighbours of each atom:

    - `index`: shape (atoms, row), which atom it is. Empty places hold the atom itself.
    - `mask`: whether there is a neighbour nearer than the cutoff.
    - `displacement`: shape (atoms, row, d), from the atom to the image of the neighbour. Where `mask` is False it is as long as the
        cutoff and does not depend on anything, so that no function of it need be finite elsewhere.
    - `components`: its d components, each of shape (atoms, row). Energies written with these are several times faster on a
        processor than with `displacement`, whose last axis is short.
    - `distance`: its length.

    - `real`: which of the atoms are, shape (atoms,), where some are padding that has neither neighbours nor charge; None where all
        are. An energy that an atom has without neighbours is to be masked by it.

    In an `AtomicPotential` the rows are those of some atoms, and there are neither space, nor positions, nor charges.
    """

    space: Any
    position: Any
    species: Int[Array, " atoms"] | None
    charge: Float[Array, " atoms"] | None
    index: Any = None
    mask: Any = None
    components: Any = None
    distance: Any = None
    rows: Any = None
    real: Bool[Array, " atoms"] | None = None

    @property
    def displacement(self) -> Float[Array, "atoms row d"]:
        return jnp.stack(self.components, axis=-1)

    def own(self, values: Array) -> Array:
        """Select from values of all atoms those of the rows: all of them, but in an `AtomicPotential`."""
        return values if self.rows is None else taken(values, self.rows)

    def present(self, terms: Array, atoms: Int[Array, "terms size"]) -> Array:
        """Keep the terms whose atoms all exist; 0 for the others."""
        return terms if self.real is None else jnp.where(self.real[atoms].all(axis=1), terms, 0)

    def gather(self, values: Array) -> Array:
        """The values of the neighbours, (atoms, row, ...), of values of the atoms, (atoms, ...)."""
        return taken(values, self.index)
