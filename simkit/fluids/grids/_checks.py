"""Checks of the arguments of systems on grids."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax.typing import ArrayLike

from ..._doors import check_function, check_kind, shown
from ..._errors import ArgumentError
from ..._types import State
from ...core import traced
from ._grid import Grid


@runtime_checkable
class Gridded(Protocol):
    """A system as checks see it: one with a grid."""

    @property
    def grid(self) -> Grid: ...


def check_flow(flow: Gridded, dimensions: int) -> None:
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


def check_dimensions(system: Gridded, allowed: tuple[int, ...] = (1, 2, 3)) -> None:
    """Refuse a grid of other dimensions, or with unequal cells.

    **Raises:** an `ArgumentError`.
    """
    name = type(system).__name__
    system.grid.check_dimensions(allowed, name)
    system.grid.check_uniform(name)


def lowest(grid: Grid, t: ArrayLike, fields: dict[str, Any]) -> str:
    """A sentence on the lowest values of fields that must be positive: in which cell, where and when."""
    found = []
    for name, field in fields.items():
        cell = np.unravel_index(int(np.argmin(np.asarray(field))), grid.shape)
        place = ", ".join(f"{float(x[cell]):.4g}" for x in grid.mesh())
        index = ", ".join(map(str, map(int, cell)))
        found.append(f"{name} {float(np.asarray(field)[cell]):.4g} in cell ({index}) at ({place})")
    return f"Lowest at time {float(np.asarray(t)):.6g}: {'; '.join(found)}. Nowhere may it be negative."


def check_lowest(system: Gridded, y0: State, names: tuple[str, ...], zero: bool = False) -> None:
    """Refuse a start with fields that are negative somewhere; `zero` says whether they may be 0.

    **Raises:** an `ArgumentError` that names the field, the cell and its place.
    """
    for name in names:
        field = np.asarray(getattr(y0, name))
        low = np.min(field, initial=np.inf)
        if low < 0 or (low == 0 and not zero):
            cell = np.unravel_index(int(np.argmin(field)), field.shape)
            place = ", ".join(f"{float(x[cell]):.4g}" for x in system.grid.mesh())
            wanted = "must not be negative" if zero else "must be positive"
            right = "0 or more" if zero else "positive"
            raise ArgumentError(
                f"Argument `y0.{name}` of {type(system).__name__} {wanted} in every cell, but it is {float(low):.4g} in cell "
                f"({', '.join(map(str, map(int, cell)))}) at ({place}). Start with a field that is {right} "
                "everywhere."
            )


def check_shapes(system: Gridded, y0: State, leading: dict[str, tuple[int, ...]]) -> None:
    """Refuse a start whose fields have not the shape of the grid.

    **Raises:** an `ArgumentError`.
    """
    for name, lead in leading.items():
        system.grid.check_field(getattr(y0, name), f"y0.{name}", lead)


def check_vector(value: ArrayLike | Sequence[Any], dimensions: int, name: str, number: bool = False) -> None:
    """Refuse a vector that has not a component for each dimension; a `number` may stand for all.

    **Raises:** an `ArgumentError`.
    """
    shape = _shape_of(value)
    if shape != (dimensions,) and not (number and shape == ()):
        wanted = f"be one number or have the shape ({dimensions},)" if number else f"have the shape ({dimensions},)"
        found = "its parts differ in shape" if shape is None else f"it has {shape}"
        raise ArgumentError(f"Argument `{name}` must {wanted}, a component for each axis of the grid, but {found}.")


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array or of a list, which may hold traced numbers; None where its parts differ."""
    if not isinstance(value, list | tuple):
        return np.shape(value)
    parts = {_shape_of(x) for x in value}
    if len(parts) > 1 or None in parts:
        return None
    return (len(value), *(parts.pop() or ())) if parts else (0,)


def check_value(name: str, value: Any, *, positive: bool = False) -> None:
    """Refuse what is no finite number, where it is known.

    **Raises:** an `ArgumentError` that names the argument.
    """
    if traced(value):
        return
    remedy = f"Write a number in consistent units, such as `{name}=1.0`."
    check_kind(name, value, int | float | np.number | np.ndarray | jax.Array, "a number", remedy)
    if isinstance(value, bool) or np.iscomplexobj(value):
        raise ArgumentError(f"Argument `{name}` must be a number, but it is {shown(value)}. {remedy}")
    if np.ndim(value):
        raise ArgumentError(f"Argument `{name}` must be one number, but has the shape {np.shape(value)}. {remedy}")
    found = float(value)
    if not np.isfinite(found):
        raise ArgumentError(f"Argument `{name}` must be finite, but is {found:g}. {remedy}")
    if positive and found <= 0:
        raise ArgumentError(f"Argument `{name}` must be positive, but is {found:g}. {remedy}")


def check_source(source: object) -> None:
    """Refuse a source that is no function of time, state and inputs.

    **Raises:** an `ArgumentError`.
    """
    if source is not None:
        check_function("source", source, ("t", "y", "inputs"))
