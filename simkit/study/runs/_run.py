"""Runs of studies: a fit, a posterior, a prediction and a report, each phase kept as soon as it is finished."""

import dataclasses
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import PRNGKeyArray

from ..._budget import Budget, Within
from ..._errors import ArgumentError, SimulationError, StudyError, TimeUpError
from ..._progress import Say as Show
from ...assimilation import Assimilation
from ...core import DelayedSystem, Trajectory
from ...engine import simulate
from ...fitting import (
    SAEM,
    AbstractFieldMethod,
    EnsembleKalmanInversion,
    FieldFit,
    FitResult,
    Profiles,
    Sparse,
    SparseFit,
    fit,
    profile,
)
from ...infer import (
    CUTTABLE,
    FROM_PRIORS,
    LIKELIHOOD_FREE,
    Posterior,
    Prediction,
    members_as_draws,
    predict,
    sample,
)
from ...inspect import locate
from ...io import provenance, save
from ...md import Averages
from ...problem import Problem
from ...recordings import record
from ..language._asked import FIELD_METHODS, fit_arguments, fit_method, sample_arguments, sample_method
from ..language._study import Study
from ._aside import REPORT, RESULT, check_folder, identity, make_room

PHASES = ("fit", "sample", "predict", "profile")
FIELD_DRAWS = 100
"""Draws of a fitted field that are simulated for a prediction."""

UNFINISHED = "unfinished"
"""The folder in which a run keeps what it has done of a phase."""


@dataclasses.dataclass
class Found:
    """Results of the phases so far; `cut` says where the time of `within` ended them.

    After a sparse fit `problem` and `fit` are those of the chosen model, which the phases behind it take.
    """

    problem: Problem | None = None
    fit: FitResult | None = None
    sparse_fit: SparseFit | None = None
    field_fit: FieldFit | None = None
    profiles: Profiles | None = None
    posterior: Posterior | None = None
    prediction: Prediction | None = None
    averages: Averages | None = None
    assimilation: Assimilation | None = None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    files: list[Path] = dataclasses.field(default_factory=list)
    cut: str = ""


class Work(NamedTuple):
    """One phase: its study and problem, the results so far, which it adds to, its key, where it stores, and the seconds left."""

    study: Study
    problem: Problem
    found: Found
    key: PRNGKeyArray
    progress: Show
    store: Path | None
    left: float | None


Say = Callable[[str], None]
Report = Callable[[Path, Path], Sequence[Path]]
"""Writer of the report of a result file at a path, which returns the files that it wrote."""


def silent(line: str) -> None:
    """Print nothing."""


def compute(
    study: Study,
    phases: Sequence[str] = PHASES,
    *,
    seed: int | None = None,
    say: Say = silent,
    keep: Callable[[Found], None] = lambda found: None,
    store: Path | None = None,
    within: Within = None,
) -> Found:
    """Run the phases of a study that compute: "fit", "sample", "predict" and, where the study has it, "profile", in this order.

    The same study and seed give the same numbers, whichever phases are asked for: each has a key of its own. A prediction
    without sampling is made at the fit's estimate.

    **Arguments:**

    - `seed`: in place of the study's own.
    - `say`: receives a line a phase.
    - `keep`: called after every phase with what has been found so far.
    - `store`: a folder for what is done of a phase, from which the same call goes on.
    - `within`: the time that the phases may take together, such as "2 h"; by default that of the study.
    """
    found, budget = Found(), Budget(study.within if within is None else within)
    key = jax.random.key(study.seed if seed is None else seed)
    with Clock(found, "compile the problem"):
        found.problem = problem = study.problem()
    data = f"{problem.data_count} data in {len(problem.labels)} experiment(s), {problem.size} unknowns"
    say(f"problem  {study.model}: {data}  ({found.seconds['compile the problem']:.1f} s)")
    if "predict" in phases:
        check_times(study, problem)
    if isinstance(fit_method(study.fit), Sparse):  # which chooses the model of all other phases
        phases = ("fit", *phases)
    steps: dict[str, Callable[[Work], str]] = {"fit": _fit, "sample": _sample, "predict": _predict, "profile": _profile}
    for index, (phase, step) in enumerate(steps.items()):
        if phase in phases and (phase != "profile" or study.profile):
            if budget.left == 0:
                found.cut = f"The time of `within` was up before {phase}."
                break
            say(f"{phase:<8} {_announce(study, phase)} ...")
            with Clock(found, phase):
                parts = None if store is None else store / phase
                # An inversion is one piece of work, whichever of both phases is asked for.
                whole = isinstance(fit_method(study.fit), EnsembleKalmanInversion) and phase == "sample"
                own = jax.random.fold_in(key, 0 if whole else index)
                progress = None if say is not silent else False
                try:
                    text = step(Work(study, found.problem, found, own, progress, parts, budget.left))
                except TimeUpError as error:
                    found.cut = str(error)
                    break
            say(f"         {text}  ({found.seconds[phase]:.1f} s)")
            keep(found)
            if found.cut or not found.problem.size:  # the chosen model has no unknown
                break
    return found


