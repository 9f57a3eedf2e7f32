"""Figures of individuals: all of them in one panel, and each in a panel of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .._doors import check_count, check_kind
from .._errors import ArgumentError, check_known
from ..fitting import FitResult
from ..infer import Posterior, central_parameters, check_result, typical_parameters
from ..problem import Observed, Problem, observed
from ._style import Drawing, color, columns_of, few_ticks, labelled, new_figure, styled, theme

MOST_PANELS = 24
"""Most individuals that are drawn by default, each in a panel."""

MOST_NAMED = 7
"""Up to so many individuals each has a colour and a name."""


@styled
def plot_spaghetti(
    data: Problem | Observed, *, output: str | None = None, time: str = "time", log: bool = False
) -> Drawing:
    """The data of all individuals over time, a line each, with the median over individuals where they share times.

    **Arguments:**

    - `data`: the problem, or its data.
    - `output`: which; by default each has a panel.
    - `time`: what the time axis is called; `log`: draws values on a logarithmic axis.

    **Returns:** the figure; its table has experiment, output, time, value and whether it is censored.
    """
    seen = _seen(data)
    names = _outputs(seen, output)
    figure = new_figure(7.0, 0.8 + 2.7 * len(names))
    axes = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    rows: list[tuple[Any, ...]] = []
    few = len(seen.labels) <= MOST_NAMED
    for panel, name in zip(axes, names, strict=True):
        values, hidden = _values(seen, name)
        for index, label in enumerate(seen.labels):
            kept = np.isfinite(values[index])
            x, y, own = np.asarray(seen.times)[index][kept], values[index][kept], hidden[index][kept]
            style = {"color": color(index if few else 0), "alpha": 0.9 if few else 0.45}
            panel.plot(x, y, "-", lw=0.9, label=label if few else None, **style)
            panel.plot(x[~own], y[~own], "o", ms=3, **style)
            panel.plot(x[own], y[own], "v", ms=3, **style)
            rows += [(label, name, *row) for row in zip(x, y, own, strict=True)]
        times, middle = _medians(np.asarray(seen.times), values, hidden)
        if len(times) > 1 and not few:
            panel.plot(times, middle, "-", color=theme().ink, lw=2.0, label="median")
        panel.set_ylabel(labelled(name, seen.units[name]))
        if log:
            panel.set_yscale("log")
        few_ticks(panel, 8, None if log else 5)
    axes[-1].set_xlabel(time)
    handles = axes[0].get_legend_handles_labels()
    if handles[0]:
        figure.legend(*handles, loc="outside lower center", ncols=5)
    figure.table = columns_of(("experiment", "output", "time", "value", "censored"), rows)
    return figure


@styled
def plot_individuals(
    problem: Problem,
    result: FitResult | Posterior,
    *,
    output: str | None = None,
    experiments: Sequence[str] | None = None,
    columns: int = 4,
    time: str = "time",
    log: bool = False,
) -> Drawing:
    """Data of each individual with two curves: at its own parameters, and at those in the middle of the population.

    **Arguments:**

    - `problem`, `result`: the problem, and its fit, or a posterior, of which the median of each parameter is drawn.
    - `output`: which, where several have data.
    - `experiments`: names of those to draw; by default the first 24.
    - `columns`: panels side by side; 2 for a narrow screen.
    - `time`: what the time axis is called; `log`: draws values on a logarithmic axis.

    **Returns:** the figure; its table has experiment, time, individual and typical of the curves.
    """
    check_result(problem, result)
    check_count("columns", columns)
    seen = _seen(problem)
    if output is None and len(seen.data) > 1:
        raise ArgumentError(f"Argument `output` must name one of {tuple(seen.data)}, but it is not given.")
    (name,) = _outputs(seen, output)
    if experiments is not None:
        check_kind("experiments", experiments, list | tuple, "a list of names", f"Write `[{seen.labels[0]!r}]`.")
        if not experiments:
            raise ArgumentError(
                "Argument `experiments` must name some, but is empty. Leave it out for the first of all."
            )
    for label in experiments or ():
        check_known(label, seen.labels, "experiment")
    wanted = list(experiments or seen.labels[:MOST_PANELS])
    curves = _both_curves(problem, result, name)
    values, hidden = _values(seen, name)
    columns = min(columns, len(wanted))
    lines = -(-len(wanted) // columns)
    figure = new_figure(0.6 + 1.75 * columns, 1.0 + 1.45 * lines)
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    rows: list[tuple[Any, ...]] = []
    for panel, label in zip(axes.flat, wanted, strict=False):
        index = seen.labels.index(label)
        times, own, typical = (values[index] for values in curves)
        if problem.population is not None:
            panel.plot(times, typical, "--", color=color(1), lw=1.1, label="population")
        panel.plot(times, own, "-", color=color(0), label="individual")
        _own_points(panel, np.asarray(seen.times)[index], values[index], hidden[index])
        panel.set_title(label, fontsize=8.5)
        if log:
            panel.set_yscale("log")
        few_ticks(panel, 4, None if log else 4)
        rows += [(label, *row) for row in zip(times, own, typical, strict=True)]
    for panel in axes.flat[len(wanted) :]:
        panel.set_visible(False)
    figure.supxlabel(time, fontsize=9)
    figure.supylabel(labelled(name, seen.units[name]), fontsize=9)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.table = columns_of(("experiment", "time", "individual", "typical"), rows)
    return figure


def _both_curves(
    problem: Problem, result: FitResult | Posterior, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, and curves at the parameters of each individual and in the middle of the population, shape `(experiment, time)`."""
    rows = np.asarray(problem.times)
    times = np.linspace(rows.min(axis=1), rows.max(axis=1), 201, axis=1)
    both = (central_parameters(result), typical_parameters(problem, result))
    own, typical = (np.asarray(problem.predict(theta, times)[name]) for theta in both)
    return times, own, typical


