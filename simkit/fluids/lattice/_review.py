"""Checks of lattice Boltzmann systems: lattices, sides, bodies, relaxation times and Mach numbers."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._doors import check_kind, shown
from ..._errors import ArgumentError
from ..._types import State
from ...core import check_numbers, traced
from ..grids._boundary import Boundaries, FixedPressure, Inflow, NoSlip
from ..grids._grid import Grid
from ..staggered._obstacle import Obstacle
from ._cut import at_centres, check_open_ends
from ._openings import components
from ._streaming import walls

LARGEST_MACH = 0.3
"""Above this Mach number the square of it, the size of what compressibility changes, is no longer small beside 1."""

EQUAL = 1e-6
"""Share by which the widths of cells along different axes may differ: the rounding of lengths given with six digits."""


def check_lattice(grid: Grid, step: float, collision: str) -> float:
    """The width of the cells.

    **Raises:** an `ArgumentError` for a grid whose cells are no squares or cubes, a step that is not positive, another collision.
    """
    check_kind("grid", grid, Grid, "a grid", "Write `fluids.Grid((64, 32), (2.0, 1.0))`.")
    grid.check_dimensions((2, 3), "LatticeBoltzmann")
    grid.check_uniform("LatticeBoltzmann")
    widths = [length / n for length, n in zip(grid.lengths, grid.shape, strict=True)]
    if max(widths) - min(widths) > EQUAL * max(widths):
        listed = " x ".join(f"{w:.6g}" for w in widths)
        raise ArgumentError(
            f"Argument `grid` must have cells as wide along each axis, but they are {listed}. Choose `lengths` in the proportions "
            f"of `shape`, such as {tuple(float(f'{widths[0] * n:.6g}') for n in grid.shape)}."
        )
    if grid.devices:
        raise ArgumentError(
            "Argument `grid` must be on one device for `LatticeBoltzmann`, but is spread over several. Leave `devices` out."
        )
    if isinstance(step, bool) or not isinstance(step, int | float | np.number) or not (0 < step < np.inf):
        raise ArgumentError(
            f"Argument `step` must be a positive number, the time of a step, but is {shown(step)}. A good one is "
            "`0.1 * width / speed` with the width of a cell and the largest speed."
        )
    if collision not in ("trt", "bgk"):
        raise ArgumentError(f'Argument `collision` must be "trt" or "bgk", but is {shown(collision)}.')
    return float(widths[0])


def check_sides(boundaries: Boundaries) -> None:
    """Refuse open ends along two axes, and walls whose speed is a number without direction.

    **Raises:** an `ArgumentError`.
    """
    open_axes = {axis for axis, _, end in walls(boundaries) if isinstance(end, Inflow | FixedPressure)}
    if len(open_axes) > 1:
        raise ArgumentError(
            f"Argument `boundaries` must have its open ends, `Inflow` and `FixedPressure`, at one axis, but has them at the axes "
            f"{sorted(open_axes)}. Take walls or periodic ends at the others."
        )
    for axis, _, end in walls(boundaries):
        if isinstance(end, NoSlip) and not end.velocity.ndim and not traced(end.velocity) and float(end.velocity):
            raise ArgumentError(
                f"The velocity of a wall at axis {axis} must have a component for each axis, but is {float(end.velocity):g}. Give "
                "zeros for the others."
            )


def solid_cells(grid: Grid, boundaries: Boundaries, obstacle: Any) -> np.ndarray | Array | None:
    """The cells inside a body, from a mask or from a signed distance; those of a traced body are traced and have no derivative.

    **Raises:** an `ArgumentError` for a mask of another shape, and for known bodies that fill the box, cover no centre or touch an
    open end.
    """
    if obstacle is None:
        return None
    solid = _mask(grid, boundaries, obstacle)
    if isinstance(solid, Array):
        return solid
    if solid.all():
        raise ArgumentError(
            "Argument `obstacle` must leave cells to the fluid, but it fills the box. Is its sign right?"
        )
    check_open_ends(boundaries, solid)
    if not solid.any():
        raise ArgumentError(
            "Argument `obstacle` must cover the centre of a cell, but no cell is solid: it lies outside of the box or is smaller "
            "than a cell. Move it into the box, take narrower cells, or leave `obstacle` out."
        )
    return solid


def _mask(grid: Grid, boundaries: Boundaries, obstacle: Any) -> np.ndarray | Array:
    distance = obstacle.distance if isinstance(obstacle, Obstacle) else obstacle
    if callable(distance):
        with jax.ensure_compile_time_eval():
            solid = _whole(_called(at_centres, grid, boundaries, distance))
            return solid if traced(solid) else np.asarray(solid)
    solid = distance if traced(distance) else np.asarray(distance)
    if solid.dtype != bool or solid.shape != grid.shape:
        raise ArgumentError(
            f"Argument `obstacle` must be a signed distance, such as a `Disk`, or booleans of the shape {grid.shape} of the grid, "
            f"true inside the body, but it has the type {solid.dtype} and the shape {solid.shape}."
        )
    return solid


@jax.custom_jvp
def _whole(distance: Array) -> Array:
    """The cells inside, of which no derivative can be taken: it would be 0 without a word."""
    return distance < 0


@_whole.defjvp
def _whole_jvp(primals: Any, tangents: Any) -> Any:
    raise ArgumentError(
        "Argument `obstacle` of `LatticeBoltzmann` has no derivatives as long as it is made of whole cells. Take "
        '`surface="cut"`, or `IncompressibleFlow`, which have derivatives by the shape and place of a body.'
    )


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def check_relaxation(viscosity: ArrayLike, step: float, width: float) -> None:
    """Refuse a relaxation time that is not above 1/2 in the float type of the viscosity.

    **Raises:** an `ArgumentError`.
    """
    if traced(viscosity):
        return
    value = np.asarray(viscosity)
    if not np.isfinite(value).all():
        raise ArgumentError(
            f"Argument `viscosity` must be finite, but is {float(value.ravel()[0]):g}. Give a positive number."
        )
    excess = (3 * value * step / width**2).astype(value.dtype)
    if not np.all(excess + value.dtype.type(0.5) > 0.5):
        raise ArgumentError(
            f"Argument `viscosity` must make the relaxation time 1/2 + 3 viscosity step / width^2 longer than 1/2, but it is "
            f"{float(np.min(0.5 + excess)):.9g} with viscosity {float(np.min(value)):.4g}, step {step:.4g} and cells {width:.4g} "
            "wide. Take a positive viscosity, narrower cells or a longer step."
        )


def check_viscosity(viscosity: object) -> None:
    """Refuse a text, None and the like.

    **Raises:** an `ArgumentError`.
    """
    kinds = int | float | np.number | np.ndarray | jax.Array
    check_kind("viscosity", viscosity, kinds, "a positive number", "Write `viscosity=0.1`.")


def check_given(boundaries: Boundaries, force: Any, step: float, width: float) -> None:
    """Refuse forces and open ends that are not finite, and pressures at which there is no fluid left.

    **Raises:** an `ArgumentError`.
    """
    if force is not None and not traced(force) and not np.isfinite(np.asarray(force)).all():
        raise ArgumentError(f"Argument `force` must be finite, but is {np.asarray(force).tolist()}.")
    for axis, side, end in walls(boundaries):
        value = getattr(end, "pressure", getattr(end, "velocity", None))
        if value is None or traced(value):
            continue
        where = f"of the {type(end).__name__} at the {'lower' if side > 0 else 'upper'} end of axis {axis}"
        what = "pressure" if isinstance(end, FixedPressure) else "velocity"
        if not np.isfinite(np.asarray(value)).all():
            raise ArgumentError(f"The {what} {where} must be finite, but is not.")
        if isinstance(end, FixedPressure):
            lowest, least = float(np.min(np.asarray(value))), -((width / step) ** 2) / 3
            if lowest <= least:
                raise ArgumentError(
                    f"The pressure {where} must be above {least:.4g}, where the density 1 + 3 pressure (step / width)^2 is 0, but "
                    f"it is {lowest:.4g}. Give pressures as differences from that at rest, or take a shorter `step`."
                )


def check_density(excess: ArrayLike, what: str) -> None:
    """Refuse known densities, less 1, that are not positive.

    **Raises:** an `ArgumentError` that names the cell of the lowest one.
    """
    if traced(excess):
        return
    density = 1 + np.asarray(excess)
    cell = tuple(int(i) for i in np.unravel_index(int(np.argmin(density)), density.shape))
    if density[cell] <= 0:
        raise ArgumentError(
            f"The density of {what} must be positive, but it is {float(density[cell]):.4g} in the cell {cell}. Give pressures as "
            "differences from that at rest, or take a shorter `step`: the density is 1 + 3 pressure (step / width)^2."
        )


def check_mach(speeds: dict[str, float], step: float, width: float) -> None:
    """Refuse speeds, by what has them, that are too fast for the speed of sound of a lattice.

    **Raises:** an `ArgumentError` with the Mach number and the longest step.
    """
    what = max(speeds, key=lambda name: speeds[name])
    sound = width / step / 3**0.5
    mach = speeds[what] / sound
    if not mach <= LARGEST_MACH:
        raise ArgumentError(
            f"The speed of {what}, {speeds[what]:.4g}, must lie below {LARGEST_MACH:g} of the lattice's speed of sound, "
            f"{sound:.4g}, but its Mach number is {mach:.3g}. Take a `step` of at most "
            f"{step * LARGEST_MACH / mach:.3g} (now {step:.3g}), or cells as much wider."
        )


def given_speeds(boundaries: Boundaries, dimensions: int) -> dict[str, float]:
    """The largest speeds of walls and inflows that are known."""
    found = {}
    for axis, side, end in walls(boundaries):
        if not isinstance(end, NoSlip | Inflow) or traced(end.velocity):
            continue
        if isinstance(end, NoSlip):
            parts = [np.asarray(end.velocity)] if not end.velocity.ndim else list(np.asarray(end.velocity))
        else:
            parts = [np.asarray(u) for u in components(end, axis, side, dimensions, 1.0)]
        square: Any = sum(np.square(u) for u in parts)
        name = f"the {type(end).__name__} at the {'lower' if side > 0 else 'upper'} end of axis {axis}"
        found[name] = float(np.sqrt(np.max(square)))
    return found


def review_lattice(system: Any, y0: State) -> None:
    """Refuse numbers that are not finite, a state of another shape, a relaxation time of 1/2, and speeds near that of sound.

    **Raises:** an `ArgumentError`.
    """
    check_numbers(system)
    system.grid.check_field(y0.populations, "y0.populations", (system.lattice.size,))
    check_relaxation(system.viscosity, system.step, system.width)
    check_given(system.boundaries, system.force, system.step, system.width)
    check_density(sum(np.asarray(f) for f in y0.populations), "the flow at the start")
    start = {"the flow at the start": fastest(system, y0)}
    check_mach(start | given_speeds(system.boundaries, system.grid.dimensions), system.step, system.width)


def fastest(system: Any, y: State) -> float:
    """The largest speed of a known state."""
    return float(_fastest(system, y))


@eqx.filter_jit
def _fastest(system: Any, y: State) -> Array:
    velocity = system.velocity(y)
    return jnp.sqrt(jnp.max(jnp.sum(velocity * velocity, axis=0)))
