"""The embedded-atom method, with densities by species or by pairs of species (Finnis and Sinclair)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import quantity
from ...stores import READERS, Reader
from ..files._eam_files import EAMTables, read_finnis_sinclair, read_funcfl, read_setfl
from ._cubic_table import cubics, found, polynomial
from ._many_body import AtomicPotential, AtomView


class EAM(AtomicPotential):
    r"""The embedded-atom method,

    $$U = \sum_i F_i\Big(\sum_{j \ne i} \rho_{ji}(r_{ij})\Big) + \sum_{i < j} \frac{z_{ij}(r_{ij})}{r_{ij}}$$

    Tables are joined by cubic polynomials, as LAMMPS joins them: energies of the two agree to rounding. A density beyond the last
    of its table goes on along a straight line, what lies beyond the last distance of its table stays as it is there.

    **Arguments:**

    - `embedding`: F, shape (species, densities), number k at the density `k * density_step`.
    - `density`: entry (j, i) is what an atom of species j adds to the density at an atom of species i, shape (species, species,
      distances), number k at the distance `k * distance_step`.
    - `pair`: z, the pair energy times the distance, of the shape of `density`; what counts is its symmetric part.
    - `density_step`, `distance_step`, `cutoff`: static.

    Files are read by `EAM.from_tables(read_setfl(path))`, or `read_finnis_sinclair`, or `mixed_tables` of several `read_funcfl`.

    **Raises:** an `ArgumentError` for tables that do not fit together.

    **Reference:** Daw & Baskes (1984), Physical Review B 29:6443, doi:10.1103/PhysRevB.29.6443; Finnis & Sinclair (1984),
    Philosophical Magazine A 50:45, doi:10.1080/01418618408244210.
    """

    embedding: Any = quantity(unit="energy", doc="embedding energy by density")
    density: Any = quantity(doc="density by distance")
    pair: Any = quantity(unit="energy * length", doc="pair energy times distance, by distance")
    density_step: float = eqx.field(static=True, converter=float, kw_only=True)
    distance_step: float = eqx.field(static=True, converter=float, kw_only=True)
    cutoff: float | None = eqx.field(static=True, converter=float, kw_only=True)

    def __check_init__(self):
        shapes = tuple(jnp.shape(a)[-k:] for a, k in ((self.embedding, 2), (self.density, 3), (self.pair, 3)))
        species = shapes[0][0]
        fits = shapes[1] == shapes[2] and shapes[1][:2] == (species, species) and min(shapes[0][1], shapes[1][2]) >= 5
        if not fits:
            raise ArgumentError(
                "Arguments `embedding`, `density` and `pair` must have the shapes (species, densities) and twice (species, "
                f"species, distances) with at least 5 of each, but have {shapes[0]}, {shapes[1]} and {shapes[2]}. Read a file with "
                "`EAM.from_tables(read_setfl(path))`."
            )

    @classmethod
    def from_tables(cls, tables: object) -> "EAM":
        """The potential of an `EAMTables` that a file held."""
        if not isinstance(tables, EAMTables):
            raise ArgumentError(
                f"Argument `tables` must be an `EAMTables`, but is a `{type(tables).__name__}`. Read the file with `read_setfl`, "
                "`read_finnis_sinclair` or `read_funcfl`, whichever its style is."
            )
        return cls(
            tables.embedding,
            tables.density,
            tables.pair,
            density_step=tables.density_step,
            distance_step=tables.distance_step,
            cutoff=tables.cutoff,
        )

    @property
    def species_count(self) -> int | None:
        return self.embedding.shape[0] if self.embedding.shape[0] > 1 else None

    def atom_energies(self, view: AtomView) -> Array:
        """The coefficients are looked up one by one in the loop that uses them: a table of what was found would be far larger."""
        count, knots = self.density.shape[0], self.density.shape[2]
        pair = (self.pair + self.pair.swapaxes(0, 1)) / 2
        place = view.distance * (1 / self.distance_step)
        knot = jnp.minimum(lax.stop_gradient(place).astype(jnp.int32), knots - 2)
        p = jnp.minimum(place - knot.astype(place.dtype), 1)
        if count > 1 and view.species is not None:
            knot = knot + (view.gather(view.species) * count + view.own(view.species)[:, None]) * knots
        density = jnp.where(view.mask, polynomial(found(cubics(self.density), knot), p), 0).sum(1)
        pairs = jnp.where(view.mask, polynomial(found(cubics(pair), knot), p) / view.distance, 0)
        return self._embedded(density, view) + 0.5 * jnp.sum(pairs, 1)

    def _embedded(self, density: Array, view: AtomView) -> Array:
        count, knots = self.embedding.shape
        place = density * (1 / self.density_step)
        knot = jnp.clip(lax.stop_gradient(place).astype(jnp.int32), 0, knots - 2)
        p = jnp.minimum(place - knot.astype(place.dtype), 1)
        if count > 1 and view.species is not None:
            knot = knot + view.own(view.species) * knots
        c = found(cubics(self.embedding), knot)
        beyond = jnp.maximum(place - (knots - 1), 0)
        return polynomial(c, p) + (3 * c[0] + 2 * c[1] + c[2]) * beyond


def _read_alloy(path: str | Path, elements: Sequence[str]) -> EAMTables:
    return _chosen(read_setfl(path), elements)


def _read_fs(path: str | Path, elements: Sequence[str]) -> EAMTables:
    return _chosen(read_finnis_sinclair(path), elements)


def _read_one(path: str | Path, elements: Sequence[str]) -> EAMTables:
    """The tables of a file of the style funcfl, which holds one element."""
    if len(elements) != 1:
        raise ArgumentError(
            f"Argument `elements` must be one name, since the file holds one element, but it is {list(elements)}."
        )
    return read_funcfl(path, elements[0])


def _chosen(tables: EAMTables, elements: Sequence[str]) -> EAMTables:
    """The tables of an EAM file, whose elements are the species in their order."""
    if tuple(elements) != tables.elements:
        raise ArgumentError(
            f"Argument `elements` must be those of the file in its order, {list(tables.elements)}, but it is {list(elements)}."
        )
    return tables


READERS.add("eam_alloy", Reader("potential", _read_alloy, EAM.from_tables))
READERS.add("eam_fs", Reader("potential", _read_fs, EAM.from_tables))
READERS.add("eam_funcfl", Reader("potential", _read_one, EAM.from_tables))
