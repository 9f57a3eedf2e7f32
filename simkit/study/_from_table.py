"""The study file that `simkit new --data` writes: what the columns of a table say, and a model to replace."""

import dataclasses
import keyword
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .._errors import DataError, check_known
from ..io import Column, read_columns_of
from ..networks import TAKEN, EquationSystem

TIMES = (
    *("time", "t", "date", "datetime", "day", "days", "hour", "hours", "minute", "minutes", "second", "seconds"),
    *("week", "weeks", "month", "months", "year", "years", "datum", "zeit"),
)
SUBJECTS = (
    *("subject", "id", "individual", "patient", "animal", "plot", "site", "replicate", "series", "experiment"),
    *("culture", "well"),
)
CLOCKS = ("day", "hour", "minute", "second", "week", "month", "year")
MOST_NUMBERS = 20_000
"""Most numbers that are written into a study; a larger table is better split into files."""

HEAD = """# A study of {file}, written from its columns by simkit new --data. It runs as it stands:
#     simkit check {study}
#     simkit run {study}
# The model is a placeholder, in which each output relaxes to a level. Replace it by your own equations, or by model = "..."
# (`simkit models` lists them); then bounds and priors in [free].
#
# Columns:
{columns}

[study]
title = {title}
question = "What do the data say?"
time = {time}
seed = 1

[system]
name = "Placeholder"

[system.equations]
{equations}

[system.parameters]
{parameters}

[system.states]
{states}
{inputs}
[y0]                               # the state at the first time of each experiment
{start}

[noise]                            # how data scatter around the model
{noise}

[free]                             # what is unknown: bounds, or prior = {{ log_normal = [0.0, 1.0] }}
{free}
"""
FOOT = """
[fit]
starts = 8

[sample]
chains = 4
warmup = 300
draws = 500
"""


@dataclasses.dataclass(frozen=True)
class Roles:
    """The columns by what they are: time, subject or None, outputs, covariates (one number a subject), inputs, and the rest."""

    time: Column
    subject: Column | None
    outputs: list[Column]
    covariates: list[Column]
    inputs: list[Column]
    rest: list[Column]


def study_of_table(
    text: str,
    file: str,
    study: str,
    *,
    time: str | None = None,
    subject: str | None = None,
    inputs: Sequence[str] = (),
    inline: bool = False,
) -> str:
    """The text of a study for a table of data.

    **Arguments:**

    - `text`, `file`: the table, and its name relative to the study; `study`: the name of the study file.
    - `time`, `subject`: headers of these columns; found by their names without.
    - `inputs`: headers of columns that act on the model, as signals with straight lines between the times of the table.
    - `inline`: write the numbers into the study even where the file could be named.

    **Raises:** a `DataError` that names the line or the column.
    """
    columns, lines = read_columns_of(file, text)
    roles = _roles(columns, file, time, subject, inputs)
    groups = _groups(roles, file, lines)
    plain = len(groups) == 1 and roles.subject is None and roles.time.kind == "numbers"
    plain = plain and not any(column.comma for column in (roles.time, *roles.outputs))
    plain = plain and bool(np.all(np.diff(roles.time.values) > 0)) and not inline
    count = len(lines) * (1 + (0 if plain else len(roles.outputs)) + 2 * len(roles.inputs))
    if (not plain or roles.inputs) and count > MOST_NUMBERS:
        raise DataError(
            f"The data file `{file}` must hold at most {MOST_NUMBERS:,} numbers to be written into a study, but holds {count:,}. "
            "Split it into a file for each subject, with a decimal point and times as numbers."
        )
    names, signals = _split(_names([*roles.outputs, *roles.inputs]), len(roles.outputs))
    body = HEAD.format(
        file=_printable(file),
        study=_printable(study),
        columns="\n".join(_told(roles)),
        title=_quoted(file.rpartition("/")[2].rpartition(".")[0].replace("_", " ") or file),
        time=_quoted(_clock(roles.time)),
        **_model(names, signals, roles, groups),
    )
    parts = [
        _experiment(label, rows, names, roles, file if plain else None) + _signals(label, rows, signals, roles, file)
        for label, rows in groups.items()
    ]
    return body + "\n" + "\n".join(parts) + FOOT


