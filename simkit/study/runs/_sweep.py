"""Runs of sweeps: the members of a study, and what is kept of each."""

import contextlib
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._budget import Within
from ..._errors import SimkitError, StudyError
from ..._progress import Say
from ...core import RandomSystem, Setup, as_events
from ...stores import write_text
from ...sweeps import (
    DESIGNS,
    GridRule,
    MorrisEffects,
    PointsRule,
    Rule,
    SobolDesignRule,
    SobolIndices,
    Sweep,
    grid,
    morris,
    morris_design,
    points,
    sobol_design,
    sobol_indices,
    sweep,
)
from ...sweeps import open as open_sweep
from ..language._study import Study
from ._particles import MemberAverages, is_simulation, prepared

CHUNK_OF_PARTICLES = 16
"""Members of particles a file: the states of all of them at all times are in memory together."""


def sweep_study(
    study: Study,
    store: Path,
    *,
    seed: int | None = None,
    executor: object = None,
    within: Within = None,
    progress: Say = None,
) -> Sweep:
    """Run the sweep of a study into a folder, or go on with it.

    Members differ in the paths of [sweep.over] alone; times are those of [sweep], or where predictions are made. Of particles the
    averages of each member are kept, as [averages] says, and not the states.

    **Raises:** a `StudyError` where the study gives no sweep or no initial state, and whatever `sweep` raises.
    """
    if not study.sweep:
        raise StudyError(
            f"`{study.name}` must say what to sweep over in [sweep], but it does not. Add [sweep.over] and a line such as "
            "growth = { from = 0.1, to = 1.0, count = 10 }."
        )
    if study.y0 is None:
        raise StudyError(f"`{study.name}` must give the initial state in [y0] to be simulated, but it does not.")
    seed = study.seed if seed is None else seed
    over = study_points(study, seed)
    particles = is_simulation(study)
    times = study.sweep.get("times")
    if times is None:
        times = study.simulation_times if particles else study.prediction_times
    random = particles or isinstance(study.system, RandomSystem)
    try:
        return sweep(
            prepared(study) if particles else study.system,
            study.y0,
            times,
            over=over,
            store=store,
            chunk=study.sweep.get("chunk", CHUNK_OF_PARTICLES if particles else 1024),
            executor=executor,
            measure=MemberAverages.of(study, times) if particles else None,
            solver=study.solve["solver"],
            step=study.solve["step"],
            inputs=study.inputs,
            events=study.events or None,
            key=jax.random.key(seed) if random else None,
            within=study.within if within is None else within,
            progress=progress,
        )
    finally:
        _keep_text(study, store)


def _keep_text(study: Study, store: Path) -> None:
    """Put the study beside its results; the folder of another sweep, or of none, is left alone."""
    with contextlib.suppress(SimkitError, OSError):
        if not (store / "study.toml").exists() and open_sweep(store).finished:
            write_text(store / "study.toml", study.text)


def check_paths(study: Study) -> None:
    """Refuse a path of [sweep.over] that the model does not have."""
    setup = Setup(study.system, study.y0, study.inputs, events=as_events(study.events))
    for path in study.sweep["over"]:
        try:
            setup.locate(path)
        except KeyError as error:
            raise type(error)(f"[sweep.over] of `{study.name}`: {error}") from error


def study_points(study: Study, seed: int) -> dict[str, np.ndarray] | Rule:
    """The members of a study's sweep, as `over` takes them."""
    check_paths(study)
    over, method = study.sweep["over"], study.sweep["method"]
    if study.sweep.get("by_rule"):
        if method == "grid":
            return GridRule(over)
        count, key = study.sweep["count"], _key(study, seed)
        if method == "saltelli":
            return SobolDesignRule(over, count, key=key)
        return PointsRule(over, count, key=key, method=method)
    if method == "zip":
        return over
    if method == "grid":
        return grid(over)
    key = _key(study, seed)
    if method in DESIGNS:
        return (sobol_design if method == "saltelli" else morris_design)(over, study.sweep["count"], key=key)
    return points(over, study.sweep["count"], key=key, method=method)


def sensitivity(study: Study, found: Sweep, output: str | np.ndarray) -> SobolIndices | MorrisEffects:
    """Indices of a result by the method `saltelli` or `morris` of a study's sweep.

    **Raises:** an `ArgumentError` where members failed, or where the study has another method.
    """
    ranges, key = study.sweep["over"], _key(study, study.seed)
    if study.sweep["method"] == "saltelli":
        return sobol_indices(found, ranges, output, key=key)
    return morris(found, ranges, output, key=key)


def _key(study: Study, seed: int) -> PRNGKeyArray:
    return jax.random.key(study.sweep.get("seed", seed))


def finished_so_far(store: Path) -> str:
    """Return a sentence on the finished part of an interrupted sweep."""
    found = open_sweep(store)
    return f"{found.finished} of {found.members} members"
