"""Checks that turn a wrong argument into a sentence before anything is compiled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import ArgumentError
from ..core import System, at_time, named_leaves


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
    if not np.all(np.isfinite(array)):
        raise ArgumentError(f"Argument `times` must be finite, but entry {int(np.argmin(np.isfinite(array)))} is not.")
    if np.any(np.diff(array) < 0) or array[-1] <= array[0]:
        place = int(np.argmin(np.diff(array)))
        raise ArgumentError(
            f"Argument `times` must increase, but entry {place} is {array[place]:g} and entry {place + 1} is {array[place + 1]:g}."
        )
    return times


def check_derivative(system: System, state: Any, times: Any, inputs: Any) -> None:
    """Refuse a vector field whose result does not look like the state; the component is named."""
    name = type(system).__name__
    slope = jax.eval_shape(lambda t, y, i: system.vector_field(t, y, at_time(i, t)), times[0], state, inputs)
    if jax.tree.structure(slope) != jax.tree.structure(state):
        raise ArgumentError(
            f"`vector_field` of {name} must return the structure of the state, {jax.tree.structure(state)}, but it returned "
            f"{jax.tree.structure(slope)}."
        )
    slopes = jax.tree.leaves(slope)
    for (component, leaf), found in zip(named_leaves(state).items(), slopes, strict=True):
        label = f"component `{component}` of the state" if component else "the state"
        if leaf.shape != found.shape:
            raise ArgumentError(
                f"`vector_field` of {name} must keep the shape of {label}, {leaf.shape}, but it returned {found.shape}."
            )
        if jnp.result_type(leaf) != found.dtype:
            raise ArgumentError(
                f"`vector_field` of {name} must keep the float type of {label}, {leaf.dtype}, but it returned {found.dtype}. "
                f"System, state and inputs must share one float type: `simkit.cast(tree, {leaf.dtype})` converts them."
            )
