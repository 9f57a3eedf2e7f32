"""All pairs a few rows at a time: what stands in for a list that has no room for them.

It needs no capacities, so that nothing can overflow, and memory that does not grow with the square of the atoms. It runs in a
branch that is taken only where a list was too small.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int

from ...core import greatest
from ..space._space import inverse
from ._all_pairs import DensePlan
from ._dense_sweep import nearest_images
from ._derivative_rule import Sweep
from ._exclusions import kept_pairs
from ._manual import varying_like
from ._pair_sums import Marks, Point, Wanted, along, pair_sums, species_rows

PAIRS = 2**14
"""Number of pairs that are evaluated together."""


class Spared(NamedTuple):
    """Operands without a derivative: whether the sum is needed, species, and exclusions."""

    lost: Bool[Array, ""]
    species: Int[Array, " atoms"] | None
    partners: Int[Array, "atoms most"] | None
    real: Bool[Array, " atoms"] | None  # which rows are atoms, where some are padding


class SpareSweep(Sweep):
    """Sum over all pairs of atoms after an overflow of their list, else over none. The point has the positions of the atoms."""

    plan: DensePlan = eqx.field(static=True)
    kinds: int | None = eqx.field(static=True)  # species that parameters depend on

    def __call__(
        self, wanted: Wanted, fixed: Spared, point: Point, direction: Point | None = None
    ) -> tuple[Array, Point]:
        everything = fixed, point, direction
        point, direction = varying_like(point, everything), varying_like(direction, everything)
        summed = lambda: along(lambda p: _summed(self, wanted, fixed, p), point, direction)
        nothing = jax.tree.map(jnp.zeros_like, (point.position[0, 0], point))
        # A branch that no member of a batch needs is not computed; of one that some need, the others take nothing.
        found = lax.cond(greatest(fixed.lost), summed, lambda: nothing)
        return jax.tree.map(lambda a: jnp.where(fixed.lost, a, 0), found)


class _Totals(NamedTuple):
    energy: Array
    by: Point


def _summed(sweep: SpareSweep, wanted: Wanted, fixed: Spared, point: Point) -> tuple[Array, Point]:
    """Each ordered pair with weight 1/2, so that the rows of one side have half the gradient."""
    atoms, dtype, plan = point.position.shape[0], point.position.dtype, sweep.plan
    size = min(max(PAIRS // atoms, 1), atoms)
    inward = None
    if plan.periodic:
        inward = lax.stop_gradient(jnp.floor(point.position @ inverse(point.vectors)))
    inside = point.position if inward is None else point.position - inward @ point.vectors
    rows = None
    if sweep.kinds is not None and fixed.species is not None:
        rows = species_rows(fixed.species[None, None], sweep.kinds, dtype)
    components = [inside[:, c] for c in range(3)]
    held = lax.stop_gradient(point.vectors)

    def body(totals: _Totals, turn: tuple[Array, Array]) -> tuple[_Totals, None]:
        first, image = turn
        begin = jnp.minimum(first, atoms - size)  # the last rows go over some atoms again, for nothing
        own = begin + jnp.arange(size, dtype=jnp.int32)
        cut = lambda a: lax.dynamic_slice_in_dim(a, begin, size, a.ndim - 1)
        d = [cut(x)[None, :] - x[:, None] for x in components]  # (all, own)
        images = [image[k] for k in range(3)]
        if plan.images is None:
            images = nearest_images(plan, lax.stop_gradient(d), held)
        if plan.periodic:
            d = [d[c] - sum(images[k] * point.vectors[k, c] for k in range(3)) for c in range(3)]
        weight = jnp.where(own >= first, jnp.asarray(0.5, dtype), 0)[None]
        counted = None if fixed.partners is None else kept_pairs(fixed.partners[None], own[None])
        if fixed.real is not None:
            both = (fixed.real[:, None] & cut(fixed.real)[None])[None]
            counted = both if counted is None else counted & both
        marks = Marks(weight, rows, None if rows is None else cut(rows), counted)
        charge = point.charge
        products = None if charge is None else charge[None, :, None] * cut(charge)[None, None, :]
        found = pair_sums(wanted, point.terms, (d[0] * d[0] + d[1] * d[1] + d[2] * d[2])[None], marks, products)
        by = totals.by
        position, vectors = by.position, by.vectors
        if wanted != "energy":
            slopes = [found.force[0] * a for a in d]
            position = position.at[own].add(2 * jnp.stack([jnp.sum(a, axis=0) for a in slopes], axis=1))
            if wanted == "gradient" and plan.periodic:
                vectors = vectors - jnp.stack([jnp.stack([jnp.sum(k * a) for a in slopes]) for k in images])
        if charge is not None and found.potential is not None:
            charge = by.charge.at[own].add(2 * charge @ found.potential[0])
        elif charge is not None:
            charge = by.charge
        terms = jax.tree.map(jnp.add, by.terms, found.terms)
        return _Totals(totals.energy + found.energy[0], Point(terms, vectors, position, charge)), None

    images = np.zeros((1, 3)) if plan.images is None else np.asarray(plan.images, float)
    firsts = np.arange(0, atoms, size)
    turns = jnp.asarray(np.tile(firsts, len(images)), jnp.int32), jnp.asarray(images.repeat(len(firsts), axis=0), dtype)
    zero = _Totals(jnp.zeros_like(point.position[0, 0]), jax.tree.map(jnp.zeros_like, point))
    totals, _ = lax.scan(body, zero, turns)
    by = totals.by
    if inward is not None:
        by = by._replace(vectors=by.vectors - inward.T @ by.position)
    return totals.energy, by
