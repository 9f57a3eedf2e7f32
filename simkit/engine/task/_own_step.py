"""Fixed steps of systems that bring the length of their step."""

from typing import Any

import jax.core
import numpy as np

from ..._errors import ArgumentError
from ...core import DiscreteSystem
from ._step import Fixed, check_count


def own_steps(system: DiscreteSystem, step: Any, times: Any) -> tuple[Fixed, bool]:
    """The most steps of a discrete system between two of known times, and whether there are fewer between others.

    **Raises:** an `ArgumentError` for times that are not whole numbers of steps apart, and for another step than the system's.
    """
    name, own = type(system).__name__, system.step
    if isinstance(times, jax.core.Tracer):
        if isinstance(step, Fixed):
            return step, True
        raise ArgumentError(
            f"`{name}` takes steps of {own:g} and cannot count them, since argument `times` is traced. Give "
            "`step=Fixed(substeps)`, the number of steps between two times."
        )
    known = np.asarray(times)
    digits = np.finfo(known.dtype if known.dtype.kind == "f" else float).eps
    widths = np.diff(known.astype(float), axis=-1).ravel() / own
    counts = np.round(widths)
    rounding = 8 * digits * np.max(np.abs(known), initial=0.0) / own
    broken = (counts < 0) | (np.abs(widths - counts) > rounding)
    if np.any(broken):
        place = int(np.argmax(broken))
        raise ArgumentError(
            f"Argument `times` must be whole numbers of steps of `{name}` apart, {own:g} each, but from entry {place} to the next "
            f"it is {widths[place]:.6g} steps. Take `times[0] + {own:g} * n` with whole numbers n, such as numpy.arange(count)."
        )
    found = Fixed(max(1, int(np.max(counts, initial=1))))
    if not isinstance(step, Fixed):
        check_count(own, found, known.ravel())
    given = step.substeps >= found.substeps if isinstance(step, Fixed) else step is None
    if isinstance(step, int | float | np.number) and not isinstance(step, bool):
        given = bool(abs(float(step) - own) <= 8 * digits * own)
    if not given:
        raise ArgumentError(
            f"Argument `step` must be left out for `{name}`, whose own step is {own:g}, but is {step!r}. Make the system with "
            "another `step`."
        )
    found = step if isinstance(step, Fixed) else found
    return found, bool(np.any(counts != found.substeps))
