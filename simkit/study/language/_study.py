"""Study files: a system, its data, the unknowns and what to do with them, as TOML."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..._budget import seconds_of
from ..._errors import ArgumentError, DataError, StudyError, UnknownNameError, close_matches
from ..._types import State
from ...core import Event, StochasticSystem, System
from ...fluids import Grid, SpectralSystem
from ...io import Provenance, read_text
from ...md import Particles
from ...problem import AbstractLikelihood, AbstractNoise, Experiment, Free, GaussianCopula, Individual, Problem
from ...stores import MOST_STUDY, Gate, input_bytes, reading
from ._asked import check_groups, read_fit, read_predict, read_sample
from ._assimilated import read_assimilate
from ._cells import Shape, shape_of_outputs
from ._data import DATA_KEYS, read_data
from ._dependence import read_dependence
from ._doses import Dosing, read_own_doses, with_doses
from ._equations import check_start, read_equations
from ._events import check_events_table, input_names, last_time, read_events, with_events
from ._field_priors import with_field_method
from ._filtered import check_filtered, read_filter
from ._formula import Known
from ._grids import read_on_grid
from ._language import HEADING, LANGUAGE
from ._names import SYSTEMS
from ._own_models import OwnModels, check_model, loaded_models
from ._particles import read_particles
from ._parts import (
    free_names,
    read_conditions,
    read_covariate,
    read_free,
    read_inputs,
    read_noise,
    read_parameters,
    read_solve,
    read_state,
    read_system,
)
from ._petab import is_petab, prediction_span, read_petab
from ._profiled import MOST_PROFILES, read_profile
from ._section import Section, at_place
from ._simulated import read_averages, read_simulate
from ._sweep import read_sweep
from ._toml import tables_of
from ._volumes import VOLUMES, read_volumes

TABLES = tuple(LANGUAGE)


@dataclasses.dataclass(frozen=True)
class Study:
    """A study file, read and checked.

    - `text`, `sha256`: the file's text and its SHA-256; `files`: the texts of the data files, by the name in the study file.
    - `title`, `question`, `seed`: from [study]; `time` is what time axes are called there, such as "year".
    - `model`, `system`, `y0`, `inputs`, `solve`, `noise`, `free`, `set`, `experiments`: the arguments of a `Problem`.
    - `simulate`, `averages`, `assimilate`, `fit`, `profile`, `sample`, `predict`, `sweep`: what the verbs are asked for, by
        argument; a `profile` without any is not made.
    - `given`: the problem itself, where the study is one of PEtab.
    - `events`: those of [[events]] by name; experiments with doses have theirs before them.
    - `likelihood`: the filter of [filter], for a stochastic system; `dependence`: the copulas of [dependence].
    - `sources`: the texts of the Python files that `load_models` has imported for it, by name.

    ```python
    import simkit
    study = simkit.load_study("examples/lynx_hare.toml")
    problem = study.problem()
    ```
    """

    name: str
    text: str
    files: Mapping[str, str]
    title: str
    question: str
    time: str
    seed: int
    within: str | None
    model: str
    system: System
    y0: Any
    inputs: Any
    solve: Mapping[str, Any]
    noise: Mapping[str, AbstractNoise]
    free: Mapping[str, Free | Individual]
    set: Mapping[str, float | str]
    experiments: tuple[Experiment, ...]
    simulate: Mapping[str, Any]
    averages: Mapping[str, Any]
    assimilate: Mapping[str, Any]
    fit: Mapping[str, Any]
    profile: Mapping[str, Any]
    sample: Mapping[str, Any]
    predict: Mapping[str, Any]
    sweep: Mapping[str, Any]
    given: Problem | None = None
    events: Mapping[str, Event] = dataclasses.field(default_factory=dict)
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    likelihood: AbstractLikelihood | None = None
    dependence: tuple[GaussianCopula, ...] = ()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the study's text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def prediction_times(self) -> Float[np.ndarray, " times"]:
        """Return the times of predictions: those of the table [predict], or 200 times over the span of all experiments.

        **Raises:** a `StudyError` where there are neither [predict] times nor experiments.
        """
        if "times" in self.predict:
            return self.predict["times"]
        if self.given is not None:
            return prediction_span(self.given)
        if not self.experiments:
            raise StudyError(
                f"[predict] of `{self.name}` must give `times`, since there are no experiments to take them from."
            )
        starts = [float(e.times.min() if e.start is None else e.start) for e in self.experiments]
        return np.linspace(max(starts), max(float(e.times.max()) for e in self.experiments), 200)

    @property
    def simulation_times(self) -> Float[np.ndarray, " times"]:
        """Return the save times of a simulation: those of the table [simulate], or those of predictions."""
        times = self.simulate.get("times")
        return self.prediction_times if times is None else times

    def problem(self) -> Problem:
        """The inference problem; its complaints are preceded by the study's name.

        **Raises:** a `StudyError` or an `UnknownNameError`.
        """
        if self.given is not None:
            return self.given
        if not self.experiments:
            raise StudyError(f"`{self.name}` must hold at least one experiment, such as [experiments.first].")
        if not self.free:
            raise StudyError(f"`{self.name}` must name what is unknown in [free] to be fitted, but it names nothing.")
        with at_place(f"`{self.name}`"):
            return Problem(
                self.system,
                self.experiments,
                free=self.free,
                noise=self.noise,
                y0=self.y0,
                inputs=self.inputs,
                events=self.events or None,
                set=self.set,
                solver=self.solve["solver"],
                step=self.solve["step"],
                likelihood=self.likelihood,
                dependence=self.dependence or None,
            )

    def __repr__(self) -> str:
        return (
            f"Study {self.title!r}: {self.model}, {len(self.experiments)} experiment(s), {len(self.free)} unknown(s), "
            f"sha256 {self.sha256[:12]}"
        )


def load_study(
    path: str | Path,
    *,
    models: Mapping[str, type[System]] = SYSTEMS,
    seed: int | None = None,
    allow_outside: bool = False,
) -> Study:
    """Read and check a study file.

    **Arguments:**

    - `path`: a TOML file, or the YAML file of a PEtab problem; the files it names lie relative to its folder. They hold
        data, never code, and must be regular files below that folder.
    - `models`: the systems that it may name; by default those of simkit and of installed packages (entry points `simkit.systems`).
        Classes of a script go here, and what `simkit.study.load_models` makes of Python files.
    - `seed`: in place of the study's own.
    - `allow_outside`: whether the study may name files elsewhere on this machine. They end in its results, so allow it for
        studies of your own only.

    **Returns:** a `Study`, whose `problem()` is what `fit` and `sample` take.

    **Raises:** a `StudyError`, an `UnknownNameError` (with the close matches) or a `DataError` that names the place in the file.
    """
    path = Path(path)
    if is_petab(path.name):
        return petab_study(path, seed=seed, allow_outside=allow_outside)
    with reading(path, "study file", StudyError, "*.toml"):
        text = input_bytes(path, "study file", MOST_STUDY, StudyError).decode("utf-8")
    gate = Gate(path.parent, outside=allow_outside)
    read = lambda file: gate.read(file, "data file", read_text)
    return study_from_text(text, name=path.name, read=read, models=models, seed=seed)


def study_from_text(
    text: str,
    *,
    name: str = "study.toml",
    read: Callable[[str], str] | Mapping[str, str] | None = None,
    models: Mapping[str, type[System]] = SYSTEMS,
    seed: int | None = None,
) -> Study:
    """A study from its text.

    **Arguments:**

    - `text`: the study in TOML.
    - `name`: how messages call it.
    - `read`: the texts of the data files by name, or how to get them.
    - `models`, `seed`: as in `load_study`.
    """
    if is_petab(name):
        if read is not None and callable(read):
            raise StudyError(f"The files of the PEtab problem `{name}` must be given by name, but a function was.")
        return petab_study(name, texts={**(read or {}), name: text}, seed=seed)
    table = tables_of(text, name)
    happening = check_events_table(table.pop("events", []), name)
    for key, value in table.items():
        if key not in TABLES:
            raise UnknownNameError(f"`{name}` has no table [{key}]. {close_matches(key, TABLES)}")
        if not isinstance(value, dict):
            raise StudyError(f"[{key}] of `{name}` must be a table, but it is `{value!r}`.")
    if "system" not in table:
        raise StudyError(f'`{name}` must name a model, but has no table [system]. Add [system] and model = "...".')
    sections = {key: Section(table.get(key, {}), key, name) for key in TABLES}
    files = _Files(read)
    heading = _heading(sections["study"], name)
    heading["seed"] = heading["seed"] if seed is None else seed
    inputs, noise = read_inputs(sections["inputs"]), read_noise(sections["noise"])
    names = free_names(sections["free"])
    model, system, y0, base = _system_and_state(sections, models, heading["seed"], files, names, given="y0" in table)
    grid, shape = getattr(system, "grid", None), shape_of_outputs(system, base)
    free = read_free(sections["free"], grid.lengths if isinstance(grid, Grid) else ())
    parts = sections["experiments"]
    dosing, own = Dosing(sections["dosing"]), []
    for key in parts.table:
        part = Section(parts.get(key, "a table"), f"experiments.{key}", name)
        doses = read_own_doses(part, dosing)
        own.append((_experiment(part, base, y0 is None, names, noise, files, shape), doses))
    experiments = [*with_doses(own, dosing, base), *dosing.subjects(base, files)]
    simulate, predict = read_simulate(sections["simulate"]), read_predict(sections["predict"])
    sweep = read_sweep(sections["sweep"])
    check_groups(predict, experiments, sections["predict"])
    asked = [table["times"] for table in (simulate, predict, sweep) if "times" in table]
    known = Known.of(system, base, input_names(inputs, experiments))
    events = read_events(happening, known, last_time([*asked, *(e.times for e in experiments)]))
    with_events(experiments, events, happening)
    fit = read_fit(sections["fit"])
    likelihood = read_filter(sections["filter"], "filter" in table, heading["seed"])
    solve = read_solve(sections["solve"])
    stepped = solve["step"] is not None or not isinstance(system, StochasticSystem)
    fit = with_field_method(name, table, free, fit)
    check_filtered(name, table, likelihood, fit, stepped=stepped)
    return Study(
        name=name,
        text=text,
        files=files.texts,
        likelihood=likelihood,
        dependence=read_dependence(sections["dependence"]),
        model=model,
        events=events,
        system=system,
        y0=y0,
        inputs=inputs,
        noise=noise,
        free=free,
        set=read_conditions(sections["set"]),
        solve=solve,
        experiments=tuple(experiments),
        simulate=simulate,
        averages=read_averages(sections["averages"], system, files),
        assimilate=read_assimilate(sections["assimilate"], {**table, "events": happening}, y0, experiments, noise),
        fit=fit,
        profile=read_profile(sections["profile"], "profile" in table),
        sample=read_sample(sections["sample"]),
        predict=predict,
        sweep=sweep,
        sources=models.sources if isinstance(models, OwnModels) else {},
        **heading,
    )


def study_from_provenance(made: Provenance, *, models: Mapping[str, type[System]] | None = None) -> Study:
    """The study of a result file as it was, with the data as they were.

    **Arguments:** `models`: as in `load_study`; None for those of simkit and of installed packages, and of the files that the
    result keeps where this process has imported the same text. The kept text itself is never run.

    **Raises:** a `StudyError` where the result was not made from a study file.
    """
    if models is None:
        models = loaded_models(made.models) or SYSTEMS
    return study_from_text(
        made.study, name=made.study_name or "no study", read=made.files, models=models, seed=made.seed
    )


def _system_and_state(
    sections: Mapping[str, Section],
    models: Mapping[str, type[System]],
    seed: int,
    files: Callable[[str], str],
    free: tuple[str, ...],
    *,
    given: bool,
) -> tuple[str, System, Any, Any]:
    """The model's name, the system, the state of [y0] or None, and a state that has the structure of all."""
    section, y0 = sections["system"], sections["y0"]
    if "equations" in section:
        return _of_equations(section, y0, free, given=given)
    section.need("model")
    model = str(section.get("model", "text"))
    check_model(model, models, section.where("model"))
    with at_place(section.where("model")):
        kind = models[model]
    if issubclass(kind, Particles):
        system, atoms = read_particles(section, y0, seed, files)
        return model, read_parameters(section, model, system), atoms, atoms
    if issubclass(kind, SpectralSystem):
        system, state = read_on_grid(section, y0, kind, seed, given=given)
        section.finish("model", "parameters", "grid", "force", "mean_flow", "beta")
        return model, read_parameters(section, model, system), state, state
    if kind in VOLUMES:
        system, state = read_volumes(section, y0, kind, seed, given=given)
        section.finish("model", "parameters")
        return model, read_parameters(section, model, system), state, state
    example = kind.example()
    system = read_system(section, model, example.system, files)
    if not given:
        return model, system, None, example.y0
    state = read_state(y0, example.y0, True, free)
    return model, system, state, state


