"""Figures of residuals."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import special

from ..infer import Check
from ._style import GREY, color, few_ticks, new_figure, styled, theme

BINS = 10
"""Bins of the histogram of probability integral transforms."""

LARGE = 1.6448536
"""Nine of ten residuals lie closer to zero than this."""


@styled
def plot_check(check: Check, *, time: str = "time") -> Figure:
    """Quantile residuals over time, over the prediction, against normal quantiles, and as a histogram of probabilities.

    Where the model holds, residuals scatter evenly around zero, nine of ten within the grey lines, without a shape in time or in
    the size of the prediction; points lie on the diagonal, and the histogram is flat within its band, which holds nine of ten bins.

    **Arguments:**

    - `check`: what `check` returns.
    - `time`: what the time axis, or the predictor, is called.
    """
    figure = new_figure(7.6, 5.4)
    (over_time, over_size), (quantiles, histogram) = figure.subplots(2, 2)
    _over_time(over_time, check, time)
    for index, (name, part) in enumerate(check.residuals.items()):
        kept = np.isfinite(part.quantile)
        for marker, drawn, label in (("o", kept & ~part.censored, name), ("v", kept & part.censored, "censored")):
            if drawn.any():
                over_size.plot(
                    part.predicted[drawn],
                    part.quantile[drawn],
                    marker,
                    color=color(index),
                    ms=3,
                    alpha=0.8,
                    label=label,
                )
    over_size.set_xlabel("predicted")
    for panel in (over_time, over_size):
        panel.axhline(0.0, color=theme().edge, lw=0.9)
        for side in (-LARGE, LARGE):
            panel.axhline(side, color=GREY, lw=0.9, ls=":")
        panel.set_ylabel("quantile residual")
        few_ticks(panel, 6, 5)
    _quantiles(quantiles, check)
    _histogram(histogram, check)
    handles, labels = over_size.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def _over_time(panel: Axes, check: Check, time: str) -> None:
    """Points joined within an experiment, so that runs are seen; over the row where a datum has several predictors."""
    for index, part in enumerate(check.residuals.values()):
        rows = (
            part.times
            if part.times.ndim == 2
            else np.broadcast_to(np.arange(part.times.shape[1]), part.times.shape[:2])
        )
        for experiment in range(part.quantile.shape[0]):
            z = part.quantile[experiment].reshape(part.quantile.shape[1], -1)
            order = np.argsort(rows[experiment], kind="stable")
            for column in range(z.shape[1]):
                own = order[np.isfinite(z[order, column])]
                panel.plot(rows[experiment][own], z[own, column], "o-", color=color(index), ms=3, lw=0.6, alpha=0.8)
    panel.set_xlabel(time if all(part.times.ndim == 2 for part in check.residuals.values()) else "row")


def _quantiles(panel: Axes, check: Check) -> None:
    most = 1.0
    for index, part in enumerate(check.residuals.values()):
        z = np.sort(part.quantile[np.isfinite(part.quantile)])
        if z.size:
            expected = special.ndtri((np.arange(z.size) + 0.5) / z.size)
            panel.plot(expected, z, "o", color=color(index), ms=3, alpha=0.8)
            most = max(most, float(np.abs(expected).max()))
    panel.plot([-most, most], [-most, most], color=theme().edge, lw=0.9)
    panel.set_xlabel("normal quantile")
    panel.set_ylabel("quantile residual")
    few_ticks(panel, 6, 5)


def _histogram(panel: Axes, check: Check) -> None:
    u = np.concatenate([part.pit[np.isfinite(part.pit)] for part in check.residuals.values()])
    bins = int(np.clip(u.size // 5, 4, BINS))
    panel.hist(u, list(np.linspace(0, 1, bins + 1)), color=theme().fills[0], edgecolor=theme().paper)
    low, high = (float(special.bdtrik(q, u.size, 1 / bins)) for q in (0.05, 0.95))
    panel.axhspan(max(low, 0.0), high, color=GREY, alpha=0.25, lw=0)
    panel.axhline(u.size / bins, color=theme().edge, lw=0.9)
    panel.set_xlabel("probability integral transform")
    panel.set_ylabel("data")
    few_ticks(panel, 6, 5)
