"""Loading of a PEtab problem's file as a `Problem`."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError, DataError
from ..core import as_float_array
from ..engine import Fixed, Varying
from ..problem import Problem
from ..solvers import SolverLike
from ..stores import MOST_HEADER
from . import _tables_v1, _tables_v2
from ._assembly import Assembly
from ._model import Model
from ._sbml import sbml_from_text
from ._tables import Files, check_names, read_tables


@dataclasses.dataclass(frozen=True)
class PEtab:
    """A PEtab problem that was read.

    - `problem`: what `fit`, `profile` and `sample` take; its free parameters are those to be estimated.
    - `nominal`: the nominal values of the free parameters, NaN where the table gives none.
    - `model`: the SBML model as formulas.
    - `texts`: the texts of all files it was read from, by name.
    """

    name: str
    problem: Problem
    nominal: Float[Array, " parameters"]
    model: Model
    texts: Mapping[str, str]

    def __repr__(self) -> str:
        return f"PEtab problem {self.name!r}: {self.problem!r}"


def load(
    path: str | Path,
    *,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    texts: Mapping[str, str] | None = None,
    allow_outside: bool = False,
) -> PEtab:
    """Read a PEtab problem.

    **Arguments:**

    - `path`: its YAML file, of PEtab version 1 or 2; the files it names lie relative to it.
    - `solver`, `step`: as in `simulate`; `Rodas5P()` and `Adaptive(5e-7, 1e-12)` by default, with which the likelihoods of
        published problems are right to 1e-3.
    - `texts`: the texts of all files by name, in place of those on disk.
    - `allow_outside`: whether the problem may name files that do not lie below its own folder.

    **Returns:** a `PEtab`, whose `problem` is what the verbs take.

    **Raises:** a `DataError` that names file, row and column, or the element of the model.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"Argument `path` must be the path of a YAML file, but it is {shown(path)}.")
    path = Path(path)
    source = Files(path.parent, texts, allow_outside=allow_outside)
    name, table = path.name, _header(path.name, source.read(path.name, "PEtab problem", MOST_HEADER))
    try:
        assembly = _version_2(name, table, source) if table["format_version"] == 2 else _version_1(name, table, source)
    except RecursionError as error:
        raise DataError(
            f"The formulas of `{name}` must refer to each other at most some hundred deep, but the chain is longer: `a` is made of "
            "`b`, `b` of `c`, and so on. Put some of them into one."
        ) from error
    if not assembly.series:
        raise DataError(f"`{name}` must hold measurements, but its tables hold none.")
    problem = assembly.problem(solver, step)
    nominal = as_float_array(np.array([p.nominal for p in assembly.parameters.values() if p.free is not None]))
    return PEtab(path.stem, problem, nominal, assembly.model, dict(source.texts))


def read(path: str | Path, *, allow_outside: bool = False) -> Problem:
    """The problem of a PEtab file: `load(path).problem`."""
    return load(path, allow_outside=allow_outside).problem


DEEPEST = 20
"""The greatest depth of the YAML file; PEtab needs 5."""
MOST_EVENTS = 50_000
"""Parts of the YAML file: five seconds of its parser."""
COLUMNS = "observableId", "observableFormula", "noiseFormula"


def _header(name: str, text: str) -> dict[str, Any]:
    """The YAML file, with its version as a number."""
    try:
        _check_yaml(name, text)
        table = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # a ValueError of a date or of a number of thousands of digits
        if isinstance(error, DataError):
            raise
        raise DataError(f"`{name}` must be YAML, but: {' '.join(str(error).split())}") from error
    if not isinstance(table, dict) or "format_version" not in table:
        raise DataError(f"`{name}` must be a PEtab problem, but it has no `format_version`.")
    version = str(table["format_version"])
    if version.split(".")[0] not in ("1", "2"):
        raise DataError(f"`{name}` must be of PEtab version 1 or 2, but it is of version {version}.")
    return {**table, "format_version": int(version.split(".")[0])}


