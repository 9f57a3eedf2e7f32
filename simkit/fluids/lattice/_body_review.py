"""Checks of a body in a lattice Boltzmann fluid: its numbers, its start, and why a run with it ended."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._doors import check_kind, shown
from ..._errors import ArgumentError
from ...core import as_float_array, traced
from ..grids._boundary import Boundaries, Periodic
from ..grids._checks import check_value, check_vector
from ..grids._grid import Grid
from ._review import LARGEST_MACH, check_mach

LEAST_CELLS = 5.0
"""Fewest cells across a body: below that its surface, one cell thick, is a fifth of it."""


def check_body(radius: Any, density: Any, motion: Any, lengths: tuple[float, ...], width: float) -> None:
    """Refuse a radius, a density or a motion that is none, and a radius that suits neither cells nor box.

    **Raises:** an `ArgumentError`.
    """
    check_value("radius", radius, positive=True)
    check_value("density", density)
    if not traced(density) and float(np.asarray(density)) < 0:
        raise ArgumentError(
            f"Argument `density` must not be negative, but it is {float(np.asarray(density)):g}. Write that of the body over that "
            "of the fluid, such as `density=2.0`."
        )
    if motion is not None and not callable(motion):
        raise ArgumentError(f"Argument `motion` must be a function of time, but it is {shown(motion)}.")
    if traced(radius):
        return
    across, least = 2 * float(np.asarray(radius)) / width, min(lengths)
    if across < LEAST_CELLS or across * width >= least:
        raise ArgumentError(
            f"Argument `radius` must be from {0.5 * LEAST_CELLS * width:.3g}, {LEAST_CELLS:g} cells across, to below half of the "
            f"box, {0.5 * least:.3g}, but it is {0.5 * across * width:.3g}. Take a finer grid or a larger box."
        )


def check_shape(shape: Any, surface: Any, motion: Any, dimensions: int) -> None:
    """Refuse a shape or a surface that a body cannot have.

    **Raises:** an `ArgumentError`.
    """
    if surface not in ("smooth", "cut"):
        raise ArgumentError(f'Argument `surface` must be "smooth" or "cut", but it is {shown(surface)}.')
    if shape is not None and not callable(shape):
        raise ArgumentError(
            f"Argument `shape` must be a signed distance `x -> distance` in coordinates of the body, but it is {shown(shape)}."
        )
    if motion is None and (shape is not None or surface == "cut"):
        raise ArgumentError(
            'Arguments `shape` and `surface="cut"` need a `motion`: only disks and balls with a smooth surface move freely.'
        )
    if shape is not None and dimensions != 2:
        raise ArgumentError("Argument `shape` must be left out in three dimensions, where bodies are balls.")


def vector(name: str, value: Any, dimensions: int, dtype: Any = None) -> Array:
    """A vector as an argument gives it.

    **Raises:** an `ArgumentError` where it is no vector of finite numbers.
    """
    check_vector(value, dimensions, name)
    try:
        found = as_float_array(value) if dtype is None else jnp.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must hold numbers, but it is {shown(value)}.") from error
    if not traced(found) and not np.isfinite(np.asarray(found)).all():
        raise ArgumentError(f"Argument `{name}` must be finite, but is {np.asarray(found).tolist()}.")
    return found


def moved_place(value: Any, dimensions: int, dtype: Any) -> tuple[Array, Array]:
    """The centre and the angle that a motion says; the angle is 0 where it says none.

    **Raises:** an `ArgumentError` where they have another shape.
    """
    angle = jnp.zeros(() if dimensions == 2 else 3, dtype)
    if isinstance(value, tuple) and len(value) == 2 and jnp.ndim(value[0]) == 1:
        value, told = value
        if dimensions != 2 or jnp.shape(told) != ():
            raise ArgumentError(
                "Argument `motion` must return the centre alone or, in two dimensions, `(centre, angle)` with one angle in "
                f"radians, but in {dimensions} dimensions it returns an angle of the shape {jnp.shape(told)}."
            )
        angle = jnp.asarray(told, dtype)
    return moved_centre(value, dimensions, dtype), angle


def moved_centre(value: Any, dimensions: int, dtype: Any) -> Array:
    """The centre that a motion says.

    **Raises:** an `ArgumentError` where it has another shape.
    """
    try:
        found = jnp.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"Argument `motion` must return the centre, of the shape ({dimensions},), but it returns {shown(value)}."
        ) from error
    if found.shape != (dimensions,):
        raise ArgumentError(
            f"Argument `motion` must return the centre, of the shape ({dimensions},), but it returns the shape {found.shape}. "
            "Write `lambda t: jnp.stack([...])` with a component for each axis."
        )
    return found


def check_populations(flow: Any, kind: type, fluid: Any) -> None:
    """Refuse what is no state of the fluid.

    **Raises:** an `ArgumentError`.
    """
    check_kind("flow", flow, kind, "a state of the fluid", "Write `system.fluid.start(velocity=...)`.")
    fluid.grid.check_field(flow.populations, "flow.populations", (fluid.lattice.size,))


def inside(grid: Grid, boundaries: Boundaries, centre: Array, radius: ArrayLike, width: float) -> Array:
    """Tell whether a body is in the box: it overlaps no wall by more than a cell, which is as thick as its surface."""
    good = jnp.array(True)
    for axis, pair in enumerate(boundaries):
        if not isinstance(pair[0], Periodic):
            low, room = grid.origin[axis], radius - width
            good &= (centre[axis] >= low + room) & (centre[axis] <= low + grid.lengths[axis] - room)
    return good


def wrapped(grid: Grid, boundaries: Boundaries, centre: Array) -> Array:
    """A place whose coordinates along periodic axes are those in the box."""
    parts = []
    for axis, pair in enumerate(boundaries):
        x, low, length = centre[axis], grid.origin[axis], grid.lengths[axis]
        parts.append(x - length * jnp.floor((x - low) / length) if isinstance(pair[0], Periodic) else x)
    return jnp.stack(parts)


def lattice_speed(velocity: Array, spin: Array, radius: ArrayLike, speed: float, step: float) -> Array:
    """The largest speed of a body's surface, or what bounds it, in cells a step."""
    length = lambda x: jnp.sqrt(jnp.sum(jnp.square(x)))
    return length(velocity / speed) + length(spin * step) * (radius * (1 / (speed * step)))


