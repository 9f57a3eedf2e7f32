"""Parameters by triples of species."""

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ..files._three_body_files import ThreeBodyTable
from ._many_body import AtomicPotential, AtomView

if TYPE_CHECKING:
    Triples: TypeAlias = Any
else:
    Triples = Float[Array, "*species"]

Table: TypeAlias = ArrayLike | Sequence[Sequence[Sequence[float]]]
"""A number, or one for each triple of species, as a user writes it."""


class TriplePotential(AtomicPotential):
    """A potential whose parameters are numbers, or tables by triples of species."""

    @abc.abstractmethod
    def _numbers(self) -> tuple[Array, ...]:
        """The parameters that have to agree on the number of species."""

    def __check_init__(self):
        number_of_species(self._numbers())

    @property
    def species_count(self) -> int | None:
        return number_of_species(self._numbers())


def numbers_of_table(table: Any, names: tuple[str, ...], reader: str) -> list[np.ndarray]:
    """The numbers of a `ThreeBodyTable` that `reader` read, those of a single species as single numbers.

    **Raises:** an `ArgumentError` for another table.
    """
    check_table(table, names, reader)
    return [squeezed(table[name]) for name in names]


def number_of_species(numbers: tuple[Array, ...]) -> int | None:
    """Return the number of species of tables of triples; None where all are single numbers."""
    shapes = {jnp.shape(x) for x in numbers} - {()}
    if not shapes:
        return None
    sizes = {size for shape in shapes for size in shape}
    if len(sizes) > 1 or {len(shape) for shape in shapes} != {3}:
        raise ArgumentError(
            "Parameters must be numbers, or have the shape (species, species, species) of one number of species, but have the "
            f"shapes {sorted(shapes)}. Give one number for each triple, the atom in the middle first."
        )
    return sizes.pop()


def by_pair(numbers: tuple[Array, ...], view: AtomView) -> tuple[Array, ...]:
    """Numbers as they are; of tables the entries (i, j, j) for each place, from one look into all tables side by side."""
    count = number_of_species(numbers)
    if count is None or view.species is None:
        return numbers
    rows = jnp.stack([jnp.broadcast_to(x, (count,) * 3) for x in numbers], axis=-1)
    rows = rows[:, np.arange(count), np.arange(count)].reshape(count * count, -1)
    found = rows[view.own(view.species)[:, None] * count + view.gather(view.species)]
    return tuple(found[..., k] for k in range(len(numbers)))


def by_triple(numbers: tuple[Array, ...], view: AtomView) -> tuple[Array, ...]:
    """Numbers as they are; of tables the entries (i, j, k), shape (atoms, row of j, row of k)."""
    count = number_of_species(numbers)
    if count is None or view.species is None:
        return numbers
    rows = jnp.stack([jnp.broadcast_to(x, (count,) * 3) for x in numbers], axis=-1).reshape(count**3, -1)
    theirs = view.gather(view.species)
    found = rows[(view.own(view.species)[:, None] * count + theirs)[:, :, None] * count + theirs[:, None, :]]
    return tuple(found[..., k] for k in range(len(numbers)))


def squeezed(table: np.ndarray) -> np.ndarray:
    """A single number for a single species."""
    return table.reshape(()) if table.size == 1 else table


def check_table(table: object, names: tuple[str, ...], reader: str) -> None:
    if not isinstance(table, ThreeBodyTable) or set(table.values) != set(names):
        held = (
            f"one of {', '.join(table.values)}" if isinstance(table, ThreeBodyTable) else f"a `{type(table).__name__}`"
        )
        raise ArgumentError(f"Argument `table` must be a `ThreeBodyTable` of `{reader}`, but is {held}.")


def concrete_cutoff(given: float | None, found: Callable[[], Any]) -> float:
    """The cutoff given, or what the parameters say where they are known."""
    if given is not None:
        return float(given)
    try:
        return float(found())
    except jax.errors.TracerArrayConversionError as error:
        raise ArgumentError(
            "Argument `cutoff` must be given where the parameters are traced, as lists of neighbours rest on it. Make the "
            "potential outside the transformation, or give the largest cutoff that the parameters may reach."
        ) from error