def _own_points(panel: Axes, times: np.ndarray, values: np.ndarray, hidden: np.ndarray) -> None:
    style: dict[str, Any] = {"color": theme().ink, "mfc": theme().paper, "mew": 1.0, "ms": 3.6, "ls": "", "zorder": 3}
    panel.plot(times[~hidden], values[~hidden], "o", label="data", **style)
    if hidden.any():
        panel.plot(times[hidden], values[hidden], "v", label="beyond a limit", **style)


def _seen(data: Any) -> Observed:
    seen = observed(data) if isinstance(data, Problem) else data
    if not isinstance(seen, Observed):
        raise ArgumentError(f"Argument `data` must be a problem or its data, but it is a `{type(data).__name__}`.")
    if np.ndim(seen.times) != 2:
        raise ArgumentError("Data must have one time or predictor a datum to be drawn, but they have several.")
    return seen


def _outputs(seen: Observed, output: str | None) -> list[str]:
    if output is not None:
        check_known(output, tuple(seen.data), "output with data")
    found = [output] if output is not None else list(seen.data)
    for name in found:
        if np.ndim(seen.data[name]) != 2:
            raise ArgumentError(f"The output `{name}` must be a number at each time to be drawn, but it is an array.")
    return found


def _values(seen: Observed, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The data of an output, and which are censored."""
    values = np.asarray(seen.data[name], float)
    lower, upper = seen.sets.get(name, (values, values))
    return values, np.isfinite(values) & (np.asarray(lower) != np.asarray(upper))


def _medians(times: np.ndarray, values: np.ndarray, hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times that most individuals share, and the median there; a censored datum counts with its limit."""
    kept = np.isfinite(values)
    shared, counts = np.unique(times[kept], return_counts=True)
    shared = shared[counts > values.shape[0] / 2]
    return shared, np.array([np.median(values[kept & (times == t)]) for t in shared])
