"""The energy of a potential, its forces and its virial on the neighbours that a plan found."""

from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ..potentials._pair_terms import PairTerm, at_tables, pair_terms, species_count_of
from ..potentials._potential import PairPotential, Potential
from ..potentials._terms import Terms, terms_of
from ..space._boxes import Boxes, boxes_of, of_row
from ..space._space import Space, times
from ._box_sums import box_ends, box_virial
from ._brick import flat, lattice, solid
from ._derivative_rule import Sweep, energy_and_gradient, position_gradient, swept_energy
from ._many_sweep import many_sweeps
from ._neighbours import NeighbourPlan, Neighbours
from ._pair_sums import Point
from ._pair_sweep import PairSweep
from ._spare_sweep import Spared, SpareSweep

Species = Int[Array, " atoms"] | None
Charge = Float[Array, " atoms"] | None


class Gradients(NamedTuple):
    r"""Energy; forces $-\partial U / \partial x$; and the virial $\partial U / \partial \epsilon$ of a deformation
    $x \to (1 + \epsilon) x$ of atoms and cell: the stress times the volume, without the kinetic part. Energy and virial are one a
    cell in `Boxes`."""

    energy: Float[Array, "*boxes"]
    forces: Float[Array, "atoms d"]
    virial: Float[Array, "*boxes d d"]


def energy(
    potential: Potential,
    space: Space,
    position: Float[Array, "atoms d"],
    neighbours: Neighbours,
    plan: NeighbourPlan,
    *,
    species: Species = None,
    charge: Charge = None,
) -> Float[Array, "*boxes"]:
    """The potential energy; differentiable by potential, space, position and charge, forward and reverse, to any order."""
    charge, terms = _charged(charge, neighbours), terms_of(potential)
    if isinstance(space, Boxes):
        ends, _ = box_ends(terms, space, position, species, charge)
        ((sweep, fixed, point),) = _read(terms, space, position, neighbours, plan, species, charge)
        return ends + energy_and_gradient(sweep, fixed, point)[1].weight
    found, _ = _beyond_pairs(terms.pairs, space, position, species, charge, neighbours.real)
    for part in _read(terms, space, position, neighbours, plan, species, charge):
        found = found + swept_energy(*part)
    return found


def forces(
    potential: Potential,
    space: Space,
    position: Float[Array, "atoms d"],
    neighbours: Neighbours,
    plan: NeighbourPlan,
    *,
    species: Species = None,
    charge: Charge = None,
) -> Float[Array, "atoms d"]:
    """The forces, from one sweep that sums nothing else; differentiable like the energy."""
    charge, terms = _charged(charge, neighbours), terms_of(potential)
    found = jnp.zeros_like(position)
    for sweep, fixed, point in _read(terms, space, position, neighbours, plan, species, charge):
        slopes = position_gradient(sweep, fixed, point)
        if isinstance(sweep, PairSweep):
            slopes = _atoms(slopes, neighbours, plan)
        if isinstance(sweep, PairSweep | SpareSweep):
            slopes = flat(slopes, space.dimensions)
        found = found - slopes
    return found


def gradients(
    potential: Potential,
    space: Space,
    position: Float[Array, "atoms d"],
    neighbours: Neighbours,
    plan: NeighbourPlan,
    *,
    species: Species = None,
    charge: Charge = None,
) -> Gradients:
    """Energy, forces and virial from one sweep; differentiable like the energy."""
    d = space.dimensions
    charge, terms = _charged(charge, neighbours), terms_of(potential)
    if isinstance(space, Boxes):
        return _gradients_of_boxes(terms, space, position, neighbours, plan, species, charge)
    total, tail = _beyond_pairs(terms.pairs, space, position, species, charge, neighbours.real)
    force, virial = jnp.zeros_like(position), tail * jnp.eye(d, dtype=position.dtype)
    for sweep, fixed, point in _read(terms, space, position, neighbours, plan, species, charge):
        found, by = energy_and_gradient(sweep, fixed, point)
        slopes, inside, deformed = by.position, point.position, by.vectors.T @ point.vectors
        if isinstance(sweep, SpareSweep):
            slopes, inside = flat(slopes, d), flat(inside, d)
            deformed = flat(flat(deformed, d).T, d).T
        if isinstance(sweep, PairSweep):
            slopes = flat(_atoms(slopes, neighbours, plan), d)
            # Wrapped positions: the sum over atoms of slope and position cancels badly when they are far from the cell.
            inside = flat(_wrapped(space, position, neighbours, plan), d)
            deformed = flat(flat(deformed, d).T, d).T
        total, force, virial = total + found, force - slopes, virial + slopes.T @ inside + deformed
    return Gradients(total, force, virial)


