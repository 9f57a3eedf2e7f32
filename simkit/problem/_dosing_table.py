"""Dosing tables: rows with the columns of NONMEM, nlmixr2 and mrgsolve, by subject."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._errors import DataError, SimkitError, UnknownNameError, close_matches
from ._censored import Censored
from ._doses import Compartment, Dose, Doses, compartment

NUMBERS = ("time", "amt", "evid", "rate", "dur", "addl", "ii", "ss", "dv", "mdv", "cens", "limit", "dvid")
"""Columns of numbers with a meaning, in small letters; `id` and `cmt` may be words."""

KNOWN = ("id", "cmt", *NUMBERS)

EVIDS = {0: "observation", 1: "dose", 2: "other", 3: "reset", 4: "reset and dose"}
REFUSED = {
    5: "replaces an amount (rxode2)",
    6: "multiplies an amount (rxode2)",
    7: "is a phantom dose (rxode2)",
    8: "replaces an amount (mrgsolve)",
}


class Subject(NamedTuple):
    """One subject of a dosing table.

    - `name`: the cell of the column ID. `doses`: what was given.
    - `times`: when something was observed; just before its time where the row stands before a dose or a reset of the same time.
    - `data`: output name -> values at these times, NaN where there is none, or `Censored`.
    - `covariates`: other columns, of which the subject has one number; `varying`: those that change, with a number a row of
        `times`.
    - `start`: the time of its first row, just before it where that is a baseline before a dose of the same time.
    - `occasions`: occasion -> the time of its first row, where a column of occasions was named.
    """

    name: str
    doses: Doses
    times: Float[np.ndarray, " times"]
    data: Mapping[str, Float[np.ndarray, " times"] | Censored]
    covariates: Mapping[str, float]
    varying: Mapping[str, Float[np.ndarray, " times"]]
    start: float
    occasions: Mapping[str, float] = {}


class DosingRows(NamedTuple):
    """A dosing table: columns of text cells by name in small letters, the line of each row, and how numbers are read.

    - `number`: the function of (line, column, cell) that gives a number, NaN where the cell is missing.
    """

    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int]
    name: str
    number: Callable[[int, str, str], float]


def subjects_of(
    table: DosingRows,
    *,
    compartments: Sequence[str] = (),
    outputs: str | Mapping[int | str, str] = "y",
    start: float | None = None,
    occasion: str | None = None,
) -> tuple[Subject, ...]:
    """The subjects of a dosing table, in its order. Arguments as those of `simkit.io.read_doses`."""
    for needed in ("id", "time"):
        if needed not in table.columns:
            raise DataError(
                f"The dosing table `{table.name}` must have a column {needed.upper()}, but its columns are "
                f"{', '.join(name.upper() for name in table.columns)}."
            )
    if occasion is not None and (occasion.lower() not in table.columns or occasion.lower() in KNOWN):
        others = [name.upper() for name in table.columns if name not in KNOWN]
        raise DataError(
            f"Argument `occasion` must name a column of the dosing table `{table.name}` without another meaning, but it is "
            f"{occasion!r}. {close_matches(occasion.upper(), others)}"
        )
    numbers = {
        name: np.array(
            [
                table.number(line, name.upper(), cell)
                for line, cell in zip(table.lines, table.columns[name], strict=True)
            ]
        )
        for name in table.columns
        if name not in ("id", "cmt")
    }
    reader = _Reader(table, numbers, tuple(compartments), outputs, start, occasion and occasion.lower())
    names, found = table.columns["id"], []
    bounds = [0, *(i for i in range(1, len(names)) if names[i] != names[i - 1]), len(names)]
    seen: dict[str, int] = {}
    for first, last in itertools.pairwise(bounds):
        name = names[first]
        if name in seen:
            raise DataError(
                f"{reader.where(first)} begins subject `{name}` again, whose rows began at line {seen[name]}. Sort the rows by "
                "subject, or give each occasion a name of its own."
            )
        seen[name] = table.lines[first]
        found.append(reader.subject(name, first, last))
    return tuple(found)


class _Reader:
    """The rows of one table, read subject by subject."""

    def __init__(
        self,
        table: DosingRows,
        numbers: Mapping[str, np.ndarray],
        compartments: tuple[str, ...],
        outputs: str | Mapping[int | str, str],
        start: float | None,
        occasion: str | None,
    ):
        self.occasion = occasion
        self.table, self.numbers, self.compartments, self.start = table, numbers, compartments, start
        self.outputs = outputs

    def where(self, row: int) -> str:
        return f"Line {self.table.lines[row]} of the dosing table `{self.table.name}`"

    def value(self, name: str, row: int) -> float:
        """A number of a row; 0 where the column or the cell is missing, which is what NONMEM reads."""
        value = float(self.numbers[name][row]) if name in self.numbers else 0.0
        return 0.0 if np.isnan(value) else value

    def subject(self, name: str, first: int, last: int) -> Subject:
        doses: list[Dose] = []
        resets: list[float] = []
        rows: list[int] = []
        self._check_times(name, first, last)
        given = self.numbers["time"][first:last].astype(float)
        kinds = [self._kind(row) for row in range(first, last)]
        when = self._moments(first, given, [kind for kind, _ in kinds])
        for row, time, (kind, target) in zip(range(first, last), map(float, when), kinds, strict=True):
            if kind in (1, 4):
                doses.append(self._dose(row, time, target, resets=kind == 4))
                self._check_start(row)
            elif kind == 3:
                if doses and doses[-1].time == time:
                    raise DataError(
                        f"{self.where(row)} is a reset at {time:g}, the time of a dose before it, which it would take away. "
                        "Write the reset first, or EVID 4."
                    )
                resets.append(time)
            elif self.value("amt", row) != 0:
                raise DataError(
                    f"{self.where(row)} is no dose (EVID {kind}), but its AMT is {self.value('amt', row):g}. "
                    "Write EVID 1."
                )
            if kind == 0:
                rows.append(row)
        with _at(f"Subject `{name}` of the dosing table `{self.table.name}`"):
            schedule = Doses(doses, resets=resets, compartments=self.compartments)
        moments = {row: float(when[row - first]) for row in rows}
        times, data = self._data(moments)
        places = [next(row for row in rows if moments[row] == time) for time in times]
        covariates, varying = {}, {}
        for key, values in self.numbers.items():
            if key in KNOWN or key == self.occasion:
                continue
            own = values[first:last]
            if np.all(own == own[0]):
                covariates[key] = float(own[0])
            else:
                varying[key] = values[places]
        start = float(given[0]) if self.start is None else self.start
        start = float(np.min(when[given >= start], initial=start))
        return Subject(name, schedule, times, data, covariates, varying, start, self._occasions(first, when))

    def _occasions(self, first: int, when: np.ndarray) -> dict[str, float]:
        """The occasions of a subject, and the time of the first row of each."""
        found: dict[str, float] = {}
        if self.occasion is None:
            return found
        before = None
        for row, time in enumerate(map(float, when), first):
            value = float(self.numbers[self.occasion][row])
            if np.isnan(value):
                raise DataError(f"{self.where(row)} must have an occasion, {self.occasion.upper()}, but it is missing.")
            name = f"{value:g}"
            if name != before and (name in found or time in found.values()):
                raise DataError(
                    f"{self.where(row)} must not begin occasion {name} at {time:g}, since another one begins there or it was there "
                    "before. Rows of an occasion stand together; give one that comes back another number."
                )
            found.setdefault(name, time)
            before = name
        return found

    def _check_times(self, name: str, first: int, last: int) -> None:
        before = -np.inf
        for row in range(first, last):
            time = float(self.numbers["time"][row])
            if np.isnan(time):
                raise DataError(f"{self.where(row)} must have a TIME, but it is missing.")
            if time < before:
                raise DataError(
                    f"{self.where(row)} must not go back in time, but {time:g} follows {before:g} in subject `{name}`. Sort the "
                    "rows by time; where time begins anew after a reset, let it run on."
                )
            before = time

    def _moments(self, first: int, given: np.ndarray, kinds: Sequence[int]) -> np.ndarray:
        """The times at which the rows of a subject happen, shape `(rows,)`, from those in the table, `given`.

        A state that is saved at the time of a dose is that after it. So a datum in front of a dose of the same time, and
        what stands before that, come earlier, by what the float type in use just resolves.
        """
        precision = np.finfo(jnp.result_type(float))
        gaps = np.diff(given)
        gaps = gaps[gaps > 0]
        spacing = float(np.min(gaps)) if gaps.size else 1.0  # one time alone: its unit
        found = given.copy()
        level, dosed = 0, False
        for i in reversed(range(len(given))):
            if i + 1 < len(given) and given[i] < given[i + 1]:
                level, dosed = 0, False
            if kinds[i] in (1, 3, 4):
                dosed = True
            elif dosed and kinds[i] == 0 and self._has_datum(first + i):
                level, dosed = level + 1, False
            found[i] = given[i] - level * float(precision.eps) * max(abs(given[i]), spacing)
        return found

    def _has_datum(self, row: int) -> bool:
        return "dv" in self.numbers and not self.value("mdv", row) and bool(np.isfinite(self.numbers["dv"][row]))

    def _check_start(self, row: int) -> None:
        time = float(self.numbers["time"][row])
        if self.start is not None and time < self.start:
            raise DataError(f"{self.where(row)} gives a dose at {time:g}, before the start, {self.start:g}.")

    def _kind(self, row: int) -> tuple[int, Compartment | None]:
        """EVID, by AMT where there is none, and the compartment that a code of RxODE holds."""
        if "evid" not in self.numbers or np.isnan(self.numbers["evid"][row]):
            return (1 if self.value("amt", row) else 0), None
        evid = self.numbers["evid"][row]
        if evid in EVIDS:
            return int(evid), None
        if evid == round(evid) and 100 < evid < 10_000 and evid % 100 == 1:
            return 1, int(evid) // 100  # boluses of RxODE: 101 is one into the first compartment
        why = f", which {REFUSED[int(evid)]}" if evid in REFUSED else ""
        known = ", ".join(f"{code} ({word})" for code, word in EVIDS.items())
        raise DataError(f"{self.where(row)} must have one of the EVIDs {known}, but it has {evid:g}{why}.")

    def _dose(self, row: int, time: float, target: Compartment | None, *, resets: bool) -> Dose:
        amount, rate, duration = (self.value(name, row) for name in ("amt", "rate", "dur"))
        additional, interval, steady = (self.value(name, row) for name in ("addl", "ii", "ss"))
        if rate in (-1, -2):
            what = "rate" if rate == -1 else "duration"
            raise DataError(
                f"{self.where(row)} has RATE {rate:g}: the {what} is a parameter of the model, which is not read yet. Write "
                "the rate or the duration as a number."
            )
        if "amt" not in self.numbers:
            raise DataError(f"{self.where(row)} is a dose, but the table has no column AMT with the amounts of doses.")
        if amount < 0 or (amount == 0 and rate <= 0):
            raise DataError(f"{self.where(row)} is a dose, whose AMT must be positive, but it is {amount:g}.")
        if amount == 0:
            raise DataError(
                f"{self.where(row)} has RATE {rate:g} without AMT: an infusion for ever at steady state, which is not read yet."
            )
        if rate and duration:
            raise DataError(
                f"{self.where(row)} must have a RATE or a DUR, but it has both, {rate:g} and {duration:g}. One follows "
                "from the other: RATE = AMT / DUR."
            )
        if additional and not interval:
            raise DataError(
                f"{self.where(row)} has ADDL {additional:g}, so it must have an interval II, but it has none."
            )
        if steady not in (0, 1, 2):
            raise DataError(
                f"{self.where(row)} has SS {steady:g}, but it must be 0, 1 or 2 (a steady state that is added)."
            )
        if additional != round(additional):
            raise DataError(
                f"{self.where(row)} must have a whole number of additional doses, but ADDL is {additional:g}."
            )
        with _at(self.where(row)):
            return Dose(
                amount,
                time,
                self._target(row) if target is None else compartment(target, self.compartments),
                rate=rate or None,
                duration=duration or None,
                every=interval or None,
                additional=int(additional),
                steady="added" if steady == 2 else bool(steady),
                resets=resets,
            )

    def _cell(self, row: int) -> str:
        return self.table.columns["cmt"][row].strip() if "cmt" in self.table.columns else ""

    def _target(self, row: int) -> Compartment:
        """The compartment of a row by name or number; the first one where the cell is missing or 0."""
        cell = self._cell(row)
        try:
            given = self.table.number(self.table.lines[row], "CMT", cell)
        except DataError:
            if not self.compartments:
                raise
            return compartment(cell, self.compartments)
        if np.isnan(given) or given == 0:
            return compartment(1, self.compartments)
        if given < 0:
            raise DataError(f"a compartment must not be switched off (CMT {given:g}): that is not read yet.")
        if given != round(given):
            raise DataError(f"CMT must be a whole number or a name, but it is {given:g}.")
        return compartment(int(given), self.compartments)

    def _output(self, row: int) -> str:
        """The output that a row observes: by DVID where the table has it, else by CMT."""
        if isinstance(self.outputs, str):
            return self.outputs
        key: int | str
        if "dvid" in self.numbers:
            column, key = "DVID", int(self.value("dvid", row))
        else:
            column, cell = "CMT", self._cell(row)
            key = int(float(cell)) if cell.replace(".", "", 1).isdigit() else cell
        if key not in self.outputs:
            listed = ", ".join(f"{key!r} `{name}`" for key, name in self.outputs.items())
            raise DataError(f"{self.where(row)} observes {column} {key!r}, but `outputs` has {listed}.")
        return self.outputs[key]

    def _data(self, moments: Mapping[int, float]) -> tuple[np.ndarray, dict[str, Any]]:
        """Times of observations, and the data of every output there, censored where CENS says so.

        `moments`: row -> when it happens.
        """
        by_output: dict[str, list[int]] = {}
        for row in moments:
            if self._has_datum(row):
                by_output.setdefault(self._output(row), []).append(row)
        slots: dict[tuple[float, int], int] = {}
        placed: dict[str, dict[int, tuple[float, int]]] = {}
        for name, own in by_output.items():
            counts: dict[float, int] = {}
            for row in own:
                time = moments[row]
                counts[time] = counts.get(time, 0) + 1
                placed.setdefault(name, {})[row] = time, counts[time]
        wanted = sorted({slot for held in placed.values() for slot in held.values()})
        slots = {slot: i for i, slot in enumerate(wanted)}
        times, data = np.array([time for time, _ in wanted], float), {}
        for name, held in placed.items():
            columns = {key: np.full(len(wanted), np.nan) for key in ("dv", "cens", "limit")}
            for row, slot in held.items():
                for key, column in columns.items():
                    column[slots[slot]] = self.numbers[key][row] if key in self.numbers else np.nan
            flags = np.where(np.isnan(columns["cens"]), 0.0, columns["cens"])
            if flags.any():
                with _at(
                    f"The data of `{name}` in the dosing table `{self.table.name}`, line {self.table.lines[next(iter(held))]} on"
                ):
                    data[name] = Censored.flagged(columns["dv"], flags, columns["limit"])
            else:
                data[name] = columns["dv"]
        return times, data


class _at:
    """Put the place in the table in front of what a lower layer complains about."""

    def __init__(self, place: str):
        self.place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, UnknownNameError):
            raise UnknownNameError(f"{self.place}: {error}") from error
        if isinstance(error, SimkitError):
            raise DataError(f"{self.place}: {error}") from error


def check_header(name: str, header: Sequence[str]) -> None:
    """Refuse a header with one name twice, in small and in capital letters."""
    small = [column.lower() for column in header]
    doubled = sorted({column for column in small if small.count(column) > 1})
    if doubled:
        raise DataError(
            f"The dosing table `{name}` has more than one column {doubled[0].upper()}, in small and in capital letters. Give "
            f"each a name of its own. {close_matches(doubled[0], header)}"
        )
