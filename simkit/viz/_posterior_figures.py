"""Figures of posteriors: corner, traces, ranks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..infer import Posterior
from ._style import central, color, few_ticks, grid, labelled, new_figure, pick, styled, theme

MASSES = (0.9, 0.5)
"""The shares of the draws inside the contours of a corner plot."""


@styled
def plot_corner(
    posterior: Posterior, *, names: Sequence[str] | None = None, truth: Array | np.ndarray | Sequence[Any] | None = None
) -> Figure:
    """Every parameter's distribution, and every pair's, with contours around 50 and 90 % of the draws.

    **Arguments:**

    - `names`: which parameters; all by default. Above some ten the panels become small.
    - `truth`: values to mark, in the order of the panels.
    """
    chosen = pick(posterior.names, names)
    draws = np.asarray(posterior.flat(), float)[:, chosen]
    labels = [_folded(posterior.names[i], posterior.units[i]) for i in chosen]
    ranges = [central(draws[:, i]) for i in range(len(chosen))]
    count = len(chosen)
    side = 1.5 if count <= 4 else 1.2
    figure = new_figure(side * count, side * count, fixed=True)
    # Labels stand outside the figure's own frame; it is cut to what is drawn when it is saved.
    places = figure.add_gridspec(count, count, left=0, right=1, bottom=0, top=1, wspace=0.1, hspace=0.1)
    for row in range(count):
        for column in range(row + 1):
            panel = figure.add_subplot(places[row, column])
            few_ticks(panel, 3, 3, prune=True)
            if row == column:
                _density(panel, draws[:, row], ranges[row])
            else:
                _pair(panel, draws[:, column], draws[:, row], ranges[column], ranges[row])
                panel.set_ylim(ranges[row])
            if truth is not None:
                panel.axvline(float(truth[column]), color=theme().ink, lw=0.9, ls="--")
            panel.set_xlim(ranges[column])
            panel.grid(False)
            _outer_labels(panel, row, column, count, labels)
    figure.align_labels()
    return figure


@styled
def plot_trace(posterior: Posterior, *, names: Sequence[str] | None = None) -> Figure:
    """The draws of every chain in order, and their distributions: chains that agree look alike and lie over each other."""
    places = pick(posterior.names, names)
    draws = np.asarray(posterior.draws, float)
    figure = new_figure(8.0, 0.6 + 1.15 * len(places))
    axes = figure.subplots(len(places), 2, squeeze=False, width_ratios=(3, 1), sharey="row")
    diverging = np.asarray(posterior.diverging)
    for (left, right), i in zip(axes, places, strict=True):
        low, high = central(draws[..., i])
        bins = np.linspace(low, high, 31)
        for chain in range(draws.shape[0]):
            values = draws[chain, :, i]
            left.plot(values, color=color(chain), lw=0.5, alpha=0.8)
            right.hist(values, bins=bins, orientation="horizontal", histtype="step", color=color(chain), density=True)
            where = np.flatnonzero(diverging[chain])
            left.plot(where, np.full(where.shape, low), "|", color=theme().ink, ms=6)
        left.set_ylim(low, high)
        left.set_xlim(0, draws.shape[1])
        left.set_title(labelled(posterior.names[i], posterior.units[i]), pad=2)
        right.set_xticks([])
        right.grid(False)
        right.spines["bottom"].set_visible(False)
        few_ticks(left, 8, 3)
        left.tick_params(labelbottom=False)
    axes[-1, 0].tick_params(labelbottom=True)
    axes[-1, 0].set_xlabel("draw" + ("; ticks mark divergent ones" if diverging.any() else ""))
    return figure


@styled
def plot_ranks(posterior: Posterior, *, names: Sequence[str] | None = None) -> Figure:
    """The ranks of every chain's draws among all draws: flat lines where the chains explore the same distribution.

    Vehtari et al. (2021), Bayesian Analysis 16:667, doi:10.1214/20-BA1221. The title gives the split R-hat.
    """
    places = pick(posterior.names, names)
    table = posterior.table()
    draws = np.asarray(posterior.draws, float)
    chains, length, _ = draws.shape
    rows, columns = grid(len(places), 4)
    figure = new_figure(1.0 + 2.2 * columns, 0.6 + 1.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    bins = np.linspace(0, chains * length, 21)
    # Each bin of one chain holds about a binomial number of draws: the band that 95 % of them should keep to.
    mean = length / 20
    spread = 1.96 * np.sqrt(mean * (1 - 1 / 20))
    for panel, i in zip(axes.flat, places, strict=False):
        order = draws[..., i].ravel().argsort().argsort().reshape(chains, length)
        panel.axhspan(mean - spread, mean + spread, color=theme().shade, lw=0)
        for chain in range(chains):
            counts, _ = np.histogram(order[chain], bins)
            panel.stairs(counts, bins, color=color(chain), lw=1.0, baseline=None)
        panel.set_title(f"{posterior.names[i]}, R-hat {table[i]['rhat']:.3f}", fontsize=8.5)
        panel.set_xticks([])
        panel.grid(False)
    axes[0, 0].set_ylim(0, None)  # the highest of all, which share the axis
    for panel in axes.flat[len(places) :]:
        panel.set_visible(False)
    for panel in axes[:, 0]:
        panel.set_ylabel("draws")
    for panel in axes[-1, :]:
        panel.set_xlabel("rank")
    return figure


def _density(panel: Axes, values: np.ndarray, limits: tuple[float, float]) -> None:
    panel.hist(values, bins=30, range=limits, color=color(0), alpha=0.35)
    panel.hist(values, bins=30, range=limits, color=color(0), histtype="step", lw=1.0)
    for quantile in np.quantile(values, [0.05, 0.5, 0.95]):
        panel.axvline(quantile, color=color(0), lw=0.8, ls=":")
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)


def _pair(panel: Axes, x: np.ndarray, y: np.ndarray, xlim: tuple[float, float], ylim: tuple[float, float]) -> None:
    """A smoothed two-dimensional histogram, as filled contours around given shares of the draws."""
    counts, xs, ys = np.histogram2d(x, y, bins=36, range=(xlim, ylim))
    smooth = _smooth(counts)
    order = np.sort(smooth.ravel())[::-1]
    shares = np.cumsum(order) / max(order.sum(), 1e-300)
    levels = [order[min(int(np.searchsorted(shares, mass)), order.size - 1)] for mass in MASSES]
    if not 0 < levels[0] < levels[1] < order[0]:  # too few draws for contours
        panel.plot(x, y, ".", color=color(0), ms=1.5)
        return
    middle = (xs[:-1] + xs[1:]) / 2, (ys[:-1] + ys[1:]) / 2
    panel.plot(x, y, ".", color=color(0), ms=0.8, alpha=0.25, rasterized=True, zorder=1)
    panel.contourf(*middle, smooth.T, levels=[*levels, 1.01 * order[0]], colors=theme().fills, zorder=2)
    panel.contour(*middle, smooth.T, levels=levels, colors=[color(0)], linewidths=0.7, zorder=3)


def _smooth(counts: np.ndarray, width: float = 1.6) -> np.ndarray:
    offsets = np.arange(-4, 5)
    kernel = np.exp(-0.5 * (offsets / width) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        counts = np.apply_along_axis(lambda row: np.convolve(row, kernel, mode="same"), axis, counts)
    return counts


def _outer_labels(panel: Axes, row: int, column: int, count: int, labels: list[str]) -> None:
    """Labels and tick numbers along the left and the bottom edge alone."""
    if row == count - 1:
        panel.set_xlabel(labels[column], fontsize=8)
        panel.tick_params(axis="x", rotation=45)
    else:
        panel.tick_params(labelbottom=False)
    if column == 0 and row > 0:
        panel.set_ylabel(labels[row], fontsize=8)
    elif column != row:
        panel.tick_params(labelleft=False)


def _folded(name: str, unit: str) -> str:
    """A label in lines short enough for a small panel."""
    head, dot, last = name.rpartition(".")
    lines = [head + dot, last] if len(name) > 14 and dot else [name]
    if unit not in ("", "1"):
        lines += [f"[{unit}]"] if len(unit) < 14 else [f"[{unit.replace(' ', chr(10), 1)}]"]
    return "\n".join(lines)
