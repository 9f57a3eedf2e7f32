"""Runs of studies that find states: an assimilation and a report."""

import shutil
from pathlib import Path

import jax

from ..._budget import Within
from ..._errors import StudyError, TimeUpError
from ..._progress import Say as Show
from ...assimilation import Assimilation, FourDVar, assimilate, members_around
from ...io import provenance, save
from ..language._section import at_place
from ..language._study import Study
from ._aside import REPORT, RESULT, check_folder, identity, make_room
from ._run import UNFINISHED, Clock, Found, Report, Say, silent


def assimilate_study(
    study: Study,
    *,
    seed: int | None = None,
    store: Path | None = None,
    within: Within = None,
    progress: Show = None,
) -> Assimilation:
    """The states that [assimilate] of a study finds; its arguments are those of `run_assimilation`.

    **Raises:** a `StudyError` for what does not fit together.
    """
    asked, key = study.assimilate, jax.random.key(study.seed if seed is None else seed)
    if not asked:
        raise StudyError(f'`{study.name}` must have [assimilate] with `method = "etkf"` or another one, but has not.')
    first, own = jax.random.split(key)
    start, more = study.y0, {}
    with at_place(f"[assimilate] of `{study.name}`"):
        if not isinstance(asked["method"], FourDVar):
            start = members_around(study.y0, asked["members"], key=first, deviation=asked["deviation"])
            more = {"key": own, "lag": asked["lag"]}
        return assimilate(
            study.system,
            start,
            asked["observations"],
            method=asked["method"],
            solver=study.solve["solver"],
            step=study.solve["step"],
            inputs=study.inputs,
            store=store,
            within=within,
            progress=progress,
            **more,
        )


def run_assimilation(
    study: Study,
    folder: str | Path,
    *,
    seed: int | None = None,
    overwrite: bool = False,
    say: Say = silent,
    command: str | None = None,
    report: Report | None = None,
    within: Within = None,
) -> Found:
    """Run a study with [assimilate], and write `result.h5` and, where one is asked for, a report into a folder.

    **Arguments:** as in `run`. What is done is kept, and the same call goes on after a crash or when the time was up.
    """
    folder, found = Path(folder), Found()
    own = identity(study, seed)
    parts = folder / UNFINISHED / own
    check_folder(folder, own, overwrite=overwrite or parts.is_dir())
    if parts.is_dir():
        say(f"goes on with what is kept in {parts}")
    times = study.assimilate["observations"].times.size if study.assimilate else 0
    say(f"assimilate {times} times ...")
    with Clock(found, "assimilate"):
        try:
            found.assimilation = assimilate_study(
                study,
                seed=seed,
                store=parts,
                within=study.within if within is None else within,
                progress=None if say is not silent else False,
            )
        except TimeUpError as error:
            found.cut = str(error)
            return found
    if found.assimilation.times.size < times:
        found.cut = f"The time of `within` was up after {found.assimilation.times.size} of {times} times."
        return found
    make_room(folder, own, overwrite=overwrite, say=say)
    made = provenance(study, seed=seed, command=command, seconds=found.seconds)
    result = folder / RESULT
    save(result, found.assimilation, made=made, overwrite=True)
    found.files[:] = [result]
    if report is not None:
        with Clock(found, "report"):
            found.files += report(result, folder / REPORT)
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    return found
