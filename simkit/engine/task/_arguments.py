"""Checks that turn a wrong argument into a sentence before anything is compiled."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..._errors import ArgumentError
from ...core import Event, StaticSystem, System, mirrored_system
from ...reducers import Reducer


def check_times(times: ArrayLike | Sequence[Any]) -> Any:
    """Times as an array; refused unless one-dimensional, finite, and increasing or decreasing."""
    if isinstance(times, jax.core.Tracer):
        return times
    try:
        array = np.asarray(times, dtype=None if hasattr(times, "dtype") else float)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `times` must be numbers, but it is {times!r}.") from error
    if array.dtype.kind not in "iuf" and not jnp.issubdtype(array.dtype, jnp.floating):
        raise ArgumentError(f"Argument `times` must be real numbers, but their type is {array.dtype}.")
    if array.ndim != 1 or array.size < 2:
        raise ArgumentError(
            f"Argument `times` must hold at least two times, the first being that of `y0`, but its shape is {array.shape}."
        )
    if _increasing(array) or is_backward(array):
        return times if hasattr(times, "dtype") else array
    if not np.all(np.isfinite(array)):
        raise ArgumentError(f"Argument `times` must be finite, but entry {int(np.argmin(np.isfinite(array)))} is not.")
    steps = np.diff(array) * (1 if array[-1] >= array[0] else -1)
    place = int(np.argmin(steps))
    raise ArgumentError(
        f"Argument `times` must increase, or all decrease, but entry {place} is {array[place]:g} and entry {place + 1} is "
        f"{array[place + 1]:g}. Sort them, and take each once: `np.unique(times){'' if array[-1] >= array[0] else '[::-1]'}`."
    )


def is_backward(times: Any) -> bool:
    """Tell whether known times decrease."""
    if isinstance(times, jax.core.Tracer) or np.ndim(times) != 1 or np.size(times) < 2:
        return False
    array = np.asarray(times)
    return bool(array[0] > array[-1]) and _increasing(array[::-1])


def check_direction(times: Any, system: System, reduce: Any) -> bool:
    """Tell whether known times decrease; refuse that for what runs forwards only."""
    if isinstance(system, StaticSystem) or not is_backward(times):
        return False
    mirrored_system(system)
    if reduce:
        raise ArgumentError(
            "Argument `reduce` must be left out where `times` decrease: simulate backwards to the first time, then forwards from "
            "there."
        )
    return True


def check_reducers(reduce: Any) -> dict[str, Reducer]:
    """Reducers by name; none where nothing is to be reduced."""
    if reduce is None:
        return {}
    if not isinstance(reduce, Mapping) or not reduce:
        raise ArgumentError(
            f"Argument `reduce` must name reducers, such as `{{'mean': simkit.reducers.Mean()}}`, but it is {reduce!r}."
        )
    for name, reducer in reduce.items():
        if not isinstance(reducer, Reducer) or not isinstance(name, str):
            raise ArgumentError(
                f"Argument `reduce` must hold reducers by name, such as `simkit.reducers.Mean()`, but at {name!r} it holds "
                f"{reducer!r}. A reducer of your own subclasses `simkit.reducers.Reducer`."
            )
    return dict(reduce)


def check_event(event: Any, system: System, reduce: Any) -> Event | None:
    """An event that this system can have."""
    if event is None:
        return None
    if not isinstance(event, Event):
        raise ArgumentError(
            f"Argument `event` must be an event, such as `simkit.Event(lambda system, t, y, inputs: y.x)`, but it is {event!r}."
        )
    if isinstance(system, StaticSystem):
        raise ArgumentError(
            f"Argument `event` must be left out for `{type(system).__name__}`, which has no dynamics that could end."
        )
    if reduce:
        raise ArgumentError(
            "Arguments `reduce` and `event` must not be given together, but both are. Find the event first, then reduce over save "
            "times up to its time."
        )
    return event


def _increasing(times: np.ndarray) -> bool:
    """Tell whether times are finite and increase; for a few of them Python is faster than NumPy."""
    if times.size > 100:
        return bool(np.isfinite(times[-1]) and times[-1] > times[0] and np.diff(times).min() > 0)
    values = times.tolist()
    if not (-math.inf < values[0] < values[-1] < math.inf):
        return False
    return all(a < b for a, b in itertools.pairwise(values))  # NaN fails every comparison
