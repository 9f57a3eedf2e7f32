"""Ends through which fluid flows in and out."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..grids._boundary import Boundaries, FixedPressure, Inflow
from ._lattice import Lattice
from ._streaming import face, walls


def opened(
    lattice: Lattice, boundaries: Boundaries, found: list[Array], push: Sequence[Any] | None, speed: float
) -> list[Array]:
    """Populations whose unknown ones at open ends follow from the velocity or the pressure that is given there.

    The part of a population that is not in equilibrium is reflected, and the momentum along the end is made the given one.
    Zou and He (1997), Phys. Fluids 9:1591; Hecht and Harting (2010), J. Stat. Mech. P01018.
    """
    for axis, side, end in walls(boundaries):
        if isinstance(end, Inflow | FixedPressure):
            found = _opened(lattice, found, (axis, side, end), push, speed)
    return found


def _opened(
    lattice: Lattice, found: list[Array], where: tuple[int, int, Any], push: Sequence[Any] | None, speed: float
) -> list[Array]:
    axis, side, end = where
    place, d = face(axis, side), lattice.dimensions
    here = [g[place] for g in found]
    half = [jnp.zeros((), here[0].dtype)] * d if push is None else [0.5 * a for a in push]
    total = lambda indices: sum((here[i] for i in indices[1:]), here[indices[0]])
    along, leaving = lattice.along(axis, 0), lattice.along(axis, -side)
    known = 1 + total(along) + 2 * total(leaving)
    if isinstance(end, Inflow):
        velocity = components(end, axis, side, d, speed)
        flow = [u - a for u, a in zip(velocity, half, strict=True)]
        density = known / (1 - side * flow[axis])
    else:
        density = jnp.ones_like(known) + 3 * end.pressure / speed**2
        flow = [-half[k] for k in range(d)]
        flow[axis] = side * (1 - known / density)
    momentum = [density * u + jnp.zeros_like(known) for u in flow]
    # What reflection alone leaves of the momentum along the end is shared between the two diagonal populations.
    missing: list[Any] = [None] * d
    for k in range(d):
        if k != axis:
            carried = total([i for i in along if lattice.velocities[i][k] > 0])
            carried = carried - total([i for i in along if lattice.velocities[i][k] < 0])
            missing[k] = 0.5 * (2 / 3 * momentum[k] - carried)
    found = list(found)
    for i in lattice.along(axis, side):
        value = here[lattice.opposite[i]] + 6 * lattice.weights[i] * lattice.dot(i, momentum)
        for k, c in enumerate(lattice.velocities[i]):
            if c and k != axis:
                value = value + c * missing[k]
        found[i] = found[i].at[place].set(value)
    return found


def components(end: Inflow, axis: int, side: int, dimensions: int, speed: float) -> list[Any]:
    """The velocity of an inflow by axis, in cells a step; a number is that into the box."""
    given = end.velocity / speed
    if given.ndim:
        return [given[k] for k in range(dimensions)]
    return [side * given if k == axis else jnp.zeros_like(given) for k in range(dimensions)]
