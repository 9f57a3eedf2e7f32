"""Energies, forces and derivatives by parameters of a block of pairs whose squared distances are known."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from ..potentials._pair_terms import PairTerm, by_pair, parameter_gradient

Wanted: TypeAlias = Literal["energy", "force", "gradient"]
UNROLLED_SPECIES = 8


class Point(NamedTuple):
    """Everything the energy of the pairs depends on and is differentiable by; a gradient has the same form.

    A direction in which positions alone move has None for all else.
    """

    terms: Any  # a tuple of `PairTerm`
    vectors: Any  # shape (3, 3)
    position: Float[Array, "..."]
    charge: Any
    weight: Any = None  # of the energy of each cell, where there are several: the derivative by it is that energy


Found: TypeAlias = tuple[Array, Point]


def along(sweep: Callable[[Point], Found], point: Point, direction: Point | None) -> Found:
    """Return the result of a sweep at a point; with a direction its derivative: 0 and the Hessian times the direction."""
    if direction is None:
        return sweep(point)
    if direction.terms is None:
        move = lambda position: sweep(point._replace(position=position))
        return jax.jvp(move, (point.position,), (direction.position,))[1]
    return jax.jvp(sweep, (point,), (direction,))[1]


class Marks(NamedTuple):
    """Operands without a derivative. The species are one-hot rows, (units, species, atoms), or None."""

    weight: Float[Array, "units right"]
    species_x: Any
    species_y: Any
    counted: Any = None  # (units, left, right), False for pairs that are left out


def species_rows(
    species: Int[Array, "units 1 atoms"], count: int, dtype: DTypeLike
) -> Float[Array, "units species atoms"]:
    """Rows of zeros and a one for each atom."""
    return (species == jnp.arange(count, dtype=species.dtype)[None, :, None]).astype(dtype)


class PairSums(NamedTuple):
    energy: Float[Array, " units"]
    force: Float[Array, "units left right"]  # 2 du/d(r2), weighted; 0 beyond the cutoff
    potential: Any  # energy over the product of charges, weighted
    terms: tuple[PairTerm, ...]  # derivatives by coefficients and constants


def pair_sums(wanted: Wanted, terms: tuple[PairTerm, ...], r2: Array, marks: Marks, products: Array | None) -> PairSums:
    """Sum over pairs at `r2`, (units, left, right), where 0 marks an atom with itself. `products` are those of the charges."""
    reach = max(term.potential.cutoff for term in terms) ** 2
    near = (r2 > 0) & (r2 < reach)
    if marks.counted is not None:
        near = near & marks.counted
    # Beyond the cutoff any allowed distance serves, as its result is not used. What interacts is told by the distance alone from
    # here on: XLA:CPU would store which pairs do, and all of this is one loop.
    r2 = jnp.where(near, r2, reach)
    units, left, right = r2.shape

    def rows(a: Array) -> Array:
        # Along the last axis alone: a loop that writes rows of all pairs of a unit is not vectorised.
        return a.reshape(-1, right) @ jnp.ones(right, a.dtype)

    def total(a: Array) -> Array:
        return rows(a) @ jnp.ones(units * left, a.dtype)

    energy, force, potential, slopes = [], [], [], []
    for term in terms:
        inside = r2 < term.potential.cutoff**2
        values = by_pair((term.coefficients, term.constants), lambda table: _by_species(table, marks))
        u, slope = term.pair(r2, values)
        weight = marks.weight[:, None]
        if term.potential.charged:
            potential.append(jnp.where(inside, weight * u, 0))
            weight = weight * _given(products)

        # Masking the product and not the weight: XLA:CPU would store the weights of all pairs, which doubles the time.
        def masked(a: Array, inside: Array = inside, weight: Array = weight) -> Array:
            return jnp.where(inside, weight * a, 0)

        energy.append(masked(u))
        force.append(masked(2 * slope))
        if wanted == "gradient":
            slopes.append(parameter_gradient(term, r2, values, masked, total, lambda a: _by_pair_of_species(a, marks)))
        else:
            slopes.append(jax.tree.map(jnp.zeros_like, term))
    found = jnp.zeros(units, r2.dtype)
    if wanted != "force":
        found = rows(sum(energy[1:], energy[0])).reshape(units, left) @ jnp.ones(left, r2.dtype)
    charged = sum(potential[1:], potential[0]) if potential else None
    return PairSums(found, sum(force[1:], force[0]), charged, tuple(slopes))


def _given(products: Array | None) -> Array:
    assert products is not None, "charged potentials are refused without charges before any sweep"
    return products


def _by_species(table: Array, marks: Marks) -> Array:
    """The table's entry for each pair: products with rows of zeros and a one, since gathers of single numbers are slow."""
    if len(table) > UNROLLED_SPECIES:
        rows = jnp.einsum("st,nsi->nti", table, marks.species_x)
        return jnp.einsum("nti,ntj->nij", rows, marks.species_y)
    total = functools.partial(functools.reduce, jnp.add)
    kinds = range(len(table))
    # A product of matrices this small takes longer than the pairs that read it.
    rows = lax.optimization_barrier([total([table[s, t] * marks.species_x[:, s] for s in kinds]) for t in kinds])
    return total([rows[t][:, :, None] * marks.species_y[:, t, None, :] for t in kinds])


def _by_pair_of_species(a: Array, marks: Marks) -> Array:
    return jnp.einsum("nsi,nit->st", marks.species_x, jnp.einsum("nij,ntj->nit", a, marks.species_y))