def _gradients_of_boxes(
    terms: Terms,
    space: Boxes,
    position: Array,
    neighbours: Neighbours,
    plan: NeighbourPlan,
    species: Species,
    charge: Charge,
) -> Gradients:
    d = space.dimensions
    total, tail = box_ends(terms, space, position, species, charge)
    ((sweep, fixed, point),) = _read(terms, space, position, neighbours, plan, species, charge)
    by = energy_and_gradient(sweep, fixed, point)[1]
    slopes = flat(_atoms(by.position, neighbours, plan), d)
    inside = flat(_wrapped(space, position, neighbours, plan), d)
    virial = tail[:, None, None] * jnp.eye(d, dtype=position.dtype)[None]
    return Gradients(total + by.weight, -slopes, virial + box_virial(space, slopes, inside, by, point))


def _read(
    terms: Terms,
    space: Space,
    position: Array,
    neighbours: Neighbours,
    plan: NeighbourPlan,
    species: Species,
    charge: Charge,
) -> list[tuple[Sweep, Any, Point]]:
    """The sweeps, checked: what they go over, and what they are differentiable by."""
    ready = pair_terms(terms.pairs)
    count = _checked(terms, species_count_of(ready), species, charge, neighbours)
    found: list[tuple[Sweep, Any, Point]] = []
    if plan.pairs is not None and terms.pairs:
        point = _point(ready, space, position, charge, neighbours, plan)
        rows = _species_rows(count, species, neighbours, plan)
        found.append((PairSweep(plan.pairs), (neighbours.pairs, rows), point))
        if plan.spare is not None and neighbours.lost is not None:
            # Positions one an atom, where those of clusters may have no place for some; not wrapped, so that a step that needs
            # them not makes nothing of them.
            charges = None if charge is None else charge.astype(position.dtype)
            apart = point._replace(position=solid(position), charge=charges)
            fixed = Spared(neighbours.lost, species, plan.partners, neighbours.real)
            found.append((SpareSweep(plan.spare, count), fixed, apart))
    return found + many_sweeps(terms, space, position, neighbours, plan, species, charge)


def _point(
    ready: tuple[PairTerm, ...],
    space: Space,
    position: Array,
    charge: Charge,
    neighbours: Neighbours,
    plan: NeighbourPlan,
) -> Point:
    """The differentiable way from parameters, cell and atoms to what a sweep reads."""
    dtype = position.dtype
    terms = jax.tree.map(lambda a: a.astype(dtype), ready)
    wrapped = _wrapped(space, position, neighbours, plan)
    charge = None if charge is None else charge.astype(dtype)
    assert plan.pairs is not None
    wrapped = plan.pairs.laid_out(neighbours.pairs, wrapped)
    if charge is not None:
        charge = plan.pairs.laid_out(neighbours.pairs, charge)
    weight = jnp.ones(len(space.counts), dtype) if isinstance(space, Boxes) else None
    return Point(terms, lattice(space, position), wrapped, charge, weight)


def _wrapped(space: Space, position: Array, neighbours: Neighbours, plan: NeighbourPlan) -> Float[Array, "atoms 3"]:
    x = solid(position)
    if not space.periodic:
        return x
    vectors = lattice(space, position)
    assert plan.pairs is not None
    images = plan.pairs.wraps(neighbours.pairs, x, vectors)
    return x - times(images, of_row(vectors, boxes_of(space)))


def _atoms(rows: Array, neighbours: Neighbours, plan: NeighbourPlan) -> Float[Array, "atoms 3"]:
    assert plan.pairs is not None
    return plan.pairs.gathered(neighbours.pairs, rows, neighbours.real)


