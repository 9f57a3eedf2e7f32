"""Complaints about spectral systems, in words."""

import warnings
from typing import Any

import jax
import numpy as np
import scipy.fft

from .._errors import ArgumentError
from ..core import check_numbers
from ._obstacle import Obstacle


def check_flow(flow: Any, dimensions: int) -> None:
    """Refuse a grid or a mean flow that does not suit a flow.

    **Raises:** an `ArgumentError`.
    """
    name = type(flow).__name__
    flow.grid.check_dimensions((dimensions,), name)
    flow.grid.check_uniform(name)
    mean = getattr(flow, "mean_flow", None)
    if mean is not None and getattr(mean, "shape", (dimensions,)) != (dimensions,):
        raise ArgumentError(
            f"Argument `mean_flow` of {name} must have the shape ({dimensions},), but it has {mean.shape}."
        )


def check_dimensions(system: Any, allowed: tuple[int, ...] = (1, 2, 3)) -> None:
    """Refuse a grid of other dimensions, or with unequal cells.

    **Raises:** an `ArgumentError`.
    """
    name = type(system).__name__
    system.grid.check_dimensions(allowed, name)
    system.grid.check_uniform(name)


def lowest(grid: Any, t: Any, fields: dict[str, Any]) -> str:
    """A sentence on the lowest values of fields that must be positive: in which cell, where and when."""
    found = []
    for name, field in fields.items():
        cell = np.unravel_index(int(np.argmin(np.asarray(field))), grid.shape)
        place = ", ".join(f"{float(x[cell]):.4g}" for x in grid.mesh())
        index = ", ".join(map(str, map(int, cell)))
        found.append(f"{name} {float(np.asarray(field)[cell]):.4g} in cell ({index}) at ({place})")
    return f"Lowest at time {float(t):.6g}: {'; '.join(found)}. Nowhere may it be negative."


def check_shapes(system: Any, y0: Any, leading: dict[str, tuple[int, ...]]) -> None:
    """Refuse a start whose fields have not the shape of the grid.

    **Raises:** an `ArgumentError`.
    """
    for name, lead in leading.items():
        system.grid.check_field(getattr(y0, name), f"y0.{name}", lead)


def check_vector(value: Any, dimensions: int, name: str, number: bool = False) -> None:
    """Refuse a vector that has not a component for each dimension; a `number` may stand for all.

    **Raises:** an `ArgumentError`.
    """
    if np.shape(value) != (dimensions,) and not (number and np.ndim(value) == 0):
        wanted = f"be one number or have the shape ({dimensions},)" if number else f"have the shape ({dimensions},)"
        raise ArgumentError(
            f"Argument `{name}` must {wanted}, a component for each axis of the grid, but it has {np.shape(value)}."
        )


def check_pushes(grid: Any, force: Any, buoyancy: Any, obstacle: Any) -> None:
    """Refuse forces without a component for each dimension, and a shape where a body belongs.

    **Raises:** an `ArgumentError`.
    """
    for name, vector in (("force", force), ("buoyancy", buoyancy)):
        if vector is not None and not callable(vector):
            check_vector(vector, grid.dimensions, name)
    if obstacle is not None and not isinstance(obstacle, Obstacle):
        raise ArgumentError(
            f"Argument `obstacle` must be an Obstacle, such as `Obstacle(Disk(centre, radius))`, but it is {obstacle!r}."
        )


def review_staggered(system: Any, y0: Any) -> None:
    """Refuse what is no state of an incompressible flow, and warn of a divergence that is taken out of it.

    **Raises:** an `ArgumentError`.
    """
    at, name = system.at, type(system).__name__
    velocity, scalar = getattr(y0, "velocity", None), getattr(y0, "scalar", None)
    if not isinstance(velocity, tuple) or len(velocity) != at.dimensions:
        raise ArgumentError(
            f"Argument `y0` of {name} must be a StaggeredFlow of {at.dimensions} components, but it is {type(y0).__name__}. "
            "`start` makes one from values at the centres."
        )
    if (scalar is None) != (system.diffusivity is None):
        has, given = ("no scalar", "has") if scalar is None else ("a scalar", "has no")
        raise ArgumentError(
            f"Argument `y0` of {name} has {has}, but the system {given} `diffusivity`. "
            "`start(velocity, scalar)` makes a state."
        )
    if scalar is not None:
        system.grid.check_field(scalar, "y0.scalar")
    values = [np.asarray(u) for u in velocity]
    if [u.shape for u in values] != [at.shape(axis) for axis in range(at.dimensions)]:
        return  # told when it is encoded
    if not all(np.isfinite(u).all() for u in values):
        return  # the solve says where
    total, scale = np.zeros(system.grid.shape), 0.0
    for axis, u in enumerate(values):
        slope = np.diff(u if at.walls[axis] else np.concatenate([u, u.take([0], axis)], axis), axis=axis)
        total += slope / system.grid.widths(axis).reshape([-1 if i == axis else 1 for i in range(at.dimensions)])
        scale += float(np.mean(u**2)) / system.grid.spacing(axis) ** 2
    share = float(np.sqrt(np.mean(total**2) / scale)) if scale else 0.0
    if share > (1e-5 if values[0].dtype == np.float64 else 1e-3):
        warnings.warn(
            f"The start of {name} has a divergence, {share:.2g} of its speed by the width of a cell, which is taken out.",
            stacklevel=4,
        )


