"""Bifurcation diagrams: what a system settles to, over one of its parameters."""

from typing import Literal

import numpy as np
from jax.typing import ArrayLike

from .._doors import check_kind, shown
from .._errors import ArgumentError, check_known
from ..core import Trajectory, named_leaves, unit_of
from ._style import GREY, Drawing, color, labelled, new_figure, styled
from ._sweep_figures import real_numbers

REST = 1e-4
"""Share of the movements of all members below which one is at rest: solvers leave wiggles of the size of their tolerance."""

POINTS = ("extremes", "values")
"""Choices of what is drawn of a member."""


@styled
def plot_bifurcation(
    values: ArrayLike,
    trajectory: Trajectory,
    name: str,
    *,
    parameter: str = "parameter",
    unit: str = "1",
    after: ArrayLike | None = None,
    points: Literal["extremes", "values"] = "extremes",
) -> Drawing:
    """Draw what a state settles to over a parameter: one branch at rest, two for a cycle (its ends), a cloud for chaos.

    Extremes are those of the parabola through three saved values of which the middle one is the largest or the least: between save
    times their error falls with the fourth power of the spacing. A member that has none, or moves by less than 1e-4 of what all
    members move at all times, is at rest and has its last value.

    **Arguments:**

    - `values`: the parameter of each member.
    - `trajectory`: what `ensemble` returned for these members.
    - `name`: a state that is a number, by dotted name.
    - `parameter`, `unit`: what `values` are called, and their unit.
    - `after`: the time from which states have settled; by default the middle of the saved times.
    - `points`: "extremes" for systems of differential equations, "values" to draw every saved value, as for maps.

    **Returns:** the figure; its table has the parameter, the state, and the kind of each point: `maximum`, `minimum`, `last` or
    `value`. Members that did not reach the end, or are not finite, have a grey tick at the foot and no rows.
    """
    check_kind("trajectory", trajectory, Trajectory, "a trajectory", "`simkit.ensemble(...)` gives one.")
    check_known(points, POINTS, "choice of `points`")
    leaves = {key or "y": np.asarray(ys, float) for key, ys in named_leaves(trajectory.ys).items()}
    check_known(name, leaves, "component of the state")
    if parameter == name:
        raise ArgumentError(f"Argument `parameter` must be another word than the state, but both are `{name}`.")
    x, times = real_numbers("values", values), np.asarray(trajectory.times, float)
    series = leaves[name]
    if x.ndim != 1 or series.shape != (len(x), times.shape[-1]):
        raise ArgumentError(
            f"Argument `values` must have one number for each member, and `{name}` one for each member and time, but their shapes "
            f"are {x.shape} and {series.shape}."
        )
    times = np.broadcast_to(times, series.shape)
    middle = float((times[:, 0].min() + times[:, -1].max()) / 2)
    start = middle if after is None else float(real_numbers("after", after, one=True))
    if not (times[:, -1] > start).all():
        raise ArgumentError(f"Argument `after` must lie before the last times, but it is {shown(after)}.")
    moved = np.ptp(series[np.isfinite(series)]) if np.isfinite(series).any() else 0.0
    rows: list[tuple[float, float, str]] = []
    lost: list[float] = []
    for own, at, y in zip(x, times, series, strict=True):
        y = y[at >= start]
        if not np.isfinite(y).all():
            lost.append(own)
        elif points == "values":
            rows += [(own, value, "value") for value in y]
        else:
            kinds = (("maximum", 1), ("minimum", -1)) if np.ptp(y) > REST * moved else ()
            found = [(own, value, kind) for kind, sign in kinds for value in _peaks(y, sign)]
            rows += found or [(own, float(y[-1]), "last")]
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    for place, (kind, label) in enumerate(
        (("maximum", "maxima"), ("minimum", "minima"), ("last", "at rest"), ("value", ""))
    ):
        drawn = np.array([row[:2] for row in rows if row[2] == kind]).reshape(-1, 2)
        if len(drawn):
            size = 1.0 if len(drawn) > 2000 else 2.2
            axes.plot(
                *drawn.T, "o", color=color(place % 3), ms=size, mew=0, label=label or None, rasterized=len(drawn) > 5000
            )
    if lost:
        foot = axes.get_xaxis_transform()
        axes.plot(lost, np.full(len(lost), 0.02), "|", color=GREY, ms=6, transform=foot, label="not finite")
    axes.set_xlabel(labelled(parameter, unit))
    axes.set_ylabel(labelled(name, unit_of(trajectory.ys, name)))
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(loc="best", markerscale=2)
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    figure.table = {key: np.array(column) for key, column in zip((parameter, name, "kind"), columns, strict=True)}
    return figure


def _peaks(y: np.ndarray, sign: int) -> np.ndarray:
    """Heights of the inner maxima (sign 1) or minima (-1), of the parabola through the three values around each."""
    left, middle, right = sign * y[:-2], sign * y[1:-1], sign * y[2:]
    top = (middle > left) & (middle >= right)
    left, middle, right = left[top], middle[top], right[top]
    slope, bend = (right - left) / 2, left - 2 * middle + right  # bend < 0 at a top
    return sign * (middle - slope**2 / (2 * bend))
