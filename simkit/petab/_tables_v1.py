"""PEtab version 1: tables to the parts of a problem."""

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.transforms import ExpTransform

from .._errors import DataError, close_matches
from ..problem import AbstractNoise, Free
from ._mathml import Reader, parsed
from ._model import Model
from ._noises import BY_SCALE
from ._row_formulas import Head
from ._sbml_protocol import FOREVER
from ._tables import Files, Row, Table, as_number, finite, read_tables

SCALES = ("lin", "log", "log10")
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
    _check_nominal(row, nominal, lower, upper)
    prior = _prior(row, scale)
    return Parameter(
        name, nominal, Free(prior, (lower, upper), "linear" if scale == "lin" else "log"), row.where("estimate")
    )


def _check_nominal(row: Row, nominal: float, lower: float, upper: float) -> None:
    """Refuse a nominal value outside its bounds; published tables have some on them."""
    # Tables are written with some ten digits.
    if lower - nominal > 1e-9 * abs(lower) or nominal - upper > 1e-9 * abs(upper):
        raise row.error(
            "nominalValue",
            f"must lie within the bounds {lower:g} and {upper:g}, but it is {nominal:g}. Like the bounds it is a number on the "
            "linear scale, whatever `parameterScale` says.",
        )


def _prior(row: Row, scale: str) -> dist.Distribution | None:
    if not row.has("objectivePriorType"):
        return None
    kind = row.choice("objectivePriorType", PRIORS, "")
    a, b = prior_numbers(row, "objectivePriorParameters", 2)
    check_prior(row, "objectivePriorParameters", kind, (a, b))
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


def check_prior(row: Row, column: str, kind: str, numbers: Sequence[float]) -> None:
    """Refuse numbers of a prior that make no distribution: ends in the wrong order, a width that is not positive."""
    told = "; ".join(f"{x:g}" for x in numbers)
    if not all(map(math.isfinite, numbers)):
        raise row.error(column, f"must be finite numbers, but it is `{told}`.")
    if kind.lower().endswith("uniform"):
        if not numbers[0] < numbers[1]:
            raise row.error(column, f"must be a lower and a higher end of a uniform prior, but it is `{told}`.")
    elif numbers[-1] <= 0:
        raise row.error(column, f"must end in a positive width of the prior `{kind}`, but it is `{told}`.")


def prior_numbers(row: Row, column: str, count: int) -> list[float]:
    """The numbers of a prior."""
    words = row.parts(column)
    numbers = [x for x in map(as_number, words) if x is not None]
    if len(words) != count or len(numbers) != count:
        what = "one number" if count == 1 else "two numbers between which stands `;`"
        raise row.error(column, f"must be {what}, but it is `{'; '.join(words)}`.")
    return numbers


@dataclasses.dataclass(frozen=True)
class Observable:
    """A row of the observable table, read."""

    head: Head
    noise: AbstractNoise
    observable: tuple[int, ...]  # which of the values of a row the names of `head.overrides` stand for, by column
    scatter: tuple[int, ...]
    is_scale: bool = False  # whether the scale of the noise is what a row gives, and nothing else


