"""Events of equations as those of SBML."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import libsbml
import numpy as np

from .._errors import ArgumentError
from ..networks import WrittenEvent, root_text

MOST_TIMES = 1000
"""Most known times of all events together: each becomes an event of its own."""


class _Happening(NamedTuple):
    """One event of SBML: its trigger, the known time or None, and its value at it."""

    event: WrittenEvent
    trigger: str
    time: float | None = None
    value: float | None = None


def write_events(model: Any, events: Sequence[WrittenEvent]) -> None:
    """Write events into a model of SBML.

    **Raises:** an `ArgumentError` for events that end the simulation, and for more than 1000 known times.
    """
    if ending := [f"`{event.name}`" for event in events if event.ends]:
        raise ArgumentError(
            f"The events {', '.join(ending)} end the simulation, which SBML has not. Export the study as Python, or take them "
            "out of a copy of it."
        )
    found = [one for event in events for one in _happenings(event)]
    times = Counter(one.time for one in found if one.time is not None)
    if times.total() > MOST_TIMES:
        raise ArgumentError(
            f"The events must have at most {MOST_TIMES} known times to be written as SBML, but have {times.total()}. Give them "
            "fewer, `additional`, in a copy of the study."
        )
    for place, one in enumerate(found):
        _write(model, one, place, len(found) - place if one.time is not None and times[one.time] > 1 else None)


def as_math(text: str, name: str) -> Any:
    """A formula as SBML holds it.

    **Raises:** an `ArgumentError` where SBML has no such formula.
    """
    tree = libsbml.parseL3Formula(text)
    if tree is None:
        raise ArgumentError(f"The formula of `{name}` must be one that SBML can hold, but `{text}` is not.")
    return tree


def _happenings(event: WrittenEvent) -> list[_Happening]:
    if event.at is not None:
        times = np.asarray(event.at, float)
        values = [None] * len(times) if event.values is None else np.asarray(event.values, float).tolist()
        # Models of SBML begin at 0; what lies before has happened, and an infinite time never comes.
        pairs = [(time, value) for time, value in zip(times.tolist(), values, strict=True) if 0 <= time < np.inf]
        return [_Happening(event, f"time >= {time!r}", time, value) for time, value in pairs]
    sides = [root_text(root, _symbol(None)) for root in event.condition or ()]
    left, right = sides if len(sides) == 2 else (*sides, "0")
    signs = {"up": ">", "down": "<"}
    wanted = [signs[event.direction]] if event.direction else [">", "<"]
    return [_Happening(event, f"({left}) {sign} ({right})") for sign in wanted]


def _write(model: Any, one: _Happening, place: int, priority: int | None) -> None:
    made = model.createEvent()
    made.setId(_free_id(model, f"event_{place}"))
    made.setName(one.event.name)
    # New values are of the state when it happens, so that events of one time follow each other.
    made.setUseValuesFromTriggerTime(False)
    trigger = made.createTrigger()
    trigger.setMath(as_math(one.trigger, one.event.name))
    trigger.setPersistent(True)
    trigger.setInitialValue(one.time is None)  # a passage takes a change of side, a known time may be the first
    if priority is not None:
        made.createPriority().setMath(as_math(str(priority), one.event.name))
    for name, root in one.event.changes.items():
        assignment = made.createEventAssignment()
        assignment.setVariable(name)
        assignment.setMath(as_math(root_text(root, _symbol(one.value)), one.event.name))


def _symbol(value: float | None) -> Any:
    """The text of a name, with a number in place of `value`."""
    return lambda sort, name: {"time": "time", "value": f"({value!r})"}.get(sort, name)


def _free_id(model: Any, name: str) -> str:
    """An identifier that the model has not yet."""
    while model.getElementBySId(name) is not None:
        name += "_"
    return name
