"""Pairs of clusters whose bounding boxes are within range."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int

from ..space._boxes import of_row
from ._brick import Brick
from ._cluster_plan import ClusterLayout
from ._cluster_sort import Clusters, levels, search


class Candidates(NamedTuple):
    """Candidate clusters for each cluster, column of the half shell, and place of a window along it."""

    near: Bool[Array, "clusters offsets window"]
    j: Int[Array, "clusters offsets window"]
    image_xy: Int[Array, "clusters offsets 2"]
    image_z: Int[Array, "clusters offsets window"]
    need_window: Int[Array, ""]


def candidates(plan: ClusterLayout, box: Brick, clusters: Clusters) -> Candidates:
    """Clusters of a column are counted through its images, number k + n * image: small cells and cutoffs longer than the cell are
    no special case."""
    window, room = plan.capacity.window, plan.capacity.clusters
    other, image_xy = _columns(plan, box, clusters.column)
    lengths = [_spread(of_row(box.lengths[..., k], clusters.box)) for k in range(3)]
    shift = _shift_xy(lengths, [_spread(of_row(box.shear[..., k], clusters.box)) for k in range(3)], image_xy)
    count, first = jnp.diff(clusters.start)[other], clusters.start[other]
    begin = _begin(plan, lengths[2], clusters, other, shift[2], first, count)
    begin, count, first, image_xy = lax.optimization_barrier((begin, count, first, image_xy))
    k = begin[..., None] + jnp.arange(window, dtype=jnp.int32)[None, None]
    image_z = jnp.floor((k.astype(jnp.float32) + 0.5) / jnp.maximum(count, 1)[..., None].astype(jnp.float32)).astype(
        jnp.int32
    )
    j = jnp.clip(first[..., None] + k - image_z * count[..., None], 0, room - 1)
    j, image_z = lax.optimization_barrier((j, image_z))
    centre, half = (clusters.low + clusters.high) / 2, (clusters.high - clusters.low) / 2
    gaps = []
    for c in range(3):
        away = shift[c][..., None] + (image_z.astype(centre.dtype) * _spread(lengths[2]) if c == 2 else 0)
        # One number at a time from short arrays, inside the loop that reads it.
        place, width = (a[:, c].at[j].get(mode="promise_in_bounds") for a in (centre, half))
        gaps.append(jnp.abs(place + away - centre[:, c, None, None]) - width - half[:, c, None, None])
    valid = clusters.used[:, None, None] & (count > 0)[..., None]
    if not plan.periodic:
        valid = valid & (image_xy == 0).all(-1)[..., None] & (image_z == 0)
    near = valid & (sum(jnp.maximum(gap, 0) ** 2 for gap in gaps) < plan.range**2)
    full = (valid & (gaps[2] < plan.range))[..., -1].any()  # the last place of a window stays empty
    need_window = window + jnp.where(full, max(window // 4, 1), 0)
    return Candidates(lax.optimization_barrier(near), j, image_xy, image_z, need_window.astype(jnp.int32))


def _columns(plan: ClusterLayout, box: Brick, column: Array) -> tuple[Array, Array]:
    """The columns of the half shell around each cluster's own, (clusters, offsets), and the images they belong to."""
    table = np.array(plan.columns, np.int32)
    of = np.repeat(np.arange(len(table)), table.prod(1))
    first = (np.cumsum(table.prod(1)) - table.prod(1)).astype(np.int32)[of]
    grid = np.stack(np.divmod(np.arange(plan.total) - first, table[of, 1]), -1)[:, None] + np.array(plan.offsets)
    x, y = jnp.asarray(grid[..., 0], jnp.int32), jnp.asarray(grid[..., 1], jnp.int32)
    nx, ny = jnp.asarray(table[of, :1]), jnp.asarray(table[of, 1:])
    along_a = x // nx
    if plan.skewed:  # copies along a are shifted along y
        edge, ay = (
            _spread(of_row(a, None if box.of is None else jnp.asarray(of)))
            for a in (box.lengths[..., 1], box.shear[..., 0])
        )
        rows = ay * (ny.astype(ay.dtype) / edge)
        y = y - jnp.floor(along_a.astype(rows.dtype) * rows).astype(jnp.int32)
    along_b = y // ny
    other = jnp.asarray(first)[:, None] + (x - along_a * nx) * ny + y - along_b * ny
    return other[column], jnp.stack([along_a, along_b], axis=-1)[column]


def _spread(a: Array) -> Array:
    """One number for all, or one a row as a column."""
    return a if a.ndim == 0 else a[..., None]


def _shift_xy(lengths: list[Array], shear: list[Array], image_xy: Array) -> tuple[Array, Array, Array]:
    a, b = (image_xy[..., k].astype(lengths[0].dtype) for k in range(2))
    ay, az, bz = shear
    return a * lengths[0], a * ay + b * lengths[1], a * az + b * bz


def _begin(
    plan: ClusterLayout, height: Array, clusters: Clusters, other: Array, shift_z: Array, first: Array, count: Array
) -> Array:
    """The first cluster of each column that reaches up to the range below, counted through the column's images."""
    steps = levels(plan)
    bottom = clusters.low[:, 2, None] - plan.range - shift_z[:, 1:]
    turn = jnp.floor(bottom / height)
    # One level less: rounding must not skip a cluster that ends exactly there.
    level = jnp.clip(((bottom - turn * height) * (steps / height)).astype(jnp.int32), 0, steps - 1) - 1
    begin = search(clusters.top, other[:, 1:] * steps + level) - first[:, 1:] + turn.astype(jnp.int32) * count[:, 1:]
    own = jnp.arange(len(clusters.column), dtype=jnp.int32) - clusters.start[clusters.column]
    return jnp.concatenate([own[:, None], begin], axis=1)  # in the own column itself and what lies above
