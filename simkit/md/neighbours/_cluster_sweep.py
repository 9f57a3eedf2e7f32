"""One sweep over the work units of a cluster list: energy and gradient, or the Hessian times a direction."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from ...core import greatest
from ._cluster_list import FAR, ClusterList, turned
from ._cluster_plan import ClusterLayout, G, M
from ._pair_block import Sides, block_derivative, block_gradient, with_row
from ._pair_sums import Marks, Point, Wanted


class _Rows:
    """The tables from which a chunk of units takes its two sides: a row a cluster for i, and columns over all places for j."""

    def __init__(self, plan: ClusterLayout, clusters: ClusterList, point: Point, far: float, one: float):
        """Clusters stand at their centres in a point, and are not moved in a direction, whose `one` is 0."""
        count, self.dtype = clusters.centre.shape[0], jnp.dtype(plan.pair_dtype)
        self.real = (clusters.atom < clusters.slot.shape[0]).reshape(count, M)
        self.centre = clusters.centre.astype(point.position.dtype) if one else None

        def placed(side: float) -> Array:
            return jnp.where(self.real[:, None], point.position, jnp.asarray(side, point.position.dtype))

        left = placed(far)
        left = left if self.centre is None else left - self.centre[:, :, None]
        self.left = with_row(left, one).reshape(count, 4 * M).astype(self.dtype)
        self.right = with_row(placed(-far), one).swapaxes(1, 2).reshape(count * M, 4)
        self.terms, self.vectors = jax.tree.map(lambda a: a.astype(self.dtype), point.terms), point.vectors
        self.charge = None if point.charge is None else jnp.where(self.real, point.charge, 0).astype(self.dtype)
        self.box = clusters.box
        self.weight = None if point.weight is None else point.weight.astype(self.dtype)

    def sides(self, i: Array, j: Array, image: Array) -> Sides:
        """Positions from the centre of i: what is far from the origin is taken away before numbers are shortened."""
        n = len(i)
        x = self.left[i].reshape(n, 4, M)
        y = turned(self.right.at[j].get(mode="promise_in_bounds"))
        shift = self._shift(i, image)
        if shift is not None:
            # In a loop of its own: one that also joins rows to the positions is not vectorised.
            y = y + jnp.pad(lax.optimization_barrier(shift), ((0, 0), (0, 1), (0, 0)))
        # Computed once, not again inside the loops of its four readers.
        y = lax.optimization_barrier(y.astype(self.dtype))
        weight = None if self.weight is None or self.box is None else self.weight[self.box[i]]
        if self.charge is None:
            return Sides(self.terms, x, y, None, None, weight)
        return Sides(self.terms, x, y, self.charge[i], self.charge.reshape(-1)[j], weight)

    def _shift(self, i: Array, image: Array) -> Array | None:
        """Return the shift added to the positions of atoms j, (units, 3, G) or (units, 3, 1); None for no shift."""
        centre = None if self.centre is None else self.centre[i][:, :, None]
        if self.vectors is None:
            return None if centre is None else -centre
        a, b, c = (image[:, k].astype(self.vectors.dtype) for k in range(3))
        v = self.vectors if self.box is None else self.vectors[self.box[i]][..., None]
        # By component: a product with a matrix of nine numbers takes longer than what it is for.
        shift = [a * _entry(v, 0, k) + b * _entry(v, 1, k) + c * _entry(v, 2, k) for k in range(3)]
        if centre is not None:
            shift = [part - centre[:, k] for k, part in enumerate(shift)]
        return jnp.stack(shift, axis=1)


def sweep_clusters(
    plan: ClusterLayout,
    wanted: Wanted,
    clusters: ClusterList,
    species: Array | None,
    point: Point,
    direction: Point | None = None,
) -> tuple[Array, Point]:
    """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it.

    `species` are rows of zeros and a one, (clusters, species, 8), or None. Of what is not `wanted` zeros come back.
    """
    chunk, count = plan.chunk, clusters.centre.shape[0]
    here = _Rows(plan, clusters, point, FAR * plan.range, 1.0)
    there = None if direction is None else _Rows(plan, clusters, direction, 0.0, 0.0)

    def body(k: Array, carry: PyTree) -> Any:
        rows, vectors, terms, charge, weight, energy = carry
        i, j, image, counted = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, k * chunk, chunk), units)
        marks = Marks(0.5 * image[:, 3].astype(here.dtype), *_species_of(species, i, j), counted)
        sides = here.sides(i, j, image)
        if there is None:
            found, by = block_gradient(wanted, sides, marks)
            energy = energy + found.astype(energy.dtype)
        else:
            by = block_derivative(wanted, sides, marks, there.sides(i, j, image))
        if wanted != "energy":
            # Rows of four numbers are added up faster than rows of three.
            own, others = turned(by.x).reshape(chunk, 4 * M), turned(by.y).reshape(chunk * G, 4)
            rows = rows.reshape(count, 4 * M).at[i].add(own.astype(rows.dtype), mode="promise_in_bounds")
            rows = rows.reshape(count * M, 4).at[j.reshape(-1)].add(others.astype(rows.dtype), mode="promise_in_bounds")
        if wanted == "gradient":
            each, images = by.y[:, :3], image[:, :3].astype(by.y.dtype)
            if clusters.box is None:
                vectors = vectors + jnp.einsum("ncg,nkg->kc", each, images).astype(vectors.dtype)
            else:
                own = clusters.box[i]
                vectors = vectors.at[own].add(jnp.einsum("ncg,nkg->nkc", each, images).astype(vectors.dtype))
                weight = weight.at[own].add(by.weight.astype(weight.dtype))
            terms = jax.tree.map(lambda a, b: a + b.astype(a.dtype), terms, by.terms)
            if charge is not None and by.charge_x is not None:
                charge = charge.at[i].add(by.charge_x.astype(charge.dtype))
                others = by.charge_y.reshape(-1).astype(charge.dtype)
                charge = charge.reshape(-1).at[j.reshape(-1)].add(others).reshape(count, M)
        return rows, vectors, terms, charge, weight, energy

    c, start = clusters, jnp.zeros_like(here.right)  # it varies between devices as positions do
    zeros = (start, point.vectors, point.terms, point.charge, point.weight, start[0, 0])
    carry = jax.tree.map(jnp.zeros_like, zeros)
    units = (c.i, c.j, c.image, c.counted)
    if len(c.i) == chunk:
        rows, vectors, terms, charge, weight, energy = body(jnp.zeros((), jnp.int32), carry)
    else:  # only as many chunks as hold units: capacities have slack
        chunks = jnp.minimum(greatest((c.need.units + (chunk - 1)) // chunk), len(c.i) // chunk)
        rows, vectors, terms, charge, weight, energy = lax.fori_loop(0, chunks, body, carry)
    position = jnp.where(here.real[:, None], rows.reshape(count, M, 4)[..., :3].swapaxes(1, 2), 0)
    charge = None if charge is None else jnp.where(here.real, charge, 0)
    return energy, Point(terms, vectors, position, charge, weight)


def _entry(vectors: Array, row: int, column: int) -> Array:
    """A number of the lattice vectors of all, or of those of each unit, (units, 3, 3, 1)."""
    return vectors[row, column] if vectors.ndim == 2 else vectors[:, row, column]


def _species_of(species: Array | None, i: Array, j: Array) -> tuple[Any, Any]:
    if species is None:
        return None, None
    everyone = species.swapaxes(0, 1).reshape(species.shape[1], -1)
    return species[i], everyone[:, j].swapaxes(0, 1)
