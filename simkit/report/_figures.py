"""The figures of a report."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from .. import viz
from .._errors import SimkitError
from ..core import System
from ..fitting import FitResult
from ..fluids import Grid
from ..infer import Check, Posterior, npde, visual_predictive_check
from ..io import Results
from ..md import Averages
from ..study import Study, study_from_provenance
from ._live import live_figure
from ._sparse import problem_of


class Picture(NamedTuple):
    """A figure as a file: name, caption, the text of an SVG or the bytes of a PNG, its kind, which says its section, and JSON for
    Plotly where it is interactive."""

    name: str
    caption: str
    svg: str | None
    png: bytes | None
    kind: str
    live: str | None = None


def picture_of(name: str, kind: str, caption: str, figure: Figure, dots: bool, interactive: bool) -> Picture:
    """A drawn figure as a file: PNG where it has many points, else SVG."""
    svg, png = (None, viz.to_png(figure, dpi=120)) if dots else (viz.to_svg(figure), None)
    return Picture(name, caption, svg, png, kind, live_figure(figure) if interactive else None)


MOST_PARAMETERS = 12
"""Most parameters in a corner plot; more would make its panels too small to read."""


def pictures(
    results: Results, study: Study | None, checked: Check | None = None, *, interactive: bool = False
) -> list[Picture]:
    """All figures that the results allow. Those of many points are PNG, the others SVG; with `interactive` for Plotly as well."""
    time = "time" if study is None else study.time
    found: list[Picture] = []

    def add(kind: str, caption: str, draw: Callable[[], Figure], dots: bool = False, of: str = "") -> None:
        found.append(picture_of(f"{kind}_{of}" if of else kind, kind, caption, draw(), dots, interactive))

    fit, posterior, seen, prediction = results.fit, results.posterior, results.observed, results.prediction
    if seen is not None and prediction is not None and _drawable(seen):
        caption = "Data and model. The dark band holds 90 % of the model's curves, the light one 90 % of new data."
        add("fit", caption, lambda: viz.plot_fit(seen, prediction, time=time))
    elif fit is not None and study is not None and seen is not None and _drawable(seen):
        problem = problem_of(study, results)
        add("fit", "Data and the fitted curve.", lambda: viz.plot_fit(problem, estimate=fit.estimate, time=time))
    if checked is not None:
        caption = "Residuals in quantiles of the noise model; nine of ten should lie within the dotted lines, without a shape."
        add("check", caption, lambda: viz.plot_check(checked, time=time))
    if study is not None and (fit is not None or posterior is not None) and seen is not None:
        _add_population(add, study, fit if posterior is None else posterior, time)
    if fit is not None and len(fit.objective) > 1:
        caption = "Where every start of the fit ended: a flat foot says that many found the same optimum."
        add("waterfall", caption, lambda: viz.plot_waterfall(fit))
        caption = "Where every start ended, between the bounds of each parameter: rows where blue lines fan out are not determined."
        add("parameters", caption, lambda: viz.plot_parameters(fit))
    field_fit = results.field_fit
    if field_fit is not None and any(block.shape for block in field_fit.unknowns.blocks):
        caption = "The estimates of unknown fields, and their standard errors."
        add("unknown_fields", caption, lambda: viz.plot_field_fit(field_fit), dots=True)
    if results.profiles is not None:
        profiles = results.profiles
        caption = "How much worse the data are described with one parameter held; where a curve stays flat, it is not determined."
        add("profiles", caption, lambda: viz.plot_profile(profiles))
    if posterior is not None:
        names = posterior.names[:MOST_PARAMETERS]
        left = len(posterior.names) - len(names)
        caption = "The posterior distribution, with contours around 50 and 90 % of the draws." + (
            f" The other {left} parameters are not shown." if left else ""
        )
        add("corner", caption, lambda: viz.plot_corner(posterior, names=names), dots=True)
        caption = "The draws of every chain: chains that agree lie over each other."
        add("trace", caption, lambda: viz.plot_trace(posterior, names=names), dots=True)
        caption = "How each chain's draws rank among all draws: flat within the grey band when the chains agree."
        add("ranks", caption, lambda: viz.plot_ranks(posterior, names=names))
    if fit is not None and len(fit.names) > 1:
        add("correlation", "Correlations of the estimates, by the fit.", lambda: viz.plot_correlation(fit))
    if results.trajectory is not None:
        trajectory, system = results.trajectory, None if study is None else study.system
        grid = getattr(system, "grid", None)
        if isinstance(grid, Grid):
            caption = "The simulated fields; the colours of a row are the same."
            add("fields", caption, lambda: viz.plot_fields(grid, trajectory, time=time), dots=True)
        else:
            add("trajectory", "The simulated trajectory.", lambda: viz.plot_trajectory(trajectory, time=time))
    if results.assimilation is not None:
        states = results.assimilation
        seen_then = None if study is None else study.assimilate.get("observations")
        caption = (
            "Some of the states that were found, with bands of two standard deviations and what was observed; below, how far "
            "observations lie from forecasts in units of what spread and errors allow."
        )
        add("assimilation", caption, lambda: viz.plot_assimilation(states, seen_then, time=time))
    if results.averages is not None:
        given = None if study is None else study.averages.get("measured")
        _add_averages(add, results.averages, time, {} if given is None else {given[0]: given[1:]})
    return found


Add = Callable[..., None]


def _add_population(add: Add, study: Study, result: FitResult | Posterior | None, time: str) -> None:
    """The figures of a population: individuals, predictive check and prediction errors of each output."""
    problem = study.problem()
    if problem.population is None or result is None or result.names != problem.names or np.ndim(problem.times) != 2:
        return
    asked: dict[str, Any] = {"replicates": study.predict.get("replicates", 1000)}
    check = {key: study.predict[key] for key in ("corrected", "bins", "by") if key in study.predict}
    outputs = [name for name, values in problem.data.items() if values.ndim == 2]
    for name in outputs:
        of, one = {"of": name if len(outputs) > 1 else ""}, {"output": name}
        caption = "Data and curve of each individual, and the curve of one in the middle of the population."
        add("individuals", caption, lambda one=one: viz.plot_individuals(problem, result, time=time, **one), **of)
        try:
            seen, errors = (
                visual_predictive_check(problem, result, **one, **asked, **check),
                npde(problem, result, **one, **asked),
            )
        except SimkitError:  # such as a likelihood without draws
            continue
        caption = f"Percentiles of the data (lines) and of {asked['replicates']} simulated data sets. {seen.notes()[0]}"
        add("predictive_check", caption, lambda seen=seen: viz.plot_predictive_check(seen, time=time), **of)
        caption = (
            "Prediction errors (NPDE), standard normal where the model holds. Tests of mean, variance and normality: the smallest "
            f"adjusted p-value is {errors.p:.2g}."
        )
        add("npde", caption, lambda errors=errors: viz.plot_npde(errors, time=time), **of)


def _add_averages(add: Add, averages: Averages, time: str, measured: Mapping[str, Any]) -> None:
    """The figures of a simulation of particles."""
    caption = "Energies and other outputs over time, each with its mean; what is grey is left out of averages."
    add("outputs", caption, lambda: viz.plot_outputs(averages, time=time))
    if averages.g is not None:
        beside = "; points are measured" if measured else ""
        caption = f"The radial distribution function, with a band of two standard errors{beside}."
        add("radial_distribution", caption, lambda: viz.plot_radial_distribution(averages, measured=measured))
    if averages.displacement is not None:
        caption = (
            "The mean squared displacement of atoms, with the line of their diffusion; grey is where it was found."
        )
        add("displacement", caption, lambda: viz.plot_displacement(averages, time=time))


def study_of(results: Results, models: Mapping[str, type[System]] | None = None) -> Study | None:
    """The study that the results were made from; None where there was none, or it names a system that is not at hand."""
    if not results.provenance.study:
        return None
    try:
        return study_from_provenance(results.provenance, models=models)
    except SimkitError:
        return None


def _drawable(seen: object) -> bool:
    times, data = seen.times, seen.data  # pyright: ignore
    return times.ndim == 2 and all(values.ndim == 2 for values in data.values())
