"""Atoms sorted into columns and cut into clusters of eight."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..space._boxes import of_row
from ._brick import Brick
from ._cluster_plan import ClusterLayout, M


class Clusters(NamedTuple):
    """Atoms in places, and the bounding box of each cluster."""

    atom: Int[Array, " slots"]
    slot: Int[Array, " atoms"]
    position: Float[Array, "clusters 8 3"]
    real: Bool[Array, "clusters 8"]
    used: Bool[Array, " clusters"]
    low: Float[Array, "clusters 3"]
    high: Float[Array, "clusters 3"]
    column: Int[Array, " clusters"]
    top: Int[Array, " clusters"]  # (column, greatest height) as one number, ascending
    start: Int[Array, " columns+1"]  # first cluster of each column
    box: Int[Array, " clusters"] | None  # the cell of each, where there are several


def search(table: Array, query: Array, side: str = "left") -> Array:
    return jnp.searchsorted(table, query, method="scan", side=side).astype(jnp.int32)


def levels(plan: ClusterLayout) -> int:
    """Steps of the height along a column: integers sort five times faster than floats, and resolve the same in every column."""
    return 2**30 // plan.total


def clustered(plan: ClusterLayout, box: Brick, real: Bool[Array, " atoms"] | None = None) -> Clusters:
    """Columns along z; the atoms of a column sorted by height and cut into clusters of M. What is not `real` comes after all."""
    x, n = box.position, len(box.position)
    total, room, steps = plan.total, plan.capacity.clusters, levels(plan)
    table = np.array(plan.columns, np.int32)
    nx, ny = (jnp.asarray(k if box.of is not None else k[0]) for k in table.T)
    column = of_row(jnp.asarray(_starts(table.prod(1)), jnp.int32), box.of) if box.of is not None else 0

    def cell(axis: int, count: Array) -> Array:
        fine = of_row(count.astype(x.dtype) / box.lengths[..., axis], box.of)
        return jnp.clip((x[:, axis] * fine).astype(jnp.int32), 0, of_row(count, box.of) - 1)

    key = (column + cell(0, nx) * of_row(ny, box.of) + cell(1, ny)) * steps + cell(2, jnp.full_like(nx, steps))
    if real is not None:
        key = jnp.where(real, key, total * steps)
    key, order = lax.sort((key, jnp.arange(n, dtype=jnp.int32)), num_keys=1, is_stable=False)
    column = key // steps
    first = search(column, jnp.arange(total + 1, dtype=jnp.int32))
    counts = (jnp.diff(first) + M - 1) // M
    start = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(counts, dtype=jnp.int32)])
    rank = jnp.arange(n, dtype=jnp.int32)
    place = start[column] * M + rank - first[column]
    if real is not None:
        place = jnp.where(column < total, place, room * M)
    slot = jnp.zeros(n, jnp.int32).at[order].set(place, unique_indices=True)
    slot = slot if real is None else jnp.where(real, slot, 0)
    atom = jnp.full(room * M, n, jnp.int32).at[place].set(order, unique_indices=real is None, mode="drop")
    position = jnp.concatenate([x, x[:1]])[atom].reshape(-1, M, 3)
    taken = (atom < n).reshape(-1, M)
    used = jnp.arange(room, dtype=jnp.int32) < start[-1]
    low = jnp.where(taken[..., None], position, jnp.inf).min(1)
    high = jnp.where(taken[..., None], position, -jnp.inf).max(1)
    low, high = (jnp.where(used[:, None], edge, 0) for edge in (low, high))
    of = jnp.clip(search(start, jnp.arange(room, dtype=jnp.int32), side="right") - 1, 0, total - 1)
    own = jnp.arange(room, dtype=jnp.int32) - start[of]
    last = jnp.minimum(first[of] + (own + 1) * M, first[of + 1]) - 1
    top = jnp.where(used, key[jnp.clip(last, 0, n - 1)], jnp.iinfo(jnp.int32).max)
    cell_of = (
        None if box.of is None else jnp.asarray(np.repeat(np.arange(len(table), dtype=np.int32), table.prod(1)))[of]
    )
    return Clusters(atom, slot, position, taken, used, low, high, of, top, start, cell_of)


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts
