"""npde: normalised prediction distribution errors of a fitted population."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from scipy import linalg, special, stats

from .._errors import ArgumentError
from ..core import data_frame, full_products, html_notes, html_page, html_table
from ..fitting import Finding, FitResult, shown
from ..problem import Problem
from ._posterior import Posterior
from ._replicates import Replicates, replicated

MOST_SHAPIRO = 5000
"""Up to so many data Shapiro's and Wilk's test has a p-value; beyond, that of D'Agostino and Pearson is taken."""

LEAST = 3
"""Data that tests need."""


@dataclasses.dataclass(frozen=True)
class PredictionErrors:
    """Normalised prediction distribution errors of an output, N(0, 1) where the model holds; a number a datum.

    - `npde`: decorrelated within each individual; `discrepancies`: without that, by which a place in time is judged. NaN where a
        datum has no scatter in the model, as before a dose.
    - `times`, `predicted`: the time of each datum, and its mean in the model.
    - `individual`, `labels`: the place of the individual of each datum, and their names.
    - `censored`: which data are beyond a limit of quantification.
    - `findings`: tests of mean, variance and normality.
    - `replicates`, `failed`: data sets drawn, and those in which a simulation failed.
    """

    output: str
    npde: np.ndarray
    discrepancies: np.ndarray
    times: np.ndarray
    predicted: np.ndarray
    individual: np.ndarray
    labels: tuple[str, ...]
    censored: np.ndarray
    findings: tuple[Finding, ...]
    replicates: int
    failed: int

    @property
    def p(self) -> float:
        """The smallest p-value of the tests times their number (Bonferroni)."""
        return min((finding.adjusted for finding in self.findings), default=float("nan"))

    def to_frame(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each datum: individual, time, predicted, npde, discrepancy, censored.

        **Raises:** a `MissingPackageError` where pandas is not installed.
        """
        columns = {
            "individual": np.array(self.labels, object)[self.individual],
            "time": self.times,
            "predicted": self.predicted,
            "npde": self.npde,
            "discrepancy": self.discrepancies,
            "censored": self.censored,
        }
        return data_frame(columns, "to_frame")

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Heads and cells of the tests as text."""
        rows = [
            (
                f.test,
                f"{f.value:.4g}",
                f"{f.expected:.4g}",
                shown(f.adjusted).removeprefix("p ").removeprefix("= "),
                f.mark,
            )
            for f in self.findings
        ]
        return ("test", "value", "expected", "p (adjusted)", ""), rows

    def notes(self) -> list[str]:
        """Describe in sentences what was tested."""
        kept = int(np.isfinite(self.npde).sum())
        text = f"{kept} data of {len(np.unique(self.individual))} individuals against {self.replicates} simulated data sets"
        found = [f"{text}; the smallest p-value of {len(self.findings)} tests, adjusted: {shown(self.p)}."]
        if self.failed:
            found.append(f"{self.failed} simulated data sets had a failure and are left out there.")
        return found

    def __repr__(self) -> str:
        heads, rows = self.cells()
        lines = [f"Prediction errors (NPDE) of {self.output}: {' '.join(self.notes())}"]
        for row in [heads, *rows]:
            lines.append(f"  {row[0]:<16}{row[1]:>10}{row[2]:>10}  {row[3]:<14}{row[4]}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_page(f"NPDE: {self.output}", html_table(*self.cells()), html_notes(self.notes()))


@full_products
def npde(
    problem: Problem,
    result: FitResult | Posterior,
    *,
    output: str | None = None,
    replicates: int = 1000,
    key: PRNGKeyArray | None = None,
) -> PredictionErrors:
    r"""Normalised prediction distribution errors: where each datum lies among data that are drawn from the model.

    Data of one individual depend on each other through its deviations. So those of individual i, and its simulated data, are
    decorrelated by the mean and covariance of the simulations, and each is ranked among its own:

    $$y^*_i = L_i^{-1} (y_i - E_i), \quad L_i L_i^T = V_i, \qquad
    \mathrm{npde}_{ij} = \Phi^{-1}\left(\frac{\#\{k: y^{*(k)}_{ij} < y^*_{ij}\} + u}{K + 1}\right)$$

    with u uniform on the step of the rank, so that no rank is at an end. In place of values beyond a limit, of data and
    simulations, stand draws from what the model says lies there. Three tests: mean 0 by Wilcoxon's signed ranks,
    variance 1 by chi-square, normality by Shapiro and Wilk.

    **Arguments:**

    - `problem`, `result`: the problem, and its `FitResult` or `Posterior`.
    - `output`: which, where several have data.
    - `replicates`: how many data sets are drawn, K: more than twice the data of any individual.
    - `key`: a random key; a fixed one by default.

    **Returns:** `PredictionErrors`; `viz.plot_npde` draws them. **Raises:** an `ArgumentError` where the arguments do not fit
    together, and a `SimulationError` where most data sets fail to simulate.

    Mean and covariance of K simulations widen the errors by a relative variance of about n/K for n data of an individual; p-values
    of data that were fitted are too large rather than too small.

    **Good values:** the default up to 50 data an individual.

    **References:** Brendel, Comets, Laffont, Laveille & Mentre (2006), doi:10.1007/s11095-006-9067-5; for data below a limit
    Nguyen, Comets & Mentre (2012), doi:10.1007/s10928-012-9264-2.
    """
    drawn = replicated(problem, result, output, replicates, key, "npde")
    most = int(np.bincount(drawn.individual).max())
    if replicates <= 2 * most:
        raise ArgumentError(
            f"Argument `replicates` must be more than twice the {most} data of an individual, whose covariance it finds, but it is "
            f"{replicates}. Give {max(1000, 20 * most)}."
        )
    rng = np.random.default_rng(0)
    errors, plain = np.full((2, len(drawn.observed)), np.nan)
    predicted = np.nanmean(drawn.simulated, axis=0)
    censored = (drawn.observed <= drawn.low) | (drawn.observed >= drawn.high)
    for person in np.unique(drawn.individual):
        own = np.flatnonzero(drawn.individual == person)
        own = own[np.argsort(drawn.times[own], kind="stable")]
        many = drawn.simulated[:, own]
        many = many[np.isfinite(many).all(axis=1)]
        moving = np.ptp(many, axis=0) > 0
        own, many = own[moving], many[:, moving]
        if not own.size:
            continue
        seen, many = _imputed(drawn, own, many, rng)
        mean, scatter = many.mean(axis=0), many.std(axis=0, ddof=1)
        seen, many = (seen - mean) / scatter, (many - mean) / scatter
        plain[own] = _scores(seen, many, rng)
        root = _root(many, drawn.labels[person])
        seen, many = (linalg.solve_triangular(root, x.T, lower=True).T for x in (seen, many))
        errors[own] = _scores(seen, many, rng)
    return PredictionErrors(
        drawn.output,
        errors,
        plain,
        drawn.times,
        predicted,
        drawn.individual,
        drawn.labels,
        censored,
        tuple(tests_of(errors[np.isfinite(errors)])),
        replicates,
        drawn.failed,
    )


def tests_of(values: np.ndarray) -> list[Finding]:
    """Tests of the mean, the variance and the normality of numbers that should be N(0, 1)."""
    if len(values) < LEAST:
        return []
    count = len(values)
    mean: Any = stats.wilcoxon(values)
    square = float(values.var(ddof=1))
    below = float(stats.chi2.cdf((count - 1) * square, count - 1))
    shape: Any = stats.shapiro(values) if count <= MOST_SHAPIRO else stats.normaltest(values)
    found = [
        ("mean", float(values.mean()), 0.0, float(mean.pvalue)),
        ("variance", square, 1.0, 2 * min(below, 1 - below)),
        ("normality", float(shape.statistic), 1.0 if count <= MOST_SHAPIRO else 2.0, float(shape.pvalue)),
    ]
    return [Finding(test, "all data", value, expected, p, len(found)) for test, value, expected, p in found]


def _scores(seen: np.ndarray, many: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normal scores of ranks among simulations, spread evenly over ties and over the step of the rank."""
    below, same = (many < seen).sum(axis=0), (many == seen).sum(axis=0)
    return special.ndtri((below + rng.uniform(size=seen.shape) * (same + 1)) / (len(many) + 1))


def _imputed(
    drawn: Replicates, own: np.ndarray, many: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Data and simulations of an individual; in place of each beyond a limit one of the simulations that lie there.

    Simulations as well, so that they lose what a value below the limit says about its neighbours, as the data have.
    """
    found, many = drawn.observed[own].copy(), many.copy()
    for place, datum in enumerate(own):
        value, column = found[place], many[:, place].copy()
        low, high = drawn.low[datum], drawn.high[datum]
        for hidden, beyond in ((column <= low, value <= low), (column >= high, value >= high)):
            if hidden.any():
                many[hidden, place] = rng.choice(column[hidden], int(hidden.sum()))
                found[place] = rng.choice(column[hidden]) if beyond else found[place]
    return found, many


def _root(many: np.ndarray, label: str) -> np.ndarray:
    """The lower triangular root of the correlations."""
    matrix = np.corrcoef(many, rowvar=False).reshape(many.shape[1], many.shape[1])
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError as error:
        raise ArgumentError(
            f"The simulated data of `{label}` follow from each other without scatter of their own, so that they cannot be "
            "decorrelated. Give the output a noise model with scatter, or leave out data at the same time."
        ) from error
