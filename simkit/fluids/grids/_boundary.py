"""Boundary conditions: small modules, a pair for each axis of a grid."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import quantity, tracing
from ._grid import Grid

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class Boundary(eqx.Module):
    """Boundary condition at one end of an axis. Its numbers are quantities, so that they have paths and gradients.

    `serves` names the kinds of fields that it can bound: "velocity", "scalar", "gas", "water" or "lattice".
    """

    serves: AbstractClassVar[tuple[str, ...]]


class Periodic(Boundary):
    """The other end of the axis follows; both ends of an axis are periodic or neither is."""

    serves: ClassVar[tuple[str, ...]] = ("velocity", "scalar", "gas", "water", "lattice")


class NoSlip(Boundary):
    """A wall that the fluid sticks to, at rest or moving along itself.

    `velocity` is that of the wall: a number for all components, shape `(dimensions,)`, or a profile `(dimensions, ...)` by the
    cells along it. Its normal component must be 0.
    """

    serves: ClassVar[tuple[str, ...]] = ("velocity", "gas", "lattice")
    velocity: Array = quantity(0.0, doc="velocity of the wall")


class FreeSlip(Boundary):
    """A wall along which the fluid slips: no flow through it, no shear stress on it."""

    serves: ClassVar[tuple[str, ...]] = ("velocity", "gas", "water")


class Inflow(Boundary):
    """A given velocity: a number into the box, shape `(dimensions,)`, or a profile `(dimensions, ...)` by the cells of the end."""

    serves: ClassVar[tuple[str, ...]] = ("velocity", "lattice")
    velocity: Array = quantity(doc="velocity of the incoming fluid")


class Outflow(Boundary):
    """An end through which the fluid leaves: what arrives is carried out, $u_t + c\\,u_n = 0$.

    `speed` is c; by default, None, the mean speed through the face.
    """

    serves: ClassVar[tuple[str, ...]] = ("velocity",)
    speed: Any = eqx.field(default=None)


class FixedPressure(Boundary):
    """An end at a given pressure, through which the fluid of a `LatticeBoltzmann` comes and goes straight.

    `pressure` is for each unit of density, as is the output of that name; a number, or a profile by the cells of the end.
    """

    serves: ClassVar[tuple[str, ...]] = ("lattice",)
    pressure: Array = quantity(0.0, doc="pressure at the end, for each unit of density")


class Dirichlet(Boundary):
    """A scalar with a given value."""

    serves: ClassVar[tuple[str, ...]] = ("scalar",)
    value: Array = quantity(0.0, doc="value at the boundary")


class Neumann(Boundary):
    """A scalar with a given outward derivative; 0 lets nothing through."""

    serves: ClassVar[tuple[str, ...]] = ("scalar",)
    gradient: Array = quantity(0.0, doc="outward derivative at the boundary")


Boundaries = tuple[tuple[Boundary, Boundary], ...]
"""A pair, lower and upper end, for each axis."""


def as_boundaries(grid: Grid, given: object, *, kind: str = "velocity") -> Boundaries:
    """Boundaries, a pair for each axis, from what a user wrote.

    **Arguments:**

    - `grid`: whose axes they belong to.
    - `given`: None (all periodic), one boundary for all ends, or one entry an axis: a boundary for both ends, or a pair.
    - `kind`: of which kind of field, "velocity", "scalar", "gas", "water" or "lattice".

    **Raises:** an `ArgumentError` that names the axis where a condition does not suit the field, only one end is
    periodic, an axis
    with stretched cells is periodic, a velocity or a profile has another shape, a wall moves out of its place, or fluid
    flows in that cannot leave.
    """
    if given is None or isinstance(given, Boundary):
        given = [Periodic() if given is None else given] * grid.dimensions
    if not isinstance(given, Sequence) or len(given) != grid.dimensions:
        raise ArgumentError(
            f"Argument `boundaries` must have one entry for each of {grid.dimensions} axes, a boundary or a pair, but it is "
            f"{given!r}."
        )
    pairs = []
    for axis, entry in enumerate(given):
        pair = (entry, entry) if isinstance(entry, Boundary) else tuple(entry)
        if len(pair) != 2 or not all(isinstance(end, Boundary) and kind in end.serves for end in pair):
            raise ArgumentError(
                f"Argument `boundaries` must give a {kind} at axis {axis} a pair of conditions for it, but it gives {entry!r}."
            )
        periodic = [isinstance(end, Periodic) for end in pair]
        if any(periodic) and not all(periodic):
            raise ArgumentError(
                f"Argument `boundaries` must make both ends of axis {axis} periodic or neither, but one is."
            )
        if all(periodic) and grid.stretched[axis] is not None:
            raise ArgumentError(f"Axis {axis} must have equal cells to be periodic, but it is stretched.")
        for end in pair:
            _check_values(grid, end, axis)
        pairs.append(pair)
    ends = [end for pair in pairs for end in pair]
    out = FixedPressure if kind == "lattice" else Outflow
    if any(isinstance(end, Inflow) for end in ends) and not any(isinstance(end, out) for end in ends):
        raise ArgumentError(
            f"Fluid flows in that cannot leave: `boundaries` with an `Inflow` need an `{out.__name__}` somewhere."
        )
    return tuple(pairs)


def _check_values(grid: Grid, end: Boundary, axis: int) -> None:
    """Refuse numbers of a condition that do not fit the grid."""
    d, face = grid.dimensions, tuple(n for i, n in enumerate(grid.shape) if i != axis)
    velocity = getattr(end, "velocity", None)
    if velocity is not None and jnp.shape(velocity) not in ((), (d,), (d, *face)):
        raise ArgumentError(
            f"The velocity of {type(end).__name__} at axis {axis} must be one number, or have the shape ({d},), or {(d, *face)} "
            f"where it varies, but it has {jnp.shape(velocity)}."
        )
    across = velocity[axis] if isinstance(end, NoSlip) and end.velocity.ndim else 0.0  # pyright: ignore[reportOptionalSubscript]
    if not tracing(across) and np.any(np.asarray(across) != 0):
        raise ArgumentError(
            f"A wall moves along itself only, but that at axis {axis} has the velocity {across} across it. "
            "Give each axis walls of its own, or take `Inflow` and `Outflow` where fluid goes through."
        )
    for name in ("value", "gradient", "pressure"):
        shape = jnp.shape(getattr(end, name, 0.0))
        if shape not in ((), face):
            raise ArgumentError(
                f"The {name} of {type(end).__name__} at axis {axis} must be one number or have the shape {face} of the cells along "
                f"it, but it has {shape}."
            )
