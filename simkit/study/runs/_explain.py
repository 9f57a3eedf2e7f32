"""explain: what JAX makes of a study."""

from typing import Any

from ..._errors import StudyError
from ...engine import simulate
from ...inspect import Explanation, explain
from ..language._study import Study


def explain_study(study: Study) -> Explanation:
    """Explain the likelihood of a study with experiments, and else its simulation, also of one that finds states."""
    if study.experiments and not study.assimilate:
        return explain(study.problem())
    if study.y0 is None:
        raise StudyError(
            f"`{study.name}` must give experiments or the initial state in [y0] to be explained, but it does not."
        )
    solve = study.solve
    if study.events:

        def simulated(y0: Any) -> Any:
            given = {"solver": solve["solver"], "step": solve["step"], "inputs": study.inputs}
            return simulate(study.system, y0, study.simulation_times, events=study.events, **given)

        return explain(simulated, arguments=(study.y0,), gradient=False)
    return explain(
        study.system,
        study.y0,
        study.simulation_times,
        solver=solve["solver"],
        step=solve["step"],
        inputs=study.inputs,
        gradient=False,
    )
