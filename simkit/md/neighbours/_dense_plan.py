"""The layout of all pairs without a list: which images of an atom another one sees."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._list_plan import PairPlan


class DenseNeed(NamedTuple):
    """Numbers that determine which images are within reach."""

    plane_distances: Float[Array, " d"]


class DensePairs(NamedTuple):
    """Nothing is remembered about pairs but what the images rest on, and who is excluded."""

    need: DenseNeed
    counted: Bool[Array, "atoms atoms"] | None = None  # which pairs of atoms interact, where some do not


class DenseLayout(PairPlan):
    """The images of an atom that another one may see. `DensePlan` adds how the pairs are gone over.

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
