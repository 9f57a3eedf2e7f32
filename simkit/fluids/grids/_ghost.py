"""Ghost cells: what stands beyond the ends of an axis, so that one formula serves all faces."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._errors import ArgumentError
from ._boundary import Boundaries, Boundary, Periodic, Piecewise
from ._cells import cells as cells
from ._parts import Seam, exchanged


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
        raise ArgumentError(
            f"This scheme reads {ghosts} cells beyond each end, for which an axis of a grid, or of a device's part, must "
            f"have as many, but axis {axis} has {n}. Take more cells, fewer devices or another `reconstruction`."
        )
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


def along_end(boundaries: Boundaries, value: Array, axis: int, like: Array) -> Array:
    """A number, or a profile by the cells along an end of an axis, in the shape of ghost cells, which may be some more."""
    value = jnp.asarray(value, like.dtype)
    if value.ndim == 0:
        return jnp.broadcast_to(value, like.shape)
    value = jnp.expand_dims(value, axis)
    for other, ends in enumerate(boundaries):
        more = like.shape[other] - value.shape[other]
        if other != axis and more:
            widths = [(more // 2, more // 2) if i == other else (0, 0) for i in range(value.ndim)]
            value = jnp.pad(value, widths, mode="wrap" if isinstance(ends[0], Periodic) else "edge")
    return jnp.broadcast_to(value, like.shape)


def chosen(
    boundaries: Boundaries,
    boundary: Piecewise,
    axis: int,
    ghosts: Callable[[list[Array], Any, int], list[Array]],
    rows: list[Array],
    side: int,
) -> list[Array]:
    """Ghost cells of an end in pieces: of each condition in its cells."""
    first, second = (ghosts(rows, part, side) for part in (boundary.first, boundary.second))
    here = along_end(boundaries, boundary.where, axis, rows[0]) > 0
    return [jnp.where(here, a, b) for a, b in zip(first, second, strict=True)]
