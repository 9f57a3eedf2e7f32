"""The layout of a cluster list, all static: the grid of columns and the capacities."""

import dataclasses
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ._list_plan import PairPlan

M = 8  # atoms in a cluster
G = 32  # atoms j in a work unit
PRUNE_BLOCK = 512  # cluster pairs whose atoms are compared at once
ACCELERATOR_BLOCKS = 1024  # blocks of them at once on an accelerator
SLACK = 1.06
MARGIN = 0.98  # a planned column may become this much thinner before the plan is void


class Need(NamedTuple):
    """Required capacities of a list: compared with those of the plan, and enough to make a larger plan."""

    window: Int[Array, ""]
    clusters: Int[Array, ""]
    pairs: Int[Array, ""]
    units: Int[Array, ""]
    lengths: Float[Array, "*boxes 3"]


class Capacity(NamedTuple):
    """Clusters looked at along z for each column; and numbers of clusters, pairs of clusters, and work units."""

    window: int
    clusters: int
    pairs: int
    units: int


class ClusterLayout(PairPlan):
    """Columns and capacities. `ClusterPlan` adds how lists of them are built and gone over."""

    range: float = eqx.field(static=True)  # cutoff + skin
    periodic: bool = eqx.field(static=True)
    skewed: bool = eqx.field(static=True)
    flat: bool = eqx.field(static=True)  # two dimensions
    columns: tuple[tuple[int, int], ...] = eqx.field(static=True)  # of every cell
    width: tuple[float, float] = eqx.field(static=True)  # the thinnest columns for which `offsets` is complete
    offsets: tuple[tuple[int, int], ...] = eqx.field(static=True)  # half a shell of columns, the own column first
    capacity: Capacity = eqx.field(static=True)
    chunk: int = eqx.field(static=True)  # units a scan step
    pair_dtype: str = eqx.field(static=True)

    @property
    def least(self) -> tuple[float, float, float]:
        """The smallest brick that the columns cut well."""
        nx, ny = self.columns[0]
        return (self.width[0] * nx / MARGIN, self.width[1] * ny / MARGIN, self.range)

    @property
    def total(self) -> int:
        """The number of columns."""
        return sum(nx * ny for nx, ny in self.columns)

    def fits(self, need: Need) -> Bool[Array, ""]:
        counts = jnp.stack([need.window, need.clusters, need.pairs, need.units])
        lengths = need.lengths.reshape(-1, 3)[:, :2]
        thin = lengths / jnp.asarray(self.columns, lengths.dtype) < jnp.asarray([self.width], lengths.dtype)
        return (counts <= jnp.asarray(self.capacity, counts.dtype)).all() & ~thin.any()

    def grown(self, need: Need) -> "ClusterLayout":
        """Capacities that hold `need` with some slack, on columns that fit its brick; outside jit."""
        lengths = np.asarray(need.lengths, float).reshape(-1, 3)
        plan = self
        if (lengths[:, :2] / np.array(self.columns) < np.array(self.width)).any():
            columns, width, offsets = grid(lengths, self.columns, self.range, self.periodic, self.skewed, self.flat)
            plan = dataclasses.replace(plan, columns=columns, width=width, offsets=offsets)
        counts = [int(np.asarray(k)) for k in need[:4]]
        return dataclasses.replace(plan, capacity=rounded(counts, plan.capacity, plan.chunk))

    def trimmed(self, need: Need) -> "ClusterLayout":
        """Capacities that just hold `need` with some slack."""
        counts = [int(np.asarray(k)) for k in need[:4]]
        return dataclasses.replace(self, capacity=rounded(counts, Capacity(0, 0, 0, 0), self.chunk))


def first_columns(lengths: np.ndarray, atoms: int, flat: bool) -> tuple[int, int]:
    if flat:
        return max(round(lengths[0] / math.sqrt(M * lengths[0] * lengths[2] / atoms)), 1), 1
    side = (M * lengths.prod() / atoms) ** (1 / 3)
    return max(round(lengths[0] / side), 1), max(round(lengths[1] / side), 1)


Columns = tuple[tuple[int, int], ...]


def grid(
    lengths: np.ndarray, columns: Columns, reach: float, periodic: bool, skewed: bool, flat: bool
) -> tuple[Columns, tuple[float, float], tuple[tuple[int, int], ...]]:
    """Columns, their least widths in any cell, and the offsets of the columns within reach, each pair of columns once.

    A copy along x of a skewed lattice is shifted along y by part of a column: an offset b means one between b and b + 1.
    """
    thinnest = (lengths[:, :2] / np.array(columns)).min(axis=0)
    width = (MARGIN * float(thinnest[0]), MARGIN * float(thinnest[1]))
    extra = 1 if skewed and not flat else 0
    # Without images nothing lies beyond the outermost columns, however thin the brick.
    # Nor is there a second column along the axis that two dimensions lack.
    far = [
        math.ceil(reach / w) if periodic else min(math.ceil(reach / w), k - 1)
        for w, k in zip(width, columns[0], strict=True)
    ]
    far[1] = 0 if flat else far[1]

    def gap(low: int, high: int, w: float) -> float:
        return max(low - 1, -high - 1, 0) * w

    offsets = [(0, 0)]
    for a in range(far[0] + 1):
        for b in range(-far[1] - extra, far[1] + 1):
            wide = extra if a > 0 else 0
            within = math.hypot(gap(a, a, width[0]), gap(b, b + wide, width[1])) < reach
            if (a > 0 or b > 0) and within:
                offsets.append((a, b))
    return columns, width, tuple(offsets)


def rounded(counts: tuple[int, ...] | list[int], held: Capacity, chunk: int) -> Capacity:
    """Never below what is held: two regions of a run could alternate otherwise."""
    wanted = (counts[0], *(int(k * SLACK) + 1 for k in counts[1:]))
    block = PRUNE_BLOCK
    if jax.default_backend() != "cpu":  # whole turns of many blocks, where there are many
        block *= min(ACCELERATOR_BLOCKS, 2 ** math.floor(math.log2(max(wanted[2] / (8 * PRUNE_BLOCK), 1))))
    multiples = (1, 8, block, chunk)
    return Capacity(*(max(math.ceil(k / m) * m, h) for k, m, h in zip(wanted, multiples, held, strict=True)))