def _check_yaml(name: str, text: str) -> None:
    """Refuse what a file that names other files has no use for, before it is built: it may be far larger than its text."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise DataError(
                f"`{name}` must do without aliases, but names `*{event.anchor}`. Write out what it stands for."
            )
        if depth > DEEPEST:
            raise DataError(f"`{name}` must be nested at most {DEEPEST} deep, but is deeper. Flatten it.")
        if count > MOST_EVENTS:
            raise DataError(
                f"`{name}` must hold at most {MOST_EVENTS:,} items, but holds more. Join tables into fewer files."
            )


def _files(name: str, table: Mapping[str, Any], kind: str, needed: bool = True) -> list[str]:
    """The names of the files of one kind."""
    files = table.get(kind) or []
    found = list(files) if isinstance(files, list | tuple) else [files]
    check_names(found)
    if needed and not found:
        raise DataError(f"`{name}` must name {kind}, but names none.")
    return found


def parameter_files(name: str, text: str) -> list[str]:
    """The names of the parameter tables of a problem's YAML file."""
    table = _header(name, text)
    return _files(name, table, "parameter_files" if table["format_version"] == 2 else "parameter_file")


def _version_1(name: str, table: Mapping[str, Any], source: Files) -> Assembly:
    problems = table.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        raise DataError(f"`{name}` must hold one entry in `problems`, but it holds {len(problems or ())}.")
    files = lambda kind: _files(name, problems[0], kind)
    if len(files("sbml_files")) != 1:
        raise DataError(f"`{name}` must name one SBML file, but names {len(files('sbml_files'))}.")
    parameters = _tables_v1.read_parameters(source, _files(name, table, "parameter_file"))
    (file,) = files("sbml_files")
    model = sbml_from_text(source.read(file, "SBML file"), file)
    conditions = read_tables(source, files("condition_files"), ("conditionId",))
    rows = conditions.by_id("conditionId")
    observables = read_tables(source, files("observable_files"), COLUMNS)
    read = _tables_v1.read_observables(observables, model, parameters)
    columns = "observableId", "simulationConditionId", "measurement", "time"
    measurements = read_tables(source, files("measurement_files"), columns)
    series = _tables_v1.read_measurements(measurements, read, rows, parameters | model.constants)
    targets = [name for name in conditions.columns if name not in ("conditionId", "conditionName")]
    return Assembly(model, parameters, rows, targets, read, series)


def _version_2(name: str, table: Mapping[str, Any], source: Files) -> Assembly:
    if table.get("extensions"):
        raise DataError(f"`{name}` must do without `extensions`, which simkit does not know.")
    files = lambda kind, needed=False: _files(name, table, kind, needed)
    parameters = _tables_v2.read_parameters(source, files("parameter_files", True))
    file = _tables_v2.check_models(table, name)
    model = sbml_from_text(source.read(file, "SBML file"), file)
    mapping = read_tables(source, files("mapping_files"), ("petabEntityId", "modelEntityId"))
    model.aliases |= _tables_v2.read_mapping(mapping, parameters)
    long = read_tables(source, files("condition_files"), ("conditionId", "targetId", "targetValue"))
    conditions = _tables_v2.read_conditions(long, model.aliases)
    columns = "experimentId", "time", "conditionId"
    plan = read_tables(source, files("experiment_files"), columns)
    experiments = _tables_v2.read_experiments(plan, conditions)
    observables = read_tables(source, files("observable_files", True), COLUMNS)
    read = _tables_v2.read_observables(observables, model, parameters)
    columns = "observableId", "experimentId", "measurement", "time"
    measurements = read_tables(source, files("measurement_files", True), columns)
    known = parameters | model.constants
    series = _tables_v2.read_measurements(measurements, read, experiments, conditions, known)
    targets = list(dict.fromkeys(target for row in conditions.values() for target in row.cells))
    return Assembly(model, parameters, conditions, targets, read, series, formulas=True)
