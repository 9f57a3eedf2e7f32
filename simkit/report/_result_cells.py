"""The numbers that a person came for."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Array

from ..core import uncertain_text
from ..fitting import FitResult, optima_texts
from ..infer import Posterior
from ..md import Averages


class Row(NamedTuple):
    """One parameter: what the fit and the sampling say about it; None where there was none."""

    name: str
    unit: str
    estimate: float | None
    error: float | None
    mean: float | None
    sd: float | None
    lower: float | None
    upper: float | None
    rhat: float | None
    ess: float | None


def parameter_rows(fit: FitResult | None, posterior: Posterior | None) -> list[Row]:
    """One row a parameter; the 90 % interval is the posterior's where there is one, else the fit's."""
    fitted = {row["name"]: row for row in fit.table()} if fit is not None else {}
    sampled = {row["name"]: row for row in posterior.table()} if posterior is not None else {}
    rows = []
    for name in fitted or sampled:
        f, s = fitted.get(name, {}), sampled.get(name, {})
        rows.append(
            Row(
                name=name,
                unit=f.get("unit", s.get("unit", "1")),
                estimate=f.get("estimate"),
                error=f.get("standard_error"),
                mean=s.get("mean"),
                sd=s.get("sd"),
                lower=s.get("q05", f.get("lower")),
                upper=s.get("q95", f.get("upper")),
                rhat=s.get("rhat"),
                ess=s.get("ess"),
            )
        )
    return rows


def table_cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells as text; columns that no row fills are left out."""
    heads = ["parameter", "estimate", "std error", "mean", "90 % interval", "R-hat", "ESS", "unit"]
    cells = []
    for row in rows:
        width = row.error if row.sd is None else row.sd
        ends = [uncertain_text(end, width or 0.0, least=2) for end in (row.lower, row.upper) if end is not None]
        rhat = "" if row.rhat is None else f"{row.rhat:.3f}"
        ess = "" if row.ess is None else f"{row.ess:.0f}"
        unit = "" if row.unit == "1" else row.unit
        values = [_rounded(row.estimate, row.error), _rounded(row.error, row.error), _rounded(row.mean, row.sd)]
        cells.append([row.name, *values, " to ".join(ends), rhat, ess, unit])
    return filled(heads, cells)


def filled(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of the first column and of those that some line fills."""
    kept = [i for i in range(len(heads)) if i == 0 or any(line[i] for line in lines)]
    return [heads[i] for i in kept], [[line[i] for i in kept] for line in lines]


def average_cells(averages: Averages) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of averages with their errors."""
    heads = ["output", "mean", "std error", "inefficiency", "unit"]
    cells = []
    for row in averages.table():
        unit = "" if row["unit"] == "1" else row["unit"]
        error = f"{row['error']:.2g}" + ("" if row["converged"] else ", too small")
        cells.append([row["name"], f"{row['mean']:.6g}", error, f"{row['inefficiency']:.3g}", unit])
    if averages.diffusion is not None:
        cells.append(["diffusion coefficient", number(averages.diffusion), "", "", ""])
    return filled(heads, cells)


def optimum_cells(fit: FitResult) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of the distinct optima; no cells where there is one."""
    heads = ["optimum", "objective", "share of mass", "starts", "parameters that differ most"]
    lines = [list(line) for line in optima_texts(fit)]
    return heads, lines if len(lines) > 1 else []


def _rounded(value: float | None, error: float | None) -> str:
    """A number with the digits that its error leaves; nothing for nothing."""
    return "" if value is None else uncertain_text(value, error or 0.0)


def number(value: float | np.floating | Array | np.ndarray | None) -> str:
    """Four significant digits; nothing for nothing."""
    return "" if value is None else f"{float(value):.4g}"
