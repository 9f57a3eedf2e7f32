"""All pairs of atoms, a block of rows at a time, so that memory grows with the number of atoms only."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import traced
from ..space._space import Space

PAIRS_AT_ONCE = 2**18


def over_rows(space: Space, position: Array, row: Callable[..., Any], *columns: Array) -> Any:
    """Stack `row(apart, other, *columns of the rows)` over blocks of atoms: a pytree with a leading axis.

    `apart`, shape (rows, atoms, d), points to the row's atom from each atom; `other`, shape (rows, atoms), is False for an atom
    with itself, and in rows past the last atom. Reverse mode computes the blocks again.
    """
    atoms = position.shape[0]
    rows = max(1, min(atoms, PAIRS_AT_ONCE // atoms))
    blocks = -(-atoms // rows)
    index = jnp.arange(blocks * rows).reshape(blocks, rows)

    @jax.checkpoint
    def block(places: Array) -> Any:
        clipped = jnp.minimum(places, atoms - 1)
        apart = space.displacement(position[clipped][:, None, :], position[None, :, :])
        other = (clipped[:, None] != jnp.arange(atoms)[None, :]) & (places < atoms)[:, None]
        return row(apart, other, *(column[clipped] for column in columns))

    return jax.lax.map(block, index)


def distance(apart: Array, other: Array) -> Array:
    """The lengths, with a 1 and no derivative where an atom meets itself or one in its very place."""
    square = jnp.sum(apart**2, axis=-1)
    apart_at_all = other & (square > 0)
    return jnp.sqrt(jnp.where(apart_at_all, square, 1.0))


def over_frames(space: Space, position: Array, one: Callable[[Space, Array], Any]) -> Any:
    """The mean of `one(space, position)` over the frames of a trajectory, or its value for a single frame.

    The space is that of all frames, or has a leading axis of frames.
    """
    if position.ndim == 2:
        return one(space, position)
    if position.ndim != 3:
        raise ArgumentError(
            f"Argument `position` must have the shape (atoms, d) or (frames, atoms, d), but it has {position.shape}."
        )
    if is_stacked(space):
        found = jax.lax.map(lambda pair: one(*pair), (space, position))
    else:
        found = jax.lax.map(lambda q: one(space, q), position)
    return jax.tree.map(lambda x: jnp.mean(x, axis=0), found)


def is_stacked(space: Space) -> bool:
    """Tell whether the space has a leading axis of frames."""
    ranks = {"Orthorhombic": 1, "Triclinic": 2}
    leaves = jax.tree.leaves(space)
    return bool(leaves) and leaves[0].ndim > ranks.get(type(space).__name__, leaves[0].ndim)


def check_cutoff(space: Space, reach: float, name: str = "cutoff") -> None:
    """Refuse a distance beyond which the nearest image is not the only one, where the cell is known."""
    if not (np.isfinite(reach) and reach > 0):
        raise ArgumentError(f"Argument `{name}` must be positive and finite, but it is {reach}.")
    if not space.periodic or traced(space):
        return
    with jax.ensure_compile_time_eval():  # known numbers stay known inside jit
        distances = jax.vmap(lambda s: s.plane_distances())(space) if is_stacked(space) else space.plane_distances()
        half = float(jnp.min(distances)) / 2
    if reach > half * (1 + 1e-6):
        raise ArgumentError(
            f"Argument `{name}` must be at most {half:.6g}, half the smallest distance between opposite faces of the cell, but it "
            f"reaches to {reach:.6g}, where other images count too. Lower it, or repeat the cell."
        )
