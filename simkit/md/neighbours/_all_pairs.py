"""All pairs of a small system, without any list: for a few hundred atoms, where finding neighbours costs more than it saves."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ..space._space import Space, inverse
from ._dense_plan import DenseLayout, DenseNeed, DensePairs
from ._dense_sweep import sweep_dense
from ._exclusions import kept_pairs
from ._pair_sums import Point, Wanted, species_rows


class DensePlan(DenseLayout):
    """All pairs, with nothing remembered of where atoms stood: they are laid out as they come."""

    @property
    def list_range(self) -> None:
        return None

    def grown(self, need: DenseNeed) -> "DensePlan":
        distances = np.asarray(need.plane_distances, float)
        return dense_plan(distances, self.cutoff, self.periodic, self.skewed, self.pair_dtype)

    def trimmed(self, need: DenseNeed) -> "DensePlan":
        return self

    def build(self, space: Space, position: Float[Array, "atoms d"], real: Array | None) -> DensePairs:
        counted = None if real is None else real[:, None] & real[None]
        return DensePairs(DenseNeed(lax.stop_gradient(space.plane_distances().astype(position.dtype))), counted)

    def void(self, space: Space, position: Float[Array, "atoms d"]) -> Bool[Array, ""]:
        return ~self.fits(self.build(space, position, None).need)

    def without(self, found: DensePairs, partners: Array) -> DensePairs:
        everyone = jnp.arange(len(partners), dtype=jnp.int32)
        counted = kept_pairs(partners[None], everyone[None])[0]
        return found._replace(counted=counted if found.counted is None else found.counted & counted)

    def emptied(self, found: DensePairs, lost: Bool[Array, ""]) -> DensePairs:
        kept = jnp.broadcast_to(~lost, (1, 1))
        return found._replace(counted=kept if found.counted is None else found.counted & kept)

    def wraps(self, found: DensePairs, position: Float[Array, "atoms 3"], vectors: Array) -> Array:
        return jnp.floor(lax.stop_gradient(position @ inverse(vectors)))

    def laid_out(self, found: DensePairs, rows: Array) -> Array:
        return rows

    def gathered(self, found: DensePairs, rows: Array, real: Array | None) -> Float[Array, "atoms 3"]:
        return rows

    def species_rows(self, found: DensePairs, species: Array, count: int) -> Array:
        return species_rows(species[None, None], count, self.pair_dtype)

    def sweep(
        self, wanted: Wanted, found: DensePairs, species: Array | None, point: Point, direction: Point | None
    ) -> tuple[Array, Point]:
        return sweep_dense(self, wanted, found, species, point, direction)


def dense_plan(plane_distances: np.ndarray, cutoff: float, periodic: bool, skewed: bool, pair_dtype: str) -> DensePlan:
    images, reach = None, ()
    if plane_distances.min() < 2 * cutoff:
        reach = tuple(math.ceil(cutoff / distance) for distance in plane_distances.tolist())
        solid = reach if len(reach) == 3 else (reach[0], 0, reach[1])
        a, b, c = (range(-k, k + 1) for k in solid)
        images = tuple(itertools.product(a, b, c))
    return DensePlan(cutoff=cutoff, periodic=periodic, skewed=skewed, images=images, reach=reach, pair_dtype=pair_dtype)