def _roles(columns: Sequence[Column], file: str, time: str | None, subject: str | None, inputs: Sequence[str]) -> Roles:
    by_header = {column.header: column for column in columns}
    for header in (time, subject, *inputs):
        if header is not None:
            check_known(header, by_header, f"column of `{file}`")
    lower = {column.name.strip().lower(): column for column in reversed(columns)}
    if "dv" in lower and ("amt" in lower or "evid" in lower):
        raise DataError(
            f"The data file `{file}` has the columns of a dosing table (DV, AMT or EVID): name it in a study by [dosing], "
            f'file = "{file}", as `simkit examples theophylline` does.'
        )
    acting = [by_header[header] for header in dict.fromkeys(inputs)]
    for column in acting:
        if column.kind != "numbers" or column.header in (time, subject):
            raise DataError(
                f"The column `{column.header}` of `{file}` must hold numbers beside times and subjects to be an input."
            )
    whole, columns = columns, [column for column in columns if not any(column is one for one in acting)]
    moves = [column for column in columns if column.kind != "text" and not np.isnan(column.values).any()]
    clock = by_header[time] if time else next((lower[name] for name in TIMES if name in lower), None)
    clock = clock or next((column for column in moves if column.kind == "dates"), None)
    clock = clock or next((column for column in moves if np.all(np.diff(column.values) >= 0)), None)
    if clock is None or clock.kind == "text":
        heads = ", ".join(f"`{column.header}`" for column in columns)
        raise DataError(
            f"The data file `{file}` must have a column of times or dates, but none of {heads} is one. Name it by --time."
        )
    who = by_header[subject] if subject else next((lower[name] for name in SUBJECTS if name in lower), None)
    others = [column for column in columns if column is not clock and column is not who]
    covariates = [column for column in others if who is not None and _is_constant(column, who)]
    outputs = [c for c in others if c.kind == "numbers" and c not in covariates and not np.isnan(c.values).all()]
    if not outputs:
        text = next((column for column in others if column.kind == "text"), None)
        found = "it has none" if text is None else f"column `{text.header}` holds {_no_number(text)}"
        raise DataError(
            f"The data file `{file}` must have a column of numbers beside `{clock.header}`, but {found}. Leave cells empty "
            "where a value is missing, write units into the header. Check the separator of cells: commas, semicolons or tabs."
        )
    used = [clock, who, *outputs, *covariates, *acting]
    return Roles(clock, who, outputs, covariates, acting, [c for c in whole if not any(c is one for one in used)])


def _no_number(column: Column) -> str:
    """Quote the first cell of a column that is no number."""
    for cell in column.values:
        try:
            float(cell)
        except ValueError:
            return f"`{cell}`"
    return "texts"


def _is_constant(column: Column, who: Column) -> bool:
    """Tell whether a column has one number for each subject, and not the same for all."""
    if column.kind != "numbers" or np.isnan(column.values).any():
        return False
    by_subject: dict[str, set[float]] = {}
    for label, value in zip(who.texts, column.values.tolist(), strict=True):
        by_subject.setdefault(label, set()).add(value)
    return len(by_subject) > 1 and all(len(values) == 1 for values in by_subject.values())


