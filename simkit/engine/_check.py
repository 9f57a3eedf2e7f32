"""Checks that turn a wrong argument into a sentence before anything is compiled."""

from typing import Any

import jax
import jax.core
import numpy as np

from .._errors import ArgumentError


def check_times(times: Any) -> Any:
    """Times as an array; refused unless one-dimensional, finite and increasing (equal neighbours pad a shorter set)."""
    if isinstance(times, jax.core.Tracer):
        return times
    try:
        array = np.asarray(times, dtype=None if hasattr(times, "dtype") else float)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `times` must be numbers, but it is {times!r}.") from error
    if array.ndim != 1 or array.size < 2:
        raise ArgumentError(
            f"Argument `times` must hold at least two times, the first being that of `y0`, but its shape is {array.shape}."
        )
    gaps = array[1:] - array[:-1]
    if np.isfinite(array[-1]) and array[-1] > array[0] and gaps.min() >= 0:  # NaN fails the last comparison
        return times if hasattr(times, "dtype") else array
    if not np.all(np.isfinite(array)):
        raise ArgumentError(f"Argument `times` must be finite, but entry {int(np.argmin(np.isfinite(array)))} is not.")
    place = int(np.argmin(gaps))
    raise ArgumentError(
        f"Argument `times` must increase, but entry {place} is {array[place]:g} and entry {place + 1} is {array[place + 1]:g}."
    )
