"""The states of a gas: what users see and what is conserved."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...core import POSITIVE, quantity
from ..grids._cells import cells


class Gas(eqx.Module):
    """A gas in every cell: density, velocity (one component an axis in front) and pressure.

    Means of cells; at a jump those of what is conserved, of which these are made.
    """

    density: Float[Array, "..."] = quantity(unit="mass/length3", support=POSITIVE)
    velocity: Float[Array, "d ..."] = quantity(unit="length/time")
    pressure: Float[Array, "..."] = quantity(unit="mass/(length time2)", support=POSITIVE)


class ConservedGas(eqx.Module):
    """Conserved quantities of a gas, for each volume: mass, momentum, energy."""

    density: Float[Array, "..."]
    momentum: Float[Array, "d ..."]
    energy: Float[Array, "..."]


Rows = list[Array]
"""Density, components of the velocity, pressure; or mass, components of the momentum, energy."""


def rows_of(gas: Gas | ConservedGas) -> Rows:
    """A gas as a list of arrays of one shape."""
    if isinstance(gas, Gas):
        return [gas.density, *gas.velocity, gas.pressure]
    return [gas.density, *gas.momentum, gas.energy]


def gas_of(rows: Rows) -> Gas:
    return Gas(rows[0], jnp.stack(rows[1:-1]), rows[-1])


def conserved_of(rows: Rows) -> ConservedGas:
    return ConservedGas(rows[0], jnp.stack(rows[1:-1]), rows[-1])


def to_conserved(rows: Rows, gamma: Array) -> Rows:
    """Mass, momenta and energy from density, velocities and pressure of an ideal gas."""
    density, *velocity, pressure = rows
    kinetic = 0.5 * density * sum(u * u for u in velocity)
    return [density, *(density * u for u in velocity), pressure / (gamma - 1) + kinetic]


def to_primitive(rows: Rows, gamma: Array) -> Rows:
    """Density, velocities and pressure from mass, momenta and energy of an ideal gas."""
    density, *momentum, energy = rows
    inverse = 1 / density
    velocity = [m * inverse for m in momentum]
    kinetic = 0.5 * sum(m * u for m, u in zip(momentum, velocity, strict=True))
    return [density, *velocity, (gamma - 1) * (energy - kinetic)]


def along(rows: Rows, axis: int) -> Rows:
    """Rows of a gas with the component across the faces of an axis in front: density, across, others, pressure or energy."""
    others = [c for i, c in enumerate(rows[1:-1]) if i != axis]
    return [rows[0], rows[1 + axis], *others, rows[-1]]


def back(rows: Rows, axis: int) -> Rows:
    """The rows of `along` in the order of the axes."""
    others = list(rows[2:-1])
    others.insert(axis, rows[1])
    return [rows[0], *others, rows[-1]]


def positive(mean: Rows, lower: Rows, upper: Rows, gamma: Array) -> Array:
    """Return a mask of the cells whose reconstructed states, and the rests of their means, are positive."""
    conserved = [to_conserved(rows, gamma) for rows in (mean, lower, upper)]
    rest = [2 * a - 0.5 * (b + c) for a, b, c in zip(*conserved, strict=True)]
    density, *momentum, energy = rest
    inside = density * energy - 0.5 * sum(m * m for m in momentum)  # positive as the pressure is
    good = (density > 0) & (inside > 0)
    for rows in (lower, upper):
        good = good & (rows[0] > 0) & (rows[-1] > 0)
    return good


def at_faces(good: Array, mean: Rows, lower: Rows, upper: Rows, axis: int) -> tuple[Rows, Rows]:
    """States below and above the faces between cells along an axis; reconstructed ones that are not `good` give way to the mean."""
    lower, upper = ([jnp.where(good, x, m) for x, m in zip(side, mean, strict=True)] for side in (lower, upper))
    n = good.shape[axis]
    return [cells(x, axis, 0, n - 1) for x in upper], [cells(x, axis, 1, n) for x in lower]
