"""The midpoint rule, by which states follow a time that moves by nothing but has derivatives."""

from collections.abc import Callable
from typing import Any

from ..._types import State, Time
from ...core import scaled


def midpoint(field: Callable[[Time, State], Any], t: Time, h: Time, y: State) -> Any:
    """The state a time h after t, right to second order in h; `field` gives the slope at a time and a state."""
    half = y + scaled(0.5 * h, field(t, y))
    return y + scaled(h, field(t + 0.5 * h, half))
