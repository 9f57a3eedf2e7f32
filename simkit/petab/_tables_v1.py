"""PEtab version 1: tables to the parts of a problem."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.transforms import ExpTransform

from .._errors import DataError, close_matches
from ..problem import AbstractNoise, Free, Laplace, LogLaplace, LogNormal, Normal
from ._mathml import Reader, parsed
from ._measurement import Head
from ._sbml import Model
from ._tables import Files, Row, Table, as_number, finite, read_tables

SCALES = ("lin", "log", "log10")
NOISES: dict[tuple[str, bool], type[AbstractNoise]] = {
    ("normal", False): Normal,
    ("normal", True): LogNormal,
    ("laplace", False): Laplace,
    ("laplace", True): LogLaplace,
}
PRIORS = (
    "uniform",
    "normal",
    "laplace",
    "logNormal",
    "logLaplace",
    "parameterScaleUniform",
    "parameterScaleNormal",
    "parameterScaleLaplace",
)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A row of the parameter table: what is known about a number; `free` is None where it is fixed."""

    name: str
    nominal: float
    free: Free | None
    where: str


def read_parameters(source: Files, files: list[str]) -> dict[str, Parameter]:
    """The parameter table."""
    table = read_tables(source, files, ("parameterId", "parameterScale", "estimate"))
    return {name: _parameter(name, row) for name, row in table.by_id("parameterId").items()}


def _parameter(name: str, row: Row) -> Parameter:
    scale = row.choice("parameterScale", SCALES, "lin")
    estimate = row.number("estimate")
    if estimate not in (0, 1):
        raise row.error("estimate", f"must be 0 or 1, but it is `{row.text('estimate')}`.")
    nominal = row.number("nominalValue", math.nan)
    if not estimate:
        if math.isnan(nominal):
            raise row.error("nominalValue", f"must be given, since `{name}` is not estimated, but it is empty.")
        return Parameter(name, nominal, None, row.where("nominalValue"))
    lower, upper = row.number("lowerBound"), row.number("upperBound")
    if not lower < upper:
        raise row.error("lowerBound", f"must be less than the upper bound {upper:g}, but it is {lower:g}.")
    if scale != "lin" and lower <= 0:
        raise row.error(
            "lowerBound",
            f"must be positive, since `{name}` moves on the scale {scale}, but it is {lower:g}. Bounds are numbers on the linear "
            "scale, whatever `parameterScale` says.",
        )
    prior = _prior(row, scale)
    return Parameter(
        name, nominal, Free(prior, (lower, upper), "linear" if scale == "lin" else "log"), row.where("estimate")
    )


def _prior(row: Row, scale: str) -> dist.Distribution | None:
    if not row.has("objectivePriorType"):
        return None
    kind = row.choice("objectivePriorType", PRIORS, "")
    words = row.parts("objectivePriorParameters")
    numbers = [as_number(word) for word in words]
    if len(numbers) != 2 or any(x is None for x in numbers):
        raise row.error(
            "objectivePriorParameters", f"must be two numbers between which stands `;`, but it is `{'; '.join(words)}`."
        )
    a, b = (float(x) for x in numbers if x is not None)
    unit = {"lin": 0.0, "log": 1.0, "log10": math.log(10)}[scale]
    if kind.startswith("parameterScale"):
        kind = kind.removeprefix("parameterScale").lower()
        if unit:
            a, b, kind = a * unit, b * unit, f"log{kind.capitalize()}"
    if kind in ("uniform", "logUniform"):
        return dist.Uniform(a, b) if kind == "uniform" else dist.LogUniform(math.exp(a), math.exp(b))
    if kind in ("normal", "logNormal"):
        return dist.Normal(a, b) if kind == "normal" else dist.LogNormal(a, b)
    return dist.Laplace(a, b) if kind == "laplace" else dist.TransformedDistribution(dist.Laplace(a, b), ExpTransform())


@dataclasses.dataclass(frozen=True)
class Observable:
    """A row of the observable table, read."""

    head: Head
    noise: AbstractNoise
    observable: tuple[str, ...]  # names that rows give values to, by column
    scatter: tuple[str, ...]


def read_observables(table: Table, model: Model, known: Mapping[str, Any]) -> dict[str, Observable]:
    """The observable table; formulas may name what is in the model, in the parameter table or among the observables."""
    rows = table.by_id("observableId")
    found: dict[str, int] = {}
    opened: list[str] = []

    def location(name: str) -> int:
        if name not in found:
            if name in opened:
                raise rows[name].error("observableFormula", "must not depend on itself, but does.")
            opened.append(name)
            found[name] = _formula(rows[name], "observableFormula", model, known, rows, location)
        return found[name]

    return {name: _observable(name, row, location, model, known, rows) for name, row in rows.items()}


