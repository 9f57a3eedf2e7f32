"""Events: conditions that end a simulation before its last time."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx

from .._doors import check_function
from .._errors import ArgumentError


class Event(eqx.Module):
    """The end of a simulation where a condition passes zero: g(t, y) = 0, found to rounding rather than to a step.

    The first passage ends the solve. A member that starts with g = 0 is not at its event: it has to come back. An event is seen by
    a change of sign between the ends of a step, so a passage there and back within one step is not; where that matters, tighten
    the tolerances. Where the condition itself jumps past zero, with an input, its time is found but has no derivative.

    **Arguments:**

    - `condition(system, t, y, inputs)`: a number, smooth near the event, that passes zero there; `y` is the state as users see it
        and `inputs` the inputs' values at time t. Make the function once and pass the same one: a new one is compiled anew.
    - `direction`: "up" for passages from negative to positive, "down" for those from positive to negative, None for both.

    **Raises:** an `ArgumentError` for another direction.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    half = simkit.Event(lambda system, t, y, inputs: y.amount - 0.5, "down")
    print(simkit.simulate(system, y0, times, event=half).event_time)  # prints 1.386
    ```
    """

    condition: Callable[..., Any]
    direction: Literal["up", "down"] | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_function("condition", self.condition, ("system", "t", "y", "inputs"))
        if self.direction not in ("up", "down", None):
            raise ArgumentError(f'Argument `direction` must be "up", "down" or None, but it is {self.direction!r}.')
