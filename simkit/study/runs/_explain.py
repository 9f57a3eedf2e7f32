"""explain: what JAX makes of a study."""

from ..._errors import StudyError
from ...inspect import Explanation, explain
from ..language._study import Study


def explain_study(study: Study) -> Explanation:
    """Explain the likelihood of a study with experiments, and else its simulation."""
    if study.experiments:
        return explain(study.problem())
    if study.y0 is None:
        raise StudyError(
            f"`{study.name}` must give experiments or the initial state in [y0] to be explained, but it does not."
        )
    solve = study.solve
    return explain(
        study.system,
        study.y0,
        study.simulation_times,
        solver=solve["solver"],
        step=solve["step"],
        inputs=study.inputs,
        gradient=False,
    )
