"""Residuals of a fitted model, and tests of them that need neither a simulation nor a compilation."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import special

from ..core import StaticSystem
from ..problem import Limits, Problem, correlated_groups, steps_of

FEWEST = 8
"""A series shorter than this has too few changes of sign to tell anything."""

STRONG, WEAK = 1e-3, 0.05
"""Below the first p-value, times the number of tests of its kind, a test has failed; below the second it is doubtful."""

SEED = 0
"""Seed of the random numbers that spread quantile residuals of counts over the steps of their distribution function."""

MOST_DATA = 100_000
"""Predictions of more data are not carried along by a descent, so a fit to them says nothing of residuals; `check` does."""


class Series(NamedTuple):
    """The residuals of one output in one experiment in the order of time: `data` are the places in the flat array of the output."""

    output: str
    experiment: int
    data: np.ndarray
    ordered: bool


class Finding(NamedTuple):
    """One test of a fitted model.

    - `test`, `where`: what was tested, and on which data.
    - `value`, `expected`: the statistic, and what is expected of it where the model holds.
    - `p`: the probability of a value at least as far off where the model holds.
    - `tries`: how many tests of this kind there were, by which p is multiplied before it is judged.
    """

    test: str
    where: str
    value: float
    expected: float
    p: float
    tries: int = 1

    @property
    def adjusted(self) -> float:
        """The p-value times the number of tests of its kind, at most 1 (Bonferroni)."""
        return min(1.0, self.p * self.tries)

    @property
    def failed(self) -> bool:
        """True where the adjusted p-value is below 1e-3."""
        return self.adjusted < STRONG

    @property
    def doubtful(self) -> bool:
        """True where the test has not failed, but its adjusted p-value is below 0.05."""
        return STRONG <= self.adjusted < WEAK

    @property
    def mark(self) -> str:
        """The outcome as a word: "fails", "doubtful" or nothing."""
        return "fails" if self.failed else "doubtful" if self.doubtful else ""


def noise_of(problem: Problem, name: str, predicted: np.ndarray) -> tuple[np.ndarray, Any]:
    """Locations and noise model of an output, with NumPy arrays, from what a local model carries."""
    structure = jax.tree.structure(problem.base.noise[name])
    return predicted[0], jax.tree.unflatten(structure, list(predicted[1:]))


def quantile_residuals(
    noise: Any, value: np.ndarray, location: np.ndarray, limits: Limits | None = None
) -> np.ndarray | None:
    r"""Residuals that are N(0, 1) where the model holds, whatever the noise model: $\Phi^{-1}(F(y))$.

    Counts are spread evenly over the step of their distribution function (Dunn & Smyth 1996, doi:10.1080/10618600.1996.10474708),
    and censored data over that of their set. NaN where data are missing; None where the noise model does not state its tails. For
    normal data these are the standardised residuals themselves.
    """
    seen = np.isfinite(value)
    shown, place = np.where(seen, value, 1.0).astype(float), np.where(seen, location, 1.0).astype(float)
    with np.errstate(all="ignore"):
        tails = noise.log_tails(shown, place)
        if tails is None:
            return None
        below, above = tails
        if noise.domain in ("count", "share"):
            step = 1.0 if noise.domain == "count" else 1 / np.asarray(noise.trials)
            share = np.random.default_rng(SEED).uniform(size=shown.shape)
            before = np.where(shown > 0, noise.log_tails(np.maximum(shown - step, 0), place)[0], -np.inf)
            after = noise.log_tails(shown + step, place)[1]
            below = np.log(share * np.exp(below) + (1 - share) * np.exp(before))
            above = np.log((1 - share) * np.exp(above) + share * np.exp(after))
        if limits is not None:
            hidden = np.broadcast_to(seen & limits.censored(shown), shown.shape)
            spread = _spread_over_sets(noise, limits, np.broadcast_to(shown, place.shape), place)
            below, above = np.where(hidden, spread[0], below), np.where(hidden, spread[1], above)
        z = np.where(below < above, special.ndtri_exp(np.minimum(below, 0)), -special.ndtri_exp(np.minimum(above, 0)))
    return np.where(seen, z, np.nan)


def _spread_over_sets(
    noise: Any, limits: Limits, value: np.ndarray, location: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log P(Y <= y) and log P(Y > y) at a place drawn evenly in probability from the set of every censored datum."""
    lower, upper = steps_of(noise, limits, value)
    share = np.random.default_rng(SEED).uniform(size=location.shape)
    step = 1.0 if noise.domain == "count" else 0.0

    def sides(end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        known = np.isfinite(end)
        place = np.where(known, end, 1.0)
        below, above = noise.log_tails(place, location)[0], noise.log_tails(place + step, location)[1]
        nothing, all_of_it = np.where(end > 0, 0.0, -np.inf), np.where(end > 0, -np.inf, 0.0)
        return np.where(known, below, nothing), np.where(known, above, all_of_it)

    (low_below, low_above), (high_below, high_above) = sides(lower), sides(upper)
    mixed = lambda one, two: np.logaddexp(np.log(share) + one, np.log1p(-share) + two)
    return mixed(high_below, low_below), mixed(high_above, low_above)


def series_of(problem: Problem) -> list[Series]:
    """The series of all data: by output, experiment and component, in the order of time."""
    static, found = isinstance(problem.base.system, StaticSystem), []
    times = np.asarray(problem.times)
    for name, values in problem.data.items():
        seen = np.isfinite(np.asarray(values))
        places = np.arange(seen.size).reshape(*seen.shape[:2], -1)
        for experiment in range(seen.shape[0]):
            rows = times[experiment] if static else times[experiment][1:]
            # Predictors of several numbers have no order; a measurement may have other rows than times.
            ordered = rows.ndim == 1 and len(rows) == seen.shape[1]
            order = np.argsort(rows, kind="stable") if ordered else np.arange(seen.shape[1])
            for column in range(places.shape[2]):
                own = places[experiment, order, column]
                own = own[seen.ravel()[own]]
                if own.size:
                    found.append(Series(name, experiment, own, ordered))
    return found


def serial_findings(
    problem: Problem, labels: Sequence[str], residuals: Mapping[str, np.ndarray], spent: float
) -> list[Finding]:
    """Changes of sign and lag-1 autocorrelation of every series, and of all together, two-sided.

    Where the model holds, changes of sign between neighbours are thrown like coins, and
    $r = \\sum z_t z_{t+1} / \\sum z_t^2$ has mean 0 and variance (n - 1) / (n (n + 2)). A model that misses a shape leaves
    residuals that stay on one side; there both tests hold residuals of a fit to be independent, which makes them cautious.
    Residuals of a fit of k parameters alternate by themselves, with a mean of r of about -k / (n - k); the other side is judged
    from there, as if all parameters were spent on the series.

    **Arguments:** `spent`: how many degrees of freedom the parameters took of all data.
    """
    kept = []
    for series in series_of(problem):
        if series.ordered and series.output in residuals:
            z = residuals[series.output].ravel()[series.data]
            z = z[np.isfinite(z) & (z != 0)]
            if z.size >= FEWEST:
                kept.append((f"`{series.output}` in `{labels[series.experiment]}`", z))
    tries = len(kept) + (len(kept) > 1)
    groups = [(where, [z]) for where, z in kept]
    if len(kept) > 1:
        groups.append(("all series together", [z for _, z in kept]))
    found = []
    for where, parts in groups:
        pairs = sum(z.size - 1 for z in parts)
        changes = sum(int(np.sum(z[1:] * z[:-1] < 0)) for z in parts)
        often = 0.5 + np.arcsin(_alternation(sum(z.size for z in parts), spent)) / np.pi
        p = _two_sided(special.bdtr(changes, pairs, 0.5), special.bdtrc(changes - 1, pairs, often) if changes else 1.0)
        found.append(Finding("runs", where, changes + len(parts), 0.5 * pairs + len(parts), p, tries))
    for where, parts in groups:
        count, pairs = sum(z.size for z in parts), sum(z.size - 1 for z in parts)
        rise = sum(float(z[1:] @ z[:-1]) for z in parts) / sum(float(z @ z) for z in parts)
        error = np.sqrt(pairs / (count * (count + 2)))
        p = _two_sided(special.ndtr(-rise / error), special.ndtr((rise + _alternation(count, spent)) / error))
        found.append(Finding("autocorrelation", where, rise, 0.0, p, tries))
    return found


def cross_findings(problem: Problem, residuals: Mapping[str, np.ndarray], spent: float) -> list[Finding]:
    """Correlation between every two outputs of residuals in the same rows, over all experiments, two-sided.

    Where the model holds, Fisher's $\\mathrm{artanh}\\, r$ is normal with variance 1 / (n - 3). Residuals of a fit are
    correlated by its parameters: of the projection that takes k of them away half of k at most lies between two outputs, so that r
    is judged from (k / 2) / (n - k / 2), as if all k were spent on the two.
    Where both follow their neighbours, by autocorrelations a and b, n counts (1 - ab) / (1 + ab) times (Bartlett 1935).

    **Arguments:** `spent`: how many degrees of freedom the parameters took of all data.
    """
    shapes: dict[tuple[int, ...], list[str]] = {}
    for name in residuals:
        shapes.setdefault(np.shape(problem.data[name]), []).append(name)
    found = []
    for names in shapes.values():
        rows = np.stack([residuals[name].ravel() for name in names])
        seen = np.isfinite(rows)
        rows = np.where(seen, rows, 0.0)
        count, squares = seen.astype(float) @ seen.T, rows**2 @ seen.T
        with np.errstate(all="ignore"):
            r = np.nan_to_num(rows @ rows.T / np.sqrt(squares * squares.T))
            follow = np.nan_to_num(np.sum(rows[:, 1:] * rows[:, :-1], axis=1) / np.sum(rows**2, axis=1))
            shared = np.maximum(follow[:, None] * follow[None], 0)
            taken = np.minimum(0.5 * spent, count - 1)
            bias = np.minimum(0.9, taken / np.maximum(count - taken, 1))
            freedom = np.maximum(count * (1 - shared) / (1 + shared) - 3, 0)
            size = np.arctanh(np.minimum(np.abs(r), 1 - 1e-15)) - np.arctanh(bias)
            p = np.minimum(1, 2 * special.ndtr(-np.maximum(size, 0) * np.sqrt(freedom)))
        for i, j in zip(*np.triu_indices(len(names), 1), strict=True):
            if count[i, j] >= FEWEST:
                found.append(
                    Finding("cross-correlation", f"`{names[i]}` and `{names[j]}`", float(r[i, j]), 0.0, float(p[i, j]))
                )
    return [finding._replace(tries=len(found)) for finding in found]


def _alternation(count: int, spent: float) -> float:
    """Negative autocorrelation that a fit of so many parameters leaves in so many residuals."""
    taken = min(spent, count - 1)
    return min(0.9, taken / (count - taken))


def _two_sided(lower: float, upper: float) -> float:
    return float(min(1.0, 2 * min(lower, upper)))


def known_scatter(problem: Problem) -> list[str]:
    """The outputs whose scatter is stated: no number of their noise models is free."""
    free = {path for path, (index, _) in problem.table.items() if np.any(np.asarray(index) >= 0)}
    solved = {output for closed in problem.closed if closed.scatter for output in closed.outputs}
    own = lambda name: any(path == f"noise.{name}" or path.startswith(f"noise.{name}.") for path in free)
    fitted = {name for name in problem.data if name in solved or own(name)}
    # The scatter of an output given others is fitted where that of one of them is.
    for names in correlated_groups(problem.base.noise, problem.dataset):
        fitted |= {*names} if fitted & {*names} else set()
    return [name for name in problem.data if name not in fitted]


def scatter_finding(known: Sequence[str], residuals: Mapping[str, np.ndarray], spent: float) -> Finding | None:
    """Chi-square of data whose scatter is stated, against its distribution, two-sided.

    **Arguments:** `spent`: the degrees of freedom that the parameters took of all data.
    """
    joined = {name: z[np.isfinite(z)] for name, z in residuals.items()}
    total = sum(z.size for z in joined.values())
    z = np.concatenate([joined[name] for name in known if name in joined] or [np.zeros(0)])
    freedom = z.size - spent * z.size / max(total, 1)
    if freedom < 1:
        return None
    value = float(z @ z)
    upper, lower = special.gammaincc(freedom / 2, value / 2), special.gammainc(freedom / 2, value / 2)
    return Finding("chi-square", "data of stated scatter", value, freedom, float(min(1.0, 2 * min(upper, lower))))


def largest_finding(residuals: Mapping[str, np.ndarray], named: Mapping[str, Any]) -> Finding | None:
    """The largest quantile residual beside what the largest of so many normal numbers is."""
    name, most, place, count = "", 0.0, 0, 0
    for output, z in residuals.items():
        size = np.where(np.isfinite(z), np.abs(z), -1.0).ravel()
        count += int((size >= 0).sum())
        if size.size and size.max() > most:
            name, most, place = output, float(size.max()), int(size.argmax())
    if count == 0 or not name:
        return None
    p = float(-np.expm1(count * np.log1p(-2 * special.ndtr(-most)))) if most > 0 else 1.0
    expected = float(-special.ndtri(0.5 * -np.expm1(np.log(0.5) / count)))  # the median of the largest
    return Finding("largest residual", named[name](place), most, expected, p)


def sentences_of(findings: Sequence[Finding]) -> list[str]:
    """Describe each failed test in a sentence with a remedy. Of several tests of one kind the one with the smallest p is kept."""
    told: dict[str, str] = {}
    for test, tell in TOLD.items():
        failed = [finding for finding in findings if finding.test == test and finding.failed]
        if failed and not any(other in told for other in SAME.get(test, ())):
            told[test] = tell(min(failed, key=lambda finding: finding.p))
    return list(told.values())


def shown(p: float) -> str:
    """A p-value as text."""
    return f"p = {p:.2g}" if p >= 1e-15 else "p < 1e-15"


SCATTER = "The data scatter"
"""Beginning of sentences on the stated scatter, which do not apply to rescaled errors."""


def _on_scatter(f: Finding) -> str:
    size = f"{np.sqrt(f.value / f.expected):.3g} times as far"
    more = f.value > f.expected
    said = f"(chi-square {f.value:.4g} where {f.expected:.4g} is expected, {shown(f.adjusted)})"
    if more:
        return (
            f"{SCATTER} {size} around the model as its noise says {said}: the model does not fit, or the stated noise is too "
            "small. Standard errors do not hold. Mend the model, or leave the scale of the noise free; `simkit.check` shows where."
        )
    return (
        f"{SCATTER} only {size} around the model as its noise says {said}: standard errors are too large. State smaller noise, "
        "or leave its scale free."
    )


def _on_runs(f: Finding) -> str:
    if f.value > f.expected:
        return (
            f"Residuals of {f.where} change sign at nearly every datum: {f.value:.0f} runs of equal sign where "
            f"{f.expected:.4g} are expected ({shown(f.adjusted)}). Data of two kinds may alternate, or each was corrected by its "
            "neighbour; standard errors are wrong. `simkit.check` shows where."
        )
    return (
        f"Residuals of {f.where} stay on one side of the model: {f.value:.0f} runs of equal sign where {f.expected:.4g} are "
        f"expected ({shown(f.adjusted)}). The model misses a shape in the data, and standard errors are too small; `simkit.check` "
        "shows where."
    )


def _on_autocorrelation(f: Finding) -> str:
    if f.value < f.expected:
        return (
            f"Residuals of {f.where} oppose their neighbours: autocorrelation {f.value:.2f} ({shown(f.adjusted)}). Data of two "
            "kinds may alternate, or each was corrected by its neighbour; standard errors are wrong. `simkit.check` shows where."
        )
    return (
        f"Residuals of {f.where} follow their neighbours: autocorrelation {f.value:.2f} ({shown(f.adjusted)}). The model misses a "
        "shape in the data, or errors have a memory; standard errors are too small. `simkit.check` shows where."
    )


def _on_cross(f: Finding) -> str:
    return (
        f"Residuals of {f.where} at one time are correlated: {f.value:.2f} ({shown(f.adjusted)}). Standard errors take them for "
        "independent. The model misses what moves both, or they share errors: `noise.Correlated` states those."
    )


def _on_largest(f: Finding) -> str:
    return (
        f"The datum of {f.where} lies {f.value:.3g} standard deviations from the model ({shown(f.adjusted)}). Check the datum, or "
        "take a noise model with longer tails such as `StudentT`."
    )


def _on_predictive(f: Finding) -> str:
    return (
        f"Data drawn from the model at draws of its parameters seldom show {f.test.removeprefix('predictive ')} as far off as the "
        f"data do: {f.value:.3g} where {f.expected:.3g} is expected ({shown(f.adjusted)}). The model or its noise misses "
        "something; `viz.plot_check` shows where."
    )


SERIAL = ("runs", "autocorrelation", "predictive runs")
TOLD = {
    "chi-square": _on_scatter,
    "runs": _on_runs,
    "autocorrelation": _on_autocorrelation,
    "cross-correlation": _on_cross,
    "largest residual": _on_largest,
    "predictive chi-square": _on_predictive,
    "predictive runs": _on_predictive,
    "predictive autocorrelation": _on_predictive,
    "predictive largest": _on_predictive,
}

SAME: dict[str, tuple[str, ...]] = {
    "autocorrelation": ("runs",),
    "cross-correlation": ("runs", "autocorrelation", "chi-square"),
    "largest residual": ("chi-square",),
    "predictive chi-square": ("chi-square", "largest residual"),
    "predictive runs": SERIAL,
    "predictive autocorrelation": SERIAL,
    "predictive largest": ("chi-square", "largest residual", "predictive chi-square"),
}
"""Tests that say nothing new where another has failed."""


def place_names(problem: Problem, labels: Sequence[str]) -> dict[str, Any]:
    """Return by output a function from an index in its flat array to words: output, experiment and time."""
    static, times = isinstance(problem.base.system, StaticSystem), np.asarray(problem.times)

    def named(name: str, shape: tuple[int, ...], place: int) -> str:
        index = [int(i) for i in np.unravel_index(place, shape)]
        rows = times[index[0]] if static else times[index[0]][1:]
        known = rows.ndim == 1 and len(rows) == shape[1]
        at = f" at {float(rows[index[1]]):.6g}" if known else f", row {index[1] + 1}"
        return f"`{name}` in `{labels[index[0]]}`{at}"

    return {
        name: lambda place, name=name, shape=np.shape(values): named(name, shape, place)
        for name, values in problem.data.items()
    }


def misfits(
    problem: Problem, labels: Sequence[str], predicted: Mapping[str, np.ndarray], spent: float
) -> tuple[str, ...]:
    """Test the residuals of a fit and return the failures as sentences; empty if none fails or if there are too many data.

    **Arguments:** `predicted`: as in `LocalModel`, of this problem; `spent`: how many degrees of freedom its parameters took.
    """
    residuals = {}
    for name, values in predicted.items():
        location, noise = noise_of(problem, name, np.asarray(values, float))
        limits = problem.dataset.limits.get(name)
        found = quantile_residuals(noise, np.asarray(problem.data[name], float), location, limits)
        if found is not None and np.isfinite(found).any():
            residuals[name] = found
    if not residuals:
        return ()
    findings = [
        scatter_finding(known_scatter(problem), residuals, spent),
        *serial_findings(problem, labels, residuals, spent),
        *cross_findings(problem, residuals, spent),
        largest_finding(residuals, place_names(problem, labels)),
    ]
    return tuple(sentences_of([finding for finding in findings if finding is not None]))