def _of_equations(section: Section, y0: Section, free: tuple[str, ...], *, given: bool) -> tuple[str, System, Any, Any]:
    """The same of a system by equations; without [y0] its states are zero where their structure is asked for."""
    name, system = read_equations(section)
    empty = type(system).State(**{state: 0.0 for state, _ in system.equations.rates})  # pyright: ignore
    check_start(y0, system)
    state = read_state(y0, empty, True, free) if given else None
    return name, system, state, empty if state is None else state


def petab_study(
    path: str | Path, *, texts: Mapping[str, str] | None = None, seed: int | None = None, allow_outside: bool = False
) -> Study:
    """A PEtab problem as a study: its files say what is fitted, and all verbs have their defaults."""
    read = read_petab(path, texts, allow_outside)
    name = Path(path).name
    own = ("study", "system", "y0", "inputs", "experiments", "dosing", "events", "filter", "dependence")
    rest: dict[str, Any] = {key: {} for key in TABLES if key not in own}
    # As is usual there; growing horizons gained nothing on such models.
    rest["fit"] = {"starts": 20, "horizons": (1.0,), "screen": 3}
    rest["profile"] = {"level": 0.95} if len(read.problem.names) <= MOST_PROFILES else {}
    return Study(
        name=name,
        text=read.texts[name],
        files={file: text for file, text in read.texts.items() if file != name},
        title=read.name.replace("_", " "),
        question="",
        time="time",
        seed=0 if seed is None else seed,
        within=None,
        model=read.model.name,
        system=read.problem.base.system,
        y0=None,
        inputs=None,
        experiments=(),
        given=read.problem,
        **rest,
    )


