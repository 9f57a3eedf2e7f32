"""The answer to a reader's first question: can these results be believed?"""

from typing import Any

import numpy as np

from ..fitting import FitResult
from ..infer import Check, Posterior, Prediction
from ..io import Results
from ..md import Averages
from ..study import Study
from ._answer import Answer, Grade, judged
from ._assimilated import assimilation_answers
from ._fields import field_answers
from ._simulated import run_answers

UNMIXED = 1.1
"""R-hat above which chains do not describe one distribution (Gelman & Rubin 1992)."""


def answers(
    fit: FitResult | None,
    posterior: Posterior | None,
    *,
    prediction: Prediction | None = None,
    averages: Averages | None = None,
    checked: Check | None = None,
    reason: str = "",
) -> list[Answer]:
    """The questions that results raise, each where it can be asked; `reason` says why a fit could not be checked."""
    found: list[Answer] = []
    if fit is not None:
        found += [_optimum(fit), _determined(fit)]
    if posterior is not None:
        found.append(_converged(posterior))
    if fit is not None or posterior is not None:
        found.append(_described(fit, checked, reason))
    if prediction is not None and (failed := int(prediction.failed)):
        draws = next(iter(prediction.curves.values())).shape[0] * len(prediction.labels)
        text = f"{failed} of {draws} simulations for the prediction failed and are left out of the bands."
        found.append(Answer("Do all draws predict?", "care", "Not all of them.", (text,)))
    if averages is not None:
        advice = tuple(averages.warnings())
        text = f"{_covered(averages)} "
        text += (
            "Every error rests on at least 16 independent blocks." if not advice else "Some errors rest on few blocks."
        )
        found.append(Answer("Are the averages long enough?", "care" if advice else "yes", text, advice))
    return found


def verdict_section(results: Results, study: Study | None, checked: Check | None, reason: str) -> str:
    """The verdict, the table of its reasons, and what to do; nothing where a result holds nothing to judge."""
    parts: Any = {"prediction": results.prediction, "averages": results.averages, "checked": checked, "reason": reason}
    known: Any = () if study is None else (study.system, study.solve, study.inputs, study.y0)
    own = [] if results.field_fit is None else field_answers(results.field_fit)
    own += [] if results.assimilation is None else assimilation_answers(results.assimilation)
    found = [*run_answers(results, *known), *own, *answers(results.fit, results.posterior, **parts)]
    return judged(found)


def _covered(averages: Averages) -> str:
    """The time of the averages beside the longest correlation time, half the statistical inefficiency in time."""
    times = np.asarray(averages.times, float)[averages.kept]
    rows = averages.table()
    slowest = max(rows, key=lambda row: row["inefficiency"])
    each = (times[-1] - times[0]) / max(len(times) - 1, 1)
    memory = 0.5 * slowest["inefficiency"] * each
    return (
        f"Averages cover {times[-1] - times[0]:g}, the longest correlation time is {memory:.2g}, of {slowest['name']}."
    )


def _optimum(fit: FitResult) -> Answer:
    agreeing, starts = int(fit.agreeing()), len(fit.objective)
    question = "Was the best optimum found?"
    if starts == 1:
        return Answer(question, "untested", "One start cannot tell: give [fit] more `starts`.")
    found = f"{agreeing} of {starts} starts agree on the best optimum."
    if agreeing > 1:
        return Answer(question, "yes", found)
    advice = f"Only {agreeing} of {starts} starts reached the best optimum, so a better one may exist. Increase `starts` in [fit]."
    return Answer(question, "care", found, (advice,))


def _determined(fit: FitResult) -> Answer:
    advice = tuple(fit.identifiability())
    found = "The data constrain every parameter." if not advice else "Not all parameters, or not alone."
    return Answer("Do the data determine the parameters?", "care" if advice else "yes", found, advice)


def _converged(posterior: Posterior) -> Answer:
    rows, diverged = posterior.table(), int(np.sum(np.asarray(posterior.diverging)))
    rhat = max((float(row["rhat"]) for row in rows if row.get("rhat") is not None), default=np.nan)
    ess = min((float(row["ess"]) for row in rows if row.get("ess") is not None), default=np.nan)
    parts = [f"Largest R-hat {rhat:.3f}"] if np.isfinite(rhat) else []
    parts += [f"least effective sample size {ess:.0f}"] if np.isfinite(ess) else []
    parts.append(f"{diverged} draws diverged")
    text = ", ".join(parts)
    advice = tuple(posterior.warnings)
    grade: Grade = "no" if rhat > UNMIXED else "care" if advice else "yes"
    return Answer("Did the sampling converge?", grade, f"{text[:1].upper()}{text[1:]}.", advice)


def _described(fit: FitResult | None, checked: Check | None, reason: str) -> Answer:
    question = "Does the model describe the data?"
    if checked is not None:
        some = any(finding.doubtful for finding in checked.findings)
        failed = any(finding.failed for finding in checked.findings)
        return Answer(question, "no" if failed else "care" if some else "yes", checked.verdict, tuple(checked.warnings))
    if fit is not None and fit.misfit:
        return Answer(question, "no", "Residuals speak against the model.", tuple(fit.misfit))
    if reason:
        return Answer(question, "untested", f"The fit could not be tested. {reason}")
    return Answer(question, "untested", "The result file holds no study and data to test the model with.")
