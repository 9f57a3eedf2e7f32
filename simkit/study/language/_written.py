"""Events of a study as formulas, for files of other programs."""

from collections.abc import Mapping

import jax
import numpy as np

from ..._errors import StudyError
from ...core import Event
from ...networks import WrittenEvent
from ._events import Change, Condition


def written_events(events: Mapping[str, Event]) -> list[WrittenEvent]:
    """The events of a study file as formulas.

    **Raises:** a `StudyError` for events that were written in Python.
    """
    code = [f"`{name}`" for name, event in events.items() if not _plain(event)]
    if code:
        raise StudyError(f"Events must stand in [[events]] to be written as formulas, but {', '.join(code)} are code.")
    return [_written(name, event) for name, event in events.items()]


def _plain(event: Event) -> bool:
    known = isinstance(event.values, jax.Array | np.ndarray | None) and event.lag is None
    return known and isinstance(event.condition, Condition | None) and isinstance(event.change, Change | None)


def _written(name: str, event: Event) -> WrittenEvent:
    condition, change = event.condition, event.change
    asked, changes = None, {}
    if isinstance(condition, Condition):
        asked = tuple((condition.formulas, root) for root in condition.roots)
    if isinstance(change, Change):
        paths = (path.removeprefix("y0.") for path in change.paths)
        changes = {path: (change.formulas, root) for path, root in zip(paths, change.roots, strict=True)}
    at, values = (None if x is None else np.asarray(x, float) for x in (event.at, event.values))
    return WrittenEvent(name, asked, event.direction, changes, at, values, event.ends)