def _observable(name: str, row: Row, location: Any, model: Model, known: Any, rows: Any) -> Observable:
    scale = _formula(row, "noiseFormula", model, known, rows, location)
    transform = row.choice("observableTransformation", SCALES, "lin")
    kind = row.choice("noiseDistribution", ("normal", "laplace"), "normal")
    used = _used(model, (location(name), scale))
    numbered = lambda word: tuple(
        sorted((x for x in used if re.fullmatch(rf"{word}Parameter\d+_{re.escape(name)}", x)), key=_number)
    )
    observable, scatter = numbered("observable"), numbered("noise")
    factor = math.log(10) if transform == "log10" else 1.0
    head = Head(name, location(name), scale, (*observable, *scatter), factor)
    noise: Any = NOISES[kind, transform != "lin"]
    return Observable(head, noise(1.0), observable, scatter)


def _number(name: str) -> int:
    return int(re.findall(r"Parameter(\d+)_", name)[0])


def _used(model: Model, roots: tuple[int, ...]) -> set[str]:
    nodes, stack, seen, found = model.graph.nodes, list(roots), set(), set()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if nodes[i][0] == "symbol":
            found.add(nodes[i][1])
        elif nodes[i][0] != "number":
            stack.extend(nodes[i][1:])
    return found


def _formula(row: Row, column: str, model: Model, known: Any, rows: Any, location: Any) -> int:
    where = row.where(column)
    if not row.has(column):
        raise row.error(column, "must be a formula, but it is empty.")

    def symbol(name: str) -> int:
        node = model.symbol(name)
        if node is not None:
            return node
        if name in known or re.fullmatch(r"(observable|noise)Parameter\d+_\w+", name):
            return model.graph.symbol(name)
        if name in rows:
            return location(name)
        names = (*model.constants, *model.states, *model.formulas, *known, *rows)
        raise DataError(
            f"{where} must be made of names of the model, of the parameter table and of observables, but `{name}` is none. "
            f"{close_matches(name, names)}"
        )

    return Reader(model.graph, symbol, model.reader.functions).read(parsed(row.text(column), where), where)


@dataclasses.dataclass
class Series:
    """The measurements of one experiment: the times of its rows, its data, and what the rows give, by observable."""

    before: str
    condition: str
    times: np.ndarray
    data: dict[str, np.ndarray]
    given: dict[str, dict[int, tuple[str | float, ...]]]

    @property
    def label(self) -> str:
        return f"{self.condition} after {self.before}" if self.before else self.condition


def read_measurements(
    table: Table, observables: Mapping[str, Observable], conditions: Mapping[str, Any], known: Mapping[str, Any]
) -> list[Series]:
    """The measurement table, one series a pair of conditions."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in table:
        _check_named(row, "observableId", observables)
        _check_named(row, "simulationConditionId", conditions)
        before = row.text("preequilibrationConditionId") if row.has("preequilibrationConditionId") else ""
        if before:
            _check_named(row, "preequilibrationConditionId", conditions)
        groups.setdefault((before, row.text("simulationConditionId")), []).append(row)
    return [_series(before, condition, rows, observables, known) for (before, condition), rows in groups.items()]


def _check_named(row: Row, column: str, known: Mapping[str, Any]) -> None:
    if row.text(column) not in known:
        raise row.error(
            column, f"must be a known name, but `{row.text(column)}` is none. {close_matches(row.text(column), known)}"
        )


def _series(
    before: str, condition: str, rows: list[Row], observables: Mapping[str, Observable], known: Mapping[str, Any]
) -> Series:
    from ._protocol import FOREVER

    kept: dict[float, dict[str, list[Row]]] = {}
    for row in rows:
        time = row.number("time")
        if math.isnan(time) or time < 0:
            raise row.error("time", f"must be at least 0, or inf, but it is {time:g}.")
        if row.has("measurement"):
            finite(row, "measurement")
            kept.setdefault(min(time, FOREVER), {}).setdefault(row.text("observableId"), []).append(row)
    if not any(0 < time < FOREVER for time in kept):
        kept[1.0] = {}  # a simulation needs a span
    times, data, given = [], {}, {}
    for time in sorted(kept):
        begin = len(times)
        times += [time] * max([1, *map(len, kept[time].values())])
        for name, same in kept[time].items():
            for i, row in enumerate(same, start=begin):
                data.setdefault(name, {})[i] = row.number("measurement")
                given.setdefault(name, {})[i] = _given(row, observables[name], known)
    filled = {name: np.full(len(times), np.nan) for name in data}
    for name, values in data.items():
        filled[name][list(values)] = list(values.values())
    return Series(before, condition, np.array(times), filled, given)


def _given(row: Row, observable: Observable, known: Mapping[str, Any]) -> tuple[str | float, ...]:
    found: list[str | float] = []
    for column, names in (("observableParameters", observable.observable), ("noiseParameters", observable.scatter)):
        words = row.parts(column)
        for name in names:
            place = _number(name)
            if place > len(words):
                raise row.error(
                    column,
                    f"must hold {place} values for the formula of `{observable.head.name}`, but it holds {len(words)}.",
                )
            word = words[place - 1]
            value = as_number(word)
            if value is None and word not in known:
                raise row.error(
                    column,
                    f"must hold numbers or names of parameters, but `{word}` is neither. {close_matches(word, known)}",
                )
            found.append(word if value is None else value)
    return tuple(found)
