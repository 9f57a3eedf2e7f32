"""Columns of a table that nobody has described yet: numbers, decimal commas, dates, units in headers."""

import dataclasses
import datetime
import math
import re
from collections.abc import Sequence

import numpy as np

from .._errors import DataError
from ._table import DELIMITERS, MISSING, number_of, rows_of

UNIT = re.compile(r"(.+?)\s*[\[(]([^\])]+)[\])]\s*")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.IGNORECASE)
COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
DATES = {
    re.compile(r"\d{4}-\d{2}-\d{2}"): "%Y-%m-%d",
    re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}"): "%Y-%m-%d %H:%M",
    re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}"): "%Y-%m-%d %H:%M:%S",
    re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"): "%d.%m.%Y",
    re.compile(r"\d{1,2}\.\d{1,2}\.\d{4} \d{2}:\d{2}"): "%d.%m.%Y %H:%M",
}
"""Dates that can be read in one way only: day and month of 03/04/2024 depend on the country."""
SLASHED = re.compile(r"\d{1,4}/\d{1,2}/\d{1,4}.*")


@dataclasses.dataclass(frozen=True)
class Column:
    """One column: `header` as it stands, `name` and `unit` as it says, such as "size [mm]".

    - `kind`: "numbers", "dates" or "text"; `comma`: whether its decimals are commas.
    - `values`: numbers, NaN where one is missing; of dates days after the first of them; of text NaN.
    - `texts`: the cells.
    """

    header: str
    name: str
    unit: str
    kind: str
    comma: bool
    values: np.ndarray
    texts: tuple[str, ...]


def read_columns_of(name: str, text: str) -> tuple[list[Column], list[int]]:
    """All columns of a CSV table, and the line of each row.

    **Raises:** a `DataError` that names the line: of a column that mixes decimal commas and points, or numbers and text, of a date
    that can be read in two ways or is none.
    """
    header, rows = rows_of(name, text)
    first = next(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    if max(DELIMITERS, key=first.count) == ",":
        _check_commas(name, header, rows)
    lines = [line for line, _ in rows]
    return [_column(name, head, [row[i] for _, row in rows], lines) for i, head in enumerate(header)], lines


def _check_commas(file: str, header: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> None:
    """Refuse numbers with commas where commas separate the cells: "1,234" may be a decimal or a thousand."""
    for line, row in rows:
        for head, cell in zip(header, row, strict=True):
            if COMMA.fullmatch(cell):
                raise DataError(
                    f"Line {line}, column `{head}` of the data file `{file}` has the number `{cell}`, whose comma may stand for a "
                    "decimal or for thousands. Write a decimal point, or separate the cells by semicolons."
                )


def _column(file: str, header: str, cells: Sequence[str], lines: Sequence[int]) -> Column:
    found = UNIT.fullmatch(header)
    name, unit = (found[1], found[2].strip()) if found else (header, "")
    held = [(line, cell) for line, cell in zip(lines, cells, strict=True) if cell.lower() not in MISSING]
    told = header, name, unit
    for line, cell in held:
        if SLASHED.fullmatch(cell):
            raise DataError(
                f"Line {line}, column `{header}` of the data file `{file}` has the date `{cell}`, whose day and month depend on "
                "the country. Write dates as 2024-03-14."
            )
    if held and any(pattern.fullmatch(held[0][1]) for pattern in DATES):
        return Column(*told, "dates", False, _days(file, header, cells, lines), tuple(cells))
    numeric = [bool(NUMBER.fullmatch(cell) or COMMA.fullmatch(cell)) for _, cell in held]
    if not held or sum(numeric) < 0.5 * len(held):
        return Column(*told, "text", False, np.full(len(cells), math.nan), tuple(cells))
    commas = [line for line, cell in held if COMMA.fullmatch(cell)]
    points = [line for line, cell in held if "." in cell]
    if commas and points:
        raise DataError(
            f"Column `{header}` of the data file `{file}` has a decimal comma in line {commas[0]} and a point in line {points[0]}. "
            "Write one of them everywhere."
        )
    plain = [cell.replace(",", ".") if commas and COMMA.fullmatch(cell) else cell for cell in cells]
    values = [number_of(file, line, header, cell) for line, cell in zip(lines, plain, strict=True)]
    return Column(*told, "numbers", bool(commas), np.array(values), tuple(cells))


def _days(file: str, header: str, cells: Sequence[str], lines: Sequence[int]) -> np.ndarray:
    """Days after the first date of a column."""
    dates: list[datetime.datetime | None] = []
    for line, cell in zip(lines, cells, strict=True):
        if cell.lower() in MISSING:
            dates.append(None)
            continue
        form = next((form for pattern, form in DATES.items() if pattern.fullmatch(cell)), None)
        try:
            if form is None:
                raise ValueError
            dates.append(datetime.datetime.strptime(cell.replace("T", " "), form))
        except ValueError as error:
            raise DataError(
                f"Line {line}, column `{header}` of the data file `{file}` must be a date such as 2024-03-14, as in the rows "
                f"before, but it is `{cell}`."
            ) from error
    first = min(date for date in dates if date is not None)
    return np.array([math.nan if d is None else (d - first).total_seconds() / 86400 for d in dates])
