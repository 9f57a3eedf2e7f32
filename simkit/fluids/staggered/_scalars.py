"""Scalars that an incompressible flow carries, each with a diffusivity, boundaries and buoyancy of its own, and their reactions."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._doors import check_function, shown
from ..._errors import ArgumentError
from ..._types import Inputs, Scalar
from ...core import POSITIVE, quantity
from ..grids._at_time import with_boundaries_at
from ..grids._boundary import Boundaries, Boundary, as_boundaries
from ..grids._checks import check_value, check_vector
from ..grids._grid import Grid
from ..grids._parts import on_its_parts
from ._obstacle import any_moves
from ._staggered import Components, check_alike, to_faces
from ._state import StaggeredFlow

TAKEN = ("velocity", "pressure", "divergence", "energy", "flow", "scalar")
TAKEN += ("drag", "lift", "torque", "pressure_difference")
"""Names of outputs, which no scalar may have."""


class FlowScalar(eqx.Module):
    r"""A scalar $\theta$ that an `IncompressibleFlow` carries and that may lift the fluid:

    $$\partial_t \theta + \nabla\cdot(u \theta) = \kappa \nabla^2 \theta + r, \qquad \partial_t u = \dots + b\, \theta$$

    with the rate r of the system's `reaction`.

    - `diffusivity`: $\kappa$.
    - `buoyancy`: b, shape (dimensions,), the acceleration for each unit of the scalar; None (the default) for none.
    - `boundaries`: of `Periodic`, `Dirichlet`, `Neumann` and `Piecewise`, as `scalar_boundaries`; None: periodic.

    **Good values:** a diffusivity of a thousandth to one times the viscosity; sharp fronts want `flux="upwind"`.

    **Raises:** an `ArgumentError` for a diffusivity that is not positive or not finite.
    """

    boundaries: Any
    diffusivity: Scalar = quantity(unit="length2/time", support=POSITIVE, doc="diffusivity")
    buoyancy: Any = quantity(doc="acceleration for each unit of the scalar", optional=True)

    def __init__(
        self,
        diffusivity: Any,
        *,
        buoyancy: ArrayLike | Sequence[float] | None = None,
        boundaries: Boundary | Sequence[Boundary | Sequence[Boundary]] | None = None,
    ):
        check_value("diffusivity", diffusivity, positive=True)
        self.diffusivity, self.buoyancy, self.boundaries = diffusivity, buoyancy, boundaries


def as_scalars(grid: Grid, boundaries: Boundaries, scalars: Any) -> dict[str, FlowScalar]:
    """Scalars by name, with their boundaries at all ends.

    **Raises:** an `ArgumentError` for what is no mapping of names to `FlowScalar`, names that outputs have, and wrong boundaries.
    """
    if scalars is None:
        return {}
    if not isinstance(scalars, Mapping) or not all(isinstance(x, FlowScalar) for x in scalars.values()):
        raise ArgumentError(
            f"Argument `scalars` must hold a `FlowScalar` for each name, but is {shown(scalars)}. Write "
            '`scalars={"salt": fluids.FlowScalar(1e-3)}`.'
        )
    found = {}
    for name, scalar in scalars.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(
                f"The name of a scalar must be a word of letters, digits and underscores, but one is {name!r}."
            )
        if name in TAKEN:
            raise ArgumentError(f"No scalar may be called {name!r}, since an output has this name. Take another one.")
        if scalar.buoyancy is not None:
            check_vector(scalar.buoyancy, grid.dimensions, "buoyancy")
        ends = as_boundaries(grid, scalar.boundaries, kind="scalar")
        check_alike(boundaries, ends)
        found[name] = FlowScalar(scalar.diffusivity, buoyancy=scalar.buoyancy, boundaries=ends)
    return found


def slopes(system: Any, t: ArrayLike, y: StaggeredFlow, inputs: Inputs) -> dict[str, Array]:
    """The slopes of all scalars: each is carried as the only one is, and what reacts is added."""
    found = {}
    for name, scalar in system.scalars.items():
        one = copy.copy(system)
        for field, value in (("diffusivity", scalar.diffusivity), ("scalar_boundaries", scalar.boundaries)):
            object.__setattr__(one, field, value)
        theta = y.scalars[name]
        now = with_boundaries_at(one, t, inputs, theta.dtype)
        carried = lambda part, flow: part.scalar_slope(flow)
        slope = on_its_parts(now, carried, StaggeredFlow(y.velocity, theta), theta)
        found[name] = uniform(system, slope, y.velocity, theta)
    if system.reaction is None or not found:
        return found
    rates = system.reaction(t, system.at.mesh(None, y.velocity[0].dtype), y.scalars)
    shape = tuple(system.grid.shape)
    if not isinstance(rates, Mapping) or not set(rates) <= set(found):
        raise ArgumentError(
            f"Argument `reaction` must give a rate for some of the scalars {', '.join(found)}, by name, but gives {shown(rates)}. "
            "Write `lambda t, x, scalars: {name: rate}`."
        )
    for name, rate in rates.items():
        if jnp.shape(rate) not in ((), shape):
            raise ArgumentError(
                f"Argument `reaction` must give `{name}` a rate of the shape {shape} of the grid, but it has {jnp.shape(rate)}."
            )
    return {name: slope + rates[name] if name in rates else slope for name, slope in found.items()}


def check_reaction(reaction: Any, scalars: Any) -> Any:
    """Refuse a reaction that is no function of time, coordinates and scalars, or of no scalars.

    **Raises:** an `ArgumentError`.
    """
    if reaction is None:
        return None
    if not scalars:
        raise ArgumentError(
            "Argument `reaction` is of the scalars in `scalars`, but there are none. Write "
            '`scalars={"salt": fluids.FlowScalar(1e-3)}`.'
        )
    check_function("reaction", reaction, ("t", "x", "scalars"))
    return reaction


def uniform(system: Any, slope: Any, velocity: Components, scalar: Array) -> Any:
    """The slope of a scalar that stays uniform beside a moved body, where the velocity has a divergence."""
    if not any_moves(system):
        return slope
    return slope + scalar * system.at.divergence(velocity)


def lifted(system: Any, y: StaggeredFlow, axis: int) -> Any:
    """The acceleration of each face across an axis by all scalars that lift the fluid; None where none does."""
    total: Any = None
    for name, scalar in system.scalars.items():
        if scalar.buoyancy is not None:
            part = scalar.buoyancy[axis] * to_faces(system.at, y.scalars[name], axis)
            total = part if total is None else total + part
    return total


def check_start(system: Any, scalars: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The scalars of a start, by name; those left out are 0.

    **Raises:** an `ArgumentError` for other names and other shapes.
    """
    known = system.scalars
    names = ", ".join(known) or "of which there are none"
    if scalars is not None and (not isinstance(scalars, Mapping) or not set(scalars) <= set(known)):
        raise ArgumentError(
            f"Argument `scalars` of a start must hold fields of the system's scalars, {names}, by name, "
            f"but is {shown(scalars)}. Name those that start with other values than 0."
        )
    for name, field in (scalars or {}).items():
        if not callable(field) and jnp.ndim(field):
            system.grid.check_field(field, f"scalars[{name!r}]")
    return scalars or {}


def check_state(system: Any, scalars: Mapping[str, Any]) -> None:
    """Refuse a state with other scalars than the system has.

    **Raises:** an `ArgumentError`.
    """
    if set(scalars) != set(system.scalars):
        raise ArgumentError(
            f"Argument `y0` of {type(system).__name__} has the scalars {', '.join(scalars) or 'none'}, but the system has "
            f"{', '.join(system.scalars) or 'none'}. `start(velocity, scalars=...)` makes a state."
        )
    for name, field in scalars.items():
        system.grid.check_field(field, f"y0.scalars.{name}")
