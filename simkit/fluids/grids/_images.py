"""Periodic images: coordinates as the nearest image of a place sees them."""

from jax import numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ._boundary import Boundaries, Periodic
from ._grid import Grid

Periods = tuple[float | None, ...]
"""The length of each axis that is periodic, None for others."""


def periods_of(grid: Grid, boundaries: Boundaries) -> Periods:
    """The periods of a grid's axes with the given ends."""
    ends = zip(boundaries, grid.lengths, strict=True)
    return tuple(length if isinstance(pair[0], Periodic) else None for pair, length in ends)


def nearest_image(x: Array, place: ArrayLike, period: float | None) -> Array:
    """Coordinates along an axis, each moved by whole periods to where it is nearest to a place."""
    return x if period is None else x - period * jnp.round((x - place) / period)