def run(
    study: Study,
    folder: str | Path,
    phases: Sequence[str] = PHASES,
    *,
    seed: int | None = None,
    overwrite: bool = False,
    say: Say = silent,
    command: str | None = None,
    found_so_far: list[Found] | None = None,
    report: Report | None = None,
    within: Within = None,
) -> Found:
    """Run a study and write `result.h5`, and where a report is asked for `report.html` with its figures, into a folder.

    After every phase the result file is written anew, and within one every finished start and every few draws are kept in a folder
    beside it, so that a run that was interrupted or killed goes on when it is called again.

    **Arguments:** as in `compute`, and

    - `folder`: where to write; refused where it holds finished results of the same study, unless `overwrite`. Those of a study that
        was edited since are kept aside in `earlier/1`, `earlier/2` and so on.
    - `command`: what to note as the command that was run.
    - `within`: as in `compute`. `Found.cut` says where the time was up; there is no report then, and the same call goes on.
    - `found_so_far`: receives the results after every phase, for a caller that handles an interrupt.
    - `report`: writes the report; None: there is none.
    """
    folder = Path(folder)
    own = identity(study, seed)
    parts = folder / UNFINISHED / own
    check_folder(folder, own, overwrite=overwrite or parts.is_dir())
    if parts.is_dir():
        say(f"goes on with what is kept in {parts}")
    result = folder / RESULT

    def keep(found: Found) -> None:
        if not found.files:
            make_room(folder, own, overwrite=overwrite, say=say)
        made = provenance(study, seed=seed, command=command, seconds=found.seconds)
        parts = {
            "fit": found.fit,
            "sparse_fit": found.sparse_fit,
            "field_fit": found.field_fit,
            "posterior": found.posterior,
            "prediction": found.prediction,
            "profiles": found.profiles,
        }
        save(result, **parts, problem=found.problem, made=made, overwrite=True)  # pyright: ignore
        found.files[:] = [result]
        if found_so_far is not None:
            found_so_far[:] = [found]

    found = compute(study, phases, seed=seed, say=say, keep=keep, store=parts, within=within)
    if found.cut:
        return found
    if report is not None:
        say("report   tables and figures ...")
        with Clock(found, "report"):
            found.files += report(result, folder / REPORT)
        say(f"         {len(found.files) - 2} figures  ({found.seconds['report']:.1f} s)")
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    return found


def simulate_study(
    study: Study,
    folder: str | Path,
    *,
    seed: int | None = None,
    command: str | None = None,
    overwrite: bool = False,
    say: Say = silent,
) -> Trajectory:
    """Simulate a study at the values in its file, and write the trajectory into `result.h5` in a folder.

    The times are those of [simulate] or [predict], or span the experiments. Free parameters keep the values of [system] and [y0].
    Results of another version of the study are kept aside, as in `run`. With `every` in [simulate] the run is written part by part,
    and the same call goes on after an interrupt.

    **Raises:** a `StudyError` where the study gives no initial state or no times, a `SimulationError` where it fails.
    """
    if study.y0 is None:
        raise StudyError(f"`{study.name}` must give the initial state in [y0] to be simulated, but it does not.")
    begin = time.perf_counter()
    key = jax.random.key(study.seed if seed is None else seed)
    try:
        if "every" in study.simulate:
            parts = Path(folder) / UNFINISHED / identity(study, seed)
            trajectory = _recorded(study, parts, key, say)
        else:
            trajectory = _asked(simulate, study, key, events=study.events or None)
    except SimulationError as error:
        raise SimulationError(f"{error}{_kept_failure(study, Path(folder), key)}") from error
    jax.block_until_ready(trajectory.times)
    seconds = {"simulate": time.perf_counter() - begin}
    made = provenance(study, seed=seed, command=command, seconds=seconds)
    make_room(Path(folder), identity(study, seed), overwrite=overwrite, say=say)
    save(Path(folder) / RESULT, trajectory=trajectory, made=made, overwrite=True)
    shutil.rmtree(Path(folder) / UNFINISHED, ignore_errors=True)
    return trajectory


