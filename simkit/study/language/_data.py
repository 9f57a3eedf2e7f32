"""Data of an experiment in a study file: inline or from a table, with what is censored."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ..._errors import DataError, check_known
from ...problem import Censored
from ._cells import Shape, on_cells
from ._files import Files, read_columns, read_reader
from ._section import Section, at_place, is_number

DATA_KEYS = ("times", "data", "errors", "file", "columns", "cells", "below", "above", "censored", "limits")
"""Keys of an experiment that say what was measured."""


def read_data(
    part: Section, noise: Mapping[str, Any], files: Files, shape: Shape
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Times, data and errors of an experiment.

    With `cells`, headers of columns that count cells along each axis, the file has a row for each measured cell of a field.

    `below` and `above` give limits of quantification by output, numbers or one a datum; `censored` the flags 0, 1 (below its value)
    and -1 (above) of Monolix and nlmixr2, with `limits` for the other ends of intervals. With `file` all may be headers.
    """
    given = {key: part.section(key) for key in ("below", "above", "censored", "limits")}
    if "file" in part:
        times, data, errors, columns = _from_file(part, noise, files, given, shape)
    else:
        if "cells" in part:
            raise part.error("cells", "names columns of a `file`, but there is none.")
        part.need("times", "data")
        times, data = part.numbers("times"), _series(part.section("data"))
        errors, columns = _series(part.section("errors")), {}
    return times, _with_limits(part, data, given, columns), errors


def _with_limits(
    part: Section, data: dict[str, Any], given: Mapping[str, Section], columns: Mapping[tuple[str, str], Any]
) -> dict[str, Any]:
    """The data, those of outputs with limits or flags as `Censored`."""
    found = dict(data)
    for name in dict.fromkeys(name for section in given.values() for name in section.table):
        own = {key: section for key, section in given.items() if name in section}
        with at_place(next(iter(own.values())).where(name)):
            check_known(name, data, "output with data")
        value = {
            key: columns[key, name] if (key, name) in columns else _given(section, name) for key, section in own.items()
        }
        if "censored" in own and ("below" in own or "above" in own):
            raise own["censored"].error(name, "must not be given together with `below` or `above`.")
        if "limits" in own and "censored" not in own:
            raise own["limits"].error(name, "needs the flags of `censored`, which are not given.")
        with at_place(part.where()):
            if "censored" in own:
                found[name] = Censored.flagged(data[name], value["censored"], value.get("limits"))
            else:
                found[name] = Censored(data[name], below=value.get("below"), above=value.get("above"))
    return found


def _given(section: Section, name: str) -> Any:
    """Numbers that stand in the study."""
    value = section.table[name]
    if isinstance(value, str):
        raise section.error(
            name, f"must be numbers where there is no `file`, but it is the header of a column, `{value}`."
        )
    if is_number(value):
        return section.number(name)
    return section.numbers(name, missing=True)


def _series(section: Section) -> dict[str, Any]:
    return {key: section.numbers(key, missing=True) for key in section.table}


def _from_file(
    part: Section, noise: Mapping[str, Any], files: Files, given: Mapping[str, Section], shape: Shape
) -> tuple[Any, dict[str, Any], dict[str, Any], dict[tuple[str, str], Any]]:
    """Times, data, errors and columns of limits from a CSV file.

    `columns` maps `time` and the outputs to headers, `errors` outputs to headers.
    """
    for key in ("times", "data"):
        if key in part:
            raise part.error(key, "must not be given together with `file`.")
    file, reader = str(part.get("file", "text")), read_reader(part, "table", "csv")
    columns = part.get("columns", "a table", {"time": "time", **{name: name for name in noise}})
    errors = part.get("errors", "a table", {})
    for key, table in (("columns", columns), ("errors", errors)):
        for name, header in table.items():
            if not isinstance(header, str):
                raise part.error(f"{key}.{name}", f"must be the header of a column, but it is `{header!r}`.")
    if "time" not in columns:
        raise part.error("columns", 'must say which column holds the times, such as time = "year".')
    wanted = {**columns, **{f"errors of {name}": header for name, header in errors.items()}}
    limits = {
        (key, name): header
        for key, section in given.items()
        for name, header in section.table.items()
        if isinstance(header, str)
    }
    wanted |= {f"{key} of {name}": header for (key, name), header in limits.items()}
    cells = part.get("cells", "an array", [])
    if "cells" in part and not (cells and all(isinstance(header, str) for header in cells)):
        raise part.error("cells", f'must be headers of columns such as ["i", "j"], but it is `{cells}`.')
    several = [name for name in columns if name != "time" and shape(name)]
    if several and not cells:
        raise part.error(
            "cells",
            f"must name the columns that count the cells of `{several[0]}`, an array of shape {shape(several[0])}: such as "
            '["i", "j"], with a row for each measured cell.',
        )
    if cells and (errors or limits):
        raise part.error(
            "cells", "does not go with columns of errors and limits: give the scale of the noise in [noise]."
        )
    if cells:  # one time has many rows, which a column called `time` could not
        wanted = {"moment" if name == "time" else name: header for name, header in wanted.items()}
        wanted |= {f"cells {i}": header for i, header in enumerate(cells)}
    with _data_place(part):
        table = read_columns(file, files, reader, wanted)
    if cells:
        indices = [table[f"cells {i}"] for i in range(len(cells))]
        outputs = {name: table[name] for name in columns if name != "time"}
        times, found = on_cells(part, table["moment"], outputs, indices, shape)
        return times, found, {}, {}
    return (
        table["time"],
        {name: table[name] for name in columns if name != "time"},
        {name: table[f"errors of {name}"] for name in errors},
        {(key, name): table[f"{key} of {name}"] for key, name in limits},
    )


class _data_place:
    """Name the place in the study file when a data file is at fault."""

    def __init__(self, part: Section):
        self.part = part

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, DataError):
            raise DataError(f"{error} (Read for {self.part.where()}.)") from error
