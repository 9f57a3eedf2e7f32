"""Runs of particle studies: a trajectory, averages and a report, with every frame on disk at once."""

import contextlib
import dataclasses
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._errors import StudyError
from ...core import Trajectory
from ...engine import joined
from ...io import provenance, save
from ...md import (
    FEWEST,
    OUTPUT_DIMENSIONS,
    Averages,
    Particles,
    block_average,
    from_outputs,
    radial_distribution,
)
from ...recordings import Recording, record
from ..language._study import Study
from ._aside import REPORT, RESULT, TRAJECTORY, check_folder, identity, make_room
from ._frames import Keep, written_frames
from ._run import UNFINISHED, Clock, Found, Report, Say, silent

MOST_PARTS = 20


def is_simulation(study: Study) -> bool:
    """Tell whether a study asks for a simulation of particles, and not for a fit."""
    return isinstance(study.system, Particles) and not study.experiments


def run_particles(
    study: Study,
    folder: str | Path,
    *,
    overwrite: bool = False,
    say: Say = silent,
    command: str | None = None,
    report: Report | None = None,
) -> Found:
    """Simulate a study of particles, and write `trajectory.h5md`, `result.h5` and, where one is asked for, a report into a folder.

    **Arguments:** as in `run`; the seed is the study's. An interrupt keeps what is finished, and the same call goes on with it.
    """
    folder = Path(folder)
    own = identity(study)
    parts = folder / UNFINISHED / own
    begun = parts.is_dir()
    check_folder(folder, own, overwrite=overwrite or begun)
    if begun:
        say(f"goes on with what is kept in {parts}")
    elif not overwrite:
        make_room(folder, own, overwrite=False, say=say)  # now, since frames are written as they come
    found = Found()
    with _written(study, folder, overwrite or begun) as keep:
        found.averages = average_particles(study, found, say=say, keep=keep, store=parts)
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    make_room(folder, own, overwrite=True, say=say)
    result = folder / RESULT
    made = provenance(study, command=command, seconds=found.seconds)
    save(result, averages=found.averages, made=made, overwrite=True)
    found.files[:] = [result]
    if study.simulate.get("trajectory", True):
        found.files.append(folder / TRAJECTORY)
    if report is not None:
        say("report   tables and figures ...")
        with Clock(found, "report"):
            found.files += report(result, folder / REPORT)
        say(f"         {found.seconds['report']:.1f} s")
    return found


def prepared(study: Study) -> Particles:
    """The particles of a study with room for their neighbours; a `StudyError` where it says no step."""
    if study.solve["step"] is None:
        raise StudyError(
            f"[solve] of `{study.name}` must give `step`, the length of a step of the particles, such as step = 0.005, but it does "
            "not."
        )
    assert isinstance(study.system, Particles)
    return study.system.prepared(study.y0)


@dataclasses.dataclass(frozen=True)
class MemberAverages:
    """Results that a sweep of particles keeps of a member: the mean of each output and its error by blocks, and g(r) on request.

    - `first`: the save time from which on averages are taken, by its number.
    - `cutoff`, `bins`: those of g(r), as `distance` and `g`; none is made without a cutoff.
    """

    first: int
    cutoff: float | None = None
    bins: int = 100

    @classmethod
    def of(cls, study: Study, times: np.ndarray) -> "MemberAverages":
        """Make averages from the table [averages] of a study."""
        asked = study.averages
        first = int(np.searchsorted(times, asked.get("after", times[0]) - 1e-9 * np.ptp(times)))
        if len(times) - first < FEWEST:
            raise StudyError(
                f"[averages] of `{study.name}` must leave at least {FEWEST} times from `after` on, but leaves {len(times) - first}."
            )
        return cls(first, asked.get("cutoff"), asked.get("bins", 100))

    def __call__(self, system: Particles, run: Trajectory) -> dict[str, Any]:
        frames = jax.tree.map(lambda x: x[self.first :], run.ys)
        found = {}
        for name, series in jax.lax.map(lambda atoms: system.outputs(0.0, atoms, None), frames).items():
            average = block_average(series)
            for key, value in ((name, average.mean), (f"{name}_error", average.error)):
                found[key] = system.units.outside(value, OUTPUT_DIMENSIONS[name])
        if self.cutoff is None:
            return found
        cutoff, bins = self.cutoff, self.bins
        radial = lambda atoms: radial_distribution(system.space_of(atoms), atoms.position, cutoff=cutoff, bins=bins)
        each = jax.lax.map(radial, frames)
        return found | {"distance": each.distance[0], "g": jnp.mean(each.g, axis=0)}


def average_particles(
    study: Study,
    found: Found,
    *,
    say: Say = silent,
    keep: Keep = lambda run, outputs: None,
    store: Path | None = None,
) -> Averages:
    """Simulate a study of particles in parts, each handed to `keep` as soon as it is done, and average over all.

    **Arguments:** `store` is the folder of the parts, with which a call after an interrupt goes on; without it nothing is kept.
    """
    system = prepared(study)
    times = study.simulation_times
    say(f"system   {len(study.y0.position)} atoms, {system.dynamics.name}, {times.shape[0]} times")
    say(f"simulate to {times[-1]:g} ...")
    runs, outputs = [], []

    def take(recording: Recording) -> None:
        """Hand on the parts that are new; at first those of a call before."""
        for index in range(len(runs), recording.parts):
            run, values = recording.part(index)
            keep(run, values)
            runs.append(run)
            outputs.append(values)
            say(f"         {study.time} {float(run.times[-1]):g} of {times[-1]:g}")

    # Of a state as the run has it: with a cell of its own where a pressure is held.
    names = list(jax.eval_shape(lambda atoms: system.outputs(0.0, system.encode(atoms), None), study.y0))
    with Clock(found, "simulate"), contextlib.ExitStack() as stack:
        take(
            record(
                system,
                study.y0,
                times,
                store=store or stack.enter_context(tempfile.TemporaryDirectory()),
                every=study.simulate.get("every", part_size(times.shape[0] - 1)),
                probes=names,
                **study.solve,
                key=jax.random.key(study.seed),
                callback=take,
            )
        )
    say(f"         {sum(int(run.steps) for run in runs)} steps  ({found.seconds['simulate']:.1f} s)")
    say("average  over frames ...")
    with Clock(found, "average"):
        series = jax.tree.map(lambda *parts: jnp.concatenate(parts), *outputs)
        asked = {key: value for key, value in study.averages.items() if key != "measured"}  # for the report alone
        averages = from_outputs(system, joined(runs), series, **asked)
    say(
        f"         {int(averages.kept.sum())} frames from {study.time} {averages.after:g} on  ({found.seconds['average']:.1f} s)"
    )
    return averages


def part_size(windows: int) -> int:
    """Return the number of windows between save times in one part: parts of one size, and some ten signs of progress."""
    divisors = [parts for parts in range(1, MOST_PARTS + 1) if windows % parts == 0]
    if divisors[-1] >= 4 or windows < 2 * MOST_PARTS:
        return windows // divisors[-1]
    return math.ceil(windows / 10)


def _written(study: Study, folder: Path, overwrite: bool) -> contextlib.AbstractContextManager[Keep]:
    """Open the writer of frames for the trajectory in the folder, if the study asks for one."""
    if not study.simulate.get("trajectory", True):
        return contextlib.nullcontext(lambda run, outputs: None)
    system: Any = study.system
    return written_frames(system, folder / TRAJECTORY, overwrite)
