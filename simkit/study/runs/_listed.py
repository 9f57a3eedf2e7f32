"""Runs that lie in a folder: what each was made of and what came out, to be compared."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import ArgumentError, SimkitError, StudyError
from ...io import Results, load
from ..language._toml import tables_of
from ._aside import RESULT


@dataclasses.dataclass(frozen=True)
class ListedRun:
    """One result file.

    - `path`: relative to the folder that was listed; `date` in UTC; `study` the name of its file, `sha256` that of its text.
    - `title`, `model`: as the study says.
    - `version`: of simkit; `seed`; `command`.
    - `data`: a checksum of times and values of the data, None where nothing was fitted. Likelihoods of other data do not compare.
    - `parameters`: name -> value, error and unit: the estimate with its standard error, or without a fit the mean and the standard
        deviation of the posterior.
    - `log_likelihood`, `aic`: of the fit.
    - `fault`: why the file cannot be read, else empty.
    """

    path: str
    date: str = ""
    study: str = ""
    sha256: str = ""
    title: str = ""
    model: str = ""
    version: str = ""
    seed: int | None = None
    command: str = ""
    data: str | None = None
    parameters: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    log_likelihood: float | None = None
    aic: float | None = None
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON, which knows no infinite numbers: these become null."""
        plain = dataclasses.asdict(self)
        for one in plain["parameters"].values():
            one.update({key: _finite(value) for key, value in one.items() if isinstance(value, float)})
        return {key: _finite(value) if isinstance(value, float) else value for key, value in plain.items()}


def list_runs(folder: Path) -> list[ListedRun]:
    """The runs of a folder and of the folders in it, by date; files that cannot be read come last.

    **Raises:** an `ArgumentError` where there is no such folder.
    """
    if not folder.is_dir():
        raise ArgumentError(f"`{folder}` must be a folder with results, such as `results`, but there is none.")
    runs = [_listed(path, folder) for path in sorted(folder.rglob(RESULT)) if path.is_file()]
    return sorted(runs, key=lambda run: (bool(run.fault), run.date, run.path))


def _listed(path: Path, folder: Path) -> ListedRun:
    name = path.relative_to(folder).as_posix()
    try:
        results = load(path)
    except SimkitError as error:
        return ListedRun(name, fault=str(error))
    made, fit = results.provenance, results.fit
    title, model = _told(made.study, made.study_name)
    return ListedRun(
        name,
        date=made.date,
        study=made.study_name,
        sha256=made.study_sha256,
        title=title,
        model=model,
        version=made.versions.get("simkit", "unknown"),
        seed=made.seed,
        command=made.command,
        data=None if fit is None or fit.data_checksum is None else f"{int(fit.data_checksum):08x}",
        parameters=_parameters(results),
        log_likelihood=None if fit is None else float(fit.log_likelihood),
        aic=None if fit is None else fit.aic,
    )


def _parameters(results: Results) -> dict[str, dict[str, Any]]:
    fit, posterior = results.fit, results.posterior
    if fit is not None:
        rows, value, error = fit.table()[: fit.free_count], "estimate", "standard_error"
    elif posterior is not None:
        rows, value, error = posterior.table(), "mean", "sd"
    else:
        return {}
    return {row["name"]: {"value": float(row[value]), "error": float(row[error]), "unit": row["unit"]} for row in rows}


def _told(text: str, name: str) -> tuple[str, str]:
    """The title and the model of a study; empty where its text does not say."""
    try:
        tables = tables_of(text, name) if name.endswith(".toml") else {}
    except StudyError:
        return "", ""
    found = [tables.get(table) if isinstance(tables.get(table), dict) else {} for table in ("study", "system")]
    heading, system = found
    own = system.get("name", "equations") if "equations" in system else ""  # type: ignore[union-attr]
    return str(heading.get("title", "")), str(system.get("model", own))  # type: ignore[union-attr]


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