def _recorded(study: Study, parts: Path, key: PRNGKeyArray, say: Say) -> Trajectory:
    """The simulation of a study, part by part on disk."""
    if study.events:
        raise StudyError(
            f"[simulate] of `{study.name}` must not give `every` where there are events, since a run with events is not cut into "
            "parts, but it does. Leave `every` out."
        )
    if parts.is_dir():
        say(f"goes on with what is kept in {parts}")
    tell = lambda run: say(f"         {study.time} {run.end:g} of {float(study.simulation_times[-1]):g}")
    return _asked(record, study, key, store=parts, every=study.simulate["every"], callback=tell).trajectory()


def _asked(verb: Callable[..., Any], study: Study, key: PRNGKeyArray, **more: Any) -> Any:
    """`simulate` or `locate` with what a study says."""
    return verb(
        study.system,
        study.y0,
        study.simulation_times,
        solver=study.solve["solver"],
        step=study.solve["step"],
        inputs=study.inputs,
        key=key,
        **more,
    )


def _kept_failure(study: Study, folder: Path, key: PRNGKeyArray) -> str:
    """Store the place of a broken simulation beside its results; return what to do with it, in words."""
    if study.events or isinstance(study.system, DelayedSystem):  # `locate` knows no events and no past
        return ""
    failure = _asked(locate, study, key)
    if failure is None:
        return ""
    path = failure.save(folder / "failure.h5")
    made = f" It was made by {failure.culprit.text}." if failure.culprit is not None else ""
    return f"{made} The state before the step is kept: simkit replay {path} {study.name}"


class Clock:
    """Notes how long a phase took."""

    def __init__(self, found: Found, phase: str):
        self.found, self.phase = found, phase

    def __enter__(self) -> None:
        self.begin = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.found.seconds[self.phase] = time.perf_counter() - self.begin


def check_times(study: Study, problem: Problem) -> None:
    """Refuse times that cannot be predicted at, before the work that leads there."""
    try:
        problem.at(study.prediction_times)
    except ArgumentError as error:
        raise StudyError(f"`times` in [predict] of `{study.name}` cannot be predicted at. {error}") from error


def _announce(study: Study, phase: str) -> str:
    if study.fit.get("method") in FIELD_METHODS and phase == "fit":
        return "of fields, from the middle of the priors"
    if study.fit.get("method") == "ensemble_inversion" and phase in ("fit", "sample"):
        return "by an ensemble"
    if phase == "fit":
        return f"from {study.fit.get('starts', 16)} starts"
    if phase == "sample" and study.fit.get("method") in FIELD_METHODS and not study.sample:
        return "of fields"
    if phase == "sample":
        asked = {"chains": 4, "draws": 1000, "warmup": 300} | dict(study.sample)
        return f"{asked['chains']} chains of {asked['draws']} draws after {asked['warmup']} of warm-up"
    if phase == "profile":
        return f"of {len(study.profile['names'])} parameters" if "names" in study.profile else "of all parameters"
    return f"at {study.prediction_times.shape[0]} times"


def _fit(work: Work) -> str:
    method, asked = fit_method(work.study.fit), fit_arguments(work.study.fit)
    if isinstance(method, EnsembleKalmanInversion):
        return _inverted(work, method)
    if isinstance(method, AbstractFieldMethod):
        found = fit(work.problem, key=work.key, method=method, progress=work.progress, **asked)
        assert isinstance(found, FieldFit)
        work.found.field_fit = found
        told = f"log likelihood {found.log_likelihood:.4g}"
        return f"{len(found.gradients) - 1} steps, gradient {found.gradients[-1]:.1e} of the first, {told}"
    if isinstance(method, Sparse):
        return _chosen(work, method, asked)
    # It has one start, whose parts are not kept.
    kept: dict[str, Any] = {} if isinstance(method, SAEM) else {"store": work.store, "within": work.left}
    work.found.fit = fit(work.problem, key=work.key, method=method, progress=work.progress, **kept, **asked)
    work.found.cut = "The time of `within` was up in the fit." if work.found.fit.cut else ""
    agree = f"{int(work.found.fit.agreeing())} of {len(work.found.fit.objective)} starts agree"
    return f"{agree}, log likelihood {float(work.found.fit.log_likelihood):.4g}"