def check_state(system: Any, y: Any, centre: str) -> None:
    """Refuse a body that is not in the box, does not move by finite numbers, or is too fast for the lattice; known values alone.

    **Raises:** an `ArgumentError`.
    """
    fluid = system.fluid
    if traced(y.centre, y.velocity, y.angle, y.spin, system.radius):
        return
    for name in ("centre", "velocity", "angle", "spin"):
        if not np.isfinite(np.asarray(getattr(y, name))).all():
            raise ArgumentError(
                f"The {name} of the body must be finite, but is {np.asarray(getattr(y, name)).tolist()}."
            )
    if not inside(fluid.grid, fluid.boundaries, y.centre, system.radius, fluid.width):
        raise ArgumentError(
            f"{centre} must lie in the box, a radius of {float(system.radius):.4g} from its walls, which the body may overlap by a "
            f"cell of {fluid.width:.4g}, but it is {np.asarray(y.centre).tolist()} in {_box(fluid.grid)}."
        )
    fast = float(lattice_speed(y.velocity, y.spin, system.radius, fluid.speed, fluid.step)) * fluid.speed
    check_mach({"the body, with its surface,": fast}, fluid.step, fluid.width)


def cause(system: Any, t: float, centre: Array, velocity: Array, spin: Array) -> str:
    """A sentence on a body that left the box, or became too fast, at a time; "" where it did neither."""
    fluid = system.fluid
    if not np.isfinite(np.asarray(centre)).all():
        return ""
    if not inside(fluid.grid, fluid.boundaries, centre, system.radius, fluid.width):
        remedy = (
            "Let `motion` stay clear of walls."
            if system.motion is not None
            else "End the run before, or take a larger box."
        )
        return (
            f"The body left the box through a wall at time {t:.6g}, with its centre at {np.asarray(centre).tolist()} in "
            f"{_box(fluid.grid)} and the radius {float(system.radius):.4g}: there are no forces of contact. {remedy}"
        )
    mach = float(lattice_speed(velocity, spin, system.radius, fluid.speed, fluid.step)) * 3**0.5
    if mach > LARGEST_MACH:
        return (
            f"The body became too fast for the lattice at time {t:.6g}: its velocity {np.asarray(velocity).tolist()} and the "
            f"turning of its surface make the Mach number {mach:.3g}, above {LARGEST_MACH:g}. Make the fluid anew with a `step` "
            f"of at most {fluid.step * LARGEST_MACH / mach:.3g} (now {fluid.step:.3g}), or cells as much wider."
        )
    return ""


def _box(grid: Grid) -> str:
    ends = [f"{low:.6g} to {low + length:.6g}" for low, length in zip(grid.origin, grid.lengths, strict=True)]
    return f"the box from {' and from '.join(ends)}"
