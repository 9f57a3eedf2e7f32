"""Model selection over the space of a PEtab Select problem, with a fit of ours for each model."""

import contextlib
import dataclasses
import importlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from .._doors import check_function, shown
from .._errors import ArgumentError, DataError, SimulationError, missing_package
from ..problem import Problem
from ._load import PEtab, load


class Fitted(Protocol):
    """The result of a fit: the log likelihood at the estimate, the free parameters in natural units, and their names."""

    log_likelihood: Any
    estimate: Any
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SelectedModel:
    """A model of a model space that was fitted.

    - `name`: its identifier; `subspace`: the row of the model space that it comes from; `iteration`: in which it was fitted.
    - `fixed`: parameter -> the number at which the model space holds it.
    - `estimate`: estimated parameter -> its estimate in natural units.
    - `log_likelihood`: at the estimate; `criterion`: the value of the criterion of the problem, the less the better.
    """

    name: str
    subspace: str
    iteration: int
    fixed: Mapping[str, float]
    estimate: Mapping[str, float]
    log_likelihood: float
    criterion: float


@dataclasses.dataclass(frozen=True)
class Selection:
    """The result of a model selection.

    - `criterion`, `method`: as the problem names them.
    - `models`: all models that were fitted, in the order of their fits; `best`: the one with the least criterion.
    - `petab`: the PEtab problem of the best model, whose `problem` other verbs take.
    - `fit`: the fit of the best model; None where nothing of it is estimated.
    """

    criterion: str
    method: str
    models: tuple[SelectedModel, ...]
    best: SelectedModel
    petab: PEtab
    fit: Any
    text: str = dataclasses.field(repr=False)

    def write(self, path: str | Path) -> None:
        """Write the best model as PEtab Select's YAML file, which other tools read."""
        Path(path).write_text(self.text, encoding="utf-8")

    def __repr__(self) -> str:
        lines = [f"Selection by {self.criterion}, {self.method}: {len(self.models)} models, best `{self.best.name}`"]
        width = max(len(model.name) for model in self.models)
        for model in sorted(self.models, key=lambda model: model.criterion):
            numbers = ", ".join(f"{name} {value:.4g}" for name, value in model.estimate.items())
            lines.append(f"  {model.name:<{width}}  {self.criterion} {model.criterion:.4f}  {numbers}".rstrip())
        return "\n".join(lines)


def select(path: str | Path, fit: Callable[[Problem], Fitted]) -> Selection:
    r"""Select a model of a PEtab Select problem: `petab-select` says which models come next, and each is fitted.

    With k estimated parameters, n measurements and the likelihood L at the estimate the criteria are

    $$\mathrm{AIC} = 2 k - 2 \ln L, \quad \mathrm{AICc} = \mathrm{AIC} + \frac{2 k (k + 1)}{n - k - 1}, \quad
    \mathrm{BIC} = k \ln n - 2 \ln L$$

    and the methods brute force, forward, backward and FAMoS, as the file of the problem names them. Each model compiles its own
    program: a model of ten states takes some ten seconds more than its fit.

    **Arguments:**

    - `path`: the YAML file of the PEtab Select problem; the files that it names lie relative to it.
    - `fit`: a function of a problem that returns its fit, such as `lambda problem: simkit.fit(problem, starts=10)`.

    **Returns:** a `Selection`.

    **Raises:** a `MissingPackageError` without the package `petab-select`, a `DataError` where its files cannot be read, and what
    `load` and `fit` raise.

    **Reference:** Pathirana et al. (2025), PEtab Select: specification standard and supporting software for automated model
    selection, doi:10.1101/2025.05.12.653312.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"Argument `path` must be the path of a YAML file, but it is {shown(path)}.")
    check_function("fit", fit, ("problem",))
    tool, ui = _package()
    try:
        with _quiet():
            problem = tool.Problem.from_yaml(Path(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"`{Path(path).name}` must be a PEtab Select problem, but: {' '.join(str(error).split())}"
        ) from error
    if problem.criterion is None or problem.method is None:
        raise DataError(f"`{Path(path).name}` must name a `criterion` and a `method`.")
    space, found, ends = None, [], {}
    while True:
        with _quiet():
            begun = ui.start_iteration(problem=problem, candidate_space=space)
            asked = list(begun["uncalibrated_models"])
        for model in asked:
            ends[str(model.hash)] = _calibrated(tool, problem.criterion, model, fit)
            found.append(_summary(model, problem.criterion))
        with _quiet():
            end = ui.end_iteration(
                problem=problem, candidate_space=begun["candidate_space"], calibrated_models=tool.Models(asked)
            )
        space = end["candidate_space"]
        if end["terminate"]:
            break
    if not found:
        raise DataError(f"`{Path(path).name}` must have models in its space, but the method finds none.")
    with _quiet():
        chosen = ui.get_best(problem=problem, models=problem.state.models)
        text = _yaml_of(chosen)
    best = next(model for model in found if model.name == str(chosen.model_id))
    read, end = ends[str(chosen.hash)]
    return Selection(problem.criterion.value, problem.method.value, tuple(found), best, read, end, text)


def _package() -> tuple[Any, Any]:
    """The package and its module of iterations."""
    try:
        with _quiet():
            petab_select = importlib.import_module("petab_select")
            ui = importlib.import_module("petab_select.ui")
    except ModuleNotFoundError as error:
        raise missing_package("Model selection", "petab-select", "select") from error
    return petab_select, ui


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what packages say of their own coming versions."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning, PendingDeprecationWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _calibrated(tool: Any, criterion: Any, model: Any, fit: Callable[[Problem], Fitted]) -> tuple[PEtab, Any]:
    """Fit a model and write the result into it; return its problem and the fit."""
    with tempfile.TemporaryDirectory() as folder:
        with _quiet():
            written = model.to_petab(output_path=folder)["petab_yaml"]
        read = load(Path(written))
    if read.problem.size:
        end = fit(read.problem)
        value = float(end.log_likelihood)
        estimate = {name: float(number) for name, number in zip(end.names, np.asarray(end.estimate), strict=True)}
    else:
        end, estimate = None, {}
        value = float(read.problem.log_likelihood(jnp.zeros((0,), read.problem.bounds.dtype))[0])
    if not np.isfinite(value):
        raise SimulationError(
            f"The model `{model.model_id}` must have a finite likelihood at its estimate, but it has {value}. Give the fit more "
            "starts, or parameters narrower bounds."
        )
    with _quiet():
        model.set_criterion(tool.constants.Criterion.NLLH, -value)
        model.set_estimated_parameters(estimate)
        model.compute_criterion(criterion)
    return read, end


def _summary(model: Any, criterion: Any) -> SelectedModel:
    fixed = {name: float(value) for name, value in model.parameters.items() if value != "estimate"}
    return SelectedModel(
        str(model.model_id),
        str(model.model_subspace_id),
        int(model.iteration),
        fixed,
        dict(model.estimated_parameters or {}),
        -float(model.get_criterion(type(criterion).NLLH)),
        float(model.get_criterion(criterion)),
    )


def _yaml_of(model: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.yaml"
        model.to_yaml(str(place))
        return place.read_text(encoding="utf-8")