def _chosen(work: Work, method: Sparse, asked: dict[str, Any]) -> str:
    """The model that a sparse fit chooses, and its fit."""
    kept: dict[str, Any] = {"store": work.store, "within": work.left}
    found = fit(work.problem, key=work.key, method=method, progress=work.progress, **kept, **asked)
    assert isinstance(found, SparseFit)
    work.found.sparse_fit, work.found.fit = found, found.fit
    work.found.problem = found.reduced(work.problem)
    work.found.cut = "The time of `within` was up in the fit." if found.full.cut else ""
    left = ", ".join(found.kept) or "none"
    return f"{len(found.kept)} of {len(found.names)} unknowns kept by {found.by}: {left}"


def _inverted(work: Work, method: EnsembleKalmanInversion) -> str:
    """The members of an ensemble, as draws of the posterior; nothing where an earlier phase has them."""
    if work.found.posterior is None:
        ensemble = fit(work.problem, key=work.key, method=method, progress=work.progress)
        work.found.posterior = members_as_draws(work.problem, ensemble)
    return f"{work.found.posterior.draws.shape[1]} members went from the priors to the posterior"


def _sample(work: Work) -> str:
    if isinstance(inversion := fit_method(work.study.fit), EnsembleKalmanInversion):
        return _inverted(work, inversion)
    if work.study.fit.get("method") in FIELD_METHODS and not work.study.sample:
        return "left out: fields are sampled where [sample] says how, as with `draws = 500`"
    asked, method = sample_arguments(work.study.sample), sample_method(work.study.sample)
    # Methods that begin from the priors, or learn from them, take neither.
    begin: dict[str, Any] = (
        {}
        if type(method) in FROM_PRIORS or isinstance(method, LIKELIHOOD_FREE)
        else {"start": work.found.fit, "store": work.store}
        if work.found.field_fit is None
        else {"start": work.found.field_fit}
    )
    if work.left is not None and isinstance(method, CUTTABLE):
        begin["within"] = work.left
    work.found.posterior = sample(work.problem, key=work.key, method=method, progress=work.progress, **begin, **asked)
    if work.found.posterior.cut:
        work.found.cut = work.found.posterior.warnings[0]
    rows = work.found.posterior.table()
    worst, least = max(row["rhat"] for row in rows), min(row["ess"] for row in rows)
    return f"R-hat at most {worst:.3f}, ESS at least {least:.0f}"


def _predict(work: Work) -> str:
    asked = {name: value for name, value in work.study.predict.items() if name == "count"}
    draws: Any = work.found.posterior
    if draws is None and work.found.field_fit is not None:
        draws = _field_draws(work.found.field_fit, asked.pop("count", FIELD_DRAWS), work.key)
    if draws is None:
        if work.found.fit is None:
            raise ArgumentError("A prediction needs a fit or a posterior, but there is neither.")
        draws = work.found.fit.estimate[None]
    work.found.prediction = predict(
        work.problem, draws, work.study.prediction_times, key=work.key, progress=work.progress, **asked
    )
    used = next(iter(work.found.prediction.curves.values())).shape[0]
    failed = int(work.found.prediction.failed)
    text = "at the estimate" if used == 1 else f"{used} draws"
    return text + (f", {failed} simulations failed" if failed else "")


def _field_draws(fit: FieldFit, count: int, key: PRNGKeyArray) -> Any:
    """Draws of the normal approximation, or the estimate where there is none."""
    return fit.draws(jax.random.fold_in(key, 1), count) if fit.eigenvalues.size else fit.estimate[None]


def _profile(work: Work) -> str:
    if work.found.fit is None:
        raise ArgumentError("Profiles need a fit, but there is none.")
    kept: dict[str, Any] = {"store": work.store, "within": work.left, "progress": work.progress}
    asked = dict(work.study.profile)
    if work.found.sparse_fit is not None and "names" in asked:
        asked["names"] = [name for name in asked["names"] if name not in work.found.sparse_fit.vanished]
        if not asked["names"]:
            return "left out: none of the parameters of [profile] is left in the chosen model"
    work.found.profiles = profile(work.problem, work.found.fit, **kept, **asked)
    work.found.cut = "The time of `within` was up in the profiles." if work.found.profiles.cut else ""
    ajar = int(work.found.profiles.is_open.any(axis=1).sum())
    return f"intervals at {work.found.profiles.level:.0%}; {ajar} of {len(work.found.profiles.names)} open"
