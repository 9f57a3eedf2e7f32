"""check: does a fitted model fit?"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy import special, stats

from .._doors import check_count, check_key, check_kind
from .._errors import ArgumentError, SimulationError
from ..core import Status, full_products, html_notes, html_page, html_table
from ..fitting import (
    Finding,
    FitResult,
    Series,
    cross_findings,
    known_scatter,
    largest_finding,
    place_names,
    quantile_residuals,
    scatter_finding,
    sentences_of,
    serial_findings,
    series_of,
    shown,
)
from ..problem import AbstractNoise, Limits, Problem, check_problem, check_sequential, coarse
from ._influence import Influence, Local, in_numpy, influences, local_view, views_of_draws
from ._modes import root_of
from ._posterior import Posterior

RANKS = 2000
"""Number of draws that find the quantile of a datum, for a noise model without tail probabilities."""

REPLICATES = 5000
"""Largest number of replicated residual sets, fewer for many data: it tells a p-value of 0.001 from one of 0.0002."""

MOST = 20_000_000
"""Draws times data are no more than this, some 300 MB; with more than 100,000 data there are fewer draws."""

TOO_MUCH = 1.0
"""A Cook's distance above this is said: leaving the datum out moves the estimates as far as their errors reach."""


class Residuals(NamedTuple):
    r"""Residuals of one output, shape `(experiments, times, ...)`, NaN where a datum is missing.

    - `times`: shape `(experiments, times)`, of a static system the predictors.
    - `predicted`: the location of the datum, given the data before it where they depend on each other: of a row of `Correlated`
        outputs those before it in the order of the data, of `Autocorrelated` ones all earlier data of the output.
    - `raw`: the datum minus its location; NaN where a datum is censored, and so is `standardised`.
    - `standardised`: raw residuals times the square root of the location's information (given the noise model's numbers): over the
        standard deviation for normal data, Pearson's for counts.
    - `quantile`: $\Phi^{-1}(F(y))$ with F the noise model's distribution function, N(0, 1) where the model holds, whatever the
        noise model (Dunn & Smyth 1996, doi:10.1080/10618600.1996.10474708). Counts are spread over the steps of F, censored data
        over that of their set, by random numbers of a fixed seed.
    - `censored`: which data are censored.
    """

    times: np.ndarray
    predicted: np.ndarray
    raw: np.ndarray
    standardised: np.ndarray
    quantile: np.ndarray
    censored: np.ndarray

    @property
    def pit(self) -> np.ndarray:
        """The probability integral transform, uniform on (0, 1) where the model holds."""
        return special.ndtr(self.quantile)


