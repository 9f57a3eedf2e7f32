"""Reviews of flows on staggered grids: forces, and what a grid resolves, before and after a run."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from ..._doors import class_name
from ..._errors import ArgumentError
from ..._types import State
from ..grids._checks import check_vector
from ..grids._grid import Grid
from ..grids._parts import check_stages
from ..spectral._force import InputForce
from ._obstacle import bodies_of, with_images


def check_flux(grid: Grid, flux: object) -> None:
    """Refuse fluxes that are none, or that want equal cells.

    **Raises:** an `ArgumentError`.
    """
    if flux not in ("central", "central4", "upwind"):
        raise ArgumentError(f'Argument `flux` must be "central", "central4" or "upwind", but it is {flux!r}.')
    if flux == "central4":
        grid.check_uniform('the flux "central4"')


def check_parts(grid: Grid, ended: Sequence[bool]) -> None:
    """Refuse ends of axes that are divided between devices.

    **Raises:** an `ArgumentError`.
    """
    for axis in range(len(grid.parts)):
        if ended[axis]:
            raise ArgumentError(
                f"The {('first', 'second')[axis]} axis of incompressible flow over {' x '.join(map(str, grid.parts))} devices must "
                "be periodic, but `boundaries` end it. Let periodic axes be the first, or take devices in a row."
            )
    check_stages(grid, "the pressure of incompressible flow")


def check_pushes(
    grid: Grid,
    force: ArrayLike | Sequence[float] | Callable[..., Sequence[ArrayLike]] | InputForce | None,
    buoyancy: ArrayLike | Sequence[float] | None,
) -> None:
    """Refuse forces without a component for each dimension.

    **Raises:** an `ArgumentError`.
    """
    for name, vector in (("force", force), ("buoyancy", buoyancy)):
        if vector is not None and not callable(vector) and not isinstance(vector, InputForce):
            check_vector(vector, grid.dimensions, name)


def review_staggered(system: Any, y0: State) -> None:
    """Refuse what is no state of an incompressible flow, and warn of a divergence that is taken out of it.

    **Raises:** an `ArgumentError`.
    """
    at, name = system.at, type(system).__name__
    velocity, scalar = getattr(y0, "velocity", None), getattr(y0, "scalar", None)
    if not isinstance(velocity, tuple) or len(velocity) != at.dimensions:
        raise ArgumentError(
            f"Argument `y0` of {name} must be a {name}.State of {at.dimensions} components, but it is {class_name(type(y0))}. "
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
    centres = at.mesh(None, values[0].dtype)
    for called, body in bodies_of(system).items():
        if body.motion is not None or np.any(np.asarray(with_images(body.distance, at.periods)(centres)) < 0):
            continue
        warnings.warn(
            f"The obstacle {f'{called!r} ' if called else ''}of {name} holds no centre of a cell: it is thinner than cells, or "
            "outside the grid, and the flow may not see it. Take cells of a fifth of its thickness, and check its place.",
            stacklevel=4,
        )
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


CELL_REYNOLDS = 20.0
"""Above this number, difference of velocity times width of a cell over viscosity, a layer is thinner than cells. Flows that are
resolved to some per cent stay below 5."""


def note_staggered(system: Any, t: ArrayLike, y: State) -> str:
    """A sentence where a flow changes so much from cell to cell that its viscosity cannot act there."""
    viscosity = float(system.viscosity)
    if viscosity <= 0 or system.flux == "upwind" or system.smagorinsky is not None or system.closure is not None:
        return ""
    most = 0.0
    for u in y.velocity:
        for axis in range(u.ndim):
            change = np.abs(np.diff(np.asarray(u), axis=axis)).max(initial=0.0)
            most = max(most, float(change) * system.grid.spacing(axis) / viscosity)
    if not most > CELL_REYNOLDS:
        return ""
    return (
        f"At the end, time {t:.6g}, {type(system).__name__} is not resolved by its grid: between neighbouring cells the velocity "
        f"changes by {most:.3g} times viscosity over their width, where some 5 are resolved. Take more cells there, more "
        'viscosity, or `flux="upwind"`.'
    )
