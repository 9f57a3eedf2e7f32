"""Global sensitivity in the report of a sweep whose points were made for it."""

import html
from typing import Any

import numpy as np

from .. import viz
from .._errors import SimkitError
from ..study import Study
from ..study.runs import sensitivity
from ..sweeps import DESIGNS, SobolIndices, Sweep
from ._figures import Picture, picture_of
from ._tables import as_table

ABOUT = {
    "saltelli": "Shares of the variance of a result over all ranges (Sobol's indices) that go with a parameter alone and with all "
    "its interactions, with 95 % intervals.",
    "morris": "Mean magnitude of the effect on a result of a step over the whole range of a parameter, with its 95 % interval, and "
    "the standard deviation of effects: as large as the mean where an effect is curved or hangs on other parameters.",
}


def sensitivity_section(
    sweep: Sweep, study: Study | None, results: dict[str, np.ndarray], interactive: bool
) -> tuple[str, list[Picture]]:
    """The indices of each result as a table and a figure; empty for sweeps over other points."""
    if study is None or study.sweep["method"] not in DESIGNS:
        return "", []
    rows, left, found = [], [], []
    heads: tuple[str, ...] = ("result", "parameter", "alone", "+-", "with interactions", "+-")
    if study.sweep["method"] == "morris":
        heads = ("result", "parameter", "mean magnitude", "+-", "mean", "standard deviation")
    for name, values in results.items():
        try:
            indices = sensitivity(study, sweep, values)
        except SimkitError as error:
            left.append(f"{name}: {error}")
            continue
        rows += [[name, path, *cells] for path, cells in zip(indices.names, _cells(indices), strict=True)]
        place = f"sensitivity_{''.join(c if c.isalnum() else '_' for c in name)}"
        caption = f"On which parameters {name} depends, the most important first."
        found.append(picture_of(place, "sensitivity", caption, viz.plot_sensitivity(indices), True, interactive))
    body = f"<p>{html.escape(ABOUT[study.sweep['method']])}</p>" + as_table(heads, rows) if rows else ""
    return body + "".join(f"<p>{html.escape(line)}</p>" for line in left), found


def _cells(indices: Any) -> list[list[str]]:
    """The numbers of each parameter."""
    if isinstance(indices, SobolIndices):
        columns = (indices.first, indices.first_error, indices.total, indices.total_error)
        return [[f"{float(x):.3f}" for x in row] for row in zip(*columns, strict=True)]
    columns = (indices.mean_absolute, indices.mean_absolute_error, indices.mean, indices.deviation)
    return [[f"{float(x):.4g}" for x in row] for row in zip(*columns, strict=True)]
