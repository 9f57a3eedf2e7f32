"""PEtab version 2: its tables to the parts of a problem that version 1 has too."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpyro.distributions as dist
from numpyro.distributions.transforms import ExpTransform

from .._errors import DataError
from ..problem import AbstractNoise, Free
from ._model import Model
from ._noises import BY_NAME
from ._tables import Files, Row, Table, read_tables
from ._tables_v1 import (
    Observable,
    Parameter,
    Series,
    check_prior,
    formula_locations,
    prior_numbers,
    series_of,
)

PRIORS: dict[str, Any] = {
    "cauchy": dist.Cauchy,
    "chisquare": dist.Chi2,
    "exponential": lambda scale: dist.Exponential(1 / scale),
    "gamma": lambda shape, scale: dist.Gamma(shape, 1 / scale),
    "laplace": dist.Laplace,
    "log-laplace": lambda a, b: dist.TransformedDistribution(dist.Laplace(a, b), ExpTransform()),
    "log-normal": dist.LogNormal,
    "log-uniform": dist.LogUniform,
    "normal": dist.Normal,
    "rayleigh": lambda scale: dist.Weibull(scale * math.sqrt(2), 2.0),
    "uniform": dist.Uniform,
}
COUNTS = {"chisquare": 1, "exponential": 1, "rayleigh": 1}
BEFORE = -math.inf
"""The time of a period that ends in a steady state."""


def read_parameters(source: Files, files: list[str]) -> dict[str, Parameter]:
    """The parameter table. Version 2 has no scales: a fit moves by the logarithm where both bounds are positive."""
    table = read_tables(source, files, ("parameterId", "estimate"))
    return {name: _parameter(name, row) for name, row in table.by_id("parameterId").items()}


def _parameter(name: str, row: Row) -> Parameter:
    word = row.text("estimate").lower()
    if word not in ("true", "false", "1", "0"):
        raise row.error("estimate", f"must be true or false, but it is `{row.text('estimate')}`.")
    nominal = row.number("nominalValue", math.nan)
    if word in ("false", "0"):
        if math.isnan(nominal):
            raise row.error("nominalValue", f"must be given, since `{name}` is not estimated, but it is empty.")
        return Parameter(name, nominal, None, row.where("nominalValue"))
    lower, upper = row.number("lowerBound", -math.inf), row.number("upperBound", math.inf)
    if not lower < upper:
        raise row.error("lowerBound", f"must be less than the upper bound {upper:g}, but it is {lower:g}.")
    prior = None
    if row.has("priorDistribution"):
        kind = row.choice("priorDistribution", tuple(PRIORS), "")
        numbers = prior_numbers(row, "priorParameters", COUNTS.get(kind, 2))
        check_prior(row, "priorParameters", kind, numbers)
        if kind in ("gamma", "log-uniform") and numbers[0] <= 0:
            raise row.error(
                "priorParameters", f"must be positive for the prior `{kind}`, but the first is {numbers[0]:g}."
            )
        prior = PRIORS[kind](*numbers)
    free = Free(prior, (lower, upper), "log" if lower > 0 else "linear")
    return Parameter(name, nominal, free, row.where("estimate"))


def read_observables(table: Table, model: Model, known: Mapping[str, Any]) -> dict[str, Observable]:
    """The observable table: what rows of measurements give is named by the placeholders of an observable."""
    rows = table.by_id("observableId")
    holders = {
        name: (row.parts("observablePlaceholders"), row.parts("noisePlaceholders")) for name, row in rows.items()
    }
    noises = {name: _noise(row) for name, row in rows.items()}
    return formula_locations(rows, model, known, holders, noises)


def _noise(row: Row) -> AbstractNoise:
    kind: Any = BY_NAME[row.choice("noiseDistribution", tuple(BY_NAME), "normal")]
    return kind(1.0)


def read_mapping(table: Table, parameters: Mapping[str, Any]) -> dict[str, str]:
    """The mapping table: the names of the problem -> those of the model, where they differ."""
    found = {}
    for name, row in table.by_id("petabEntityId").items():
        if row.has("modelEntityId") and row.text("modelEntityId") != name:
            if name in parameters:
                raise row.error("petabEntityId", f"must be no name of the parameter table, but `{name}` is one.")
            found[name] = row.text("modelEntityId")
    return found


def read_conditions(table: Table, aliases: Mapping[str, str]) -> dict[str, Row]:
    """The condition table in long form, as one row a condition; the places of its cells are kept for complaints."""
    found: dict[str, Row] = {}
    for row in table:
        for column in ("conditionId", "targetId", "targetValue"):
            if not row.has(column):
                raise row.error(column, "must not be empty, but it is.")
        name = row.text("conditionId")
        target = aliases.get(row.text("targetId"), row.text("targetId"))
        old = found.get(name, Row(row.table, row.line, {}))
        if target in old.cells:
            raise row.error("targetId", f"must be there once a condition, but `{name}` sets `{target}` already.")
        cells = {**old.cells, target: row.text("targetValue")}
        found[name] = dataclasses.replace(old, cells=cells, places={**old.places, target: row.where("targetValue")})
    return found


def read_experiments(table: Table, conditions: dict[str, Row]) -> dict[str, Series]:
    """The experiment table: by name a series without data yet. What its periods set is added to `conditions`."""
    periods: dict[str, dict[float, list[Row]]] = {}
    for row in table:
        if not row.has("experimentId"):
            raise row.error("experimentId", "must not be empty, but it is.")
        time = row.number("time")
        if math.isnan(time) or time == math.inf:
            raise row.error("time", f"must be a number, or -inf, but it is {time:g}.")
        if row.has("conditionId"):
            row.check_named("conditionId", conditions)
        periods.setdefault(row.text("experimentId"), {}).setdefault(time, []).append(row)
    return {name: _experiment(name, times, conditions) for name, times in periods.items()}


def _experiment(name: str, periods: Mapping[float, list[Row]], conditions: dict[str, Row]) -> Series:
    times = sorted(periods)
    rows = {
        time: _merged([(row, conditions[row.text("conditionId")]) for row in periods[time] if row.has("conditionId")])
        for time in times
    }
    before = ""
    if times[0] == BEFORE:
        before = f"{name} before"
        conditions[before] = rows[BEFORE]
        times = times[1:]
        if not times:
            raise periods[BEFORE][0].error("time", f"must be finite in one period of `{name}`, but all are -inf.")
    conditions[name] = rows[times[0]]
    later = tuple((time, f"{name} from {time:g}") for time in times[1:])
    for time, label in later:
        conditions[label] = rows[time]
    return Series(before, name, (), {}, {}, name=name, start=times[0], later=later)


def _merged(parts: list[tuple[Row, Row]]) -> Row:
    """Conditions that hold at the same time, as one."""
    cells: dict[str, str] = {}
    places: dict[str, str] = {}
    for row, condition in parts:
        twice = sorted(cells.keys() & condition.cells.keys())
        if twice:
            raise row.error(
                "conditionId", f"must not set again what another condition sets then, but sets `{twice[0]}`."
            )
        cells |= condition.cells
        places |= condition.places
    table, line = (parts[0][1].table, parts[0][1].line) if parts else ("conditions", 1)
    return Row(table, line, cells, places)


def read_measurements(
    table: Table,
    observables: Mapping[str, Observable],
    experiments: Mapping[str, Series],
    conditions: dict[str, Row],
    known: Mapping[str, Any],
) -> list[Series]:
    """The measurement table, one series an experiment; rows that name none belong to the model as it is."""
    groups: dict[str, list[Row]] = {}
    for row in table:
        row.check_named("observableId", observables)
        if row.has("experimentId"):
            row.check_named("experimentId", experiments)
        groups.setdefault(row.text("experimentId") if row.has("experimentId") else "", []).append(row)
    found = []
    for name, rows in groups.items():
        if not name:
            conditions[""] = Row(table.name, 1, {})
        held = experiments[name] if name else Series("", "", (), {}, {}, name="the model")
        found.append(series_of(held, rows, observables, known))
    return found


def check_models(parts: Mapping[str, Any], name: str) -> str:
    """The location of the one SBML model that a problem of version 2 names."""
    models = parts.get("model_files")
    if not isinstance(models, dict) or len(models) != 1:
        raise DataError(f"`{name}` must name one model in `model_files`, but names {len(models or ())}.")
    (model,) = models.values()
    if not isinstance(model, dict) or model.get("language") != "sbml":
        raise DataError(f"The model of `{name}` must be of the language sbml, but it is not.")
    return str(model.get("location", ""))
