"""Figures of fits: waterfall, correlations and profiles."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from ..fitting import FitResult, Profiles, comparable, masses
from ._style import GREY, color, few_ticks, grid, labelled, new_figure, styled

AGREE = 0.1
"""Starts at one optimum are within this distance of its objective (as in `FitResult.agreeing`)."""

KINDS = (
    (0, "o", 0, "converged"),
    (1, "^", 4, "iteration limit"),
    (3, "v", 6, "no gain"),
    (4, "x", 1, "given up"),
)
"""Kinds of ends of starts: status, marker, place of the colour, and name."""
TOP = 2.5
"""Profiles are drawn up to so many times their threshold."""
DECADES = 30.0
"""Ratio from which on an axis is logarithmic."""


@styled
def plot_waterfall(fit: FitResult) -> Figure:
    """The objective of every start above the best, in order: a flat foot means that many starts found the same optimum."""
    figure = new_figure(6.0, 3.0)
    waterfall(figure.subplots(), fit)
    return figure


def waterfall(axes: Axes, fit: FitResult) -> None:
    """Draw the objectives of all starts into a panel."""
    objective, status = np.asarray(fit.objective, float), np.asarray(fit.status)
    above = objective - np.nanmin(objective)
    ranks = np.arange(1, len(above) + 1)
    finite = np.isfinite(above)
    axes.axhspan(-AGREE, AGREE, color=color(0), alpha=0.12, lw=0)
    axes.plot(ranks[finite], above[finite], color=GREY, lw=0.8, zorder=1)
    for kind, marker, place, label in KINDS:
        rows = finite & (status == kind)
        if rows.any():
            axes.plot(ranks[rows], above[rows], marker, color=color(place), label=label)
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(-0.3, max(1.5, 1.6 * float(above[finite].max(initial=0.0))))
    axes.set_xlim(0.5, len(above) + 0.5)
    axes.set_xlabel("start, best first")
    axes.set_ylabel("objective above the best")
    axes.xaxis.set_major_locator(MaxNLocator(min(10, len(above)), integer=True))
    lost = f", {int((~finite).sum())} failed everywhere" if (~finite).any() else ""
    axes.set_title(f"{fit.agreeing()} of {len(above)} starts agree{lost}{_several(fit)}")
    axes.legend(loc="upper left")


@styled
def plot_parameters(fit: FitResult) -> Figure:
    """Plot the end of every start, a row a parameter, from its lower bound on the left to its upper bound on the right.

    Lines that lie over each other at the best objective found one optimum; where they fan out in some rows alone, the data do not
    determine those parameters. A parameter without two finite bounds spans what the starts found and three standard errors around
    the estimate, beside which the last digits of starts that agree do not show. Positions are those in the coordinates of the fit:
    on a logarithmic scale where the parameter moves by its logarithm.
    """
    finite = np.isfinite(np.asarray(fit.objective, float))
    log = np.array(fit.log, bool)
    with np.errstate(divide="ignore"):
        scaled = lambda x: np.where(log, np.log(np.where(log, x, 1.0)), x)
        ends, bounds = scaled(np.asarray(fit.thetas, float)[finite]), scaled(np.asarray(fit.bounds, float).T).T
    known = np.isfinite(bounds).all(axis=1)
    error = np.sqrt(np.diag(np.asarray(fit.covariance, float)))
    room = 3 * np.where(np.isfinite(error), error, 0.0)
    lower = np.where(known, bounds[:, 0], np.minimum(ends.min(axis=0), ends[0] - room))
    width = np.where(known, bounds[:, 1], np.maximum(ends.max(axis=0), ends[0] + room)) - lower
    places = np.where(width > 0, (ends - lower) / np.where(width > 0, width, 1), 0.5)
    count, rows = len(fit.names), np.arange(len(fit.names))
    figure = new_figure(6.0, (1.1 if known.all() else 1.25) + 0.24 * count)
    axes = figure.subplots()
    near = np.asarray(fit.objective, float)[finite] <= float(fit.objective[0]) + AGREE
    if fit.optimum is not None:
        near = np.asarray(fit.optimum)[finite] == 0
    for place, same in list(zip(places, near, strict=True))[::-1]:
        axes.plot(place, rows, "-", color=color(0) if same else GREY, lw=1.0, alpha=0.8 if same else 0.35)
    axes.plot(places[0], rows, "o", color=color(0), ms=4, label="best")
    for edge in (0.0, 1.0):
        axes.axvline(edge, color=GREY, lw=0.9, ls=":")
    axes.set_xlim(-0.03, 1.03)
    words = (
        ["lower bound", "upper bound"]
        if known.all()
        else ["lower bound, or\nleast shown", "upper bound, or\nlargest shown"]
    )
    axes.set_xticks([0, 1], words)
    axes.set_yticks(rows, fit.names)
    axes.set_ylim(count - 0.5, -0.5)
    right = axes.secondary_yaxis("right")
    right.set_yticks(rows, [f"{value:.3g}" for value in np.asarray(fit.estimate, float)])
    right.tick_params(length=0)
    axes.set_title(f"{int(near.sum())} starts at the best optimum (blue), {int((~near).sum())} others{_several(fit)}")
    return figure


def _several(fit: FitResult) -> str:
    """A warning for titles where several optima hold comparable mass."""
    count = len(comparable(masses(fit)))
    return f"; {count} optima of comparable mass" if count > 1 else ""


@styled
def plot_correlation(fit: FitResult) -> Figure:
    """The correlations of the estimates, in the coordinates in which the fit moves."""
    names = [f"log {name}" if log else name for name, log in zip(fit.names, fit.log, strict=True)]
    values = np.asarray(fit.correlation, float)
    size = len(names)
    side = 1.6 + 0.52 * size
    figure = new_figure(side + 1.0, side)
    axes = figure.subplots()
    image = axes.imshow(values, vmin=-1, vmax=1, cmap="RdBu_r")
    axes.grid(False)
    axes.set_xticks(range(size), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size), names)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if size <= 16:
        for i, j in np.ndindex(size, size):
            shade = "white" if abs(values[i, j]) > 0.6 else "#333333"
            axes.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", color=shade, fontsize=7)
    figure.colorbar(image, ax=axes, shrink=0.8, label="correlation")
    return figure


@styled
def plot_profile(profiles: Profiles) -> Figure:
    """The profile likelihood of every parameter with its interval: a curve that stays flat is one that the data do not limit.

    Of a likelihood that particles estimate the values are dots, with the smooth curve that the interval is read from.
    """
    rows, columns = grid(len(profiles.names), 4)
    figure = new_figure(1.0 + 2.4 * columns, 0.6 + 2.0 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    intervals = np.asarray(profiles.intervals, float)
    for i, (panel, name, unit) in enumerate(zip(axes.flat, profiles.names, profiles.units, strict=False)):
        values, above = np.asarray(profiles.values[i], float), np.asarray(profiles.differences[i], float)
        kept = np.isfinite(values) & np.isfinite(above)
        limit = profiles.threshold if profiles.cutoffs is None else float(profiles.cutoffs[i])
        panel.axhline(limit, color=color(1), lw=1.0, ls="--")
        panel.plot(values[kept], above[kept], "o-" if profiles.smooth is None else "o", color=color(0), ms=3)
        if profiles.smooth is not None:
            panel.plot(values[kept], np.asarray(profiles.smooth[i], float)[kept], color=color(0))
        for end in intervals[i][np.isfinite(intervals[i])]:
            if kept.any() and values[kept].min() <= end <= values[kept].max():
                panel.axvline(end, color=GREY, lw=0.9, ls=":")
        panel.set_xlabel(labelled(name, unit))
        panel.set_ylim(-0.1 * profiles.threshold, TOP * profiles.threshold)
        _show_range(panel, values[kept & (above <= TOP * profiles.threshold)])
        few_ticks(panel, None if panel.get_xscale() == "log" else 4, 5)
    for panel in axes[:, 0]:
        panel.set_ylabel("objective above the best")
    for panel in axes.flat[len(profiles.names) :]:
        panel.set_visible(False)
    axes.flat[0].set_title(f"dashed: {100 * profiles.level:g} % limit", fontsize=8.5)
    return figure


def _show_range(panel: Axes, values: np.ndarray) -> None:
    """The range of the values, logarithmic where it spans decades: where a profile is far above its limit nobody looks."""
    if not values.size:
        return
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > DECADES:
        panel.set_xscale("log")
        pad = (high / low) ** 0.06
        panel.set_xlim(low / pad, high * pad)
        panel.xaxis.set_major_locator(LogLocator(numticks=4))
        panel.xaxis.set_minor_formatter(NullFormatter())
    else:
        pad = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
        panel.set_xlim(low - pad, high + pad)
