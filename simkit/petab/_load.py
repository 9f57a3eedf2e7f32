"""From a PEtab problem's file to a `Problem`."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import yaml
from jaxtyping import Array, Float

from .._errors import DataError, close_matches
from ..core import as_float_array
from ..engine import Adaptive
from ..problem import Experiment, Problem
from ..solvers import Rodas5P
from ._expression import TIME, Formulas
from ._measurement import TableMeasurement, rows_of
from ._protocol import FOREVER, SBMLProtocol
from ._sbml import Model, read_sbml
from ._steady import Balance, conserved
from ._switches import Switches
from ._system import SBMLSystem
from ._tables import Row, as_number, inside, read_tables
from ._tables_v1 import Observable, Parameter, Series, read_measurements, read_observables, read_parameters


@dataclasses.dataclass(frozen=True)
class PEtab:
    """A PEtab problem that was read.

    - `problem`: what `fit`, `profile` and `sample` take; its free parameters are those to be estimated.
    - `nominal`: the nominal values of the free parameters, NaN where the table gives none.
    - `model`: the SBML model as formulas.
    """

    name: str
    problem: Problem
    nominal: Float[Array, " parameters"]
    model: Model

    def __repr__(self) -> str:
        return f"PEtab problem {self.name!r}: {self.problem!r}"


def load(path: str | Path, *, solver: Any = None, step: Any = None) -> PEtab:
    """Read a PEtab problem.

    **Arguments:**

    - `path`: its YAML file, of PEtab version 1; the files it names lie relative to it.
    - `solver`, `step`: as in `simulate`; `Rodas5P()` and `Adaptive(1e-6, 1e-9)` by default.

    **Returns:** a `PEtab`, whose `problem` is what the verbs take.

    **Raises:** a `DataError` that names file, row and column, or the element of the model.
    """
    path = Path(path)
    parts = _parts(path)
    folder = path.parent
    parameters = read_parameters(folder, parts["parameter_files"])
    model = read_sbml(inside(folder, parts["sbml_files"][0]))
    conditions = read_tables(folder, parts["condition_files"], ("conditionId",))
    rows = conditions.by_id("conditionId")
    observables = read_observables(
        read_tables(folder, parts["observable_files"], ("observableId", "observableFormula", "noiseFormula")), model, parameters
    )
    known = parameters | model.constants
    series = read_measurements(
        read_tables(folder, parts["measurement_files"], ("observableId", "simulationConditionId", "measurement", "time")),
        observables,
        rows,
        known,
    )
    if not series:
        raise DataError(f"`{path.name}` must hold measurements, but its tables hold none.")
    targets = [name for name in conditions.columns if name not in ("conditionId", "conditionName")]
    problem = _Assembly(model, parameters, rows, targets, observables, series).problem(solver, step)
    nominal = as_float_array(np.array([p.nominal for p in parameters.values() if p.free is not None]))
    return PEtab(path.stem, problem, nominal, model)


def read(path: str | Path) -> Problem:
    """The problem of a PEtab file: `load(path).problem`."""
    return load(path).problem


FILES = ("sbml_files", "condition_files", "observable_files", "measurement_files")


def _parts(path: Path) -> dict[str, list[str]]:
    """The files of a problem, by kind."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        table = yaml.safe_load(text)
    except FileNotFoundError as error:
        near = sorted(p.name for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
        raise DataError(f"There is no PEtab problem `{path}`. {close_matches(path.name, near)}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"`{path}` must be YAML, but: {' '.join(str(error).split())}") from error
    if not isinstance(table, dict) or "format_version" not in table:
        raise DataError(f"`{path}` must be a PEtab problem, but it has no `format_version`.")
    version = str(table["format_version"])
    if not version.startswith("1"):
        raise DataError(f"`{path}` must be of PEtab version 1, but it is of version {version}.")
    problems = table.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        raise DataError(f"`{path}` must hold one entry in `problems`, but it holds {len(problems or ())}.")
    found = {}
    for kind in FILES:
        files = problems[0].get(kind) or []
        found[kind] = [files] if isinstance(files, str) else list(files)
        if not found[kind]:
            raise DataError(f"`{path}` must name {kind}, but names none.")
    if len(found["sbml_files"]) != 1:
        raise DataError(f"`{path}` must name one SBML file, but names {len(found['sbml_files'])}.")
    files = table.get("parameter_file") or []
    found["parameter_files"] = [files] if isinstance(files, str) else list(files)
    if not found["parameter_files"]:
        raise DataError(f"`{path}` must name a `parameter_file`, but names none.")
    return found


@dataclasses.dataclass
class _Assembly:
    """The parts of a problem, put together."""

    model: Model
    parameters: Mapping[str, Parameter]
    conditions: Mapping[str, Row]
    targets: Sequence[str]
    observables: Mapping[str, Observable]
    series: Sequence[Series]

    def problem(self, solver: Any, step: Any) -> Problem:
        model = self.model
        self._check_targets()
        if model.events:
            raise DataError(f"The event `{model.events[0].name}` is not supported yet.")
        switches = Switches(model.graph, frozenset(model.states))
        rates = tuple((name, switches.located(model.rates[name])) for name in model.states)
        formulas = Formulas(tuple(model.graph.nodes))
        start = {name: node for name, node in model.start.items() if name not in self.parameters}
        values = model.constants | {name: math.nan for name in start if name in model.constants}
        values |= {p.name: p.nominal for p in self.parameters.values() if p.name not in model.states}
        earlier = self._earlier()
        system = SBMLSystem(
            values,
            {name: math.nan if name in model.states else values[name] for name in earlier},
            formulas=formulas,
            rates=rates,
            named=tuple((name, node) for name, node in model.formulas.items()),
        )
        settles = any(s.before for s in self.series)
        endless = any(s.times[-1] >= FOREVER for s in self.series)
        protocol = SBMLProtocol(
            None,
            tuple(start.items()),
            tuple(model.volumes.items()),
            tuple(switches.times),
            settles,
            endless,
        )
        free = {p.name: p.free for p in self.parameters.values() if p.free is not None}
        observed = [name for name in self.observables if any(name in s.data for s in self.series)]
        problem = Problem(
            system,
            [self._experiment(s, earlier) for s in self.series],
            free=free,
            noise={name: self.observables[name].noise for name in observed},
            y0={name: math.nan for name in model.states},
            set=self._everywhere(),
            solver=Rodas5P() if solver is None else solver,
            step=Adaptive(1e-6, 1e-9) if step is None else step,
            protocol=protocol,
            measurement=self._measurement(observed, formulas, tuple(values)),
        )
        return problem

    def _check_targets(self) -> None:
        for name in self.targets:
            if name not in self.model.constants and name not in self.model.states:
                row = next(iter(self.conditions.values()))
                names = (*self.model.constants, *self.model.states)
                why = "is given by a rule of the model" if name in self.model.formulas else "is none"
                raise DataError(
                    f"`{row.table}` must have columns that are named after parameters, species or compartments of the model, but "
                    f"`{name}` {why}. {close_matches(name, names)}"
                )

    def _earlier(self) -> list[str]:
        """What conditions before a start may set."""
        return list(self.targets) if any(s.before for s in self.series) else []

    def _everywhere(self) -> dict[str, float | str]:
        """What the parameter table says of states."""
        states = {p.name: p for p in self.parameters.values() if p.name in self.model.states}
        return {f"y0.{name}": p.nominal if p.free is None else name for name, p in states.items()}

    def _experiment(self, series: Series, earlier: Sequence[str]) -> Experiment:
        here = self._values(self.conditions[series.condition])
        paths = {f"y0.{name}" if name in self.model.states else name: value for name, value in here.items()}
        if series.before:
            before = self._values(self.conditions[series.before])
            paths |= {f"before.{name}": value for name, value in before.items()}
            paths["settled"] = 1.0
        return Experiment(series.label, series.times, series.data, start=0.0, set=paths, replicates=True)

    def _values(self, row: Row) -> dict[str, float | str]:
        """What a condition sets: numbers, and names of free parameters."""
        found: dict[str, float | str] = {}
        for name in self.targets:
            text = row.text(name)
            number = as_number(text)
            if not row.has(name):
                continue
            if number is not None:
                found[name] = number
            elif text in self.parameters:
                p = self.parameters[text]
                found[name] = text if p.free is not None else p.nominal
            elif text in self.model.constants:
                found[name] = self.model.constants[text]
            else:
                raise row.error(
                    name, f"must be a number or a parameter, but `{text}` is neither. {close_matches(text, self.parameters)}"
                )
        return found

    def _measurement(self, observed: Sequence[str], formulas: Formulas, names: tuple[str, ...]) -> TableMeasurement:
        length = max(len(s.times) for s in self.series)
        used = {
            value
            for s in self.series
            for rows in s.given.values()
            for values in rows.values()
            for value in values
            if isinstance(value, str)
        }
        kept = tuple(name for name in names if name in used)
        places = {name: i for i, name in enumerate(kept)}
        index, constants = {}, {}
        for name in observed:
            head = self.observables[name].head
            if not head.overrides:
                continue
            given = {(e, row): v for e, s in enumerate(self.series) for row, v in s.given.get(name, {}).items()}
            shape = (len(self.series), length, len(head.overrides))
            rows, numbers = rows_of(given, shape, places)
            index[name], constants[name] = jnp.asarray(rows), as_float_array(numbers)
        heads = tuple(self.observables[name].head for name in observed)
        return TableMeasurement(index, constants, heads, formulas, kept)


__all__ = ["TIME", "Balance", "PEtab", "conserved", "jax", "load", "read"]
