"""Figures of parameters from several fits or posteriors beside each other."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.lines import Line2D

from .._doors import check_count, check_entries, check_mapping
from .._errors import ArgumentError, check_known
from ..fitting import FitResult
from ..infer import Posterior
from ._style import Drawing, color, columns_of, few_ticks, grid, labelled, new_figure, styled

MOST = 12
"""Most parameters that are drawn by default."""


@styled
def plot_forest(
    results: Mapping[str, FitResult | Posterior], *, names: Sequence[str] | None = None, columns: int = 3
) -> Drawing:
    """Estimates with their 90 % intervals, a panel a parameter and a line a result: what several fits say beside each other.

    **Arguments:**

    - `results`: fits and posteriors, by the words that name them. A fit has its estimate and the interval of its covariance, in the
        coordinates in which it moves; a posterior the mean and the 5th and 95th percentiles.
    - `names`: which parameters; by default the first 12 that some result has, without deviations of individuals.
    - `columns`: panels side by side; 1 for a narrow screen.

    **Returns:** the figure; its table has parameter, result, value, lower, upper and unit.
    """
    check_count("columns", columns)
    check_mapping("results", results, "fits or posteriors", "{'first': fit}")
    check_entries(
        "results", results, (FitResult, Posterior), "a fit or a posterior", "`simkit.fit(problem)` gives one."
    )
    if not results:
        raise ArgumentError("Argument `results` must hold at least one fit or posterior, but it is empty.")
    tables = {label: {row["name"]: row for row in result.table()} for label, result in results.items()}
    known = list(dict.fromkeys(name for table in tables.values() for name in table))
    for name in names or ():
        check_known(name, known, "parameter of these results")
    wanted = list(names or [name for name in known if not name.startswith(("eta.", "kappa.", "xi.", "zeta."))][:MOST])
    rows, columns = grid(len(wanted), columns)
    height = 0.55 + 0.2 * len(results)
    figure = new_figure(1.2 + 2.1 * columns, 0.3 + height * rows + 0.2 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    found: list[tuple[str, str, float, float, float, str]] = []
    for panel, name in zip(axes.flat, wanted, strict=False):
        unit = ""
        for place, (label, table) in enumerate(tables.items()):
            if name not in table:
                continue
            row = table[name]
            unit = row.get("unit", "1")
            value = float(row.get("estimate", row.get("mean", np.nan)))
            lower, upper = (
                float(row.get("lower", row.get("q05", np.nan))),
                float(row.get("upper", row.get("q95", np.nan))),
            )
            panel.plot([lower, upper], [place, place], "-", color=color(place), lw=1.6)
            panel.plot([value], [place], "o", color=color(place), ms=5)
            found.append((name, label, value, lower, upper, unit))
        panel.set_yticks(range(len(tables)), list(tables) if panel in axes[:, 0] else [""] * len(tables))
        panel.set_ylim(len(tables) - 0.4, -0.6)
        panel.set_title(labelled(name, unit), fontsize=8.5)
        few_ticks(panel, 4)
    for panel in axes.flat[len(wanted) :]:
        panel.set_visible(False)
    figure.table = columns_of(("parameter", "result", "value", "lower", "upper", "unit"), found)
    if columns > 1:
        marks = [Line2D([], [], color=color(i), marker="o", label=label) for i, label in enumerate(tables)]
        figure.legend(handles=marks, loc="outside lower center", ncols=4)
    return figure
