"""Fixed steps of systems that bring the length of their step."""

from typing import Any

import jax.core
import numpy as np

from ..._errors import ArgumentError
from ...core import DiscreteSystem
from ._step import Fixed, check_count


def own_steps(system: DiscreteSystem, step: Any, times: Any) -> Fixed:
    """Steps of a discrete system between known times.

    **Raises:** an `ArgumentError` for times that are not the same whole number of steps apart, and for another step than the
    system's.
    """
    name, own = type(system).__name__, system.step
    if isinstance(times, jax.core.Tracer):
        if isinstance(step, Fixed):
            return step
        raise ArgumentError(
            f"`{name}` takes steps of {own:g} and cannot count them, since argument `times` is traced. Give "
            "`step=Fixed(substeps)`, the number of steps between two times."
        )
    known = np.asarray(times)
    digits = np.finfo(known.dtype if known.dtype.kind == "f" else float).eps
    widths = np.diff(known.astype(float)) / own
    counts = np.round(widths)
    rounding = 8 * digits * np.max(np.abs(known), initial=0.0) / own
    if np.any(counts < 1) or np.any(counts != counts[0]) or np.any(np.abs(widths - counts) > rounding):
        place = int(np.argmax((counts != counts[0]) | (counts < 1) | (np.abs(widths - counts) > rounding)))
        raise ArgumentError(
            f"Argument `times` must be the same whole number of steps of `{name}` apart, {own:g} each, but from entry {place} to "
            f"the next it is {widths[place]:.6g} steps{'' if place == 0 else f' and before {counts[0]:g}'}. Take "
            f"`times[0] + {own:g} * n * numpy.arange(count)` with a whole number n."
        )
    found = Fixed(int(counts[0]))
    given = step.substeps == found.substeps if isinstance(step, Fixed) else step is None
    if isinstance(step, int | float | np.number) and not isinstance(step, bool):
        given = bool(abs(float(step) - own) <= 8 * digits * own)
    if not given:
        raise ArgumentError(
            f"Argument `step` must be left out for `{name}`, whose own step is {own:g}, but is {step!r}. Make the system with "
            "another `step`."
        )
    check_count(own, found, known)
    return found
