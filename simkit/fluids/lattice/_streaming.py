"""Streaming of populations: to neighbours, back from walls and bodies, and through open ends."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32

from ..grids._boundary import Boundaries, NoSlip, Periodic
from ._collision import Populations
from ._lattice import Lattice


def links(
    lattice: Lattice, boundaries: Boundaries, shape: tuple[int, ...], solid: np.ndarray | Array | None
) -> UInt32[np.ndarray, "..."] | UInt32[Array, "..."] | None:
    """The links of each cell that end on a wall or a body: bit i where population i comes back from it; None without any.

    Cells inside a body are kept apart from the fluid in the same way, so that they change nothing and need no other rule.
    """
    found: Any = np.zeros(shape, np.uint32)
    for i, c in enumerate(lattice.velocities):
        blocked: Any = np.zeros(shape, bool)
        for axis, side, _ in walls(boundaries):
            if c[axis] == side:
                blocked[face(axis, side)] = True
        if solid is not None:
            numbers = jnp if isinstance(solid, Array) else np
            blocked = blocked | (solid != numbers.roll(solid, c, tuple(range(len(shape)))))
        found = found | blocked.astype(np.uint32) << np.uint32(i)
    return found if isinstance(found, Array) or found.any() else None


def walls(boundaries: Boundaries) -> list[tuple[int, int, Any]]:
    """All ends that are not periodic: axis, direction into the box (1 or -1), condition."""
    return [
        (axis, side, end)
        for axis, pair in enumerate(boundaries)
        for side, end in zip((1, -1), pair, strict=True)
        if not isinstance(end, Periodic)
    ]


def face(axis: int, side: int) -> tuple[Any, ...]:
    """The index of the cells at an end, whose direction into the box is `side`."""
    return (*(slice(None),) * axis, 0 if side > 0 else -1)


def stream(lattice: Lattice, after: Populations, bits: UInt32[Array, "..."] | None) -> list[Array]:
    """Populations at the end of a step, from those after its collision."""
    found = freely(lattice, after)
    if bits is None:
        return found
    back = lambda i, moved: jnp.where((bits >> i) & 1 != 0, after[lattice.opposite[i]], moved)
    return [back(i, moved) if any(lattice.velocities[i]) else moved for i, moved in enumerate(found)]


def freely(lattice: Lattice, after: Populations) -> list[Array]:
    """Populations moved to their neighbours, around the box."""
    found = []
    for i, c in enumerate(lattice.velocities):
        axes = tuple(axis for axis, x in enumerate(c) if x)
        found.append(jnp.roll(after[i], tuple(c[axis] for axis in axes), axes) if axes else after[i])
    return found


def dragged(
    lattice: Lattice,
    boundaries: Boundaries,
    found: list[Array],
    solid: Bool[Array, "..."] | None,
    speed: float,
) -> list[Array]:
    """Populations with what walls that move along themselves add; `speed` is that of one cell a step.

    Ladd (1994), J. Fluid Mech. 271:285.
    """
    found = list(found)
    for axis, side, end in walls(boundaries):
        if not isinstance(end, NoSlip) or not end.velocity.ndim:
            continue
        place = face(axis, side)
        open_cells = None if solid is None else ~solid[place]
        velocity = [end.velocity[k] / speed for k in range(lattice.dimensions)]
        for i in lattice.along(axis, side):
            pulled = [v for k, v in enumerate(velocity) if k != axis and lattice.velocities[i][k]]
            if not pulled:
                continue
            added = 6 * lattice.weights[i] * lattice.dot(i, velocity)
            if open_cells is not None:
                added = jnp.where(open_cells, added, jnp.zeros_like(added))
            found[i] = found[i].at[place].add(added)
    return found


def load(lattice: Lattice, before: Populations, after: Populations, solid: Bool[Array, "..."]) -> Sequence[Array]:
    """The momentum that a body takes from the fluid in a step, by axis: the mean of the steps before and after a state.

    A population that meets the body gives its momentum once on its way in and once on its way out.
    """
    axes, outside = tuple(range(lattice.dimensions)), ~solid
    total: list[Any] = [jnp.zeros((), before[0].dtype)] * lattice.dimensions
    for i, c in enumerate(lattice.velocities):
        if not any(c):
            continue
        ahead = jnp.roll(solid, tuple(-x for x in c), axes)  # the cell that population i goes to
        given = jnp.where(outside & ahead, after[i] + before[lattice.opposite[i]], jnp.zeros_like(before[0]))
        amount = jnp.sum(given)
        for axis, x in enumerate(c):
            if x:
                total[axis] = total[axis] + x * amount
    return total
