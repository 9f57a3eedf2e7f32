"""Keys of study files as data: what readers take, and what the schema for editors says of them."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ._section import Section


@dataclasses.dataclass(frozen=True)
class Key:
    """One key of a table.

    - `kind`: "text", "number", "count", "true or false", "an array", "numbers" (an array of them, in which arrays may stand),
        "a table", "number or numbers", "a name" (of `choices`), "anything"; "times" are numbers or { from, to, count }.
    - `doc`: one line.
    - `default`: None where the key may be left out without one.
    - `choices`: the names that are known, called late since packages add to registries.
    - `least`: of a count; `bounds`: of a number, the least and the greatest one.
    - `what`: how a message calls a name that is not among the choices.
    - `table`: the keys of a table, or of each table of an array.
    """

    kind: str
    doc: str
    default: Any = None
    choices: Callable[[], Collection[str]] | None = None
    least: int = 1
    what: str = "name"
    table: "Table | None" = None
    bounds: tuple[float, float] | None = None

    def read(self, section: Section, key: str) -> Any:
        """The value in a table, or the default."""
        if self.kind == "number":
            value = section.number(key, self.default)
            if value is not None and self.bounds is not None and not self.bounds[0] <= value <= self.bounds[1]:
                low, high = self.bounds
                raise section.error(key, f"must lie between {low:,g} and {high:,g}, but it is {value:g}.")
            return value
        if self.kind == "count":
            return section.count(key, self.default, least=self.least)
        if self.kind == "a name":
            assert self.choices is not None
            return section.name(key, self.choices(), self.what, self.default)
        return section.get(key, self.kind, self.default)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table: its keys, and of what kind all other keys are; None where there are no others.

    With `nested` keys are dotted paths, `y0.hare = ...`, which TOML reads as tables in tables.
    """

    doc: str
    keys: Mapping[str, Key]
    others: Key | None = None
    nested: bool = False

    def read(self, section: Section, *skipped: str) -> dict[str, Any]:
        """The values of all keys but those that another reader takes; those without value or default are left out."""
        found = {key: known.read(section, key) for key, known in self.keys.items() if key not in skipped}
        return {key: value for key, value in found.items() if value is not None}


TIMES = Key("times", "increasing times, or { from, to, count }")
