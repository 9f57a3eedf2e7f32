"""Sums over all pairs of atoms in blocks of rows, for energies that no list of neighbours serves."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ..space._space import Space

ROWS_TIMES_ATOMS = 400_000
"""Pairs of a block, whose temporary arrays then take some tens of MiB."""


def over_rows(
    function: Callable[[Int[Array, " rows"], Float[Array, "rows atoms"], Array], PyTree],
    space: Space,
    position: Float[Array, "atoms d"],
) -> Any:
    """Return `function(index, distance, others)` of every atom with all atoms, (atoms, ...).

    - `index`: which atoms the rows are.
    - `distance`: to the nearest image of each other atom; 1 where that is the atom itself, which `others` leaves out.
    - `others`: shape (rows, atoms), False for the atom itself.

    Derivatives compute the blocks again instead of keeping them.
    """
    atoms = len(position)
    everyone = jnp.arange(atoms, dtype=jnp.int32)

    def block(index: Array) -> Any:
        away = jax.vmap(lambda x: space.displacement(position, jnp.broadcast_to(x, position.shape)))(position[index])
        others = index[:, None] != everyone[None]
        square = jnp.where(others, jnp.sum(away * away, axis=-1), 1)
        return function(index, jnp.sqrt(square), others)

    rows = max(1, min(atoms, ROWS_TIMES_ATOMS // atoms))
    if rows == atoms:
        return block(everyone)
    blocks = -(-atoms // rows)
    padded = jnp.minimum(jnp.arange(blocks * rows, dtype=jnp.int32), atoms - 1).reshape(blocks, rows)
    found = jax.lax.map(jax.checkpoint(block), padded)
    return jax.tree.map(lambda leaf: leaf.reshape(blocks * rows, *leaf.shape[2:])[:atoms], found)
