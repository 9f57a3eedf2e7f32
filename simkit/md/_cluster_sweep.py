"""One sweep over the work units of a cluster list: energy and gradient, or the Hessian times a direction."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from ._cluster_list import FAR, ClusterList
from ._cluster_plan import ClusterPlan, G, M
from ._pair_block import Sides, block_derivative, block_gradient
from ._pair_sums import Marks, Point, Wanted


class _Rows:
    """The tables from which a chunk of units takes its two sides, a row a cluster."""

    def __init__(self, plan: ClusterPlan, clusters: ClusterList, point: Point, far: float):
        count, dtype = clusters.centre.shape[0], jnp.dtype(plan.pair_dtype)
        real = (clusters.atom < clusters.slot.shape[0]).reshape(count, M)

        def rows(side: float) -> Array:
            filled = jnp.where(real[:, None], point.position, jnp.asarray(side, point.position.dtype))
            return filled.reshape(count, 3 * M).astype(dtype)

        self.real, self.plus, self.minus = real, rows(far), rows(-far)
        self.terms, self.vectors = jax.tree.map(lambda a: a.astype(dtype), (point.terms, point.vectors))
        self.charge = None if point.charge is None else jnp.where(real, point.charge, 0).astype(dtype)

    def sides(self, i: Array, j: Array, image: Array, base: Array | None) -> Sides:
        n = len(i)
        x, y = self.plus[i].reshape(n, 3, M), self.minus[j].reshape(n, G, 3, M)
        if self.vectors is not None:
            away = image.astype(self.plus.dtype) @ self.vectors
            y = y + (away if base is None else base + away)[..., None]
        # Computed once, not again inside the loops of its four readers.
        y = lax.optimization_barrier(y.swapaxes(1, 2).reshape(n, 3, G * M))
        if self.charge is None:
            return Sides(self.terms, x, y, None, None)
        return Sides(self.terms, x, y, self.charge[i], self.charge[j].reshape(n, G * M))


def sweep_clusters(
    plan: ClusterPlan, wanted: Wanted, clusters: ClusterList, species: Any, point: Point, direction: Point | None = None
) -> tuple[Array, Point]:
    """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it.

    `species` are rows of zeros and a one, (clusters, species, 8), or None. Of what is not `wanted` zeros come back.
    """
    chunk, count = plan.chunk, clusters.centre.shape[0]
    here = _Rows(plan, clusters, point, FAR * plan.range)
    there = None if direction is None else _Rows(plan, clusters, direction, 0.0)

    def body(carry: Any, unit: Any) -> tuple[Any, None]:
        rows, vectors, terms, charge, energy = carry
        i, j, image, base, weight, counted = unit
        marks = Marks(jnp.repeat(weight, M, axis=1), *_species_of(species, i, j), counted)
        sides = here.sides(i, j, image, base)
        if there is None:
            found, by = block_gradient(wanted, sides, marks)
            energy = energy + found.astype(energy.dtype)
        else:
            by = block_derivative(wanted, sides, marks, there.sides(i, j, image, None))
        back = by.y.reshape(chunk, 3, G, M).swapaxes(1, 2)
        if wanted != "energy":
            rows = rows.at[i].add(by.x.reshape(chunk, 3 * M).astype(rows.dtype))
            rows = rows.at[j.reshape(-1)].add(back.reshape(chunk * G, 3 * M).astype(rows.dtype))
        if wanted == "gradient":
            lever = jnp.einsum("ngcm,ngk->kc", back, image.astype(back.dtype))
            vectors = vectors + lever.astype(vectors.dtype)
            terms = jax.tree.map(lambda a, b: a + b.astype(a.dtype), terms, by.terms)
            if charge is not None and by.charge_x is not None:
                charge = charge.at[i].add(by.charge_x.astype(charge.dtype))
                charge = charge.at[j.reshape(-1)].add(by.charge_y.reshape(chunk * G, M).astype(charge.dtype))
        return (rows, vectors, terms, charge, energy), None

    c, start = clusters, point.position.reshape(count, 3 * M)
    carry = jax.tree.map(jnp.zeros_like, (start, point.vectors, point.terms, point.charge, start[0, 0]))
    units = (c.i, c.j, c.image, c.base, c.weight, c.counted)
    units = jax.tree.map(lambda a: a.reshape(-1, chunk, *a.shape[1:]), units)
    (rows, vectors, terms, charge, energy), _ = lax.scan(body, carry, units)
    position = jnp.where(here.real[:, None], rows.reshape(count, 3, M), 0)
    charge = None if charge is None else jnp.where(here.real, charge, 0)
    return energy, Point(terms, vectors, position, charge)


def _species_of(species: Any, i: Array, j: Array) -> tuple[Any, Any]:
    if species is None:
        return None, None
    theirs = species[j].swapaxes(1, 2)  # (units, species, G, 8)
    return species[i], theirs.reshape(theirs.shape[0], theirs.shape[1], G * M)
