"""Actions: inputs of a system that a controller or a policy sets, by name and within bounds."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._doors import check_kind, check_mapping, shown
from .._errors import ArgumentError, check_known
from ..core import Constant, System


def check_actions(system: System, actions: Any) -> None:
    """Refuse actions that are no bounds of inputs of the system.

    **Raises:** an `ArgumentError` or an `UnknownNameError`.
    """
    check_mapping("actions", actions, "bounds by the names of inputs", '{"force": (-10.0, 10.0)}')
    if not actions:
        raise ArgumentError('Argument `actions` must name an input, but it is empty. Write `{"force": (-10.0, 10.0)}`.')
    check_inputs(system, actions)
    for name, bounds in actions.items():
        pair = isinstance(bounds, tuple | list) and len(bounds) == 2
        if not pair or not all(isinstance(x, int | float | np.number) for x in bounds) or not bounds[0] < bounds[1]:
            raise ArgumentError(
                f"Entry `{name}` of argument `actions` must be a pair of bounds, the lower one first, but it is {shown(bounds)}. "
                "Write `(-10.0, 10.0)`, or `(-math.inf, math.inf)` where there is none."
            )


def check_inputs(system: System, names: Iterable[str]) -> None:
    """Refuse names of inputs that the system does not read.

    **Raises:** an `UnknownNameError`.
    """
    declared = system.reads()
    if declared is not None:
        for name in names:
            check_known(name, declared, "input of this system")


def check_interval(interval: Any) -> None:
    """Refuse what is no positive length of time."""
    remedy = "Write the time between two actions, such as `interval=0.05`."
    check_kind("interval", interval, int | float | np.number, "a number", remedy)
    if isinstance(interval, bool) or not 0 < interval < np.inf:
        raise ArgumentError(f"Argument `interval` must be positive and finite, but it is {shown(interval)}. {remedy}")


def as_bounds(actions: Mapping[str, tuple[float, float]]) -> tuple[tuple[str, tuple[float, float]], ...]:
    """Actions in a form that is hashable."""
    return tuple((name, (float(low), float(high))) for name, (low, high) in actions.items())


def held(names: Iterable[str], action: Array) -> dict[str, Constant]:
    """The inputs of a system while an action is held, which has an entry for each name."""
    return {name: Constant(action[i]) for i, name in enumerate(names)}


def limits(bounds: tuple[tuple[str, tuple[float, float]], ...], dtype: Any) -> tuple[Array, Array]:
    """Lowest and highest actions."""
    low, high = zip(*(pair for _, pair in bounds), strict=True)
    return jnp.asarray(low, dtype), jnp.asarray(high, dtype)