@dataclasses.dataclass(frozen=True)
class Check:
    """Tests of a fitted model; printed, it begins with the verdict.

    - `findings`: one row a test: what, on which data, the statistic, what is expected, the p-value, and the number of such tests.
    - `residuals`, `influence`: output name -> arrays, see `Residuals` and `Influence`.
    - `warnings`: what failed (p < 0.001, times the number of tests of its kind), a sentence each with what to do.
    - `names`, `labels`: of parameters and experiments. `draws`: how many draws of the parameters made the predictive p-values.
    """

    findings: tuple[Finding, ...]
    residuals: Mapping[str, Residuals]
    influence: Mapping[str, Influence]
    warnings: tuple[str, ...]
    names: tuple[str, ...]
    labels: tuple[str, ...]
    draws: int

    @property
    def verdict(self) -> str:
        """One sentence on all tests."""
        count = len(self.findings)
        failed, doubtful = (sum(getattr(f, kind) for f in self.findings) for kind in ("failed", "doubtful"))
        if failed:
            more = f", and {doubtful} {'is' if doubtful == 1 else 'are'} doubtful (p < 0.05)" if doubtful else ""
            fail = "fails" if failed == 1 else "fail"
            return f"The data speak against the model: {failed} of {count} tests {fail} (p < 0.001){more}."
        if doubtful:
            return (
                f"No test speaks clearly against the model, but {doubtful} of {count} {'is' if doubtful == 1 else 'are'} doubtful "
                "(p < 0.05)."
            )
        return f"None of {count} tests speaks against the model."

    def table(self) -> list[dict[str, Any]]:
        """One row a test: test, where, value, expected, p (adjusted for the number of tests of its kind), failed."""
        return [
            {
                "test": f.test,
                "where": f.where,
                "value": f.value,
                "expected": f.expected,
                "p": f.adjusted,
                "failed": f.failed,
            }
            for f in self.findings
        ]

    def most_influential(self, count: int = 3) -> list[dict[str, Any]]:
        """The data that move the estimates most: output, experiment, row, time, distance, and the parameter that moves most."""
        found = []
        for name, part in self.influence.items():
            for place in np.argsort(np.where(np.isnan(part.distance), np.inf, -part.distance), axis=None)[:count]:
                index = np.unravel_index(place, part.distance.shape)
                if not np.isnan(part.distance[index]):
                    found.append((float(part.distance[index]), name, index))
        rows = []
        for distance, name, index in sorted(found, key=lambda row: -row[0])[:count]:
            shift = self.influence[name].shift[index]
            most, time = int(np.argmax(np.abs(shift))), self.residuals[name].times[index[0], index[1]]
            row = {"output": name, "experiment": self.labels[index[0]], "row": int(index[1])}
            row |= {"time": float(time) if np.ndim(time) == 0 else float("nan"), "distance": distance}
            rows.append(row | {"parameter": self.names[most], "shift": float(shift[most])})
        return rows

    def notes(self) -> list[str]:
        """Describe the most influential data in sentences."""
        return [
            f"without `{row['output']}` in `{row['experiment']}` {_at(row)}, `{row['parameter']}` {_moved(row)} "
            f"(Cook's distance {row['distance']:.2g})"
            for row in self.most_influential()
        ]

    def __repr__(self) -> str:
        width = max([len(f.where) for f in self.findings] + [5])
        lines = [f"Check: {self.verdict}", *(f"  warning: {text}" for text in self.warnings)]
        lines.append(f"  {'test':<26} {'data':<{width}} {'value':>10} {'expected':>10}  p (adjusted)")
        for f in self.findings:
            mark = f"  {f.mark}" if f.mark else ""
            p = shown(f.adjusted).removeprefix("p ").removeprefix("= ")
            lines.append(f"  {f.test:<26} {f.where:<{width}} {f.value:>10.4g} {f.expected:>10.4g}  {p}{mark}")
        return "\n".join(lines + [f"  {note}" for note in self.notes()])

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Heads and cells of the table as text."""
        rows = [
            (
                f.test,
                f.where.replace("`", ""),
                f"{f.value:.4g}",
                f"{f.expected:.4g}",
                shown(f.adjusted).removeprefix("p ").removeprefix("= "),
                f.mark,
            )
            for f in self.findings
        ]
        return ("test", "data", "value", "expected", "p (adjusted)", ""), rows

    def _repr_html_(self) -> str:
        notes = [*(f"warning: {text}" for text in self.warnings), *self.notes()]
        return html_page(f"Check: {self.verdict}", html_table(*self.cells()), html_notes(notes))


@full_products
def check(
    problem: Problem, result: FitResult | Posterior, *, draws: int = 200, key: PRNGKeyArray | None = None
) -> Check:
    r"""Test whether a fitted model describes its data: residuals, their order in time, their distribution, single data.

    Residuals are those given the data before each datum: of `Correlated` and `Autocorrelated` noise the innovations, which are
    independent where the model holds.

    - chi-square of quantile residuals, where the scatter is stated and not fitted, against its distribution (two-sided).
    - runs: changes of sign between neighbours in time, against a coin; autocorrelation at lag 1. By output and experiment from 8
        data on, and all series together. Two-sided: a model that misses a shape leaves residuals that stay on one side; data of two
        kinds that alternate leave some that change sign too often.
    - PIT: Kolmogorov's and Smirnov's distance of $F(y)$ from the uniform distribution.
    - the largest residual against the largest of as many normal numbers.
    - predictive: the same statistics of data and of replicated data, over draws of the parameters from the posterior, or from the
        normal distribution around a fit: p is the probability that replicated data are as far off (Gelman, Meng & Stern 1996).
    - influence of single data by one Gauss-Newton step without each.

    **Arguments:**

    - `problem`: the problem.
    - `result`: its `FitResult`, or its `Posterior`, whose draw of the highest density gives the residuals.
    - `draws`: how many draws of the parameters make the predictive p-values, fewer with more than 100,000 data.
    - `key`: a random key for draws around a fit and for quantiles of noise models without tails; a fixed one by default.

    **Returns:** a `Check`; `viz.plot_check` draws it. **Raises:** an `ArgumentError` where problem and result do not belong
    together, a `SimulationError` where the estimate cannot be simulated.

    Parameters are fitted to the data that are tested, which makes all p-values too large rather than too small: a test that fails
    has found something, one that passes has not shown that the model is right.

    **Good values:** the defaults.

    ```python
    import simkit
    times = [float(i) for i in range(1, 13)]
    line = simkit.odes.from_response(lambda x, params: params["slope"] * x, {"slope": 1.0})
    data = simkit.Experiment("line", times, {"y": [0.1 * t**2 for t in times]})
    free = {"slope": simkit.Free(bounds=(0.0, 10.0))}
    problem = simkit.Problem(line, data, free=free, noise={"y": simkit.noise.Normal(0.5)})
    print(simkit.check(problem, simkit.fit(problem)))
    ```
    """
    check_problem(problem)
    check_sequential(problem, "`check`")
    what = "the result of a fit or a posterior"
    check_kind(
        "result", result, (FitResult, Posterior), what, "`simkit.fit(problem)` or `simkit.sample(problem)` gives one."
    )
    if result.names != problem.names:
        raise ArgumentError(
            f"Argument `result` must belong to the problem, whose parameters are {problem.names}, but it has {result.names}."
        )
    check_count("draws", draws)
    check_key(key)
    key = jax.random.key(0) if key is None else key
    size = sum(values.size for values in problem.data.values())
    z, theta = _point(problem, result), _draws(problem, result, min(draws, max(1, MOST // max(size, 1))), key)
    view = in_numpy(problem, local_view(problem.lean(), z))
    if not np.all(view.status == Status.OK):
        raise SimulationError(
            "The problem cannot be simulated at the estimate. Simulate it with `problem.trajectories(result.estimate)`, or fit "
            "again."
        )
    residuals = {name: _residuals(problem, name, view, key) for name in problem.data}
    influence = influences(problem, view)
    quantile = {name: part.quantile for name, part in residuals.items()}
    spent = sum(float(np.nansum(_location_leverage(view, influence, name))) for name in influence)
    findings = [
        scatter_finding(known_scatter(problem), quantile, spent),
        *serial_findings(problem, problem.labels, quantile, spent),
        *cross_findings(problem, quantile, spent),
        _pit_finding(quantile),
        largest_finding(quantile, place_names(problem, problem.labels)),
        *_predictive(problem, quantile, theta),
    ]
    kept = tuple(finding for finding in findings if finding is not None)
    found = Check(kept, residuals, influence, (), problem.names, problem.labels, len(theta))
    warnings = [*sentences_of(kept), *_on_shape(kept), *_on_influence(found)]
    return dataclasses.replace(found, warnings=tuple(warnings))


def _point(problem: Problem, result: FitResult | Posterior) -> Any:
    if isinstance(result, FitResult):
        return result.z
    density = np.asarray(result.log_density).ravel()
    best = np.argmax(np.where(np.isfinite(density), density, -np.inf))
    return problem.coordinates(jnp.asarray(np.asarray(result.flat())[best], problem.bounds.dtype))


def _draws(problem: Problem, result: FitResult | Posterior, count: int, key: PRNGKeyArray) -> np.ndarray:
    """Draws of the parameters in natural units: of a posterior, spread evenly, or of the normal distribution around a fit."""
    if isinstance(result, Posterior):
        flat = np.asarray(result.flat(), float)
        return flat[np.linspace(0, len(flat) - 1, min(count, len(flat))).round().astype(int)]
    root = root_of(np.asarray(result.covariance, float))
    white = np.asarray(jax.random.normal(jax.random.fold_in(key, 1), (count, len(root))), float)
    z = np.asarray(result.z, float) + white @ root.T
    log = np.array(result.log, bool)
    theta = np.where(log, np.exp(np.where(log, z, 0)), z)
    bounds = np.asarray(result.bounds, float)
    return np.clip(theta, bounds[:, 0], bounds[:, 1])


def _residuals(problem: Problem, name: str, view: Local, key: PRNGKeyArray) -> Residuals:
    value, limits = np.asarray(problem.data[name], float), problem.dataset.limits.get(name)
    location, noise = view.predicted[name]
    quantile = quantile_residuals(noise, value, location, limits)
    if quantile is None:
        quantile = _ranked(noise, value, location, limits, key)
    raw = problem.dataset.exact(name) - location
    rows = problem.dataset.rows
    times = np.asarray(problem.times, float)[:, -rows:]
    if times.shape[1] != rows:  # a measurement with other rows than times
        times = np.broadcast_to(np.arange(1.0, rows + 1), (len(times), rows))
    hidden = np.isfinite(value) & np.isnan(problem.dataset.exact(name))
    return Residuals(times, location, raw, raw * view.precision[name], quantile, hidden)


def _ranked(
    noise: AbstractNoise, value: np.ndarray, location: np.ndarray, limits: Limits | None, key: PRNGKeyArray
) -> np.ndarray:
    """Quantile residuals from ranks among draws of the noise model, censored as the data are, ties spread evenly."""
    place = jnp.asarray(np.where(np.isfinite(value), location, 1.0))
    model = jax.tree.map(jnp.asarray, noise)
    drawn = np.asarray(jax.vmap(lambda k: model.sample(k, place))(jax.random.split(key, RANKS)), float)
    drawn = drawn if limits is None else coarse(drawn, {end: np.asarray(x) for end, x in limits.by_name().items()})
    share = np.random.default_rng(0).uniform(size=value.shape)
    below, same = (drawn < value).sum(axis=0), (drawn == value).sum(axis=0)
    return np.where(np.isfinite(value), special.ndtri((below + share * (same + 1)) / (RANKS + 1)), np.nan)


def _location_leverage(view: Local, influence: Mapping[str, Influence], name: str) -> np.ndarray:
    """The leverage of the locations alone: what numbers of the noise take is no degree of freedom of residuals."""
    rows = [np.sum(np.asarray(block) ** 2, axis=-1) for block in view.rows[name]]
    total = sum(rows)
    return influence[name].leverage * np.where(total > 0, rows[0] / np.where(total > 0, total, 1), 0)


def _pit_finding(quantile: Mapping[str, np.ndarray]) -> Finding | None:
    z = np.concatenate([values[np.isfinite(values)] for values in quantile.values()])
    if not z.size:
        return None
    found: Any = stats.kstest(z, "norm")
    return Finding("PIT", "all data", float(found.statistic), float(0.83 / np.sqrt(z.size)), float(found.pvalue))


def _on_shape(findings: tuple[Finding, ...]) -> list[str]:
    failed = {finding.test: finding for finding in findings if finding.failed}
    if "PIT" not in failed or "chi-square" in failed:
        return []
    f = failed["PIT"]
    return [
        f"Data are not distributed as the noise model says (distance {f.value:.3g} of the probability integral transform, "
        f"{shown(f.adjusted)}). Look at `viz.plot_check`: an S-shape asks for longer or shorter tails, a bow for a skewed noise "
        "model."
    ]


def _at(row: Mapping[str, Any]) -> str:
    return f"at {row['time']:.6g}" if np.isfinite(row["time"]) else f"row {row['row'] + 1}"


def _moved(row: Mapping[str, Any]) -> str:
    known = np.isfinite(row["shift"])
    return f"would move by {row['shift']:+.2f} standard errors" if known else "is not determined by the others"


def _on_influence(found: Check) -> list[str]:
    rows = [row for row in found.most_influential() if row["distance"] > TOO_MUCH]
    return [
        f"The estimates hang on one datum, `{row['output']}` in `{row['experiment']}` {_at(row)}: without it "
        f"`{row['parameter']}` {_moved(row)}. Check the datum, or measure more around it."
        for row in rows[:1]
    ]


def _predictive(problem: Problem, quantile: Mapping[str, np.ndarray], theta: np.ndarray) -> list[Finding]:
    """Posterior predictive p-values of statistics of quantile residuals.

    Residuals of data that are drawn from the model at the same parameters are independent N(0, 1), so that replicated data need no
    simulation.
    """
    predicted, status = views_of_draws(problem.lean(), jnp.asarray(theta, problem.bounds.dtype))
    fine = np.all(np.asarray(status).reshape(len(theta), -1) == Status.OK, axis=1)
    parts, count = {}, problem.dataset.rows
    for name in problem.data:
        location, noise = jax.tree.map(lambda x: np.asarray(x, float)[fine, :, :count], predicted[name])
        value = np.broadcast_to(np.asarray(problem.data[name], float), location.shape)
        found = quantile_residuals(noise, value, location, problem.dataset.limits.get(name))
        if found is not None and found.size:
            parts[name] = found.reshape(len(found), -1)
    if not parts:
        return []
    series = [s for s in series_of(problem) if s.output in parts]
    seen = statistics_of(parts, series)
    size = sum(z.size for z in parts.values())
    repeats = max(1, min(-(-REPLICATES // max(int(fine.sum()), 1)), MOST // size))
    rng = np.random.default_rng(0)
    again = [
        statistics_of({name: rng.standard_normal(z.shape) for name, z in parts.items()}, series) for _ in range(repeats)
    ]
    found = []
    for test, values in seen.items():
        known = np.isfinite(values)  # draws whose predictions a noise model does not take, such as negative counts
        drawn, values = np.stack([part[test] for part in again])[:, known], values[known]
        if not values.size:
            continue
        above = float(((drawn >= values).sum() + 1) / (drawn.size + 1))
        below = float(((drawn <= values).sum() + 1) / (drawn.size + 1))
        p = min(1.0, 2 * min(above, below)) if test in ("runs", "autocorrelation") else above
        found.append(Finding(f"predictive {test}", "all data", float(values.mean()), float(drawn.mean()), p))
    return found


def statistics_of(residuals: Mapping[str, np.ndarray], series: list[Series]) -> dict[str, np.ndarray]:
    """Statistics of residuals of shape `(draws, data)` by output: an array over draws each."""
    columns = [residuals[s.output][:, s.data] for s in series]
    ordered = [z for s, z in zip(series, columns, strict=True) if s.ordered and z.shape[1] > 1]
    square = sum(np.sum(z**2, axis=1) for z in columns)
    found = {"chi-square": np.asarray(square), "largest": np.max([np.abs(z).max(axis=1) for z in columns], axis=0)}
    if ordered:
        own = sum(np.sum(z**2, axis=1) for z in ordered)
        found["runs"] = np.asarray(sum(np.sum(z[:, 1:] * z[:, :-1] < 0, axis=1) + 1 for z in ordered))
        found["autocorrelation"] = np.asarray(sum(np.sum(z[:, 1:] * z[:, :-1], axis=1) for z in ordered)) / own
    return found