def _species_rows(count: int | None, species: Species, neighbours: Neighbours, plan: NeighbourPlan) -> Any:
    """Rows of zeros and a one for each atom, or None where no parameter depends on the species."""
    if count is None or species is None:
        return None
    assert plan.pairs is not None
    return plan.pairs.species_rows(neighbours.pairs, species, count)


def _beyond_pairs(
    pairs: tuple[PairPotential, ...],
    space: Space,
    position: Array,
    species: Species,
    charge: Charge,
    real: Array | None,
) -> tuple[Array, Array]:
    """Self-energies of charges and tails of pair potentials in a uniform fluid; and the virial of the tails in each direction.

    That virial moves the far pairs with the cell. It is not the derivative of the tail's energy at a fixed cutoff, through which
    pairs would pass.
    """
    total, virial = jnp.zeros((), position.dtype), jnp.zeros((), position.dtype)
    volume = space.volume().astype(position.dtype)
    for part in pairs:
        total = total + jnp.asarray(part.self_energy(charge), position.dtype)
        tail = part.truncation.tail(at_tables(part, part.coefficients()), part.cutoff, space.dimensions)
        if tail is not None and space.periodic:
            u, lever = (_uniform(a.astype(position.dtype), len(position), species, real) / volume for a in tail)
            total, virial = total + u, virial + lever
    return total, virial


def _uniform(table: Array, atoms: int, species: Species, real: Array | None) -> Array:
    """Half the sum over all pairs of species of their numbers and the table's entry."""
    if table.ndim == 0:
        count = atoms if real is None else jnp.sum(real).astype(table.dtype)
        return 0.5 * count**2 * table
    kinds = jnp.arange(len(table), dtype=jnp.int32)
    of_kind = _given(species)[:, None] == kinds[None]
    of_kind = of_kind if real is None else of_kind & real[:, None]
    numbers = jnp.sum(of_kind, axis=0).astype(table.dtype)
    return 0.5 * numbers @ table @ numbers


def _charged(charge: Charge, neighbours: Neighbours) -> Charge:
    """Set the charge of padding rows, which are no atoms, to zero."""
    return charge if charge is None or neighbours.real is None else jnp.where(neighbours.real, charge, 0)


def _checked(terms: Terms, count: int | None, species: Species, charge: Charge, neighbours: Neighbours) -> int | None:
    """The number of species of pair potentials, after refusal of what terms need and have not."""
    if charge is None and terms.charged:
        raise ArgumentError(
            "Argument `charge` must be given for a potential of charges, but is None. Give one charge an atom."
        )
    counts = {count, *(part.species_count for part in terms.many)} - {None}
    if species is None and counts:
        raise ArgumentError(
            "Argument `species` must be given for parameters by species, but is None. Give one whole number an atom."
        )
    lists = [neighbours.pairs] * bool(terms.pairs)
    lists += [neighbours.lists] * bool(terms.atomic or terms.listed)
    if any(part is None for part in lists):
        raise ArgumentError(
            "Argument `neighbours` must have the lists that the potential reads, but has not. Make them by "
            "`plan_neighbours(potential, ...)` of the same potential."
        )
    _check_counts(counts, species)
    return count


def check_species(potential: Potential, species: Species) -> None:
    """Refuse species without parameters, where they are known."""
    if species is None or isinstance(species, jax.core.Tracer):
        return
    _check_counts(terms_of(potential).species_counts(), species)


def _check_counts(counts: set[Any], species: Species) -> None:
    if species is None or isinstance(species, jax.core.Tracer):
        return
    for count in counts:
        outside = np.flatnonzero((np.asarray(species) < 0) | (np.asarray(species) >= count))
        if len(outside):
            atom = int(outside[0])
            raise ArgumentError(
                f"Argument `species` must be numbers from 0 to {count - 1}, as the potential has parameters for {count} species, "
                f"but atom {atom} (from 0) has {int(np.asarray(species).ravel()[atom])}. Give parameters for it."
            )


def _given(species: Species) -> Array:
    assert species is not None, "refused before"
    return species
