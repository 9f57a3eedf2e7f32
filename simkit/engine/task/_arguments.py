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
from ...core import Event, NamedEvents, StaticSystem, System, as_events, check_own_events, mirrored_system
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


def check_events(events: Any, system: System, times: Any = None) -> NamedEvents | None:
    """Events that this system can have, by name; of known `times` no event may come before the first."""
    found = as_events(events)
    check_own_events(system, found)
    if found is None:
        return None
    if isinstance(system, StaticSystem):
        raise ArgumentError(
            f"Argument `events` must be left out for `{type(system).__name__}`, which has no dynamics that could change or end."
        )
    if isinstance(times, np.ndarray) and times.size:
        for name, event in zip(found.names, found.events, strict=True):
            _check_within(name, event, times)
    return found


def _check_within(name: str, event: Event, times: np.ndarray) -> None:
    """Refuse known times before the first one of a run."""
    if event.at is None or isinstance(event.at, jax.core.Tracer) or not event.at.shape[0]:
        return
    at, backward = np.asarray(event.at), times[0] > times[-1]
    early = at > times[0] if backward else at < times[0]
    if early.any():
        place = int(np.argmax(early))
        side = "after" if backward else "before"
        raise ArgumentError(
            f"The event `{name}` must happen within the run, but entry {place} of `at` is {at[place]:g}, {side} the first time, "
            f"{times[0]:g}. Start earlier, or leave it out."
        )


def _increasing(times: np.ndarray) -> bool:
    """Tell whether times are finite and increase; for a few of them Python is faster than NumPy."""
    if times.size > 100:
        return bool(np.isfinite(times[-1]) and times[-1] > times[0] and np.diff(times).min() > 0)
    values = times.tolist()
    if not (-math.inf < values[0] < values[-1] < math.inf):
        return False
    return all(a < b for a, b in itertools.pairwise(values))  # NaN fails every comparison