Holders = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""Names in the two formulas of each observable that rows give values to."""


def read_observables(table: Table, model: Model, known: Mapping[str, Any]) -> dict[str, Observable]:
    """The observable table; formulas may name what is in the model, in the parameter table or among the observables."""
    rows = table.by_id("observableId")
    holders, noises = {}, {}
    for name, row in rows.items():
        transform = row.choice("observableTransformation", SCALES, "lin")
        kind = row.choice("noiseDistribution", ("normal", "laplace"), "normal")
        holders[name] = tuple(_numbered(word, name, row) for word in ("observable", "noise"))
        noise: Any = BY_SCALE[kind, transform != "lin"]
        noises[name] = noise(1.0)
    factors = {n: math.log(10) for n, row in rows.items() if row.text("observableTransformation") == "log10"}
    return formula_locations(rows, model, known, holders, noises, factors)


def _numbered(word: str, name: str, row: Row) -> tuple[str, ...]:
    """All names such as `noiseParameter2_name` up to the highest that formulas hold."""
    text = f"{row.text('observableFormula')} {row.text('noiseFormula')}"
    found = [int(x) for x in re.findall(rf"\b{word}Parameter(\d+)_{re.escape(name)}\b", text)]
    return tuple(f"{word}Parameter{i}_{name}" for i in range(1, max(found, default=0) + 1))


def formula_locations(
    rows: Mapping[str, Row],
    model: Model,
    known: Mapping[str, Any],
    holders: Holders,
    noises: Mapping[str, AbstractNoise],
    factors: Mapping[str, float] | None = None,
) -> dict[str, Observable]:
    """The formulas of all observables, read; those may name each other."""
    found: dict[str, int] = {}
    opened: list[str] = []

    def location(name: str) -> int:
        if name not in found:
            if name in opened:
                raise rows[name].error("observableFormula", "must not depend on itself, but does.")
            opened.append(name)
            found[name] = formula(name, "observableFormula")
        return found[name]

    def formula(name: str, column: str) -> int:
        own = {holder: f"{holder} of {name}" for both in holders[name] for holder in both}
        return formula_of(rows[name], column, model, known, rows, location, own)

    result = {}
    for name in rows:
        scale = formula(name, "noiseFormula")
        _check_noise(rows[name], "noiseFormula", _known_number(model, scale, known))
        used = _used(model, (location(name), scale))
        places = [tuple(i for i, x in enumerate(both) if f"{x} of {name}" in used) for both in holders[name]]
        names = [f"{both[i]} of {name}" for both, own in zip(holders[name], places, strict=True) for i in own]
        head = Head(name, location(name), scale, tuple(names), (factors or {}).get(name, 1.0))
        given = {f"{x} of {name}" for x in holders[name][1]}
        is_scale = model.graph.nodes[scale][0] == "symbol" and model.graph.nodes[scale][1] in given
        result[name] = Observable(head, noises[name], *places, is_scale=is_scale)
    return result


def _known_number(model: Model, node: int, known: Mapping[str, Any]) -> float | None:
    """The number that a formula is: itself, or by a fixed row of the parameter table."""
    operation, *operands = model.graph.nodes[node]
    fixed = known.get(operands[0]) if operation == "symbol" else None
    return fixed.nominal if isinstance(fixed, Parameter) and fixed.free is None else model.graph.value(node)


def _check_noise(row: Row, column: str, scale: float | None) -> None:
    if scale is not None and not scale > 0:
        raise row.error(
            column,
            f"must be a positive number, as the scale of the noise, but it is {scale:g}. A datum without noise would outweigh "
            "all others.",
        )


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


CONSTANTS = ("time", "pi", "exponentiale", "inf", "infinity", "nan", "notanumber", "true", "false")
"""Words that formulas of tables read as numbers, or as the time, whatever a model calls so."""


def formula_of(
    row: Row,
    column: str,
    model: Model,
    known: Collection[str],
    rows: Collection[str] = (),
    location: Callable[[str], int] | None = None,
    own: Mapping[str, str] | None = None,
) -> int:
    """A cell as a formula: of names of the model, `known` ones, observables in `rows` and names that are the row's own."""
    where = row.where(column)
    if not row.has(column):
        raise row.error(column, "must be a formula, but it is empty.")

    for word in re.findall(r"[A-Za-z_]\w*", row.text(column)):
        if word in CONSTANTS and model.symbol(word) is not None:
            raise row.error(
                column,
                f"must not hold `{word}`, which formulas have as a constant and the model as a name: give that another one.",
            )

    def symbol(name: str) -> int:
        if own and name in own:
            return model.graph.symbol(own[name])
        node = model.symbol(name)
        if node is not None:
            return node
        if name in known:
            return model.graph.symbol(name)
        if location is not None and name in rows:
            return location(name)
        names = (*model.constants, *model.states, *model.formulas, *known, *rows)
        others = ", of the parameter table and of observables" if rows else " and of the parameter table"
        raise DataError(
            f"{where} must be made of names of the model{others}, but `{name}` is none. {close_matches(name, names)}"
        )

    return Reader(model.graph, symbol, model.reader.functions).read(parsed(row.text(column), where), where)


