"""Figures of populations against what is simulated from them: predictive checks and prediction errors."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import special

from .._doors import check_kind
from ..infer import PredictionErrors, StratifiedPredictiveCheck, VisualPredictiveCheck
from ._style import GREY, Drawing, color, few_ticks, grid, labelled, new_figure, styled, theme

LARGE = 1.6448536
"""Nine of ten normal numbers lie closer to zero than this."""


DASHES = ("--", "-.", ":")
"""Lines of percentiles beside the middle one, by their place, so that a legend tells the lower from the upper."""


@styled
def plot_predictive_check(
    check: VisualPredictiveCheck | StratifiedPredictiveCheck, *, time: str = "time", log: bool = False
) -> Drawing:
    """Percentiles of the data over time, as lines, with the bands of simulated data; below, the share beyond a limit.

    The middle percentile has a band of another colour. Circles mark observed percentiles that lie outside of their band. Groups of
    individuals have panels with the same axes, up to three side by side.

    **Arguments:**

    - `check`: what `visual_predictive_check` returns.
    - `time`: what the time axis is called.
    - `log`: draws values on a logarithmic axis.

    **Returns:** the figure; its table is `check.to_frame()`.
    """
    kinds = (VisualPredictiveCheck, StratifiedPredictiveCheck)
    check_kind("check", check, kinds, "a predictive check", "Make it by `visual_predictive_check(...)`.")
    groups = {"": check} if isinstance(check, VisualPredictiveCheck) else check.groups
    first = next(iter(groups.values()))
    limited = first.hidden is not None
    rows, columns = grid(len(groups), 3)
    tall = 2 if limited else 1
    figure = new_figure(max(7.0, 3.2 * columns), 0.5 + (4.9 if limited else 3.4) * (1 if rows == 1 else 0.8 * rows))
    ratios = (3, 1) * rows if limited else (1,) * rows
    shared: Any = {"sharex": True, "sharey": "row" if limited else True}
    panels = figure.subplots(tall * rows, columns, squeeze=False, height_ratios=ratios, **shared)
    for place, (label, own) in enumerate(groups.items()):
        row, column = place // columns, place % columns
        panel = panels[tall * row, column]
        _percentiles(panel, own, log)
        if row and limited:
            panel.sharey(panels[0, 0])
        if column == 0:
            panel.set_ylabel(labelled(own.output, own.unit))
        if label:
            panel.set_title(label, fontsize=8.5)
        if limited:
            _hidden(panels[tall * row + 1, column], own, column == 0)
        last = panels[tall * (row + 1) - 1, column]
        if place + columns >= len(groups):
            last.set_xlabel(time)
            last.tick_params(labelbottom=True)
    for place in range(len(groups), rows * columns):
        for part in range(tall):
            panels[tall * (place // columns) + part, place % columns].set_visible(False)
    kind = "prediction-corrected; " if first.corrected else ""
    words = f"{kind}bands hold {100 * first.level:g} % of simulated percentiles"
    if len(groups) == 1 and "" in groups:
        panels[0, 0].set_title(words, fontsize=8.5)
    else:
        figure.suptitle(words, fontsize=9)
    shown: dict[str, Any] = {}
    for panel in panels.flat:
        for handle, word in zip(*panel.get_legend_handles_labels(), strict=True):
            shown.setdefault(word, handle)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=6)
    figure.table = check.columns()
    return figure


def _percentiles(panel: Axes, check: VisualPredictiveCheck, log: bool) -> None:
    """Data, percentiles and bands of one group."""
    x, y, hidden = check.points
    panel.plot(x[~hidden], y[~hidden], "o", color=GREY, ms=3, alpha=0.6, lw=0, zorder=1, label="data")
    if hidden.any():
        panel.plot(x[hidden], y[hidden], "v", color=GREY, ms=3, alpha=0.6, lw=0, zorder=1, label="beyond a limit")
    middle = int(np.argmin(np.abs(np.array(check.quantiles) - 0.5)))
    beside = [i for i in range(len(check.quantiles)) if i != middle]
    for i, quantile in enumerate(check.quantiles):
        shade = color(1 if i == middle else 0)
        _band(panel, check, (check.lower[i], check.upper[i]), shade)
        panel.plot(check.times, check.median[i], color=shade, lw=0.8, ls=":")
        style = "-" if i == middle else DASHES[beside.index(i) % len(DASHES)]
        panel.plot(check.times, check.observed[i], style, color=theme().ink, lw=1.4, label=f"{100 * quantile:g} %")
    out = check.outside
    places = np.broadcast_to(check.times, out.shape)
    if out.any():
        marks = {"ms": 7, "mfc": "none", "mec": theme().ink, "mew": 1.2, "ls": ""}
        panel.plot(places[out], check.observed[out], "o", label="outside", **marks)
    if log:
        panel.set_yscale("log")
    few_ticks(panel, 8, None if log else 5)


def _hidden(panel: Axes, check: VisualPredictiveCheck, first: bool) -> None:
    """The share of data beyond a limit, with its band."""
    assert check.hidden is not None
    seen, lower, _, upper = check.hidden
    _band(panel, check, (lower, upper), color(0))
    panel.plot(check.times, seen, "-", color=theme().ink, lw=1.4)
    if first:
        panel.set_ylabel("beyond\na limit")
    few_ticks(panel, 8, 3)


def _band(panel: Axes, check: VisualPredictiveCheck, ends: tuple[np.ndarray, np.ndarray], shade: str) -> None:
    lower, upper = ends
    if len(check.times) == 1:  # an area needs two places
        panel.vlines(check.times, lower, upper, color=shade, alpha=0.3, lw=12)
    else:
        panel.fill_between(check.times, lower, upper, color=shade, alpha=0.25, lw=0)


@styled
def plot_npde(errors: PredictionErrors, *, time: str = "time") -> Drawing:
    """Prediction errors against normal quantiles, as a histogram, over time and over the prediction.

    Where the model holds, points lie on the diagonal and within its band, which holds nine of ten points at each place; the
    histogram follows the curve, and errors scatter evenly around zero, nine of ten within the dotted lines.

    **Arguments:**

    - `errors`: what `npde` returns.
    - `time`: what the time axis is called.

    **Returns:** the figure; its table is `errors.to_frame()`.
    """
    check_kind("errors", errors, PredictionErrors, "prediction errors", "Make them by `npde(...)`.")
    figure = new_figure(7.6, 5.4)
    (quantiles, histogram), (over_time, over_size) = figure.subplots(2, 2)
    kept = np.isfinite(errors.npde)
    _quantiles(quantiles, np.sort(errors.npde[kept]))
    _histogram(histogram, errors.npde[kept])
    for panel, x, label in ((over_time, errors.times, time), (over_size, errors.predicted, "predicted mean")):
        for marker, drawn in (("o", kept & ~errors.censored), ("v", kept & errors.censored)):
            panel.plot(x[drawn], errors.npde[drawn], marker, color=color(0), ms=3, alpha=0.8)
        panel.axhline(0.0, color=theme().edge, lw=0.9)
        for side in (-LARGE, LARGE):
            panel.axhline(side, color=GREY, lw=0.9, ls=":")
        panel.set_xlabel(label)
        panel.set_ylabel("NPDE")
        few_ticks(panel, 6, 5)
    told = [f"{finding.test} p {finding.p:.2g}" for finding in errors.findings]
    figure.suptitle(f"{errors.output}: {', '.join(told)}" if told else errors.output, fontsize=9)
    names = np.array(errors.labels, object)[errors.individual]
    figure.table = {"individual": names, "time": errors.times, "predicted": errors.predicted, "npde": errors.npde}
    figure.table |= {"discrepancy": errors.discrepancies, "censored": errors.censored}
    return figure


def _quantiles(panel: Axes, z: np.ndarray) -> None:
    """Points against normal quantiles; the band is that of order statistics of as many independent numbers."""
    count = len(z)
    if count:
        rank = np.arange(1, count + 1)
        expected = special.ndtri((rank - 0.5) / count)
        low, high = (special.ndtri(special.betaincinv(rank, count + 1 - rank, share)) for share in (0.05, 0.95))
        panel.fill_between(expected, low, high, color=GREY, alpha=0.25, lw=0)
        panel.plot(expected, z, "o", color=color(0), ms=3, alpha=0.8)
        most = float(np.abs(expected).max())
        panel.plot([-most, most], [-most, most], color=theme().edge, lw=0.9)
    panel.set_xlabel("normal quantile")
    panel.set_ylabel("NPDE")
    few_ticks(panel, 6, 5)


def _histogram(panel: Axes, z: np.ndarray) -> None:
    edges = np.linspace(-3.5, 3.5, int(np.clip(len(z) // 8, 6, 20)) + 1)
    panel.hist(np.clip(z, -3.49, 3.49), list(edges), color=theme().fills[0], edgecolor=theme().paper)
    x = np.linspace(-3.5, 3.5, 141)
    density = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    panel.plot(x, len(z) * (edges[1] - edges[0]) * density, color=theme().edge, lw=0.9)
    panel.set_xlabel("NPDE")
    panel.set_ylabel("data")
    few_ticks(panel, 6, 5)
