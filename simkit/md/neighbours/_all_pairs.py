"""All pairs of a small system, without any list: for a few hundred atoms, where finding neighbours costs more than it saves."""

import itertools
import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ..space._space import Space


class DenseNeed(NamedTuple):
    """Numbers that determine which images are within reach."""

    plane_distances: Float[Array, " d"]


class DensePairs(NamedTuple):
    """Nothing is remembered about pairs but what the images rest on, and who is excluded."""

    need: DenseNeed
    counted: Bool[Array, "atoms atoms"] | None = None  # which pairs of atoms interact, where some do not


class DensePlan(eqx.Module):
    """Everything static: which images of an atom another one may see.

    With `images` None each pair is taken at its nearest image, which is right for cutoffs up to half the smallest plane distance;
    otherwise every image in the list counts, for atoms wrapped into the cell.
    """

    cutoff: float = eqx.field(static=True)
    periodic: bool = eqx.field(static=True)
    skewed: bool = eqx.field(static=True)
    images: tuple[tuple[int, int, int], ...] | None = eqx.field(static=True)
    reach: tuple[int, ...] = eqx.field(static=True)  # images in each direction
    pair_dtype: str = eqx.field(static=True)

    def fits(self, need: DenseNeed) -> Bool[Array, ""]:
        thin = need.plane_distances.min()
        if self.images is None:
            return thin >= 2 * self.cutoff
        room = jnp.asarray(self.reach, need.plane_distances.dtype) * need.plane_distances
        return (room >= self.cutoff).all()

    def grown(self, need: DenseNeed) -> "DensePlan":
        distances = np.asarray(need.plane_distances, float)
        return dense_plan(distances, self.cutoff, self.periodic, self.skewed, self.pair_dtype)

    def trimmed(self, need: DenseNeed) -> "DensePlan":
        return self


def dense_plan(plane_distances: np.ndarray, cutoff: float, periodic: bool, skewed: bool, pair_dtype: str) -> DensePlan:
    if plane_distances.min() >= 2 * cutoff:
        return DensePlan(cutoff, periodic, skewed, None, (), pair_dtype)
    reach = tuple(math.ceil(cutoff / distance) for distance in plane_distances.tolist())
    solid = reach if len(reach) == 3 else (reach[0], 0, reach[1])
    a, b, c = (range(-k, k + 1) for k in solid)
    return DensePlan(cutoff, periodic, skewed, tuple(itertools.product(a, b, c)), reach, pair_dtype)


def build_dense(
    plan: DensePlan, space: Space, position: Float[Array, "atoms d"], real: Array | None = None
) -> DensePairs:
    counted = None if real is None else real[:, None] & real[None]
    return DensePairs(DenseNeed(lax.stop_gradient(space.plane_distances().astype(position.dtype))), counted)
