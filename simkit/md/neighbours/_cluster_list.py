"""Building a cluster list: sort atoms into columns, cut them into clusters of eight, find and prune pairs, pack work units.

The `optimization_barrier`s halve the time: XLA:CPU otherwise computes producers again inside the loop of each consumer.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..space._boxes import of_row
from ..space._space import Space, times
from ._brick import Brick, brick
from ._cluster_candidates import Candidates, candidates
from ._cluster_plan import ACCELERATOR_BLOCKS, PRUNE_BLOCK, ClusterLayout, G, M, Need
from ._cluster_sort import Clusters, clustered, search

FAR = 1e3
"""Empty places of a cluster stand this many reaches away, on opposite sides in the two clusters of a pair: they never meet."""


class ClusterList(eqx.Module):
    """Atoms within reach of clusters, packed into work units of one cluster i and G atoms j.

    A pair of atoms stands once, or twice as two halves where both are in one cluster.
    """

    atom: Int[Array, " slots"]  # in each place of a cluster; the number of atoms where it is empty
    slot: Int[Array, " atoms"]
    wrap: Int[Array, "atoms 3"]  # lattice vectors to subtract
    centre: Float[Array, "clusters 3"]
    i: Int[Array, " units"]
    j: Int[Array, "units G"]  # places of atoms in their clusters
    image: Int[Array, "units 4 G"]  # lattice vectors to add to j; how many halves a pair counts
    need: Need
    counted: Bool[Array, "units left G"] | None = None  # which pairs of atoms interact, where some do not
    box: Int[Array, " clusters"] | None = None  # the cell of each cluster, where there are several


class Pairs(NamedTuple):
    """Flat pairs of clusters, ordered by i."""

    i: Int[Array, " pairs"]
    j: Int[Array, " pairs"]
    image: Int[Array, "pairs 3"]
    base: Float[Array, "pairs 3"]
    ends: Int[Array, " clusters"]  # running count of pairs after each i


def build_clusters(
    plan: ClusterLayout, space: Space, position: Float[Array, "atoms d"], real: Bool[Array, " atoms"] | None = None
) -> ClusterList:
    """The list of `position`; the cost grows with the number of atoms for any shape of the cell.

    Rows that are not `real` stand in no cluster, and their `slot` is that of an atom.
    """
    space, position = lax.stop_gradient((space, position))
    box = brick(space, position, plan.least)
    clusters = clustered(plan, box, real)
    found = candidates(plan, box, clusters)
    centre = (clusters.low + clusters.high) / 2
    pairs = _compact(plan, found, centre)
    keep = _touching(plan, box, clusters, centre, pairs)
    unit_i, unit_j, image, units = _packed(plan, pairs, keep)
    need = Need(found.need_window, clusters.start[-1] + 1, pairs.ends[-1], units, box.lengths)
    centre = centre + box.origin[None]
    centre = centre @ box.turn if clusters.box is None else times(centre, box.turn[clusters.box])
    return ClusterList(clusters.atom, clusters.slot, box.wrap, centre, unit_i, unit_j, image, need, None, clusters.box)


def _compact(plan: ClusterLayout, found: Candidates, centre: Array) -> Pairs:
    """The candidate pairs whose bounding boxes are near, without gaps."""
    room, flags = plan.capacity.pairs, found.near.reshape(-1)
    _, offsets, window = found.near.shape
    running = jnp.cumsum(flags, dtype=jnp.int32)
    target = jnp.where(flags, running - 1, room)
    numbers = jnp.arange(flags.size, dtype=jnp.int32)
    entry = jnp.zeros(room, jnp.int32).at[target].set(numbers, mode="drop", unique_indices=True)
    i, column = lax.div(entry, jnp.int32(offsets * window)), lax.div(entry, jnp.int32(window))
    i, column, entry = lax.optimization_barrier((i, column, entry))
    j = found.j.reshape(-1)[entry]
    image = jnp.concatenate([found.image_xy.reshape(-1, 2)[column], found.image_z.reshape(-1)[entry][:, None]], axis=1)
    return Pairs(i, j, image, centre[j] - centre[i], running[offsets * window - 1 :: offsets * window])


def _touching(plan: ClusterLayout, box: Brick, clusters: Clusters, centre: Array, pairs: Pairs) -> Int[Array, " pairs"]:
    """Return as bits which atoms of the second cluster of each pair are within range of one of the first."""
    far = FAR * plan.range
    real = clusters.real[:, None, :]
    local = (clusters.position - centre[:, None]).swapaxes(1, 2)
    plus, minus = (jnp.where(real, local, side).reshape(-1, 3 * M).astype(jnp.float32) for side in (far, -far))
    of = None if clusters.box is None else clusters.box[pairs.i]
    offset = (pairs.base + shift_of(box, of, pairs.image)).astype(jnp.float32)
    plus, minus, offset = lax.optimization_barrier((plus, minus, offset))
    limit = plan.range**2 * (1 + 1e-5)

    def hits(block: tuple[Array, Array, Array]) -> Array:
        i, j, offset = block
        a, b = plus[i].reshape(-1, 3, M), minus[j].reshape(-1, 3, M) + offset[..., None]
        best = jnp.full((len(i), M), jnp.inf, jnp.float32)
        for p in range(M):
            d = a[:, :, p, None] - b
            best = jnp.minimum(best, d[:, 0] ** 2 + d[:, 1] ** 2 + d[:, 2] ** 2)
        # Adding up by a product is 3.5 times faster than by a sum.
        return jnp.where(best < limit, 1, 0).astype(jnp.float32) @ jnp.asarray(2.0 ** np.arange(M), jnp.float32)

    size = PRUNE_BLOCK
    if jax.default_backend() != "cpu":  # there a block of this size is a few kernels that fill nothing
        size *= math.gcd(len(pairs.i) // PRUNE_BLOCK, ACCELERATOR_BLOCKS)
    blocks = [a.reshape(-1, size, *a.shape[1:]) for a in (pairs.i, pairs.j, offset)]
    bits = lax.optimization_barrier(lax.map(hits, tuple(blocks)).reshape(-1)).astype(jnp.int32)
    return jnp.where(jnp.arange(len(pairs.i), dtype=jnp.int32) < pairs.ends[-1], bits, 0)


def shift_of(box: Brick, of: Array | None, image: Int[Array, "n 3"]) -> Float[Array, "n 3"]:
    """Return the position of the copy `image` of the brick along its axes; of the brick of the cell `of` among several."""
    a, b, c = (image[..., k].astype(box.lengths.dtype) for k in range(3))
    lx, ly, lz = (of_row(box.lengths[..., k], of) for k in range(3))
    ay, az, bz = (of_row(box.shear[..., k], of) for k in range(3))
    return jnp.stack([a * lx, a * ay + b * ly, a * az + b * bz + c * lz], axis=-1)


def _packed(plan: ClusterLayout, pairs: Pairs, bits: Array) -> tuple[Array, Array, Array, Array]:
    """The kept atoms, G with a common i to a work unit."""
    (_, _, room, units), empty = plan.capacity, plan.capacity.clusters - 1
    kept = _starts(lax.population_count(bits))
    edge = kept[jnp.minimum(jnp.concatenate([jnp.zeros(1, jnp.int32), pairs.ends]), room)]
    start = _starts((jnp.diff(edge) + G - 1) // G)
    first = start[pairs.i] * G + kept[:-1] - edge[pairs.i]  # the place of the first atom of each pair
    places = jnp.arange(M, dtype=jnp.int32)[None]
    bits = bits[:, None]
    before = lax.population_count(bits & ((1 << places) - 1))
    target = jnp.where((bits >> places) & 1 == 1, first[:, None] + before, units * G).reshape(-1)
    numbers = jnp.arange(room * M, dtype=jnp.int32)
    source = jnp.full(units * G, room * M, jnp.int32).at[target].set(numbers, mode="drop", unique_indices=True)
    unit_i = jnp.minimum(search(start, jnp.arange(units, dtype=jnp.int32), "right") - 1, empty)
    filled = (source < room * M).reshape(-1, G)
    source = jnp.minimum(source, room * M - 1).reshape(-1, G)
    pair, place = lax.div(source, jnp.int32(M)), lax.rem(source, jnp.int32(M))
    halves = jnp.where((pairs.j == pairs.i) & (pairs.image == 0).all(1), 1, 2)
    # Four numbers of a row are read at once.
    row = jnp.concatenate([pairs.image, (2 * pairs.j + halves - 1)[:, None]], axis=1)
    found = turned(lax.optimization_barrier(row).at[pair].get(mode="promise_in_bounds"))
    j, halves = found[:, 3] >> 1, (found[:, 3] & 1) + 1
    image = jnp.concatenate([found[:, :3], halves[:, None]], axis=1).astype(jnp.int8)
    return unit_i, jnp.where(filled, j, empty) * M + place, image, start[-1]


def turned(block: Array) -> Array:
    """The last two axes exchanged by a loop of its own, which does nothing else: inside another loop it is not vectorised."""
    return lax.optimization_barrier(lax.optimization_barrier(block).swapaxes(1, 2))


def _starts(counts: Array) -> Array:
    return jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(counts, dtype=jnp.int32)])