@dataclasses.dataclass
class Series:
    """The measurements of one experiment: the times of its rows, its data, and what the rows give, by observable.

    `before` and `condition` name the conditions before the start (or nothing) and from it on, `later` those that follow.
    """

    before: str
    condition: str
    times: Sequence[float] | np.ndarray
    data: dict[str, np.ndarray]
    given: dict[str, dict[int, tuple[str | float, ...]]]
    name: str = ""
    start: float = 0.0
    later: tuple[tuple[float, str], ...] = ()

    @property
    def timeless(self) -> bool:
        """Tell whether all data are of a steady state."""
        early = np.asarray(self.times) < FOREVER
        return not any(np.isfinite(np.asarray(values)[early]).any() for values in self.data.values())

    @property
    def label(self) -> str:
        if self.name:
            return self.name
        return f"{self.condition} after {self.before}" if self.before else self.condition


def read_measurements(
    table: Table, observables: Mapping[str, Observable], conditions: Mapping[str, Any], known: Mapping[str, Any]
) -> list[Series]:
    """The measurement table, one series a pair of conditions."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in table:
        row.check_named("observableId", observables)
        row.check_named("simulationConditionId", conditions)
        before = row.text("preequilibrationConditionId") if row.has("preequilibrationConditionId") else ""
        if before:
            row.check_named("preequilibrationConditionId", conditions)
        groups.setdefault((before, row.text("simulationConditionId")), []).append(row)
    return [
        series_of(Series(before, condition, (), {}, {}), rows, observables, known)
        for (before, condition), rows in groups.items()
    ]


def series_of(
    series: Series, rows: list[Row], observables: Mapping[str, Observable], known: Mapping[str, Any]
) -> Series:
    """A series with its data."""
    from ._sbml_protocol import FOREVER

    kept: dict[float, dict[str, list[Row]]] = {}
    for row in rows:
        time = row.number("time")
        if math.isnan(time) or time < series.start:
            raise row.error("time", f"must be at least {series.start:g}, or inf, but it is {time:g}.")
        if row.has("measurement"):
            finite(row, "measurement")
            kept.setdefault(min(time, FOREVER), {}).setdefault(row.text("observableId"), []).append(row)
    if not any(series.start < time < FOREVER for time in kept):
        kept[series.start + 1.0] = {}  # a simulation needs a span
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
    return dataclasses.replace(series, times=np.array(times), data=filled, given=given)


def _given(row: Row, observable: Observable, known: Mapping[str, Any]) -> tuple[str | float, ...]:
    found: list[str | float] = []
    for column, places in (("observableParameters", observable.observable), ("noiseParameters", observable.scatter)):
        words = row.parts(column)
        if len(words) > max([0, *(place + 1 for place in places)]):
            raise row.error(
                column,
                f"must hold no more values than the formula of `{observable.head.name}` has places, {len(places)}, but it holds "
                f"{len(words)}.",
            )
        for place in places:
            if place >= len(words):
                raise row.error(
                    column,
                    f"must hold {place + 1} values for the formula of `{observable.head.name}`, but it holds {len(words)}.",
                )
            word = words[place]
            value = as_number(word)
            if value is None and word not in known:
                raise row.error(
                    column,
                    f"must hold numbers or names of parameters, but `{word}` is neither. {close_matches(word, known)}",
                )
            found.append(word if value is None else value)
    if observable.is_scale:
        fixed = known.get(found[-1]) if isinstance(found[-1], str) else None
        given = fixed.nominal if isinstance(fixed, Parameter) and fixed.free is None else found[-1]
        _check_noise(row, "noiseParameters", None if isinstance(given, str) else given)
    return tuple(found)
