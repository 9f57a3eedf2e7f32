"""compare: which of several models the data prefer."""

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from .._doors import check_kind, check_mapping
from .._errors import ArgumentError
from ..core import full_products
from ..engine import note_trace, over_members
from ..fitting import FitResult
from ..problem import Problem, named_parts
from ._posterior import Posterior

COLUMNS = ("parameters", "log_likelihood", "aic", "aicc", "bic", "log_evidence", "loo")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models side by side: `rows` holds one dictionary a model, with NaN for what is not known of it.

    - `parameters`, `log_likelihood`, `aic`, `aicc`, `bic`: of the fit. Differences of the criteria below 2 say little, above 10
        much.
    - `log_evidence`, `evidence_error`: of tempered SMC; a difference d is a Bayes factor of exp(d).
    - `loo`, `loo_error`: the expected log density of a left out datum, summed over the data, by ArviZ from the draws; more is
        better.
    """

    rows: tuple[dict[str, Any], ...]

    def bayes_factor(self, one: str, other: str) -> float:
        """Return how many times more probable the data are under one model than under the other."""
        found = {row["name"]: row["log_evidence"] for row in self.rows}
        missing = [name for name in (one, other) if not math.isfinite(found.get(name, math.nan))]
        if missing:
            raise ArgumentError(
                f"The evidence of `{missing[0]}` is not known: `sample` it with `TemperedSMC()`, `ParallelTempering()` or "
                "`NestedSampling()`."
            )
        return math.exp(found[one] - found[other])

    def __repr__(self) -> str:
        width = max(len(row["name"]) for row in self.rows)
        known = [name for name in COLUMNS if any(math.isfinite(row[name]) for row in self.rows)]
        lines = [" " * (width + 2) + "".join(f"{name.replace('_', ' '):>16}" for name in known)]
        for row in self.rows:
            cells = "".join(f"{row[name]:>16.6g}" if math.isfinite(row[name]) else f"{'-':>16}" for name in known)
            lines.append(f"  {row['name']:<{width}}{cells}")
        for name, sign in (("aicc", 1), ("bic", 1), ("log_evidence", -1), ("loo", -1)):
            found = sorted((sign * row[name], row["name"]) for row in self.rows if math.isfinite(row[name]))
            if len(found) > 1:
                (best, first), (next_best, second) = found[:2]
                told = f"  {name.replace('_', ' ')}: {first}, by {next_best - best:.3g} before {second}"
                lines.append(
                    told + (f" (Bayes factor {math.exp(next_best - best):.3g})" if sign < 0 and name != "loo" else "")
                )
        return "\n".join(["Comparison:", *lines])


Known = Problem | FitResult | Posterior


@full_products
def compare(models: Mapping[str, Known | Sequence[Known]]) -> Comparison:
    """Put models of the same data side by side.

    **Arguments:** `models`: name -> what is known of the model, in any order: its `FitResult` for AIC, AICc and BIC, a `Posterior`
    of `TemperedSMC` for the evidence, a `Posterior` with the `Problem` for LOO, which takes ArviZ (`pip install "simkit[arviz]"`).

    **Returns:** a `Comparison`. **Raises:** an `ArgumentError` where the models have different data.

    **Good values:** evidence where priors are meant, LOO for predictions, AICc for a first look. None of them says that a model is
    right.
    """
    check_mapping("models", models, "what is known of each model", '{"linear": [fit], "quadratic": [other]}')
    listed = {name: known if isinstance(known, list | tuple) else [known] for name, known in models.items()}
    for name, known in listed.items():
        for part in known:
            remedy = "Give the problem, the fit or the posterior of a model, or a list of these."
            check_kind(
                f"models[{name!r}]", part, (Problem, FitResult, Posterior), "a problem, a fit or a posterior", remedy
            )
    rows = tuple(_row(name, known) for name, known in listed.items())
    counts = {row["data"] for row in rows if row["data"]}
    if len(counts) > 1:
        raise ArgumentError(f"Models must be compared on the same data, but they have {sorted(counts)} of them.")
    sums = {number for known in listed.values() for part in known if (number := _checksum(part)) is not None}
    if len(sums) > 1:
        raise ArgumentError(
            "Models must be compared on the same data, but their times or values differ. Give all models the data in one form: of "
            "a model of logarithms take `LogNormal` noise."
        )
    if not rows:
        raise ArgumentError("Argument `models` must hold at least one model, but it is empty.")
    return Comparison(rows)


def _checksum(known: Any) -> int | None:
    """The number that tells data apart, where it is known."""
    if isinstance(known, Problem):
        return known.dataset.checksum()
    found = known.data_checksum if isinstance(known, FitResult) else None
    return None if found is None else int(found)


def _row(name: str, known: Sequence[Any]) -> dict[str, Any]:
    pick = lambda kind: next((part for part in known if isinstance(part, kind)), None)
    problem, fit, posterior = pick(Problem), pick(FitResult), pick(Posterior)
    if fit is None and posterior is None:
        raise ArgumentError(f"Of the model `{name}` a fit or a posterior must be known, but there is neither.")
    row: dict[str, Any] = {
        "name": name,
        "data": 0,
        **dict.fromkeys((*COLUMNS, "evidence_error", "loo_error"), math.nan),
    }
    if problem is not None:
        row["data"] = problem.data_count
    if fit is not None:
        row |= {"data": int(fit.data_count), "parameters": fit.free_count, "log_likelihood": float(fit.log_likelihood)}
        row |= {"aic": fit.aic, "aicc": fit.aicc, "bic": fit.bic}
    if posterior is not None and posterior.log_evidence is not None:
        values = np.asarray(posterior.log_evidence, float)
        row["log_evidence"] = float(values.mean())
        row["evidence_error"] = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else math.nan
    if posterior is not None and problem is not None:
        row["parameters"] = problem.size if math.isnan(row["parameters"]) else row["parameters"]
        if problem.likelihood.independent:
            row["loo"], row["loo_error"] = _leave_one_out(problem, posterior)
    return row


def pointwise(problem: Problem, draws: ArrayLike) -> np.ndarray:
    """The log density of every datum that is not missing, for every draw: shape `(chain, draw, datum)`."""
    theta = jnp.asarray(draws)
    found = _pointwise(problem.lean(), theta.reshape(-1, theta.shape[-1]))
    seen = [np.isfinite(np.asarray(values)) for values in problem.lean().data.values()]
    columns = [np.asarray(values)[:, mask] for values, mask in zip(found, seen, strict=True)]
    return np.concatenate(columns, axis=1).reshape(*theta.shape[:2], -1)


@eqx.filter_jit
def _pointwise(problem: Problem, theta: Array) -> list[Array]:
    note_trace("compare", named_parts(problem) | {"draws": theta})

    def one(problem: Problem, theta: Array) -> list[Array]:
        heads, _ = problem.heads(theta)
        found = []
        for name in problem.data:
            location, noise = heads[name]
            found.append(problem.dataset.log_density(name, location, noise))
        return found

    return over_members(one, problem, theta)


def _leave_one_out(problem: Problem, posterior: Posterior) -> tuple[float, float]:
    """PSIS-LOO by ArviZ, and its standard error; NaN where ArviZ is not installed."""
    return leave_one_out(pointwise(problem, posterior.draws))


def leave_one_out(densities: np.ndarray) -> tuple[float, float]:
    """The expected log density of new data, of log densities `(chain, draw, datum)`.

    A datum that no parameter has to do with, such as one at a given start, is as probable without itself; ArviZ refuses it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import arviz
        except ImportError:
            return math.nan, math.nan
        each = densities[0, 0].astype(float)
        varies = np.ptp(densities, axis=(0, 1)) > 0
        if varies.any():
            kept = densities[..., varies]
            groups: dict[str, Any] = {"posterior": {"any": kept[..., 0]}, "log_likelihood": {"data": kept}}
            if int(arviz.__version__.split(".")[0]) >= 1:
                found: Any = arviz.loo(arviz.from_dict(groups), pointwise=True)
                each[varies] = np.asarray(found.elpd_i)
            else:
                old: Any = arviz.from_dict
                found = arviz.loo(old(**groups), pointwise=True)
                each[varies] = np.asarray(found.loo_i)
    error = math.sqrt(each.size * each.var(ddof=1)) if each.size > 1 else math.nan
    return float(each.sum()), error
