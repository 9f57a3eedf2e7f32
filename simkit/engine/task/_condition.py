"""Conditions of events: their values, and their zero crossings."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ..._types import Inputs, Time
from ...core import Event, at_time


def condition_of(event: Event, system: Any, inputs: Inputs, t: Time, state: PyTree) -> Array:
    """The condition at an encoded state, a single number."""
    assert event.condition is not None
    value = jnp.asarray(event.condition(system, t, system.decode(state), at_time(inputs, t)))
    if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
        raise ArgumentError(
            f"The `condition` of an event must give one real number, but it gives an array of shape {value.shape} and type "
            f"{value.dtype}. Let it pass zero where the event is, such as `y.position - wall`."
        )
    return value


def passes(direction: str | None, before: Array, after: Array) -> Array:
    """Tell whether a condition crosses zero between two values; one that starts at zero does not."""
    up, down = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
    return up if direction == "up" else down if direction == "down" else up | down
