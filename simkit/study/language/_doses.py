"""Doses in a study file: of one experiment in place, or of all subjects of a dosing table."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..._types import State
from ...core import Event
from ...io import read_doses
from ...problem import Dose, Doses, Experiment, Subject, dose_event
from ._files import Files, from_file
from ._formula import formula_text, number_of_formula
from ._section import Section, at_place

NUMBERS = ("amount", "time", "rate", "duration", "every")
"""Keys of a dose that are numbers, beside `into`, `additional`, `steady` and `resets`: the arguments of `Dose`."""


class Dosing:
    """The table [dosing]: the file of a dosing table, and what its doses and those of experiments have in common.

    - `file`: a dosing table as `simkit.io.read_doses` takes it; each subject becomes an experiment. `outputs`: the output that DV
        holds, or a table by DVID or CMT; `start`: when states start; `occasion`: the column of occasions; `groups`:
        the columns of groups of subjects, from the outermost level on.
    - `compartments`: their names in the order of their numbers.
    - `lag`, `bioavailability`: compartment -> the path of a number of the system, or a number.
    - `covariates`: name -> a formula of the columns that are one number a subject, such as "ln(wt / 70)"; the columns stay.
    """

    def __init__(self, section: Section):
        self.section = section
        self.file = section.get("file", "text")
        self.compartments = _names(section, "compartments")
        self.outputs = _outputs(section)
        self.start, self.occasion = section.number("start"), section.get("occasion", "text")
        self.lag, self.bioavailability = (_places(section, key) for key in ("lag", "bioavailability"))
        self.covariates = section.section("covariates")
        self.groups = _names(section, "groups")
        section.finish()

    def event(self, doses: Doses, y0: State, name: str) -> Event:
        """The event of the doses of one experiment."""
        with at_place(self.section.where()):
            return dose_event(
                doses, y0, lag=self.lag, bioavailability=self.bioavailability, name=f"the doses of experiment `{name}`"
            )

    def subjects(self, y0: State, files: Files) -> list[Experiment]:
        """An experiment for each subject of the file that was observed."""
        if self.file is None:
            return []
        options: dict[str, Any] = {"compartments": self.compartments, "outputs": self.outputs, "start": self.start}
        options["occasion"] = self.occasion
        with at_place(self.section.where("file")):
            read = from_file(self.file, files, lambda path: read_doses(path, **options))
            found = []
            for one in read:
                if not one.times.size:
                    continue
                event = {"dose": self.event(one.doses, y0, one.name)}
                times: dict[str, Any] = {"start": one.start, "replicates": True, "occasions": one.occasions or None}
                times["groups"] = {level: self._group(one, level) for level in self.groups}
                found.append(
                    Experiment(one.name, one.times, one.data, events=event, covariates=self._covariates(one), **times)
                )
        return found

    def _group(self, one: Subject, level: str) -> str:
        """The group of a subject: a number of its column."""
        if level.lower() not in one.covariates:
            raise self.section.error(
                "groups",
                f"must name columns that have one number for each subject, but `{level}` of subject `{one.name}` is none: its "
                f"columns are {tuple(one.covariates)}.",
            )
        return f"{one.covariates[level.lower()]:g}"

    def _covariates(self, one: Subject) -> dict[str, float]:
        """The covariates of a subject: its columns of one number, and what formulas make of them."""
        found = dict(one.covariates)
        for name, given in self.covariates.table.items():
            text = formula_text(self.covariates, name, given)
            place = f"{self.covariates.where(name)}, subject `{one.name}`"
            value = number_of_formula(text, one.covariates, place, one.varying)
            if not math.isfinite(value):
                raise self.covariates.error(
                    name, f"must be a finite number, but for subject `{one.name}` `{text}` is {value:g}."
                )
            found[name] = value
        return found


def read_own_doses(part: Section, dosing: Dosing) -> Doses | None:
    """`doses` of an experiment, an array of tables with the arguments of `Dose`, and `resets`, an array of times; None without."""
    if "doses" not in part and "resets" not in part:
        return None
    found = []
    for i, table in enumerate(part.get("doses", "an array", [])):
        place = Section(table if isinstance(table, dict) else {}, f"{part.place}.doses.{i}", part.file)
        if not isinstance(table, dict):
            raise part.error("doses", "must hold tables, such as { amount = 100.0, every = 12.0 }.")
        place.need("amount")
        place.count("additional", 0, least=0)
        place.get("resets", "true or false")
        into, steady = table.get("into", 1), table.get("steady", False)
        if isinstance(into, bool) or not isinstance(into, str | int):
            raise place.error("into", "must be the name or the number of a compartment.")
        if not isinstance(steady, bool) and steady != "added":
            raise place.error("steady", 'must be true, false or "added".')
        numbers = {key: place.number(key) for key in NUMBERS if key in place}
        place.finish("into", "steady")
        with at_place(place.where()):
            given: dict[str, Any] = {**table, **numbers}
            found.append(Dose(**given))
    resets = part.numbers("resets") if "resets" in part else []
    with at_place(part.where()):
        return Doses(found, resets=resets, compartments=dosing.compartments)


def with_doses(experiments: Sequence[tuple[Experiment, Doses | None]], dosing: Dosing, y0: State) -> list[Experiment]:
    """Experiments with the events of their doses; where some have doses, those without get an event that never comes."""
    made = []
    some = dosing.file is not None or any(doses is not None for _, doses in experiments)
    for experiment, doses in experiments:
        if some:
            with at_place(dosing.section.where()):
                given = Doses() if doses is None else doses
                given.check_start(float(experiment.times[0] if experiment.start is None else experiment.start))
            state = y0 if experiment.y0 is None else experiment.y0
            experiment.events = {"dose": dosing.event(given, state, experiment.name)}
        made.append(experiment)
    return made


def _names(section: Section, key: str) -> tuple[str, ...]:
    names = section.get(key, "an array", [])
    if not all(isinstance(name, str) for name in names):
        raise section.error(key, 'must hold names, such as ["gut", "blood"].')
    return tuple(names)


def _outputs(section: Section) -> str | Mapping[int | str, str]:
    """The output of DV, by the number or name of DVID or CMT where there are several."""
    if isinstance(given := section.table.get("outputs", "y"), str):
        return str(section.get("outputs", "text", "y"))
    table: dict[str, Any] = section.get("outputs", "a table", given)
    if not all(isinstance(name, str) for name in table.values()):
        raise section.error("outputs", 'must hold names of outputs, such as { 1 = "drug", 2 = "effect" }.')
    return {int(key) if key.isdigit() else key: name for key, name in table.items()}


def _places(section: Section, key: str) -> dict[str, str | float] | None:
    table = section.get(key, "a table")
    if table is None:
        return None
    for name, value in table.items():
        if not isinstance(value, str):
            section.check_finite(f"{key}.{name}", value)
    return {name: value if isinstance(value, str) else float(value) for name, value in table.items()}
