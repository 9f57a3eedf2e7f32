"""Clusters: lists of pairs of clusters of eight atoms, for systems of more than a few hundred."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..space._space import Space
from ._cluster_list import ClusterList, build_clusters
from ._cluster_plan import Capacity, ClusterLayout, M, first_columns, grid, rounded
from ._cluster_sweep import sweep_clusters
from ._exclusions import kept_pairs
from ._pair_sums import Point, Wanted, species_rows


class ClusterPlan(ClusterLayout):
    """A cluster list: positions are laid out as (clusters, 3, 8), numbers as (clusters, 8)."""

    @property
    def list_range(self) -> float:
        return self.range

    def build(self, space: Space, position: Float[Array, "atoms d"], real: Array | None) -> ClusterList:
        return build_clusters(self, space, position, real)

    def void(self, space: Space, position: Float[Array, "atoms d"]) -> Bool[Array, ""]:
        return jnp.array(False)

    def without(self, found: ClusterList, partners: Array) -> ClusterList:
        atom = found.atom.reshape(-1, M)
        padded = jnp.concatenate([partners, jnp.full((1, partners.shape[1]), -1, jnp.int32)])
        return dataclasses.replace(found, counted=kept_pairs(padded[atom[found.i]], found.atom[found.j]))

    def emptied(self, found: ClusterList, lost: Bool[Array, ""]) -> ClusterList:
        return dataclasses.replace(found, atom=jnp.where(lost, found.slot.shape[0], found.atom))

    def wraps(self, found: ClusterList, position: Float[Array, "atoms 3"], vectors: Array) -> Array:
        return found.wrap.astype(position.dtype)

    def laid_out(self, found: ClusterList, rows: Array) -> Array:
        placed = jnp.concatenate([rows, rows[:1]])[found.atom].reshape(-1, M, *rows.shape[1:])
        return placed if rows.ndim == 1 else placed.swapaxes(1, 2)

    def gathered(self, found: ClusterList, rows: Array, real: Array | None) -> Float[Array, "atoms 3"]:
        each = rows.swapaxes(1, 2).reshape(-1, 3)[found.slot]
        return each if real is None else jnp.where(real[:, None], each, 0)

    def species_rows(self, found: ClusterList, species: Array, count: int) -> Array:
        padded = jnp.concatenate([species, species[:1]])[found.atom].reshape(-1, 1, M)
        return species_rows(padded, count, self.pair_dtype)

    def sweep(
        self, wanted: Wanted, found: ClusterList, species: Array | None, point: Point, direction: Point | None
    ) -> tuple[Array, Point]:
        return sweep_clusters(self, wanted, found, species, point, direction)


def first_plan(
    lengths: np.ndarray,
    atoms: tuple[int, ...],
    reach: float,
    periodic: bool,
    skewed: bool,
    flat: bool,
    chunk: int,
    pair_dtype: str,
) -> ClusterPlan:
    """A plan with columns from the density, and capacities that the first build will correct; for one cell, or for each of several
    `lengths`, shape (boxes, 3), and numbers of atoms."""
    columns = tuple(first_columns(edges, count, flat) for edges, count in zip(lengths, atoms, strict=True))
    columns, width, offsets = grid(lengths, columns, reach, periodic, skewed, flat)
    clusters = sum(count // M + nx * ny for count, (nx, ny) in zip(atoms, columns, strict=True))
    # Generous, so that one trial tells what is needed. Short columns hold more that are not full, and of many some hold many more:
    # a run whose fullest column overflows later is done again.
    spare = 0 if len(atoms) == 1 else 2
    many = math.ceil(math.log(max(sum(atoms) / 4000, 1), 8))
    heights = [
        float(edges[2]) / max(count / (M * nx * ny) + spare / 2, 1)
        for edges, count, (nx, ny) in zip(lengths, atoms, columns, strict=True)
    ]
    window = math.ceil(2 * reach / min(heights)) + 5 + spare // 2 + many
    pairs = clusters * len(offsets) * window // 2
    capacity = rounded((window, clusters, pairs, pairs // 4 + clusters), Capacity(0, 0, 0, 0), chunk)
    return ClusterPlan(
        range=reach,
        periodic=periodic,
        skewed=skewed,
        flat=flat,
        columns=columns,
        width=width,
        offsets=offsets,
        capacity=capacity,
        chunk=chunk,
        pair_dtype=pair_dtype,
    )
