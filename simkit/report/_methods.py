"""Methods of a study in words: how it was solved, fitted and sampled."""

import html

from .._errors import SimkitError
from ..engine import Method
from ..filters import KalmanFilter, ParticleFilter
from ..infer import Posterior
from ..io import Results
from ..problem import AbstractLikelihood, describe_step, unknown_rows
from ..study import Study
from ._assimilated import assimilation_method
from ._equation import describe_model
from ._fields import field_method
from ._result_cells import filled
from ._simulated import run_method
from ._sparse import problem_of
from ._tables import as_table


def methods_section(study: Study, results: Results) -> str:
    """Sentences on the solver, the fit and the sampling, the priors as a table, and the noise models with their equations."""
    if results.fit is None and results.posterior is None and results.field_fit is None:
        text = run_method(results, study)
        if results.assimilation is not None:
            text = assimilation_method(results.assimilation)
        return f"<p>{html.escape(text)}</p>" if text else ""
    try:
        problem = problem_of(study, results)
    except SimkitError:
        return ""
    sentences = [_followed(problem.likelihood, problem.method)]
    if results.fit is not None:
        sentences.append(_fitted(study, len(results.fit.objective)))
    if results.field_fit is not None:
        sentences.append(field_method(results.field_fit))
    if results.posterior is not None:
        sentences.append(_sampled(study, results.posterior))
    table = as_table(*filled(("unknown", "size", "prior", "bounds", "moves"), unknown_rows(problem.unknowns)))
    return f"<p>{html.escape(' '.join(sentences))}</p>\n<h3>Unknowns</h3>\n{table}\n{_noise(study)}"


def _followed(likelihood: AbstractLikelihood, method: Method) -> str:
    """The way in which states are found, with the filter of a stochastic system."""
    if isinstance(likelihood, KalmanFilter):
        return f"Mean and covariance of the state are those of Kalman's filter, solved by {type(likelihood.solver).__name__}."
    if isinstance(likelihood, ParticleFilter):
        kind = "guided by the next datum" if likelihood.proposal == "guided" else "that do not look ahead"
        return f"{_solved(method)} The likelihood is estimated by {likelihood.particles} particles {kind}."
    return _solved(method)


def _solved(method: Method) -> str:
    if method.solver is None:
        return "The system brings its own step."
    reason = "" if method.reason == "given" else f" (chosen: {method.reason})"
    return f"Equations are solved by {type(method.solver).__name__}{reason}, {describe_step(method)}."


def _fitted(study: Study, starts: int) -> str:
    asked = _asked({key: value for key, value in study.fit.items() if key != "starts"})
    return (
        f"The fit maximises the posterior density (the likelihood, where priors are flat) from {starts} start(s){asked}; "
        "its standard errors are those of the inverse information at the optimum."
    )


def _sampled(study: Study, posterior: Posterior) -> str:
    chains, draws, _ = posterior.draws.shape
    asked = _asked({key: value for key, value in study.sample.items() if key not in ("chains", "draws", "method")})
    return f"The posterior is sampled by {posterior.method}: {chains} chains of {draws} draws each{asked}."


def _asked(arguments: dict[str, object]) -> str:
    """Arguments of a verb in brackets; those that are no number or word are left out."""
    said = [
        f"{key.replace('_', ' ')} {value}" for key, value in arguments.items() if isinstance(value, int | float | str)
    ]
    return f" ({', '.join(said)})" if said else ""


def _noise(study: Study) -> str:
    """Each noise model once, with the outputs that it describes and its equation."""
    parts = []
    for kind in dict.fromkeys(map(type, study.noise.values())):
        models = {name: noise for name, noise in study.noise.items() if type(noise) is kind}
        what = html.escape(f"{kind.__name__}, of {', '.join(models)}")
        parts.append(f"<h3>Noise model {what}</h3>\n{describe_model(next(iter(models.values())))}")
    return "\n".join(parts)
