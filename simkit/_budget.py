"""Budget of time of long work: the argument `within` of verbs, looked at between their blocks."""

import contextlib
import contextvars
import math
import re
import time
from collections.abc import Iterator
from typing import Any

from ._errors import ArgumentError
from ._processes import from_first, several

Within = str | float | None
"""The argument `within` of a verb: seconds, or words such as "2 h", "30 min", "1 h 30 min"; None for no limit."""

clock = time.monotonic
"""Seconds of a clock that only goes forward."""

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"\s*((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(s|min|h|d)(?![a-z])\s*")

_current: contextvars.ContextVar["Budget | None"] = contextvars.ContextVar("simkit_budget", default=None)


class Budget:
    """Time that a verb may take, from now on, and whether work was left out for it.

    - `seconds`: None for no limit.
    - `cut`: True once a block was not begun because the time was up.
    - `together`: True of a verb whose work several processes share, all of which end it at one place.
    """

    def __init__(self, within: object = None, name: str = "within", *, together: bool = False):
        self.together = together
        self.seconds, self.cut = seconds_of(within, name), False
        self.begun = self.last = clock()
        self.done = 0

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0; None for no limit."""
        return None if self.seconds is None else max(0.0, self.begun + self.seconds - clock())

    def has_room(self) -> bool:
        """Tell whether another block may begin: the first always, others while one as long as the last one ends in time."""
        now = clock()
        took, self.last, self.done = now - self.last, now, self.done + 1
        if self.seconds is None or self.done == 1:
            return True
        # The block before the second one compiled, which the others do not.
        expected = took if self.done > 2 else 0.0
        self.cut = now - self.begun + expected >= self.seconds
        return not self.cut


@contextlib.contextmanager
def budgeted(within: object = None, *, together: bool = False) -> Iterator[Budget]:
    """While this runs, `has_room` asks a new budget; verbs that are called inside have their own, or none.

    **Raises:** an `ArgumentError` for a value that is no time.
    """
    budget = Budget(within, together=together)
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


def has_room() -> bool:
    """Tell whether the verb that runs may begin another block."""
    budget = _current.get()
    if budget is None or budget.seconds is None or not (budget.together and several()):
        return budget is None or budget.has_room()
    budget.cut = not from_first(budget.has_room)  # clocks differ, and these processes must go on together
    return not budget.cut


def time_left() -> float | None:
    """Seconds that the verb that runs has left, at least a moment; None for no limit."""
    budget = _current.get()
    if budget is None or budget.seconds is None:
        return None
    own = lambda: max(budget.left or 0.0, 1e-3)
    return from_first(own) if budget.together and several() else own()


def seconds_of(within: object, name: str = "within") -> float | None:
    """Seconds of a time in words or in seconds, None for no limit.

    **Raises:** an `ArgumentError` for what is no positive time.
    """
    if within is None:
        return None
    found = math.nan
    if isinstance(within, str):
        found = _read(within)
    elif _is_number(within):
        found = float(within)  # pyright: ignore[reportArgumentType]
    if not (math.isfinite(found) and found > 0):
        raise ArgumentError(
            f"Argument `{name}` must be a positive time, but it is {within!r}. Write seconds, or a number with one of the units s, "
            'min, h and d, such as "30 min", "2 h" or "1 h 30 min".'
        )
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read(text: str) -> float:
    """The seconds of a text, NaN where it is none."""
    total, place = 0.0, 0
    while found := _PART.match(text, place):
        total, place = total + float(found[1]) * UNITS[found[2]], found.end()
    return total if place and place == len(text) else math.nan
