"""Figures of global sensitivity."""

from typing import Any

import numpy as np

from .._doors import check_count, shown
from .._errors import ArgumentError
from ._style import Drawing, color, labelled, new_figure, styled, theme

SHARES = (("first", "alone"), ("total", "with interactions"))
"""Sobol's indices of a quantity, and what they are of."""


@styled
def plot_sensitivity(indices: Any, *, most: int = 20) -> Drawing:
    """Draw on which quantities an output depends, the most important first: bars with their confidence intervals.

    Sobol's indices have two bars, the share of the variance that goes with a quantity alone and that with all its interactions;
    elementary effects have one, the mean magnitude, with the standard deviation as a ring: where it is as large as the bar the
    effect is curved or hangs on other quantities.

    **Arguments:**

    - `indices`: what `simkit.sweeps.sobol_indices` or `simkit.sweeps.morris` returned, of an output that is a number.
    - `most`: how many quantities are drawn at most.

    **Returns:** the figure; its table has the rows of all quantities.
    """
    check_count("most", most)
    shares = all(hasattr(indices, name) for name in ("names", "first", "total"))
    if not shares and not all(hasattr(indices, name) for name in ("names", "mean_absolute", "deviation")):
        raise ArgumentError(
            "Argument `indices` must be what `simkit.sweeps.sobol_indices` or `simkit.sweeps.morris` returned, but it is "
            f"{shown(indices)}."
        )
    kinds = [name for name, _ in SHARES] if shares else ["mean_absolute"]
    found = {name: np.asarray(getattr(indices, name), float) for name in kinds}
    errors = {name: np.asarray(getattr(indices, f"{name}_error"), float) for name in kinds}
    main = found[kinds[-1]]
    if main.ndim != 1:
        raise ArgumentError(
            f"Argument `indices` must be of an output that is a number to be drawn, but it is of an array, {main.shape[1:]}. "
            "Take the number out of the sweep's results first, such as `sweep['series'][:, -1]`."
        )
    order = np.argsort(-np.nan_to_num(main), kind="stable")
    rows = order[:most]
    figure = new_figure(6.0, 0.9 + (0.42 if shares else 0.3) * len(rows))
    axes = figure.subplots()
    height, places = 0.8 / len(kinds), np.arange(len(rows))
    bars = {"ecolor": theme().ink, "error_kw": {"elinewidth": 1.0}, "capsize": 2}
    for number, name in enumerate(kinds):
        label = SHARES[number][1] if shares else "mean magnitude"
        at = places + (number - (len(kinds) - 1) / 2) * height
        axes.barh(at, found[name][rows], height, xerr=errors[name][rows], color=color(number), label=label, **bars)
    table = {"quantity": np.array(indices.names)[order]}
    for name in kinds:
        table |= {name: found[name][order], f"{name}_error": errors[name][order]}
    if not shares:
        spread = np.asarray(indices.deviation, float)
        axes.plot(spread[rows], places, "o", color=color(1), mfc="none", label="standard deviation")
        table["deviation"] = spread[order]
    axes.set_yticks(places, [indices.names[row] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.axvline(0.0, color=theme().edge, lw=0.8)
    axes.set_xlabel(labelled("share of the variance" if shares else "effect on the output", "1" if shares else ""))
    axes.legend(loc="lower right")
    figure.table = table
    return figure
