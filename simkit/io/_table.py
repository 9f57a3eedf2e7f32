"""Tables of numbers from CSV files, with every complaint naming file, row and column."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import overload

import numpy as np
from jaxtyping import Float

from .._errors import DataError, close_matches
from ..stores import READERS, Reader, input_bytes, reading

MISSING = frozenset({"", ".", "nan", "na", "n/a", "null"})
"""Texts of a cell, in any case of letters, where a value is missing."""

DELIMITERS = ",;\t"


Columns = dict[str, Float[np.ndarray, " rows"]]


@overload
def read_table(
    path: str | Path,
    columns: Mapping[str, str] | Sequence[str],
    *,
    time: str | None = "time",
    by: None = None,
    text: str | None = None,
) -> Columns: ...
@overload
def read_table(
    path: str | Path,
    columns: Mapping[str, str] | Sequence[str],
    *,
    time: str | None = "time",
    by: str,
    text: str | None = None,
) -> dict[str, Columns]: ...
def read_table(
    path: str | Path,
    columns: Mapping[str, str] | Sequence[str],
    *,
    time: str | None = "time",
    by: str | None = None,
    text: str | None = None,
) -> Columns | dict[str, Columns]:
    """Columns of numbers from a CSV file with a header.

    Commas, semicolons or tabs separate the cells, whichever the header uses. Empty cells, `nan` and a lone `.` are missing
    values and become NaN; empty lines and lines that begin with `#` are passed over.

    **Arguments:**

    - `path`: the file, in UTF-8.
    - `columns`: which columns to read: what each is called in the result -> its header in the file, or just the headers.
    - `time`: the entry of `columns` that must be complete and increase strictly; None, or a name that `columns` does not hold,
        where no column has to.
    - `by`: the header of a column that tells subjects, doses or replicates apart, whose rows are read each for themselves.
    - `text`: the file's content where it is at hand already; `path` then serves messages alone.

    **Returns:** name -> numbers, shape `(rows,)`, in float64; with `by` such a table for each of its cells, in the file's order.

    **Raises:** a `DataError` that names file, row and column: a missing column (with the close matches), text where a number
    belongs, an infinite number, times that are missing, doubled or unsorted, an empty file, no rows, a row of another length.
    """
    wanted = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    name = Path(path).name
    header, rows = rows_of(name, read_text(path) if text is None else text)
    places = {key: _place(name, header, column) for key, column in wanted.items()}
    if by is None:
        return _columns(name, header, places, time, rows)
    groups: dict[str, list[tuple[int, list[str]]]] = {}
    place = _place(name, header, by)
    for line, row in rows:
        groups.setdefault(row[place], []).append((line, row))
    return {group: _columns(name, header, places, time, own) for group, own in groups.items()}


def _columns(
    name: str, header: list[str], places: Mapping[str, int], time: str | None, rows: list[tuple[int, list[str]]]
) -> Columns:
    table = {
        key: np.array([number_of(name, line, header[place], row[place]) for line, row in rows])
        for key, place in places.items()
    }
    if time in table:
        _check_times(name, header[places[time]], table[time], [line for line, _ in rows])
    return table


def read_text(path: str | Path) -> str:
    """A data file's text; a `DataError` where it cannot be read."""
    with reading(path, "data file", remedy="Save it as CSV in UTF-8."):
        text = input_bytes(path, "data file").decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def rows_of(name: str, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the rows with their line numbers."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise DataError(f"The data file `{name}` is empty: it must hold a header and rows of numbers.")
    delimiter = max(DELIMITERS, key=lines[0].count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    found: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells) and not cells[0].startswith("#"):
                found.append((reader.line_num, cells))
    except csv.Error as error:
        raise DataError(f"The data file `{name}` is no CSV table at line {reader.line_num}: {error}.") from error
    if not found:
        raise DataError(f"The data file `{name}` is empty: it must hold a header and rows of numbers.")
    header, rows = [_in_one_line(cell) for cell in found[0][1]], found[1:]
    doubled = sorted(column for column, count in Counter(header).items() if count > 1)
    if doubled:
        raise DataError(f"The data file `{name}` has more than one column `{doubled[0]}`. Give each a name of its own.")
    if not rows:
        raise DataError(f"The data file `{name}` has a header but no rows. Add at least one row of numbers.")
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(
                f"Line {line} of the data file `{name}` must have {len(header)} cells, like the header, but it has {len(row)}. "
                "Write an empty cell for a missing value."
            )
    return header, rows


def _in_one_line(cell: str) -> str:
    """A cell of a header with blanks in place of line breaks, as study files and messages can hold it."""
    return re.sub(r"\s*[\r\n]+\s*", " ", cell)


def _place(name: str, header: list[str], column: str) -> int:
    column = _in_one_line(column)
    if column not in header:
        raise DataError(f"The data file `{name}` has no column `{column}`. {close_matches(column, header)}")
    return header.index(column)


def number_of(name: str, line: int, column: str, cell: str) -> float:
    if cell.lower() in MISSING:
        return math.nan
    where = f"Line {line}, column `{column}` of the data file `{name}`"
    try:
        value = float(cell.replace("_", "?"))  # Python reads 1_000 as a number; in a table it is a slip
    except ValueError as error:
        remedy = "Write a decimal point." if "," in cell else "Leave the cell empty where the value is missing."
        raise DataError(f"{where} must be a number, but it is `{cell}`. {remedy}") from error
    if math.isinf(value):
        raise DataError(f"{where} must be finite, but it is `{cell}`. Leave the cell empty where the value is missing.")
    return value


def _check_times(name: str, column: str, times: np.ndarray, lines: list[int]) -> None:
    missing = np.flatnonzero(np.isnan(times))
    if missing.size:
        raise DataError(
            f"Line {lines[missing[0]]}, column `{column}` of the data file `{name}` must be a time, but it is missing. Remove the "
            "row or fill the time in."
        )
    bad = np.flatnonzero(np.diff(times) <= 0)
    if bad.size:
        place = int(bad[0])
        before, after = times[place], times[place + 1]
        what = f"{after:g} is there twice" if before == after else f"{after:g} follows {before:g}"
        raise DataError(
            f"The times in column `{column}` of the data file `{name}` must increase, but {what} (lines {lines[place]} and "
            f"{lines[place + 1]}). Sort the rows; where a column tells subjects or replicates apart, name it: `by` of "
            "`read_table`, --subject of `simkit new`."
        )


READERS.add("csv", Reader("table", read_table))
