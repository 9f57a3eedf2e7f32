"""Draws of chains that walk without gradients, from blocks to a posterior."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._target import Target


class Walked(NamedTuple):
    """Result of a block of draws in unconstrained coordinates, with a leading axis of walkers or chains."""

    us: Float[Array, "walker draw parameter"]
    density: Float[Array, "walker draw"]
    accepted: Float[Array, "walker draw"]


def joined(target: Target, blocks: Sequence[Walked], kept: slice) -> tuple[Walked, Array, Array]:
    """Return the draws of all blocks that are kept, in natural units too, and their log densities there."""
    us, density, accepted = (jnp.asarray(np.concatenate(parts, axis=1)[:, kept]) for parts in zip(*blocks, strict=True))
    return Walked(us, density, accepted), *target.in_natural_units(us, density)
