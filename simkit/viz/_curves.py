"""Curves over time: trajectories, and fits with bands and data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._doors import check_count
from .._errors import ArgumentError, check_known
from ..core import Trajectory, named_leaves, unit_of
from ..infer import Prediction
from ..problem import Observed, Problem, observed
from ._style import color, few_ticks, labelled, new_figure, styled, theme

MOST_COMPONENTS = 7
"""Most components of an array that are drawn separately."""


@styled
def plot_trajectory(
    trajectory: Trajectory, *, names: Sequence[str] | None = None, time: str = "time", title: str = ""
) -> Figure:
    """The states of a trajectory over time; those of one unit share a panel.

    **Arguments:**

    - `trajectory`: what `simulate` returns.
    - `names`: which components, by dotted name; all by default.
    - `time`: what the time axis is called, such as "year".
    """
    if np.ndim(trajectory.times) != 1:
        raise ArgumentError(
            f"Argument `trajectory` must hold one member, but its times have {np.ndim(trajectory.times)} axes."
        )
    series = {name or "y": np.asarray(values) for name, values in named_leaves(trajectory.ys).items()}
    for name in names or ():
        check_known(name, series, "component of the state")
    panels: dict[str, list[str]] = {}
    for name in series if names is None else names:
        panels.setdefault(unit_of(trajectory.ys, name), []).append(name)
    figure = new_figure(7.0, 0.6 + 2.3 * len(panels))
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (unit, held) in zip(axes, panels.items(), strict=True):
        index, drawn = 0, ""
        for name in held:
            flat = series[name].reshape(len(trajectory.times), -1)
            for i in range(min(flat.shape[1], MOST_COMPONENTS)):
                label = name if flat.shape[1] == 1 else f"{name}.{i}"
                panel.plot(trajectory.times, flat[:, i], color=color(index), label=label)
                index += 1
            if flat.shape[1] > MOST_COMPONENTS:
                drawn = f"{name} ({MOST_COMPONENTS} of {flat.shape[1]} components)"
        panel.set_ylabel(labelled(held[0] if index == 1 else drawn, unit).strip())
        few_ticks(panel, 8, 5)
        panel.margins(x=0)
        if index > 1:
            panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes[-1].set_xlabel(time)
    figure.suptitle(title)
    return figure


@styled
def plot_fit(
    data: Problem | Observed,
    prediction: Prediction | None = None,
    *,
    estimate: Array | None = None,
    level: float = 0.9,
    time: str = "time",
    columns: int = 6,
    log: bool = False,
) -> Figure:
    """Data with what the model says about them: a row an output, a column an experiment, wrapped where there are many.

    **Arguments:**

    - `data`: the problem, or its data.
    - `prediction`: what `predict` returns: the median, a dark band for the curve and a light one for new data.
    - `estimate`: parameters of a curve to draw where there is no prediction, such as those of a fit; needs the problem.
    - `level`: the probability that the bands hold.
    - `time`: what the time axis is called.
    - `columns`: the most experiments beside each other; `log`: whether values have logarithmic axes.
    """
    check_count("columns", columns)
    seen = observed(data) if isinstance(data, Problem) else data
    if estimate is not None and not isinstance(data, Problem):
        raise ArgumentError(
            "Argument `data` must be the problem where an `estimate` is to be drawn, but it holds data alone."
        )
    if np.ndim(seen.times) != 2:
        raise ArgumentError("Argument `data` must have one time or predictor a datum to be drawn, but it has several.")
    outputs, count = list(seen.data), len(seen.labels)
    wide = min(columns, count)
    rows = -(-count // wide) * len(outputs)
    figure = new_figure(max(7.0, 3.2 * wide), 0.9 + 2.4 * rows)
    grid = figure.subplots(rows, wide, squeeze=False)

    def at(row: int, place: int) -> Axes:
        return grid[place // wide * len(outputs) + row, place % wide]

    curves = None
    if estimate is not None and isinstance(data, Problem):
        curves = curves_of(data, estimate)
    for row, output in enumerate(outputs):
        for place, label in enumerate(seen.labels):
            panel = at(row, place)
            if row:
                panel.sharex(at(0, place))
            if place:
                panel.sharey(at(row, 0))
                panel.tick_params(labelleft=place % wide == 0)
            if prediction is not None:
                _bands(panel, prediction, output, place, level, color(row))
            if curves is not None:
                panel.plot(curves[0][place], curves[1][output][place], color=color(row), label="fit")
            draw_points(panel, seen, output, place)
            if log:
                panel.set_yscale("log")
            else:
                few_ticks(panel, 7, 5)
            if place % wide == 0:
                panel.set_ylabel(labelled(output, seen.units[output]))
            if row == 0:
                panel.set_title(label.replace("_", " "))
            if row == len(outputs) - 1 and place + wide >= count:
                panel.set_xlabel(time)
            elif row < len(outputs) - 1:
                panel.tick_params(labelbottom=False)
    for place in range(count, -(-count // wide) * wide):
        for row in range(len(outputs)):
            at(row, place).set_visible(False)
    shown: dict[str, Any] = {}
    for panel in grid.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4)
    return figure


MANY = 100
"""Number of data of a panel from which on their marks are small, so that they leave the curve to be seen."""


def _bands(panel: Axes, prediction: Prediction, output: str, column: int, level: float, shade: str) -> None:
    times = np.asarray(prediction.times[column])
    if len(np.asarray(prediction.curves[output])) == 1:  # of a fit alone there is one curve
        panel.plot(times, prediction.band(output, level, noisy=False)[1][column], color=shade, label="fit")
        return
    percent = f"{100 * level:g} %"
    lower, _, upper = (band[column] for band in prediction.band(output, level, noisy=True))
    panel.fill_between(times, lower, upper, color=shade, alpha=0.15, lw=0, label=f"new data, {percent}")
    lower, middle, upper = (band[column] for band in prediction.band(output, level, noisy=False))
    panel.fill_between(times, lower, upper, color=shade, alpha=0.35, lw=0, label=f"model, {percent}")
    panel.plot(times, middle, color=shade, label="median")


def draw_points(panel: Axes, seen: Observed, output: str, column: int) -> None:
    """Draw the data of an output in an experiment into a panel, censored ones as arrows or spans."""
    values = np.asarray(seen.data[output])[column]
    if values.ndim > 1:
        raise ArgumentError(f"The output `{output}` must be a number at each time to be drawn, but it is an array.")
    kept, times = np.isfinite(values), np.asarray(seen.times)[column]
    style: dict[str, Any] = {"color": theme().ink, "mfc": theme().paper, "mew": 1.1, "zorder": 3}
    if kept.sum() >= MANY:
        style |= {"ms": 2.0, "mfc": theme().ink, "mew": 0, "zorder": 1, "alpha": 0.6}
    lower, upper = (np.asarray(end)[column] for end in seen.sets.get(output, (seen.data[output],) * 2))
    exact = kept & (lower == upper)
    panel.plot(times[exact], values[exact], "o", label="data", **style)
    for marker, label, drawn in (
        ("v", "below a limit", kept & ~exact & (upper == values)),
        ("^", "above a limit", kept & ~exact & (upper != values)),
    ):
        if drawn.any():
            panel.plot(times[drawn], values[drawn], marker, ls="", label=label, **style)
    between = kept & ~exact & np.isfinite(lower) & np.isfinite(upper)
    if between.any():
        panel.vlines(times[between], lower[between], upper[between], color=theme().ink, lw=0.9, zorder=2)


def curves_of(problem: Problem, estimate: Array) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times between the data of each experiment, and the outputs there, by name."""
    rows = np.asarray(problem.times)
    times = np.linspace(rows.min(axis=1), rows.max(axis=1), 301, axis=1)
    return times, {name: np.asarray(values) for name, values in problem.predict(estimate, times).items()}
