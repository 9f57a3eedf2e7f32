"""Moments and collisions of populations, as differences from the weights of a fluid at rest."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxtyping import Array

from ._lattice import Lattice

Populations = Sequence[Array]
"""An array a velocity of the shape of the grid: population less weight."""


class Moments(NamedTuple):
    """Density less 1, and velocity in cells a step."""

    excess: Array
    velocity: list[Array]


class Rates(NamedTuple):
    """Shares that relax in a step, of the even and of the odd parts of populations: 1 / tau, equal for BGK."""

    even: Array
    odd: Array


def moments(lattice: Lattice, populations: Populations, push: Sequence[Any] | None) -> Moments:
    """The density and the velocity between two steps, with half of what the acceleration `push` adds in a step."""
    excess = _sum(populations)
    share, velocity = 1 / (1 + excess), []
    for axis in range(lattice.dimensions):
        ahead, behind = (_sum([populations[i] for i in lattice.along(axis, sign)]) for sign in (1, -1))
        u = (ahead - behind) * share
        velocity.append(u if push is None else u + 0.5 * push[axis])
    return Moments(excess, velocity)


def _sum(arrays: Sequence[Array]) -> Array:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


def equilibrium(lattice: Lattice, i: int, found: Moments) -> tuple[Any, Any]:
    r"""The even and odd parts of an equilibrium, less its weight; odd is None for the velocity 0:

    $$w_i \rho\, \Big(\tfrac{9}{2} (c_i \cdot u)^2 - \tfrac{3}{2} |u|^2\Big) + w_i (\rho - 1), \qquad 3 w_i \rho\, c_i \cdot u$$
    """
    w, density = lattice.weights[i], 1 + found.excess
    square = -1.5 * _sum([u * u for u in found.velocity])
    along = lattice.dot(i, found.velocity)
    if along is None:
        return w * (found.excess + density * square), None
    return w * (found.excess + density * (4.5 * along * along + square)), (3 * w) * density * along


def collide(
    lattice: Lattice, populations: Populations, found: Moments, rates: Rates, push: Sequence[Any] | None, single: bool
) -> list[Array]:
    """Populations after a collision: even and odd parts relax at their rates, and a force is added.

    With a `single` rate the parts of a population need not be told apart. Forces as in Guo, Zheng and Shi (2002), Phys. Rev. E
    65:046308, doi:10.1103/PhysRevE.65.046308.
    """
    after: list[Any] = [None] * lattice.size
    force = None if push is None else [a * (1 + found.excess) for a in push]
    even, odd = rates
    for i in range(lattice.size):
        e, o = equilibrium(lattice, i, found)
        g, other = populations[i], populations[lattice.opposite[i]]
        if single or o is None:
            after[i] = g + even * ((e if o is None else e + o) - g)
        else:
            after[i] = g + even * (e - 0.5 * (g + other)) + odd * (o - 0.5 * (g - other))
        if force is not None:
            added = _forcing(lattice, i, found, force)
            after[i] = after[i] + (1 - 0.5 * even) * added[0]
            if o is not None:
                after[i] = after[i] + (1 - 0.5 * odd) * added[1]
    return after


def _forcing(lattice: Lattice, i: int, found: Moments, force: Sequence[Any]) -> tuple[Any, Any]:
    """The even and the odd part of what a force adds to a population in a step."""
    w = lattice.weights[i]
    work = _sum([u * f for u, f in zip(found.velocity, force, strict=True)])
    along = lattice.dot(i, force)
    if along is None:
        return (-3 * w) * work, None
    return w * (9 * lattice.dot(i, found.velocity) * along - 3 * work), (3 * w) * along
