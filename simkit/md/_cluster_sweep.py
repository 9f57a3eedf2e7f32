"""One sweep over the work units of a cluster list: energy and gradient, or the Hessian times a direction."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..engine import greatest
from ._cluster_list import FAR, ClusterList
from ._cluster_plan import ClusterPlan, G, M
from ._pair_block import Sides, block_derivative, block_gradient, with_row
from ._pair_sums import Marks, Point, Wanted


class _Rows:
    """The tables from which a chunk of units takes its two sides, a row a cluster; and how far each of its clusters j is moved."""

    def __init__(
        self, plan: ClusterPlan, clusters: ClusterList, point: Point, far: float, base: Array | None, one: float
    ):
        count, dtype = clusters.centre.shape[0], jnp.dtype(plan.pair_dtype)
        real = (clusters.atom < clusters.slot.shape[0]).reshape(count, M)

        def rows(side: float) -> Array:
            filled = jnp.where(real[:, None], point.position, jnp.asarray(side, point.position.dtype))
            return with_row(filled, one).reshape(count, 4 * M).astype(dtype)

        self.real, self.plus, self.minus = real, rows(far), rows(-far)
        self.terms, vectors = jax.tree.map(lambda a: a.astype(dtype), (point.terms, point.vectors))
        self.charge = None if point.charge is None else jnp.where(real, point.charge, 0).astype(dtype)
        self.shift = None if vectors is None else _shifts(clusters.image, vectors, base)

    def sides(self, i: Array, j: Array, shift: Array | None) -> Sides:
        n = len(i)
        x, y = self.plus[i].reshape(n, 4, M), self.minus[j].reshape(n, G, 4, M).swapaxes(1, 2)
        if shift is not None:
            y = y + shift[..., None]
        # Computed once, not again inside the loops of its four readers.
        y = lax.optimization_barrier(y.reshape(n, 4, G * M))
        if self.charge is None:
            return Sides(self.terms, x, y, None, None)
        return Sides(self.terms, x, y, self.charge[i], self.charge[j].reshape(n, G * M))


def _shifts(
    image: Int[Array, "units 3 G"], vectors: Float[Array, "3 3"], base: Float[Array, "units 3 G"] | None
) -> Float[Array, "units 4 G"]:
    """What is added to the rows of j, by component: a product with a matrix of nine numbers takes longer than what it is for."""
    a, b, c = (image[:, k].astype(vectors.dtype) for k in range(3))
    away = jnp.stack([a * vectors[0, k] + b * vectors[1, k] + c * vectors[2, k] for k in range(3)], axis=1)
    return with_row(away if base is None else base + away, 0.0)


def sweep_clusters(
    plan: ClusterPlan, wanted: Wanted, clusters: ClusterList, species: Any, point: Point, direction: Point | None = None
) -> tuple[Array, Point]:
    """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it.

    `species` are rows of zeros and a one, (clusters, species, 8), or None. Of what is not `wanted` zeros come back.
    """
    chunk, count = plan.chunk, clusters.centre.shape[0]
    here = _Rows(plan, clusters, point, FAR * plan.range, clusters.base, 1.0)
    there = None if direction is None else _Rows(plan, clusters, direction, 0.0, None, 0.0)

    def body(k: Array, carry: Any) -> Any:
        rows, vectors, terms, charge, energy = carry
        i, j, image, shift, moved, weight, counted = jax.tree.map(
            lambda a: lax.dynamic_slice_in_dim(a, k * chunk, chunk), units
        )
        marks = Marks(jnp.repeat(weight, M, axis=1), *_species_of(species, i, j), counted)
        sides = here.sides(i, j, shift)
        if there is None:
            found, by = block_gradient(wanted, sides, marks)
            energy = energy + found.astype(energy.dtype)
        else:
            by = block_derivative(wanted, sides, marks, there.sides(i, j, moved))
        back = by.y.reshape(chunk, 3, G, M).swapaxes(1, 2)
        if wanted != "energy":
            rows = rows.at[i].add(by.x.reshape(chunk, 3 * M).astype(rows.dtype))
            rows = rows.at[j.reshape(-1)].add(back.reshape(chunk * G, 3 * M).astype(rows.dtype))
        if wanted == "gradient":
            lever = jnp.einsum("ngcm,nkg->kc", back, image.astype(back.dtype))
            vectors = vectors + lever.astype(vectors.dtype)
            terms = jax.tree.map(lambda a, b: a + b.astype(a.dtype), terms, by.terms)
            if charge is not None and by.charge_x is not None:
                charge = charge.at[i].add(by.charge_x.astype(charge.dtype))
                charge = charge.at[j.reshape(-1)].add(by.charge_y.reshape(chunk * G, M).astype(charge.dtype))
        return rows, vectors, terms, charge, energy

    c, start = clusters, point.position.reshape(count, 3 * M)
    carry = jax.tree.map(jnp.zeros_like, (start, point.vectors, point.terms, point.charge, start[0, 0]))
    units = (c.i, c.j, c.image, here.shift, None if there is None else there.shift, c.weight, c.counted)
    # Only as many chunks as hold units: capacities have slack.
    chunks = jnp.minimum(greatest((c.need.units + (chunk - 1)) // chunk), len(c.i) // chunk)
    rows, vectors, terms, charge, energy = lax.fori_loop(0, chunks, body, carry)
    position = jnp.where(here.real[:, None], rows.reshape(count, 3, M), 0)
    charge = None if charge is None else jnp.where(here.real, charge, 0)
    return energy, Point(terms, vectors, position, charge)


def _species_of(species: Any, i: Array, j: Array) -> tuple[Any, Any]:
    if species is None:
        return None, None
    theirs = species[j].swapaxes(1, 2)  # (units, species, G, 8)
    return species[i], theirs.reshape(theirs.shape[0], theirs.shape[1], G * M)
