"""Figures of the members of a sweep: results over one of the values that were varied."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from .._doors import check_kind, shown
from .._errors import ArgumentError, check_known
from ._style import GREY, Drawing, color, few_ticks, labelled, new_figure, styled

MOST_DOTS = 2000
"""Most members that are drawn as dots, evenly chosen; the line of medians is of all."""


@styled
def plot_sweep(
    values: ArrayLike, results: Mapping[str, ArrayLike], *, name: str = "value", units: Mapping[str, str] | None = None
) -> Drawing:
    """Results of members over a value by which they differ, a panel a result, with the median along it.

    A grey tick at the foot marks a member without a result. An axis is logarithmic where its numbers are positive and go over more
    than two decades. Where other values vary as well, dots scatter around the median.

    **Arguments:**

    - `values`: of each member, such as `sweep.values["growth"]`.
    - `results`: name -> one number a member, NaN where there is none, such as `{"peak": sweep["peak"][:]}`.
    - `name`: what `values` are called; `units`: name -> unit, of `name` and of results.

    **Returns:** the figure; its table has a row a member.

    **Raises:** an `ArgumentError` where lengths differ or there is no result.
    """
    check_kind("results", results, Mapping, "results by name", 'Write `{"peak": sweep["peak"][:]}`.')
    x = real_numbers("values", values)
    rows = {key: real_numbers(f"results[{key!r}]", y) for key, y in results.items()}
    for known in units or {}:
        check_known(known, [name, *rows], "name of `units`")
    wrong = [key for key, y in rows.items() if x.ndim != 1 or y.shape != x.shape]
    if not rows or wrong:
        raise ArgumentError(
            f"Argument `results` must hold one number a member, {x.shape}, but "
            + (f"`{wrong[0]}` has the shape {rows[wrong[0]].shape}." if wrong else "it is empty.")
        )
    units = units or {}
    columns = min(len(rows), 3)
    lines = -(-len(rows) // columns)
    figure = new_figure(max(4.6, 3.1 * columns), 0.5 + 2.6 * lines)
    axes = figure.subplots(lines, columns, squeeze=False)
    for panel, (key, y) in zip(axes.flat, rows.items(), strict=False):
        _members(panel, x, y)
        panel.set_xlabel(labelled(name, units.get(name, "1")))
        panel.set_ylabel(labelled(key, units.get(key, "1")))
    for panel in axes.flat[len(rows) :]:
        panel.set_visible(False)
    figure.table = {name: x, **rows}
    return figure


def real_numbers(argument: str, given: Any, *, one: bool = False) -> np.ndarray:
    """Real numbers, of which there is at least one, or exactly one.

    **Raises:** an `ArgumentError`.
    """
    found = np.asarray(given)
    if found.dtype.kind not in "biuf" or not found.size or (one and found.ndim):
        what = "a real number" if one else "an array of real numbers"
        raise ArgumentError(f"Argument `{argument}` must be {what}, but it is {shown(given)}.")
    return np.asarray(found, float)


def _members(panel: Any, x: np.ndarray, y: np.ndarray) -> None:
    known = np.isfinite(x) & np.isfinite(y)
    kept = np.flatnonzero(known)
    kept = kept[np.linspace(0, len(kept) - 1, min(len(kept), MOST_DOTS)).round().astype(int)] if len(kept) else kept
    panel.plot(x[kept], y[kept], "o", color=color(0), ms=2.5, alpha=0.5 if len(kept) > 50 else 0.9, label="members")
    lost = np.isfinite(x) & ~np.isfinite(y)
    if lost.any():
        level = panel.get_xaxis_transform()
        panel.plot(x[lost], np.full(lost.sum(), 0.02), "|", color=GREY, ms=6, transform=level, label="no result")
    places, middle = _medians(x[known], y[known])
    if len(places) > 1:
        panel.plot(places, middle, "-", color=color(1), lw=1.6, label="median")
    for axis, own in (("x", x), ("y", y[known])):
        if _decades(own) > 2:
            getattr(panel, f"set_{axis}scale")("log")
    few_ticks(panel, 5 if panel.get_xscale() == "linear" else None, 5 if panel.get_yscale() == "linear" else None)


def _medians(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians of results by value; of many values in up to 20 bins with as many members each."""
    if not len(x):
        return x, y
    order = np.argsort(x, kind="stable")
    kinds = np.unique(x)
    if len(kinds) <= 20:
        return kinds, np.array([np.median(y[x == kind]) for kind in kinds])
    parts = np.array_split(order, min(20, max(len(x) // 20, 1)))
    return np.array([np.median(x[part]) for part in parts]), np.array([np.median(y[part]) for part in parts])


def _decades(values: np.ndarray) -> float:
    """Decades between the smallest and the largest number; 0 where one is not positive."""
    known = values[np.isfinite(values)]
    return float(np.log10(known.max() / known.min())) if len(known) and known.min() > 0 else 0.0
