"""Boundaries at a time: their functions and inputs as numbers."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs
from ._boundary import Boundaries, Boundary, Inflow, Piecewise
from ._grid import Grid
from ._values import InputValue, values_of, varies


@dataclasses.dataclass(frozen=True)
class _Place:
    """An end of an axis at a time, where values are asked for."""

    grid: Grid
    axis: int
    side: int
    inputs: Inputs
    dtype: DTypeLike

    @property
    def face(self) -> tuple[int, ...]:
        """The shape of the cells along the end."""
        return tuple(n for a, n in enumerate(self.grid.shape) if a != self.axis)

    def mesh(self) -> tuple[Array, ...]:
        """Coordinates of the cells' faces at the end."""
        d = self.grid.dimensions
        along = [self.grid.faces(a)[[-self.side]] if a == self.axis else self.grid.centres(a) for a in range(d)]
        return tuple(jnp.asarray(x.reshape(self.face), self.dtype) for x in np.meshgrid(*along, indexing="ij"))


def at_time(grid: Grid, boundaries: Boundaries, t: ArrayLike, inputs: Inputs, dtype: DTypeLike) -> Boundaries:
    """Boundaries with what they give at time t as arrays; ends that give nothing that changes are the same objects."""
    return _each(grid, boundaries, inputs, dtype, lambda end, place: _resolved(end, place, t))


def with_boundaries_at(system: Any, t: ArrayLike, inputs: Inputs, dtype: DTypeLike) -> Any:
    """A system whose boundaries give what they do at time t, as arrays; the system itself where nothing changes."""
    names = [name for name in ("boundaries", "scalar_boundaries") if getattr(system, name, None) is not None]
    found = {name: at_time(system.grid, getattr(system, name), t, inputs, dtype) for name in names}
    changed = [
        name
        for name in names
        if any(
            a is not b
            for p, q in zip(found[name], getattr(system, name), strict=True)
            for a, b in zip(p, q, strict=True)
        )
    ]
    if not changed:
        return system
    system = copy.copy(system)
    for name in changed:
        object.__setattr__(system, name, found[name])
    return system


def rates_at(grid: Grid, boundaries: Boundaries, t: ArrayLike, dtype: DTypeLike) -> Boundaries | None:
    """Boundaries in which each `Inflow` has the time derivative of its velocity; None where all are steady.

    What other conditions give means nothing here.
    """
    steady = True

    def rate(end: Boundary, place: _Place) -> Boundary:
        nonlocal steady
        if isinstance(end, Piecewise):
            return Piecewise(end.where, rate(end.first, place), rate(end.second, place))
        if not isinstance(end, Inflow):
            return end
        if not varies(end.velocity):
            return Inflow(jnp.zeros_like(end.velocity))
        steady = False
        velocity = lambda s: _evaluated(end.velocity, "velocity", place, s)
        time = jnp.asarray(t, dtype)
        return Inflow(jax.jvp(velocity, (time,), (jnp.ones_like(time),))[1])

    found = _each(grid, boundaries, None, dtype, rate)
    return None if steady else found


def _each(grid: Grid, boundaries: Boundaries, inputs: Inputs, dtype: DTypeLike, change: Any) -> Boundaries:
    place = lambda axis, side: _Place(grid, axis, side, inputs, dtype)
    return tuple(
        (change(lower, place(axis, 0)), change(upper, place(axis, 1))) for axis, (lower, upper) in enumerate(boundaries)
    )


def _resolved(end: Boundary, place: _Place, t: ArrayLike) -> Boundary:
    if isinstance(end, Piecewise):
        where = end.where
        if callable(where):
            where = jnp.asarray(where(jnp.asarray(t, place.dtype), place.mesh()))
            if where.dtype != bool or where.shape != place.face:
                raise ArgumentError(
                    f"The function `where` of Piecewise at axis {place.axis} must give truth values of the shape {place.face} of "
                    f"the cells along it, but it gives the type {where.dtype} and the shape {where.shape}. Write "
                    "`lambda t, x: x[0] < 0.5`."
                )
        return Piecewise(where, _resolved(end.first, place, t), _resolved(end.second, place, t))
    changed = {name: value for name, value in values_of(end).items() if varies(value)}
    for name, value in changed.items():
        value = _evaluated(value, name, place, t)
        end = eqx.tree_at(lambda e, name=name: getattr(e, name), end, value, is_leaf=lambda x: x is None)
    return end


def _evaluated(value: Any, name: str, place: _Place, t: ArrayLike) -> Array:
    """A number, or a profile by the cells along the end, of each component for what is called velocity."""
    if isinstance(value, InputValue):
        found = place.inputs.get(value.name) if isinstance(place.inputs, Mapping) else None
        what = f"The input `{value.name}`"
        if found is None:
            raise ArgumentError(f"{what} must be given for an end of axis {place.axis}, but is not among `inputs`.")
    else:
        found = value(jnp.asarray(t, place.dtype), place.mesh())
        what = f"The {name} that a function gives"
    d, face = place.grid.dimensions, place.face
    if name == "velocity" and isinstance(found, tuple | list) and len(found) == d:
        parts = [jnp.asarray(part, place.dtype) for part in found]
        if all(part.shape in ((), face) for part in parts):
            shape = face if any(part.shape == face for part in parts) else ()
            found = jnp.stack([jnp.broadcast_to(part, shape) for part in parts])
    allowed = ((), (d,), (d, *face)) if name == "velocity" else ((), face)
    shape = getattr(found, "shape", () if isinstance(found, int | float) else None)
    if shape not in allowed:
        wanted = (
            f"one number, {d} components, or have the shape {(d, *face)}"
            if name == "velocity"
            else f"one number, or have the shape {face}"
        )
        given = f"has {shape}" if shape is not None else f"is a {type(found).__name__}"
        raise ArgumentError(
            f"{what} at an end of axis {place.axis} must be {wanted} of the cells along it, but it {given}."
        )
    return jnp.asarray(found, place.dtype)