def _groups(roles: Roles, file: str, lines: Sequence[int]) -> dict[str, list[int]]:
    """The rows of each subject in the order of their times."""
    groups: dict[str, list[int]] = {}
    for row, value in enumerate(roles.time.values):
        if np.isnan(value):
            raise DataError(
                f"Line {lines[row]}, column `{roles.time.header}` of the data file `{file}` must be a time, but it is missing."
            )
        label = "data" if roles.subject is None else roles.subject.texts[row]
        if not label:
            raise DataError(
                f"Line {lines[row]} of the data file `{file}` must name its subject, but the cell is empty."
            )
        groups.setdefault(label, []).append(row)
    for label, rows in groups.items():
        rows.sort(key=lambda row: roles.time.values[row])
        for before, after in pairwise(rows):
            if roles.time.values[before] == roles.time.values[after]:
                whose = "" if roles.subject is None else f" for `{label}`"
                raise DataError(
                    f"The time `{roles.time.texts[after]}` of the data file `{file}` is there twice{whose} (lines {lines[before]} "
                    f"and {lines[after]}). Name the column that tells subjects or replicates apart by --subject."
                )
    return groups


OCCUPIED = {*TAKEN, *dir(EquationSystem), "e", "pi", "t"}
"""Names that formulas, files and systems need for themselves."""


def _names(outputs: Sequence[Column]) -> list[str]:
    """Names of the outputs for formulas, each another one."""
    found: list[str] = []
    for column in outputs:
        plain = unicodedata.normalize("NFKD", column.name).encode("ascii", "ignore").decode()
        name = re.sub(r"\W+", "_", plain).strip("_").lower() or "y"
        name = f"y_{name}" if name[0].isdigit() or name in OCCUPIED or keyword.iskeyword(name) else name
        # `rate_` and `level_` of a name are parameters of the model that is written.
        others = lambda name: {f"{word}{name}" for word in ("", "rate_", "level_")}
        while any(others(name) & others(other) for other in found):
            name += "_2"
        found.append(name)
    return found


def _split(names: list[str], count: int) -> tuple[list[str], list[str]]:
    return names[:count], names[count:]


def _model(names: Sequence[str], signals: Sequence[str], roles: Roles, groups: dict[str, list[int]]) -> dict[str, str]:
    times = roles.time.values
    span = float(np.ptp(times)) or 1.0
    rows: dict[str, list[str]] = {
        key: [] for key in ("equations", "parameters", "states", "inputs", "start", "noise", "free")
    }
    for name, column in zip(names, roles.outputs, strict=True):
        values = column.values[np.isfinite(column.values)]
        low, high = float(values.min()), float(values.max())
        wide = high - low or abs(high) or 1.0
        first = next((v for rows_of_one in groups.values() for v in column.values[rows_of_one] if np.isfinite(v)), low)
        ends = f"[{low - wide:.4g}, {high + wide:.4g}]"
        push = "".join(f" + gain_{name}_{signal}*{signal}" for signal in signals)
        rows["equations"].append(f'"d {name}" = "rate_{name}*(level_{name}{push} - {name})"')
        for signal, acting in zip(signals, roles.inputs, strict=True):
            gain = (
                2
                * wide
                / (float(np.nanmax(acting.values) - np.nanmin(acting.values)) or abs(float(acting.values[0])) or 1.0)
            )
            rows["parameters"].append(f"gain_{name}_{signal} = {{ value = 0.0 }}")
            rows["free"].append(f"gain_{name}_{signal} = {{ bounds = [{-gain:.4g}, {gain:.4g}] }}")
        rows["parameters"].append(f'rate_{name} = {{ value = {3 / span:.4g}, support = "positive" }}')
        rows["parameters"].append(f"level_{name} = {{ value = {high:.6g} }}")
        rows["states"].append(f"{name} = {{ unit = {_quoted(column.unit or '1')} }}")
        rows["start"].append(f"{name} = {float(first)!r}")
        rows["noise"].append(f'{name} = {{ model = "normal", scale = {0.1 * wide:.4g} }}')
        rows["free"].append(f'rate_{name} = {{ bounds = [{0.01 / span:.4g}, {300 / span:.4g}], transform = "log" }}')
        rows["free"].append(f"level_{name} = {{ bounds = {ends} }}")
        rows["free"].append(f"y0.{name} = {{ bounds = {ends} }}")
        rows["free"].append(f'noise.{name}.scale = {{ bounds = [{0.001 * wide:.4g}, {wide:.4g}], transform = "log" }}')
    for signal, acting in zip(signals, roles.inputs, strict=True):
        mean = float(np.nanmean(acting.values))
        rows["inputs"].append(f"{signal} = {{ unit = {_quoted(acting.unit or '1')}, default = {mean:.6g} }}")
    if rows["inputs"]:
        rows["inputs"] = ["", "[system.inputs]", *rows["inputs"], ""]
    return {key: "\n".join(value) for key, value in rows.items()}


