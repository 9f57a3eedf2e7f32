"""Potentials: what adds up to an energy, and the family of pair potentials."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Float, PyTree

from ..._registry import Registry
from ._truncation import Truncation

if TYPE_CHECKING:
    # A quantity's constructor takes any number and its field is an array; no annotation says both.
    Parameter: TypeAlias = Any
else:
    Parameter = Float[Array, "*species"]


class Potential(eqx.Module):
    """An energy of positions, as a pytree whose numbers are quantities. Potentials add with `+`."""

    @property
    @abc.abstractmethod
    def charged(self) -> bool:
        """Tell whether atoms must have charges."""

    def __add__(self, other: "Potential") -> "Sum":
        return Sum((*parts(self), *parts(other)))


POTENTIALS: Registry[type[Potential]] = Registry("potential", Potential, group="simkit.potentials")
"""Potentials by the names that study files give them, each declared beside its class."""


class Sum(Potential):
    """The sum of potentials; their numbers have paths such as `potential.terms.0.sigma`."""

    terms: tuple[Potential, ...]

    @property
    def charged(self) -> bool:
        return any(term.charged for term in self.terms)


def parts(potential: Potential) -> tuple[Potential, ...]:
    """The potentials of a sum, nested ones included; a potential that is no sum alone."""
    if isinstance(potential, Sum):
        return tuple(part for term in potential.terms for part in parts(term))
    return (potential,)


class PairPotential(Potential):
    r"""A sum over pairs of atoms, images included, $U = \sum_{i<j} u(r_{ij})$ for $r_{ij}$ below `cutoff`.

    A subclass gives its coefficients and the energy of one pair as a function of the squared distance. Parameters are numbers, or
    one number a species with a mixing rule, or a symmetric table (species, species).
    """

    cutoff: AbstractVar[float]
    """Static: the distance from which pairs do not interact."""
    truncation: AbstractVar[Truncation]
    """Truncation of the energy at the cutoff."""

    @property
    def charged(self) -> bool:
        """Tell whether atoms must have charges, by whose product the energy of a pair is multiplied; by default not."""
        return False

    @abc.abstractmethod
    def coefficients(self) -> Any:
        """A pytree of what `pair` needs: numbers, `BySpecies` tables, or arrays that all pairs share (a network's weights)."""

    @abc.abstractmethod
    def pair(self, r2: Float[Array, "..."], coefficients: PyTree) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Energy and its derivative by the squared distance, elementwise, without truncation.

        `coefficients` are those above with every table replaced by its values for these pairs. The method must use nothing of
        `self` but static fields. `with_slope` derives the second value from the first where no shorter formula is known.
        """

    def self_energy(self, charge: Float[Array, " atoms"] | None) -> Float[Array, ""] | float:
        """Return the energy of each charge with itself, summed; by default 0."""
        return 0.0


class BySpecies(eqx.Module):
    """A symmetric table of a coefficient over pairs of species."""

    table: Float[Array, "species species"]


def tabled(value: Array) -> Any:
    """A number as it is; a table marked as one."""
    return BySpecies(value) if value.ndim == 2 else value


def is_table(leaf: object) -> bool:
    return isinstance(leaf, BySpecies)


def with_slope(energy: Callable[[Array], Array], r2: Array) -> tuple[Array, Array]:
    """Value and derivative of an elementwise function of the squared distance."""
    return jax.jvp(energy, (r2,), (jnp.ones_like(r2),))


@jax.custom_jvp
def reciprocal(x: Array) -> Array:
    """1/x whose tangent reuses the quotient: a division costs more than the rest of a Lennard-Jones pair."""
    return 1 / x


@reciprocal.defjvp
def _reciprocal_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y = reciprocal(primals[0])
    return y, -(y * y) * tangents[0]
