"""Checks of a study that need no run: names, data and times against the model."""

import numpy as np

from ..._errors import StudyError, UnknownNameError, close_matches
from ...core import as_inputs
from ..language._section import at_place
from ..language._study import Study
from ._particles import is_simulation
from ._run import check_times
from ._sweep import check_paths

MOST_NAMED = 20
"""Largest number of unknowns that are named."""


def check_study(study: Study) -> list[str]:
    """Check all that a study asks for, without simulating; returns lines on what it holds.

    `load_study` has checked the language and the data files by then. Here the problem is made, which compares names of unknowns,
    data, noise and conditions with the model, and then times of predictions, names of profiles and paths of a sweep are.

    **Raises:** a `StudyError` or an `UnknownNameError` that names the place in the file, the first that is found.
    """
    lines, verbs = [f"model     {study.model}"], []
    if study.assimilate:
        seen = study.assimilate["observations"]
        with at_place(f"`{study.name}`"):
            seen.check(study.system, study.y0, as_inputs(study.system, study.inputs, study.y0))
        lines.append(f"data      {int(np.isfinite(seen.rows(float)[0]).sum())} numbers at {seen.times.size} times")
        lines.append(f"states    by {type(study.assimilate['method']).__name__}")
        verbs.append("run")
    elif study.experiments or study.given is not None:
        problem = study.problem()
        check_times(study, problem)
        for table, asked in (("fit", study.fit), ("profile", study.profile)):
            for name in asked.get("names", ()):
                if name not in problem.names:
                    raise UnknownNameError(
                        f"`names` in [{table}] of `{study.name}`: there is no free parameter `{name}`. "
                        f"{close_matches(name, problem.names)}"
                    )
        many = "" if len(problem.labels) == 1 else "s"
        lines.append(f"data      {problem.data_count} numbers in {len(problem.labels)} experiment{many}")
        names = list(study.free) or list(problem.names)
        lines.append(f"unknowns  {', '.join(names[:MOST_NAMED])}{', ...' * (len(names) > MOST_NAMED)}")
        verbs += ["run", "fit", "sample"]
    elif study.free:
        raise StudyError(
            f"`{study.name}` must hold experiments where [free] names unknowns, but holds none. Add [experiments.first]."
        )
    elif is_simulation(study) or study.simulate:
        verbs.append("run")
    if study.sweep:
        if study.y0 is None:
            raise StudyError(f"`{study.name}` must give the initial state in [y0] to be swept, but it does not.")
        check_paths(study)
        lines.append(f"sweep     over {', '.join(study.sweep['over'])}")
        verbs.append("sweep")
    if study.y0 is not None and ("times" in study.simulate or "times" in study.predict or study.experiments):
        verbs.append("simulate")
    elif study.simulate:
        raise StudyError(
            f"`{study.name}` must give the initial state in [y0] and `times` in [simulate] to be simulated, but one is missing."
        )
    if not verbs:
        raise StudyError(
            f"`{study.name}` must ask for something, but does not: add experiments, [simulate] with `times`, or [sweep]."
        )
    return [*lines, f"for       {', '.join(f'simkit {verb}' for verb in verbs)}"]
