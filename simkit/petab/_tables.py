"""The tables of a PEtab problem: text in columns, of which every complaint names file, row and column."""

import csv
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._errors import DataError, close_matches
from ..stores import MOST_DATA, Gate, input_bytes, reading


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a table."""

    table: str
    line: int
    cells: Mapping[str, str]
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of cells that come from rows of their own

    def text(self, column: str, default: str = "") -> str:
        """A cell as text; the default where it is empty or not there."""
        return self.cells.get(column, "").strip() or default

    def has(self, column: str) -> bool:
        """Tell whether a cell holds anything; `NaN` stands for nothing."""
        return self.text(column).lower() not in ("", "nan")

    def number(self, column: str, default: float | None = None) -> float:
        """A cell as a number."""
        if not self.has(column) and default is not None:
            return default
        found = as_number(self.text(column))
        if found is None:
            raise self.error(column, f"must be a number, but it is `{self.text(column)}`.")
        return found

    def choice(self, column: str, allowed: Sequence[str], default: str) -> str:
        """A cell as one of some words."""
        found = self.text(column, default)
        if found not in allowed:
            raise self.error(column, f"must be one of {', '.join(allowed)}, but it is `{found}`.")
        return found

    def parts(self, column: str) -> tuple[str, ...]:
        """A cell as words between semicolons."""
        return tuple(part.strip() for part in self.text(column).split(";")) if self.has(column) else ()

    def error(self, column: str, why: str) -> DataError:
        """A complaint that names the place."""
        return DataError(f"{self.where(column)} {why}")

    def where(self, column: str) -> str:
        """The place of a cell in words."""
        return self.places.get(column) or f"`{self.table}`, line {self.line}, column `{column}`,"

    def check_named(self, column: str, known: Mapping[str, Any]) -> None:
        """Refuse a cell that is none of some names."""
        word = self.text(column)
        if word not in known:
            raise self.error(column, f"must be a known name, but `{word}` is none. {close_matches(word, known)}")


@dataclasses.dataclass(frozen=True)
class Table:
    """A table read from one file or several."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def by_id(self, column: str) -> dict[str, Row]:
        """The rows by an identifier that must be there once."""
        found: dict[str, Row] = {}
        for row in self.rows:
            key = row.text(column)
            if not key:
                raise row.error(column, "must not be empty, but it is.")
            if key in found:
                raise row.error(column, f"must be there once, but `{key}` stands in line {found[key].line} already.")
            found[key] = row
        return found


def as_number(text: str) -> float | None:
    """The number that a text is, None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None


class Files:
    """The files of a problem by the names it gives them: relative to its folder, or texts that are at hand.

    `texts` are those read so far.
    """

    def __init__(self, folder: Path, known: Mapping[str, str] | None = None, *, allow_outside: bool = False):
        self.known, self.gate = known, Gate(folder, outside=allow_outside)
        self.texts: dict[str, str] = {}

    def read(self, file: object, what: str, most: int = MOST_DATA) -> str:
        """The text of a file of at most `most` bytes; `what` says what it should be."""
        if not isinstance(file, str) or "://" in file or Path(file).is_absolute():
            shown = repr(file)[:200] if isinstance(file, str) else f"a {type(file).__name__}"
            raise DataError(f"A PEtab problem must name files relative to itself, but it names {shown}.")
        if file not in self.texts:
            self.texts[file] = self._text(file, what, most)
        return self.texts[file]

    def _text(self, file: str, what: str, most: int) -> str:
        if self.known is not None:
            if file not in self.known:
                raise DataError(f"The {what} `{file}` is not at hand.")
            return self.known[file]
        path = self.gate.folder / file
        with reading(path, what):
            return self.gate.read(file, what, lambda path: input_bytes(path, what, most).decode("utf-8-sig"))


def check_names(files: Sequence[Any]) -> None:
    """Refuse a list of files that holds something else than names."""
    for file in files:
        if not isinstance(file, str):
            raise DataError(f"A PEtab problem must name files, but in a list of them stands a {type(file).__name__}.")


def read_tables(source: Files, files: Sequence[str], needed: Sequence[str]) -> Table:
    """Tables of one kind, one after the other."""
    rows: list[Row] = []
    columns: dict[str, None] = {}
    for file in files:
        found = _read(source.read(file, "table"), file, needed)
        rows += found.rows
        columns |= dict.fromkeys(found.columns)
    return Table(", ".join(files), tuple(columns), tuple(rows))


def _read(text: str, file: str, needed: Sequence[str]) -> Table:
    try:
        lines = list(csv.reader(text.splitlines(), delimiter="\t"))
    except csv.Error as error:  # a cell of more than 128 KiB
        raise DataError(
            f"The table `{file}` cannot be read as one whose cells are separated by tabs: {error}."
        ) from error
    if not lines:
        raise DataError(f"The table `{file}` must have a header, but it is empty.")
    header = [name.strip() for name in lines[0]]
    for name in needed:
        if name not in header:
            raise DataError(
                f"The table `{file}` must have a column `{name}`, but has {', '.join(header)}. {close_matches(name, header)} "
                "Columns are separated by tabs."
            )
    rows = []
    for number, cells in enumerate(lines[1:], start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(header) and any(cell.strip() for cell in cells[len(header) :]):
            raise DataError(f"`{file}`, line {number}, must have {len(header)} cells, but has {len(cells)}.")
        rows.append(Row(file, number, dict(zip(header, cells, strict=False))))
    return Table(file, tuple(header), tuple(rows))


def finite(row: Row, column: str) -> float:
    """A finite number."""
    value = row.number(column)
    if not math.isfinite(value):
        raise row.error(column, f"must be finite, but it is {value:g}.")
    return value
