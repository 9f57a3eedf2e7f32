"""Ghost cells: what stands beyond the ends of an axis, so that one formula serves all faces."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

from ._boundary import Boundary, Periodic
from ._cells import cells as cells
from ._slabs import Seam, exchanged


def padded(
    rows: list[Array],
    axis: int,
    ghosts: int,
    ends: tuple[Boundary, Boundary],
    beyond: Callable[[list[Array], Boundary, int], list[Array]],
) -> list[Array]:
    """Rows with `ghosts` cells more at both ends of an axis.

    `beyond(rows, boundary, side)` makes the ghosts of an end that is not periodic from the cells next to it, in order from the
    end inwards: mirrored, they stand at the mirror's places. `side` is 0 below and 1 above.
    """
    n = rows[0].shape[axis]
    if ghosts == 0:
        return rows
    if ghosts > n:
        raise ValueError(f"{ghosts} ghost cells need as many cells along an axis, which has {n}.")
    if isinstance(ends[0], Seam) and isinstance(ends[1], Seam):
        own = (ends[0].outer, ends[1].outer)
        return exchanged(
            rows, axis, ghosts, (ends[0], ends[1]), lambda side: _outside(rows, axis, ghosts, own, beyond, side)
        )
    if isinstance(ends[0], Periodic):
        return [jnp.concatenate([cells(x, axis, n - ghosts, n), x, cells(x, axis, 0, ghosts)], axis) for x in rows]
    below, above = (_outside(rows, axis, ghosts, ends, beyond, side) for side in (0, 1))
    return [jnp.concatenate(parts, axis) for parts in zip(below, rows, above, strict=True)]


def _outside(
    rows: list[Array],
    axis: int,
    ghosts: int,
    ends: tuple[Boundary, Boundary],
    beyond: Callable[..., list[Array]],
    side: int,
) -> list[Array]:
    n = rows[0].shape[axis]
    start = n - ghosts if side else 0
    return beyond([jnp.flip(cells(x, axis, start, start + ghosts), axis) for x in rows], ends[side], side)
