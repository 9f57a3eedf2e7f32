"""Figures that redraw themselves while a fit or a training runs."""

import importlib
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .._doors import check_kind, shown
from .._errors import ArgumentError
from .._progress import notebook
from ..fitting import FitResult
from ..problem import Problem, observed
from ..training import Training
from ._curves import curves_of, draw_points
from ._optimum import waterfall
from ._style import Drawing, color, few_ticks, labelled, new_figure, styled, to_png

MOST = 4
"""Most panels of data that a live figure has."""


class LiveFigure:
    """A figure that redraws itself in a notebook while work goes on: give it as `progress` to `fit` or `train`.

    During a fit there are the data with the curve of the best start so far (the first four pairs of output and experiment) and the
    objectives of the starts that have finished; starts then run in blocks of four, as with a store. During training there is the
    loss of each step, and that of the data held out. Other verbs write their lines, as with `progress=True`.

    **Arguments:**

    - `file`: a PNG that is written anew each time, for scripts and machines far away; without it the figure is shown in the
        notebook alone.
    - `every`: seconds between two pictures at least; a picture takes some tenths of a second, the first one some seconds, since
        the simulation of curves compiles.

    `figure` is the last picture, None before the first.

    ```python
    import simkit
    prey, start, times, _ = simkit.odes.LotkaVolterra.example()
    data = simkit.Experiment("lake", times[1:5], {"hare": [30.0, 47.0, 70.0, 77.0]}, y0=start)
    free = {"growth": simkit.Free(bounds=(0.1, 2.0))}
    problem = simkit.Problem(prey, data, free=free, noise={"hare": simkit.noise.Normal(3.0)})
    live = simkit.viz.LiveFigure()
    fit = simkit.fit(problem, starts=8, progress=live)
    print(live.figure)
    ```
    """

    def __init__(self, file: str | Path | None = None, every: float = 1.0):
        if not isinstance(every, int | float) or isinstance(every, bool) or not every >= 0:
            raise ArgumentError(f"Argument `every` must be a number of seconds, but it is {shown(every)}.")
        check_kind("file", file, str | Path | None, "the name of a file", 'Write `LiveFigure("progress.png")`.')
        self.file = None if file is None else Path(file)
        self.every = every
        self.figure: Drawing | None = None
        self._line, self._last, self._handle = "", float("-inf"), None

    def __call__(self, line: str) -> None:
        """Take a line of progress, which becomes the title."""
        self._line = line
        if self.figure is None:
            print(line, file=sys.stderr, flush=True)

    def watch(self, problem: Problem | None, found: FitResult | Training) -> None:
        """Draw what is found so far, if the last picture is old enough."""
        if time.perf_counter() - self._last < self.every:
            return
        if isinstance(found, Training):
            self.figure = _training(found, self._line)
        elif problem is not None:
            self.figure = _fit(problem, found, self._line)
        self._show()
        self._last = time.perf_counter()

    def _show(self) -> None:
        assert self.figure is not None
        if self.file is not None:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self.file.write_bytes(to_png(self.figure, dpi=100))
            except OSError as error:  # which is no reason to end the work
                warnings.warn(f"No picture is written any more: {error}", stacklevel=2)
                self.file = None
        if notebook():
            display: Any = importlib.import_module("IPython.display").display
            if self._handle is None:
                self._handle = display(self.figure, display_id=True)
            else:
                self._handle.update(self.figure)


@styled
def _fit(problem: Problem, fit: FitResult, line: str) -> Drawing:
    """Data with the curve of the best start, and the objectives of all."""
    seen = observed(problem)
    drawn = np.ndim(seen.times) == 2 and all(np.ndim(values) == 2 for values in seen.data.values())
    pairs = [(name, place) for name in seen.data for place in range(len(seen.labels))][:MOST] if drawn else []
    columns = 2 if len(pairs) > 1 else len(pairs)
    rows = -(-len(pairs) // columns) if columns else 1
    figure = new_figure(3.6 + 3.2 * columns, 0.6 + 2.4 * rows)
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[*[1.0] * columns, 1.1])
    times, curves = curves_of(problem, fit.estimate) if pairs else (np.zeros(0), {})
    for count, (name, place) in enumerate(pairs):
        panel = figure.add_subplot(grid[count // columns, count % columns])
        panel.plot(times[place], curves[name][place], color=color(0), label="best so far")
        draw_points(panel, seen, name, place)
        panel.set_ylabel(labelled(name, seen.units[name]))
        panel.set_xlabel("time")
        panel.set_title(seen.labels[place].replace("_", " "))
        few_ticks(panel, 5, 5)
    waterfall(figure.add_subplot(grid[:, columns]), fit)
    figure.suptitle(line, fontsize=9)
    return figure


@styled
def _training(training: Training, line: str) -> Drawing:
    """The losses of the steps, and those of the data held out."""
    figure = new_figure(6.4, 3.2)
    axes: Axes = figure.subplots()
    losses = np.asarray(training.losses, float)
    axes.plot(np.arange(1, len(losses) + 1), losses, color=color(0), lw=1.0, label="training")
    if len(training.looked):
        axes.plot(training.looked, training.held_out, "o-", color=color(1), ms=3, label="held out")
        axes.legend(loc="upper right")
    if (losses > 0).all():
        axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    figure.suptitle(line, fontsize=9)
    return figure
