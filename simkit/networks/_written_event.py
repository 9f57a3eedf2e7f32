"""Events as formulas, to be written to files."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._expression import TIME, Formulas
from ._infix import Printer, identifier

Root = tuple[Formulas, int]
"""A graph and the node of a formula in it; symbols are `SORT:NAME`, with the sorts state, parameters, inputs, time and value."""


class WrittenEvent(NamedTuple):
    """An event as formulas.

    - `condition`: a number that passes zero, or two whose difference does; None where the event has times.
    - `direction`: "up", "down" or None, as in `simkit.Event`.
    - `changes`: state -> its value after the event, a formula of the state before.
    - `at`, `values`: known times, and the number that formulas call `value` at each; None where there are none.
    - `ends`: whether the simulation ends there.
    """

    name: str
    condition: tuple[Root, ...] | None = None
    direction: str | None = None
    changes: Mapping[str, Root] = {}
    at: np.ndarray | None = None
    values: np.ndarray | None = None
    ends: bool = False


def root_text(root: Root, symbols: Callable[[str, str], str], *, python: bool = False) -> str:
    """The text of a formula of an event; `symbols(sort, name)` is that of a name."""
    formulas, node = root

    def one(symbol: str) -> str:
        sort, _, name = symbol.partition(":")
        return symbols("time" if name == TIME else sort, name.removeprefix("y0."))

    return Printer(formulas, {}, one, python=python).text(node)


def events_python(events: Sequence[WrittenEvent], states: Sequence[str]) -> list[str]:
    """Lines of Python with the events of a system by name, `EVENTS`, for a file with its class `State`."""
    lines, entries = [], []
    for event in events:
        stem, arguments = f"_{identifier(event.name)}", "system, t, y, inputs"
        given = []
        if event.condition is not None:
            sides = [root_text(root, _python_symbol, python=True) for root in event.condition]
            lines += ["", "", f"def {stem}_condition({arguments}):"]
            lines.append(f"    return {' - '.join(f'({side})' for side in sides)}")
            given += [f"{stem}_condition", repr(event.direction)]
        if event.changes:
            more = "" if event.values is None else ", value"
            new = {name: root_text(root, _python_symbol, python=True) for name, root in event.changes.items()}
            told = ", ".join(f"{identifier(name)}={new.get(name, f'y.{identifier(name)}')}" for name in states)
            lines += ["", "", f"def {stem}_change({arguments}{more}):", f"    return State({told})"]
            given.append(f"change={stem}_change")
        given += ["ends=True"] if event.ends else []
        for key, numbers in (("at", event.at), ("values", event.values)):
            given += [f"{key}={np.asarray(numbers, float).tolist()!r}"] if numbers is not None else []
        entries.append(f"    {event.name!r}: simkit.Event({', '.join(given)}),")
    return [*lines, "", "", "EVENTS = {", *entries, "}"] if entries else []


def _python_symbol(sort: str, name: str) -> Any:
    if sort == "inputs":
        return f'inputs["{name}"]'
    words = {"time": "t", "value": "value", "state": f"y.{identifier(name)}"}
    return words.get(sort, f"system.{identifier(name)}")