TAIL, SHARE = 0.75, 1e-2
"""Waves above this part of the highest kept are the tail; with more than this share of the variance a field is not resolved."""

REACH = {"ETDRK4": 2.8, "CNRK3": 1.7, "ETDRK2": 1.0}
"""How far along the imaginary axis a method is stable without damping, 2.8 for others: RK4 and RK3, and a rule of thumb."""


def review_spectral(system: Any, y0: Any, step: float | None, solver: Any) -> None:
    """Warn of a start that the grid does not resolve or that is not admitted as it is; refuse a step that cannot be stable.

    **Raises:** an `ArgumentError` that names the longest stable step.
    """
    check_numbers(system)
    leaves = [np.asarray(x) for x in jax.tree.leaves(y0)]
    if not all(np.isfinite(x).all() for x in leaves):
        return  # the solve says where
    d, name = system.grid.dimensions, type(system).__name__
    for x in leaves:
        if x.shape[x.ndim - d :] != system.grid.shape:
            raise ArgumentError(
                f"Argument `y0` of {name} must hold fields that end in the shape {system.grid.shape} of its grid, but one has the "
                f"shape {x.shape}."
            )
    share = max(_tail(system.waves, x) for x in leaves)
    if share > SHARE:
        warnings.warn(
            f"The start of {name} is not resolved by its grid: {share:.1%} of a field's variance lies in the shortest waves, and "
            f"those beyond index {system.waves.cutoffs} are left out. Take more cells, or a smoother start.",
            stacklevel=4,
        )
    lost = system.unheard(y0)
    if lost is not None and lost[1] > 1e-6:
        warnings.warn(
            f"The start of {name} has {lost[0]}, {lost[1]:.2g} of the whole, which is taken out.", stacklevel=4
        )
    if step is not None:
        _check_step(system, y0, step, solver)


def _tail(waves: Any, field: np.ndarray) -> float:
    """The share of a field's variance in waves near and beyond the cutoffs."""
    d, shape = waves.grid.dimensions, waves.grid.shape
    modes: Any = scipy.fft.rfftn(field, axes=tuple(range(-d, 0)), norm="forward")
    power = modes.real**2 + modes.imag**2
    power[..., 1 : (shape[-1] + 1) // 2] *= 2  # for the half that is not there
    power[(..., *[0] * d)] = 0
    high = np.zeros(power.shape[power.ndim - d :], bool)
    for axis, (n, cutoff) in enumerate(zip(shape, waves.cutoffs, strict=True)):
        index = np.fft.rfftfreq(n, 1 / n) if axis == d - 1 else np.abs(np.fft.fftfreq(n, 1 / n))
        high |= (index > max(TAIL * cutoff, 1)).reshape([-1 if i == axis else 1 for i in range(d)])
    total = power.sum()
    # Where a field is constant but for rounding, its waves say nothing.
    return float(power[..., high].sum() / total) if total > 1e-20 * (1 + np.abs(field).max() ** 2) else 0.0


def _check_step(system: Any, y0: Any, step: float, solver: Any) -> None:
    speeds = system.speeds(y0)
    if speeds is None:
        return
    waves, name = system.waves, type(solver).__name__
    frequency = float(np.sum(np.asarray(speeds) * np.asarray(waves.largest)))
    reach = REACH.get(name, 2.8)
    if step * frequency <= reach:
        return
    # What is damped as fast as it is carried stays stable.
    rates = np.real(np.asarray(system.linear()))
    damping = float(np.min(-rates[(slice(None), *waves.cutoffs)]))
    if damping >= frequency:
        return
    raise ArgumentError(
        f"Argument `step` must be at most {reach / frequency:.3g} for `{name}` to be stable with the speeds of the start of "
        f"{type(system).__name__} on its grid, but it is {step:.3g}. Take shorter steps or, with `step=Adaptive()`, leave them to "
        "the error estimate."
    )
