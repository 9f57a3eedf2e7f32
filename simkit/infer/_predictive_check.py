"""visual_predictive_check: percentiles of the data in time bins beside those of data sets drawn from the model."""

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from .._doors import check_kind, shown
from .._errors import ArgumentError
from ..core import data_frame, full_products, html_notes, html_page, html_table
from ..fitting import FitResult
from ..problem import Categorical, Problem
from ._posterior import Posterior
from ._replicates import Replicates, replicated
from ._strata import strata

MOST_BINS = 12
"""Most bins that are chosen by default."""

LEAST_IN_BIN = 8
"""Data in a bin by default, where there are enough: a 5th percentile of fewer is their smallest."""


@dataclasses.dataclass(frozen=True)
class VisualPredictiveCheck:
    """Percentiles of an output in time bins: of the data, and of data sets drawn from the model.

    - `times`: the median time of the data of each bin; `edges`: the ends of the bins, one more than there are bins.
    - `counts`: data by bin.
    - `quantiles`: which percentiles; `level`: the probability that the simulated bands hold.
    - `observed`: shape `(quantile, bin)`, NaN where the percentile is beyond a limit of quantification.
    - `lower`, `median`, `upper`: the band of the same percentile of simulated data sets, in the same shape.
    - `hidden`: rows observed, lower, median, upper of the share of data beyond a limit, shape `(4, bin)`; None without limits.
    - `points`: times and values of the data, and which are censored, as drawn; of a corrected check the corrected values.
    - `corrected`: tells whether values are prediction-corrected; `replicates`, `failed`: data sets drawn, and those that failed.
    - `left_out`: how many data lie outside of the bins, or have no prediction to be corrected by.
    """

    output: str
    unit: str
    times: np.ndarray
    edges: np.ndarray
    counts: np.ndarray
    quantiles: tuple[float, ...]
    level: float
    observed: np.ndarray
    lower: np.ndarray
    median: np.ndarray
    upper: np.ndarray
    hidden: np.ndarray | None
    points: tuple[np.ndarray, np.ndarray, np.ndarray]
    corrected: bool
    replicates: int
    failed: int
    left_out: int = 0

    @property
    def outside(self) -> np.ndarray:
        """True where an observed percentile lies outside of its band, shape `(quantile, bin)`."""
        known = np.isfinite(self.observed)
        return known & ((self.observed < self.lower) | (self.observed > self.upper))

    def rows(self) -> list[dict[str, Any]]:
        """The table: a row for each bin and percentile, and for each bin the share of data beyond a limit."""
        found = []
        for place in range(len(self.times)):
            own = {"start": self.edges[place], "end": self.edges[place + 1], "time": self.times[place]}
            own = {name: float(value) for name, value in own.items()} | {"count": int(self.counts[place])}
            for i, quantile in enumerate(self.quantiles):
                ends = (self.observed[i], self.lower[i], self.median[i], self.upper[i])
                found.append(own | {"statistic": f"{100 * quantile:g} %"} | _named(ends, place))
            if self.hidden is not None:
                found.append(own | {"statistic": "beyond a limit"} | _named(self.hidden, place))
        return found

    def columns(self) -> dict[str, np.ndarray]:
        """The table, column by column."""
        rows = self.rows()
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def to_frame(self) -> Any:
        """Return the table as a `pandas.DataFrame`: bin, count, statistic, observed, lower, median, upper.

        **Raises:** a `MissingPackageError` where pandas is not installed.
        """
        return data_frame(self.columns(), "to_frame")

    def notes(self) -> list[str]:
        """Describe in sentences how many percentiles lie outside of their bands."""
        known, out = int(np.isfinite(self.observed).sum()), int(self.outside.sum())
        text = f"{out} of {known} observed percentiles lie outside of their {100 * self.level:g} % bands"
        found = [f"{text}; about {(1 - self.level) * known:.0f} would by chance."]
        if self.left_out:
            why = "lie outside of the bins" + (", or have no prediction to correct by," if self.corrected else "")
            found.append(f"{self.left_out} data {why} and are left out.")
        if self.failed:
            found.append(
                f"{self.failed} of {self.replicates} simulated data sets had a failure and are left out there."
            )
        return found

    def __repr__(self) -> str:
        kind = "Prediction-corrected visual predictive check" if self.corrected else "Visual predictive check"
        lines = [f"{kind} of {self.output}: {' '.join(self.notes())}"]
        heads, cells = self.cells()
        widths = [max(len(row[i]) for row in [heads, *cells]) for i in range(len(heads))]
        for row in [heads, *cells]:
            lines.append("  " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))
        return "\n".join(lines)

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Heads and cells of the table as text."""
        heads = ("time", "data", "statistic", "observed", "lower", "median", "upper")
        numbers = ("observed", "lower", "median", "upper")
        return heads, [
            (f"{row['time']:.4g}", str(row["count"]), row["statistic"], *(f"{row[name]:.4g}" for name in numbers))
            for row in self.rows()
        ]

    def _repr_html_(self) -> str:
        return html_page(f"Predictive check: {self.output}", html_table(*self.cells()), html_notes(self.notes()))


def _named(ends: Any, place: int) -> dict[str, float]:
    return {
        name: float(values[place]) for name, values in zip(("observed", "lower", "median", "upper"), ends, strict=True)
    }


@dataclasses.dataclass(frozen=True)
class StratifiedPredictiveCheck:
    """A predictive check for each group of individuals.

    - `by`: the covariate; `groups`: label of a group -> its check. Each group has bins of its own.
    """

    by: str
    groups: dict[str, VisualPredictiveCheck]

    def columns(self) -> dict[str, np.ndarray]:
        """The tables of all groups, column by column, the group first."""
        rows = [{"group": label} | row for label, check in self.groups.items() for row in check.rows()]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def to_frame(self) -> Any:
        """Return the table as a `pandas.DataFrame`, with the group in the first column.

        **Raises:** a `MissingPackageError` where pandas is not installed.
        """
        return data_frame(self.columns(), "to_frame")

    def notes(self) -> list[str]:
        """Describe in sentences how many percentiles of each group lie outside of their bands."""
        return [f"{label}: {note}" for label, check in self.groups.items() for note in check.notes()]

    def __repr__(self) -> str:
        return "\n".join(f"{label}\n{check!r}" for label, check in self.groups.items())

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{html.escape(label)}</h4>{check._repr_html_()}" for label, check in self.groups.items())


@full_products
def visual_predictive_check(
    problem: Problem,
    result: FitResult | Posterior,
    *,
    output: str | None = None,
    replicates: int = 500,
    bins: int | Sequence[float] | None = None,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    level: float = 0.9,
    corrected: bool = False,
    by: str | Mapping[str, Any] | None = None,
    key: PRNGKeyArray | None = None,
) -> VisualPredictiveCheck | StratifiedPredictiveCheck:
    r"""Compare percentiles of the data in time bins with those of data sets that are drawn from the model (VPC).

    Each data set has the times, doses, covariates and limits of the observed one, new individuals drawn from the population, and
    new residual scatter. Where the model holds, an observed percentile lies in its band with the probability `level`.
    Values beyond a limit of quantification count as such on both sides: a percentile that falls there is not shown, and
    the share of such data has a row of its own.

    With `corrected`, values of individuals whose doses and covariates differ are brought together first (pcVPC):

    $$y^{pc}_{ij} = y_{ij} \frac{\mathrm{PRED}_{bin}}{\mathrm{PRED}_{ij}}$$

    with PRED the prediction without deviations of individuals and its median in the bin, for data and simulations alike.

    **Arguments:**

    - `problem`, `result`: the problem, and its `FitResult` or `Posterior`. Draws of a posterior bring the uncertainty of the
        population's numbers into the bands.
    - `output`: which, where several have data.
    - `replicates`: how many data sets are drawn.
    - `bins`: their number, or their ends, increasing; by default up to 12 with as many data each, cut where times are far apart.
    - `quantiles`: which percentiles, as numbers between 0 and 1.
    - `level`: the probability that the bands hold.
    - `by`: a covariate of the experiments, by which individuals are put into groups, each with a check of its own: its name, where
        it has up to 6 values, or its name with the ends of bins, such as `{"weight": [0, 60, 80, 120]}`.
    - `key`: a random key; a fixed one by default.

    **Returns:** a `VisualPredictiveCheck`, or with `by` one for each group; `viz.plot_predictive_check` draws them.

    **Raises:** an `ArgumentError` where the arguments do not fit together, and a `SimulationError` where most data sets fail to
    simulate.

    **Good values:** the defaults; `corrected=True` where doses differ between individuals.

    **References:** Holford (2005), PAGE 14, abstract 738; Bergstrand, Hooker, Wallin & Karlsson (2011),
    doi:10.1208/s12248-011-9255-z.
    """
    wanted = _fractions("quantiles", quantiles)
    _fractions("level", [level])
    check_kind("corrected", corrected, bool, "True or False", "It is False without it.")
    drawn = replicated(problem, result, output, replicates, key, "visual_predictive_check")
    if isinstance(problem.base.noise[drawn.output], Categorical):
        raise ArgumentError(
            f"Argument `output` must have data with an order, but those of `{drawn.output}` are categories, which have no "
            "percentiles. `simkit.check` tests them."
        )
    if by is None:
        return _compared(drawn, bins, wanted, level, corrected)
    name, groups = strata(problem, drawn, by)
    return StratifiedPredictiveCheck(
        name, {label: _compared(part, bins, wanted, level, corrected) for label, part in groups.items()}
    )


def _compared(
    drawn: Replicates, bins: int | Sequence[float] | None, wanted: tuple[float, ...], level: float, corrected: bool
) -> VisualPredictiveCheck:
    """Percentiles of drawn data beside those of the data."""
    edges, place = _bins(drawn, bins)
    factor = _correction(drawn, place) if corrected else np.ones_like(drawn.observed)
    kept = np.isfinite(factor)
    observed = np.where(
        drawn.observed <= drawn.low, -np.inf, np.where(drawn.observed >= drawn.high, np.inf, drawn.observed)
    )
    simulated = np.where(drawn.simulated <= drawn.low, -np.inf, drawn.simulated)
    simulated = np.where(drawn.simulated >= drawn.high, np.inf, simulated)
    limited = bool((np.isfinite(drawn.low) | np.isfinite(drawn.high)).any())
    ends = (0.5 - level / 2, 0.5, 0.5 + level / 2)
    found, hidden, times, counts, rims = [], [], [], [], []
    for index in range(len(edges) - 1):
        own = kept & (place == index)
        if not own.any():
            continue
        rims += [edges[index]] * (not rims) + [edges[index + 1]]
        y, many = observed[own] * factor[own], simulated[:, own] * factor[own]
        many = many[~np.isnan(many).any(axis=1)]
        times.append(np.median(drawn.times[own]))
        counts.append(own.sum())
        low, high = (
            drawn.low[own].max() if not corrected else -np.inf,
            drawn.high[own].min() if not corrected else np.inf,
        )
        for quantile in wanted:
            seen, all_of_them = percentile(y[None], quantile)[0], percentile(many, quantile)
            band = np.clip([percentile(all_of_them[None], end)[0] for end in ends], low, high)
            found.append([value if np.isfinite(value) else np.nan for value in (seen, *band)])
        share = np.isinf(many).mean(axis=1)
        hidden.append([np.isinf(y).mean(), *np.quantile(share, ends)])
    seen, lower, median, upper = np.array(found).reshape(len(times), len(wanted), 4).transpose(2, 1, 0)
    points = drawn.times[kept], (drawn.observed * factor)[kept], np.isinf(observed[kept])
    return VisualPredictiveCheck(
        drawn.output,
        drawn.unit,
        np.array(times),
        np.array(rims),
        np.array(counts, int),
        wanted,
        float(level),
        seen,
        lower,
        median,
        upper,
        np.array(hidden).T if limited else None,
        points,
        bool(corrected),
        len(drawn.simulated),
        drawn.failed,
        len(drawn.times) - int(sum(counts)),
    )


def percentile(values: np.ndarray, quantile: float) -> np.ndarray:
    """The quantile of each row, between neighbours linearly; where one of them is infinite, the nearer."""
    ordered = np.sort(values, axis=1)
    place = quantile * (ordered.shape[1] - 1)
    left = int(np.floor(place))
    share, right = place - left, min(left + 1, ordered.shape[1] - 1)
    one, two = ordered[:, left], ordered[:, right]
    finite = np.isfinite(one) & np.isfinite(two)
    mixed = np.where(finite, one, 0) * (1 - share) + np.where(finite, two, 0) * share
    return np.where(finite, mixed, one if share < 0.5 else two)


def _fractions(name: str, values: Any) -> tuple[float, ...]:
    try:
        found = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        found = ()
    if not found or not all(0 < value < 1 for value in found):
        given = values[0] if name == "level" else values
        raise ArgumentError(
            f"Argument `{name}` must lie between 0 and 1, but it is {shown(given)}. Write 0.9 for 90 %."
        )
    return found


def _correction(drawn: Replicates, place: np.ndarray) -> np.ndarray:
    """PRED of the bin over PRED of each datum; 1 where both are zero, as before a dose, and NaN where it cannot be had."""
    if drawn.typical is None:
        raise ArgumentError(
            "Argument `corrected` needs a prediction for each datum, but the likelihood of the problem has data that depend on "
            "each other. Leave it out."
        )
    if (drawn.typical < 0).any():
        raise ArgumentError(
            f"Argument `corrected` divides by predictions, which must be positive, but some of `{drawn.output}` are negative. "
            "Leave it out."
        )
    found = np.full_like(drawn.typical, np.nan)
    for index in np.unique(place):
        own = place == index
        middle = np.median(drawn.typical[own])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = middle / drawn.typical[own]
        same = drawn.typical[own] == middle
        found[own] = np.where(same, 1.0, np.where((drawn.typical[own] > 0) & (middle > 0), ratio, np.nan))
    return found


def _bins(drawn: Replicates, bins: int | Sequence[float] | None) -> tuple[np.ndarray, np.ndarray]:
    """Ends of bins, and the bin of each datum; -1 for one outside of all."""
    times = drawn.times
    if bins is None or isinstance(bins, int | np.integer):
        if isinstance(bins, bool) or (bins is not None and bins < 1):
            raise ArgumentError(f"Argument `bins` must be at least 1, or the ends of bins, but it is {shown(bins)}.")
        usual = int(np.median(np.bincount(drawn.individual)[np.unique(drawn.individual)]))
        count = max(1, min(MOST_BINS, usual, len(times) // LEAST_IN_BIN)) if bins is None else int(bins)
        edges = _even(times, count)
    else:
        try:
            edges = np.asarray(bins, float)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"Argument `bins` must be a number or the ends of bins, but it is {shown(bins)}."
            ) from error
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ArgumentError(
                f"The ends in argument `bins` must be two or more and increase, but they are {shown(bins)}."
            )
    place = np.where(times == edges[-1], len(edges) - 2, np.searchsorted(edges, times, side="right") - 1)
    place = np.where((times < edges[0]) | (times > edges[-1]), -1, place)
    if (place < 0).all():
        raise ArgumentError(
            f"The bins must hold data, but they reach from {edges[0]:g} to {edges[-1]:g} and the data from {times.min():g} to "
            f"{times.max():g}."
        )
    return edges, place


def _even(times: np.ndarray, count: int) -> np.ndarray:
    """Ends of bins with about as many data each: each cut in the widest gap within a third of a bin around its place."""
    ordered = np.sort(times)
    reach, cuts = max(1, len(ordered) // (3 * count)), []
    gaps = np.diff(ordered)
    for k in range(1, count):
        middle = round(k * len(ordered) / count) - 1
        first, last = max(0, middle - reach), min(len(gaps), middle + reach + 1)
        near = gaps[first:last]
        if near.size and near.max() > 0:
            widest = np.flatnonzero(near == near.max()) + first
            best = widest[np.argmin(np.abs(widest - middle))]
            cuts.append(0.5 * (ordered[best] + ordered[best + 1]))
    room = 0.0 if ordered[-1] > ordered[0] else max(abs(ordered[0]), 1.0) * 0.5  # all data at one time
    return np.unique([ordered[0] - room, *cuts, ordered[-1] + room])
