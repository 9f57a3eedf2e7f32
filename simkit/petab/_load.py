"""From a PEtab problem's file to a `Problem`."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jaxtyping import Array, Float

from .._errors import DataError
from ..core import as_float_array
from ..problem import Problem
from ._assembly import Assembly
from ._sbml import Model, sbml_from_text
from ._tables import Files, read_tables
from ._tables_v1 import read_measurements, read_observables, read_parameters


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


def load(path: str | Path, *, solver: Any = None, step: Any = None, texts: Mapping[str, str] | None = None) -> PEtab:
    """Read a PEtab problem.

    **Arguments:**

    - `path`: its YAML file, of PEtab version 1; the files it names lie relative to it.
    - `solver`, `step`: as in `simulate`; `Rodas5P()` and `Adaptive(5e-7, 1e-9)` by default, with which the likelihoods of
        published problems are right to 1e-3.
    - `texts`: the texts of all files by name, in place of those on disk.

    **Returns:** a `PEtab`, whose `problem` is what the verbs take.

    **Raises:** a `DataError` that names file, row and column, or the element of the model.
    """
    path = Path(path)
    source = Files(path.parent, texts)
    parts = _parts(path.name, source.read(path.name, "PEtab problem"))
    parameters = read_parameters(source, parts["parameter_files"])
    (file,) = parts["sbml_files"]
    model = sbml_from_text(source.read(file, "SBML file"), file)
    conditions = read_tables(source, parts["condition_files"], ("conditionId",))
    rows = conditions.by_id("conditionId")
    columns = "observableId", "observableFormula", "noiseFormula"
    observables = read_observables(read_tables(source, parts["observable_files"], columns), model, parameters)
    columns = "observableId", "simulationConditionId", "measurement", "time"
    measurements = read_tables(source, parts["measurement_files"], columns)
    series = read_measurements(measurements, observables, rows, parameters | model.constants)
    if not series:
        raise DataError(f"`{path.name}` must hold measurements, but its tables hold none.")
    targets = [name for name in conditions.columns if name not in ("conditionId", "conditionName")]
    problem = Assembly(model, parameters, rows, targets, observables, series).problem(solver, step)
    nominal = as_float_array(np.array([p.nominal for p in parameters.values() if p.free is not None]))
    return PEtab(path.stem, problem, nominal, model, dict(source.texts))


def read(path: str | Path) -> Problem:
    """The problem of a PEtab file: `load(path).problem`."""
    return load(path).problem


FILES = ("sbml_files", "condition_files", "observable_files", "measurement_files")


def _parts(name: str, text: str) -> dict[str, list[str]]:
    """The files of a problem, by kind."""
    try:
        table = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"`{name}` must be YAML, but: {' '.join(str(error).split())}") from error
    if not isinstance(table, dict) or "format_version" not in table:
        raise DataError(f"`{name}` must be a PEtab problem, but it has no `format_version`.")
    version = str(table["format_version"])
    if not version.startswith("1"):
        raise DataError(f"`{name}` must be of PEtab version 1, but it is of version {version}.")
    problems = table.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        raise DataError(f"`{name}` must hold one entry in `problems`, but it holds {len(problems or ())}.")
    found = {}
    for kind in FILES:
        files = problems[0].get(kind) or []
        found[kind] = [files] if isinstance(files, str) else list(files)
        if not found[kind]:
            raise DataError(f"`{name}` must name {kind}, but names none.")
    if len(found["sbml_files"]) != 1:
        raise DataError(f"`{name}` must name one SBML file, but names {len(found['sbml_files'])}.")
    files = table.get("parameter_file") or []
    found["parameter_files"] = [files] if isinstance(files, str) else list(files)
    if not found["parameter_files"]:
        raise DataError(f"`{name}` must name a `parameter_file`, but names none.")
    return found