class _Files:
    """The data files of a study, each read once and kept."""

    def __init__(self, read: Callable[[str], str] | Mapping[str, str] | None):
        self.source, self.texts = read, {}

    def __call__(self, name: str) -> str:
        if name not in self.texts:
            if callable(self.source):
                self.texts[name] = self.source(name)
            elif self.source is not None and name in self.source:
                self.texts[name] = self.source[name]
            else:
                raise DataError(f"The data file `{name}` is not at hand.")
        return self.texts[name]


def _heading(section: Section, name: str) -> dict[str, Any]:
    found = {"title": Path(name).stem.replace("_", " "), "question": "", "time": "time", "within": None}
    found |= HEADING.read(section)
    try:
        seconds_of(found["within"])
    except ArgumentError as error:
        told = str(error).replace("Argument `within`", f"`within` in [study] of `{name}`")
        raise StudyError(told) from error
    section.finish()
    return found


def _experiment(
    part: Section,
    base: State,
    complete: bool,
    free: tuple[str, ...],
    noise: Mapping[str, Any],
    files: _Files,
    shape: Shape,
) -> Experiment:
    label = part.place.removeprefix("experiments.")
    times, data, errors = read_data(part, noise, files, shape)
    y0 = None
    if "y0" in part or complete:
        y0 = read_state(part.section("y0"), base, complete, free)
    conditions = read_conditions(part.section("set"))
    inputs = read_inputs(part.section("inputs"))
    start = part.number("start")
    whose: dict[str, Any] = {"individual": part.get("individual", "text")}
    own = part.section("covariates")
    whose["covariates"] = {name: read_covariate(own, name) for name in own.table}
    if "occasions" in part:
        kind = part.section("occasions") if isinstance(part.table["occasions"], dict) else None
        whose["occasions"] = (
            part.get("occasions", "text") if kind is None else {key: kind.number(key) for key in kind.table}
        )
    above = part.section("groups")
    whose["groups"] = {level: above.get(level, "text") for level in above.table}
    part.finish(*DATA_KEYS)
    with at_place(part.where()):
        experiment = Experiment(
            label, times, data, start=start, y0=y0, inputs=inputs, set=conditions, errors=errors, **whose
        )
        experiment.check_order()
        return experiment
