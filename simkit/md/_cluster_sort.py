"""Atoms sorted into columns and cut into clusters of eight."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ._brick import Brick
from ._cluster_plan import ClusterPlan, M


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


def search(table: Array, query: Array, side: str = "left") -> Array:
    return jnp.searchsorted(table, query, method="scan", side=side).astype(jnp.int32)


def levels(plan: ClusterPlan) -> int:
    """Steps of the height along a column: integers sort five times faster than floats, and resolve the same in every column."""
    return 2**30 // (plan.columns[0] * plan.columns[1])


def clustered(plan: ClusterPlan, box: Brick, real: Bool[Array, " atoms"] | None = None) -> Clusters:
    """Columns along z; the atoms of a column sorted by height and cut into clusters of M. What is not `real` comes after all."""
    x, n = box.position, len(box.position)
    (nx, ny), room, steps = plan.columns, plan.capacity.clusters, levels(plan)

    def cell(axis: int, count: int) -> Array:
        return jnp.clip((x[:, axis] * (count / box.lengths[axis])).astype(jnp.int32), 0, count - 1)

    key = (cell(0, nx) * ny + cell(1, ny)) * steps + cell(2, steps)
    if real is not None:
        key = jnp.where(real, key, nx * ny * steps)
    key, order = lax.sort((key, jnp.arange(n, dtype=jnp.int32)), num_keys=1, is_stable=False)
    column = key // steps
    first = search(column, jnp.arange(nx * ny + 1, dtype=jnp.int32))
    counts = (jnp.diff(first) + M - 1) // M
    start = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(counts, dtype=jnp.int32)])
    rank = jnp.arange(n, dtype=jnp.int32)
    place = start[column] * M + rank - first[column]
    if real is not None:
        place = jnp.where(column < nx * ny, place, room * M)
    slot = jnp.zeros(n, jnp.int32).at[order].set(place, unique_indices=True)
    slot = slot if real is None else jnp.where(real, slot, 0)
    atom = jnp.full(room * M, n, jnp.int32).at[place].set(order, unique_indices=real is None, mode="drop")
    position = jnp.concatenate([x, x[:1]])[atom].reshape(-1, M, 3)
    taken = (atom < n).reshape(-1, M)
    used = jnp.arange(room, dtype=jnp.int32) < start[-1]
    low = jnp.where(taken[..., None], position, jnp.inf).min(1)
    high = jnp.where(taken[..., None], position, -jnp.inf).max(1)
    low, high = (jnp.where(used[:, None], edge, 0) for edge in (low, high))
    of = jnp.clip(search(start, jnp.arange(room, dtype=jnp.int32), side="right") - 1, 0, nx * ny - 1)
    own = jnp.arange(room, dtype=jnp.int32) - start[of]
    last = jnp.minimum(first[of] + (own + 1) * M, first[of + 1]) - 1
    top = jnp.where(used, key[jnp.clip(last, 0, n - 1)], jnp.iinfo(jnp.int32).max)
    return Clusters(atom, slot, position, taken, used, low, high, of, top, start)