def _signals(label: str, rows: Sequence[int], signals: Sequence[str], roles: Roles, file: str) -> str:
    """The inputs of one experiment: a number where there is one alone, else straight lines between the times with a value."""
    lines = []
    for name, column in zip(signals, roles.inputs, strict=True):
        kept = [row for row in rows if np.isfinite(column.values[row])]
        if not kept:
            raise DataError(
                f"The input `{column.header}` of `{file}` must have a value for each subject, but has none for `{label}`."
            )
        times, values = roles.time.values[kept], column.values[kept]
        if len(kept) == 1:
            lines.append(f"inputs.{name} = {float(values[0])!r}")
        else:
            lines.append(f"inputs.{name} = {{ times = {_array(times)}, values = {_array(values)} }}")
    return "\n".join([*lines, ""]) if lines else ""


def _experiment(label: str, rows: Sequence[int], names: Sequence[str], roles: Roles, file: str | None) -> str:
    lines = [f"[experiments.{_key(label)}]"]
    if file is not None:
        heads = ", ".join(f"{n} = {_quoted(c.header)}" for n, c in zip(names, roles.outputs, strict=True))
        lines += [f"file = {_quoted(file)}", f"columns = {{ time = {_quoted(roles.time.header)}, {heads} }}", ""]
        return "\n".join(lines)
    lines.append(f"times = {_array(roles.time.values[rows])}")
    for name, column in zip(names, roles.outputs, strict=True):
        lines.append(f"data.{name} = {_array(column.values[rows])}")
    for name, column in zip(_names(roles.covariates), roles.covariates, strict=True):
        lines.append(f"covariates.{name} = {float(column.values[rows[0]])!r}")
    return "\n".join([*lines, ""])


def _told(roles: Roles) -> list[str]:
    """One comment for each column."""
    days = ", dates: days after the first" if roles.time.kind == "dates" else ""
    found = [f"#   {roles.time.header}: the time{days}"]
    if roles.subject is not None:
        found.append(f"#   {roles.subject.header}: the subject, one experiment each")
    for column in roles.outputs:
        comma = ", with decimal commas" if column.comma else ""
        gaps = int(np.isnan(column.values).sum())
        missing = f", {gaps} missing" if gaps else ""
        found.append(f"#   {column.header}: data{comma}{missing}")
    found += [f"#   {column.header}: an input, with straight lines between its values" for column in roles.inputs]
    found += [f"#   {column.header}: one number a subject, a covariate" for column in roles.covariates]
    found += [f"#   {column.header}: not used" for column in roles.rest]
    return [_printable(line) for line in found]


def _clock(column: Column) -> str:
    if column.kind == "dates":
        return "day"
    word = column.name.strip().lower().removesuffix("s")
    return column.unit or (word if word in CLOCKS else "time")


def _array(values: np.ndarray) -> str:
    return f"[{', '.join('nan' if np.isnan(v) else f'{v:.12g}' for v in values.tolist())}]"


def _key(label: str) -> str:
    return label if re.fullmatch(r"[A-Za-z0-9_-]+", label) else _quoted(label)


def _printable(text: str) -> str:
    """Text of one line."""
    return "".join(c if c.isprintable() else " " for c in text)


def _quoted(text: str) -> str:
    """Text in TOML; control characters become spaces."""
    return '"' + _printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
