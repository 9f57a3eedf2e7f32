"""Reviews of systems on a sphere: shapes and heights of a start, and steps that cannot be stable."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..._doors import check_kind, shown
from ..._errors import ArgumentError
from ..._types import Inputs, State
from ...core import check_numbers
from ..spectral._review import REACH
from ._sphere import Sphere


def check_sphere(sphere: object) -> None:
    """Refuse what is no sphere.

    **Raises:** an `ArgumentError`.
    """
    check_kind("sphere", sphere, Sphere, "a sphere", "Write `fluids.Sphere(31)`.")


def check_state(system: Any, y: State) -> None:
    """Refuse a state of another system.

    **Raises:** an `ArgumentError`.
    """
    kind = system.State
    if not isinstance(y, kind):
        raise ArgumentError(
            f"Argument `y0` of {type(system).__name__} must be a `{kind.__name__}`, but it is {shown(y)}. Write "
            f"`{type(system).__name__}.State(...)`."
        )


def added(system: Any, t: ArrayLike, y: State, inputs: Inputs) -> State:
    """Contribution of the source of a system to the slopes of its fields.

    **Raises:** an `ArgumentError` for what is no state of the sphere's grid.
    """
    found, kind = system.source(t, y, inputs), type(y)
    if not isinstance(found, kind):
        raise ArgumentError(
            f"Argument `source` of {type(system).__name__} must return a `{kind.__name__}`, but it returns {shown(found)}. Write "
            f"`{type(system).__name__}.State(...)` with a slope for each field."
        )
    for field in dataclasses.fields(kind):
        leading = jnp.shape(getattr(y, field.name))[:-2]
        system.sphere.check_field(getattr(found, field.name), f"source.{field.name}", leading)
    return found


def check_start(system: Any, y0: State, leading: dict[str, tuple[int, ...]]) -> None:
    """Refuse numbers that are not finite, fields of another grid, and heights, temperatures and pressures that are not positive.

    **Raises:** an `ArgumentError`.
    """
    check_state(system, y0)
    check_numbers(system)
    for name, lead in leading.items():
        system.sphere.check_field(getattr(y0, name), f"y0.{name}", lead)
        if lost := int(np.sum(~np.isfinite(np.asarray(getattr(y0, name))))):
            raise ArgumentError(
                f"Argument `y0.{name}` of {type(system).__name__} must be finite, but {lost} of its numbers are not."
            )
    remedies = {"height": "Start with a higher surface, or a lower bed."}
    remedies |= {"temperature": "Give it in kelvin.", "surface_pressure": "Give it in pascal, not its logarithm."}
    for name, remedy in remedies.items():
        if name not in leading or not np.min(field := np.asarray(getattr(y0, name))) <= 0:
            continue
        lowest = lowest_on_sphere(system.sphere, 0.0, np.min(field.reshape(-1, *system.sphere.shape), axis=0), name)
        raise ArgumentError(
            f"Argument `y0.{name}` of {type(system).__name__} must be positive everywhere, but is not. {lowest} {remedy}"
        )


def check_sphere_step(
    system: Any, velocity: ArrayLike, step: float | None, solver: object, turning: float = 0.0
) -> None:
    """Refuse a step in which the fastest wind of the start carries the shortest waves too far.

    `turning` is the frequency of what else is stepped explicitly.

    **Raises:** an `ArgumentError` that names the longest stable step.
    """
    if step is None:
        return
    name, sphere = type(solver).__name__, system.sphere
    speed = float(np.sqrt(np.max(np.sum(np.asarray(velocity) ** 2, axis=0))))
    frequency = speed * sphere.truncation / sphere.radius + turning
    reach = REACH.get(name, 2.8)
    if step * frequency > reach:
        raise ArgumentError(
            f"Argument `step` must be at most {reach / frequency:.3g} for `{name}` to be stable with the winds of the start of "
            f"{type(system).__name__}, up to {speed:.3g}, at truncation {sphere.truncation}, but is "
            f"{step:.3g}. Take shorter steps, or "
            "with `step=Adaptive()` leave them to the error estimate."
        )


def lowest_on_sphere(sphere: Sphere, t: ArrayLike, field: ArrayLike, name: str = "height") -> str:
    """A sentence on the lowest value of a field: how low, where and when."""
    field = np.asarray(field)
    place = np.unravel_index(int(np.argmin(field)), sphere.shape)
    longitude, latitude = (np.degrees(x[place]) for x in sphere.mesh())
    return (
        f"Lowest at time {float(np.asarray(t)):.6g}: {name.replace('_', ' ')} {float(field[place]):.4g} at latitude {latitude:.1f} "
        f"and longitude {longitude:.1f} degrees."
    )
