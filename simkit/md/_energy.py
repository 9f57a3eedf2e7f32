"""The energy of a potential, its forces and its virial on the neighbours that a plan found."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from .._errors import ArgumentError
from ._brick import flat, lattice, solid
from ._cluster_plan import ClusterPlan, M
from ._neighbours import NeighbourPlan, Neighbours
from ._pair_rule import energy_and_gradient, pair_energy, position_gradient
from ._pair_sums import Point
from ._pair_terms import at_tables, pair_potentials, pair_terms
from ._potential import Potential, is_table
from ._space import Space, inverse

Species = Int[Array, " atoms"] | None
Charge = Float[Array, " atoms"] | None


class Gradients(NamedTuple):
    r"""Energy; forces $-\partial U / \partial x$; and the virial $\partial U / \partial \epsilon$ of a deformation
    $x \to (1 + \epsilon) x$ of atoms and cell: the stress times the volume, without the kinetic part."""

    energy: Float[Array, ""]
    forces: Float[Array, "atoms d"]
    virial: Float[Array, "d d"]


def energy(
    potential: Potential,
    space: Space,
    position: Float[Array, "atoms d"],
    neighbours: Neighbours,
    plan: NeighbourPlan,
    *,
    species: Species = None,
    charge: Charge = None,
) -> Float[Array, ""]:
    """The potential energy; differentiable by potential, space, position and charge, forward and reverse, to any order."""
    point, rows = _read(potential, space, position, neighbours, plan, species, charge)
    beyond, _ = _beyond_pairs(potential, space, position, species, charge)
    return pair_energy(plan.pairs, neighbours.pairs, rows, point) + beyond


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
    point, rows = _read(potential, space, position, neighbours, plan, species, charge)
    gradient = position_gradient(plan.pairs, neighbours.pairs, rows, point)
    return -flat(_atoms(gradient, neighbours, plan), space.dimensions)


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
    point, rows = _read(potential, space, position, neighbours, plan, species, charge)
    found, by = energy_and_gradient(plan.pairs, neighbours.pairs, rows, point)
    slopes = _atoms(by.position, neighbours, plan)
    # Wrapped positions: the sum over atoms of slope and position cancels badly when they are far from the cell.
    inside = _wrapped(space, position, neighbours, plan)
    virial = slopes.T @ inside + by.vectors.T @ lattice(space, position)
    rest, tail = _beyond_pairs(potential, space, position, species, charge)
    d = space.dimensions
    isotropic = tail * jnp.eye(d, dtype=position.dtype)
    return Gradients(found + rest, -flat(slopes, d), flat(flat(virial, d).T, d).T + isotropic)


def _read(
    potential: Potential,
    space: Space,
    position: Array,
    neighbours: Neighbours,
    plan: NeighbourPlan,
    species: Species,
    charge: Charge,
) -> tuple[Point, Any]:
    """What a sweep reads, checked: what it is differentiable by, and the rows of the species."""
    _check(potential, position, species, charge)
    point = _point(potential, space, position, charge, neighbours, plan)
    return point, _species_rows(potential, species, position, neighbours, plan)


def _point(
    potential: Potential, space: Space, position: Array, charge: Charge, neighbours: Neighbours, plan: NeighbourPlan
) -> Point:
    """The differentiable way from parameters, cell and atoms to what a sweep reads."""
    dtype = position.dtype
    terms = jax.tree.map(lambda a: a.astype(dtype), pair_terms(potential))
    wrapped = _wrapped(space, position, neighbours, plan)
    charge = None if charge is None else charge.astype(dtype)
    if isinstance(plan.pairs, ClusterPlan):
        c = neighbours.pairs
        rows = jnp.concatenate([wrapped, wrapped[:1]])[c.atom].reshape(-1, M, 3) - c.centre[:, None]
        if charge is not None:
            charge = jnp.concatenate([charge, charge[:1]])[c.atom].reshape(-1, M)
        wrapped = rows.swapaxes(1, 2)
    return Point(terms, lattice(space, position), wrapped, charge)


def _wrapped(space: Space, position: Array, neighbours: Neighbours, plan: NeighbourPlan) -> Float[Array, "atoms 3"]:
    x = solid(position)
    if not space.periodic:
        return x
    vectors = lattice(space, position)
    if isinstance(plan.pairs, ClusterPlan):
        images = neighbours.pairs.wrap.astype(x.dtype)
    else:
        images = jnp.floor(lax.stop_gradient(x @ inverse(vectors)))
    return x - images @ vectors


def _atoms(rows: Array, neighbours: Neighbours, plan: NeighbourPlan) -> Float[Array, "atoms 3"]:
    if isinstance(plan.pairs, ClusterPlan):
        return rows.swapaxes(1, 2).reshape(-1, 3)[neighbours.pairs.slot]
    return rows


def _species_rows(
    potential: Potential, species: Species, position: Array, neighbours: Neighbours, plan: NeighbourPlan
) -> Any:
    """Rows of zeros and a one for each atom, or None where no parameter depends on the species."""
    count = _species_count(potential)
    if count is None or species is None:
        return None
    kinds = jnp.arange(count, dtype=jnp.int32)
    if isinstance(plan.pairs, ClusterPlan):
        padded = jnp.concatenate([species, species[:1]])[neighbours.pairs.atom].reshape(-1, 1, M)
        return (padded == kinds[None, :, None]).astype(plan.pairs.pair_dtype)
    return (species[None, None, :] == kinds[None, :, None]).astype(plan.pairs.pair_dtype)


def _species_count(potential: Potential) -> int | None:
    terms = [(term.coefficients, term.constants) for term in pair_terms(potential)]
    tables = [leaf for leaf in jax.tree.leaves(terms, is_leaf=is_table) if is_table(leaf)]
    counts = {len(leaf.table) for leaf in tables}
    if len(counts) > 1:
        raise ArgumentError(
            f"Argument `potential` must give parameters for one number of species, but gives them for {sorted(counts)}. "
            "Let all parameters have the same number of species, or be single numbers."
        )
    return counts.pop() if counts else None


def _beyond_pairs(
    potential: Potential, space: Space, position: Array, species: Species, charge: Charge
) -> tuple[Array, Array]:
    """Self-energies of charges and tails of pair potentials in a uniform fluid; and the virial of the tails in each direction.

    That virial moves the far pairs with the cell. It is not the derivative of the tail's energy at a fixed cutoff, through which
    pairs would pass.
    """
    total, virial = jnp.zeros((), position.dtype), jnp.zeros((), position.dtype)
    volume = space.volume().astype(position.dtype)
    for part in pair_potentials(potential):
        total = total + jnp.asarray(part.self_energy(charge), position.dtype)
        tail = part.truncation.tail(at_tables(part, part.coefficients()), part.cutoff, space.dimensions)
        if tail is not None and space.periodic:
            u, lever = (_uniform(a.astype(position.dtype), len(position), species) / volume for a in tail)
            total, virial = total + u, virial + lever
    return total, virial


def _uniform(table: Array, atoms: int, species: Species) -> Array:
    """Half the sum over all pairs of species of their numbers and the table's entry."""
    if table.ndim == 0:
        return 0.5 * atoms**2 * table
    kinds = jnp.arange(len(table), dtype=jnp.int32)
    numbers = jnp.sum(_given(species)[:, None] == kinds[None], axis=0).astype(table.dtype)
    return 0.5 * numbers @ table @ numbers


def _check(potential: Potential, position: Array, species: Species, charge: Charge) -> None:
    if charge is None and any(part.charged for part in pair_potentials(potential)):
        raise ArgumentError(
            "Argument `charge` must be given for a potential of charges, but is None. Give one charge an atom."
        )
    if species is None and _species_count(potential) is not None:
        raise ArgumentError(
            "Argument `species` must be given for parameters by species, but is None. Give one whole number an atom."
        )


def _given(species: Species) -> Array:
    assert species is not None, "refused before"
    return species
