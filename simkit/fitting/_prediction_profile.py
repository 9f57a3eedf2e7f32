"""Profiles of predictions: how far a prediction can move while the data are still described."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from .._doors import check_progress
from .._errors import ArgumentError, check_known
from .._progress import Progress, Say
from ..core import full_products
from ..engine import awaited, note_trace, over_members
from ..linear import triangle
from ..problem import Problem, check_independent, check_problem, named_parts
from ._fit_result import FitResult
from ._gauss_newton import GaussNewton
from ._given_fit import check_fit
from ._local_model import best_model
from ._method import FAILED
from ._profiles import threshold
from ._quadratic import LocalModel

ROUNDS = 6
"""Number of rounds of each side: the first takes a row of values, later ones values near the crossing of the level."""

TIGHT = 0.5
"""Stiffness of the pull on the prediction, in its standard errors. The profile does not depend on it; a stiffer pull is worse
conditioned."""


class PredictionProfile(eqx.Module):
    """Intervals of one output at several times, by profile likelihood.

    - `times`, `estimate`, `intervals`: shapes `(times,)`, `(times,)` and `(times, 2)`; an end that was not found is infinite.
    - `values`, `differences`: shape `(times, points)`: predictions, increasing, and how far the best objective with such a
        prediction lies above that of the fit; NaN where nothing was found.
    """

    times: Float[Array, " times"]
    estimate: Float[Array, " times"]
    intervals: Float[Array, "times 2"]
    values: Float[Array, "times points"]
    differences: Float[Array, "times points"]
    level: float = eqx.field(static=True)
    output: str = eqx.field(static=True)
    experiment: str = eqx.field(static=True)

    @property
    def is_open(self) -> Bool[Array, "times 2"]:
        """The ends that the data do not limit, as far as was looked."""
        return ~jnp.isfinite(self.intervals)

    def __repr__(self) -> str:
        if isinstance(self.times, Tracer):
            return f"PredictionProfile(traced, {self.output})"
        lines = [f"PredictionProfile: `{self.output}` of `{self.experiment}`, intervals at {self.level:.0%}"]
        for t, middle, (low, high) in zip(*map(np.asarray, (self.times, self.estimate, self.intervals)), strict=True):
            lines.append(f"  at {t:<10.5g} {middle:>12.6g}   {low:.6g} to {high:.6g}")
        if np.asarray(self.is_open).any():
            lines.append("  An infinite end was not found: the data do not limit the prediction there.")
        lowest = np.nanmin(np.asarray(self.differences))
        if lowest < -1e-3:
            lines.append(f"  warning: the objective fell {-lowest:.3g} below the fit. Fit again with more starts.")
        return "\n".join(lines)


@full_products
def profile_prediction(
    problem: Problem,
    fit: FitResult,
    output: str,
    times: ArrayLike | Sequence[Any],
    *,
    experiment: int | str = 0,
    level: float = 0.95,
    points: int = 4,
    method: GaussNewton | None = None,
    progress: Say = None,
) -> PredictionProfile:
    """Profile a prediction: intervals of values at which the data are still described, which follow the shape of the likelihood.

    The prediction is pulled to a row of values, as if it had been measured there, and all parameters are optimised again; what they
    then predict, and how much worse they describe the data, is one point of the profile, whatever the pull. For models that are
    linear in the parameters the intervals are the exact ones, from the standard errors.

    **Arguments:**

    - `problem`, `fit`: a problem and the result of fitting it.
    - `output`, `times`, `experiment`: what to predict: an output with data, when, and of which experiment, by number or name.
    - `level`: of the intervals. They are those of the curve, not of a new datum, whose scatter comes on top.
    - `points`: values a side in the first round.
    - `progress`: as in `fit`.

    **Returns:** a `PredictionProfile`. **References:** Kreutz et al. (2012), doi:10.1186/1752-0509-6-120; Hass et al. (2016),
    doi:10.1371/journal.pone.0162366.

    **Good values:** the defaults, at ten times or so; `predict` with draws where priors are meant.
    """
    check_problem(problem)
    check_independent(problem, "`profile_prediction`")
    check_fit(fit, problem)
    check_progress(progress)
    if not 0 < level < 1:
        raise ArgumentError(f"Argument `level` must lie between 0 and 1, but it is {level}.")
    check_known(output, problem.data, "output with data")
    if isinstance(experiment, str):
        check_known(experiment, problem.labels, "experiment")
        experiment = problem.labels.index(experiment)
    times = np.atleast_1d(np.asarray(times, float))
    asked, lean = problem.at(times), problem.lean()
    place = output, experiment, 0 if asked.times.shape[1] == len(times) else 1
    located, slopes = _linear(asked, fit.z, place)
    middle, slope = np.asarray(located, float), np.asarray(slopes, float)
    if middle.ndim != 1:
        raise ArgumentError(
            f"The output `{output}` must be one number a time, but it has the shape {middle.shape[1:]}."
        )
    spread = np.sqrt(np.einsum("tp,pq,tq->t", slope, np.asarray(fit.covariance, float), slope))
    # What no parameter moves gets a width that is nothing beside the curve.
    height = np.where(middle != 0, np.abs(middle), np.max(np.abs(middle)) or 1.0)
    spread = np.where(spread > 0, spread, 1e-8 * height)
    high = np.sqrt(2 * threshold(level))
    sides = [_Side(middle[k], spread[k], sign, high) for k in range(len(times)) for sign in (-1, 1)]
    method = GaussNewton() if method is None else method
    with Progress(None, 0, progress, verb="profile_prediction") as counter:
        for i in range(ROUNDS):
            counter.tell(f"round {i + 1} of {ROUNDS}, {len(sides)} sides")
            rows = np.stack([side.next_targets(points if i == 0 else 1) for side in sides])
            which = np.repeat(np.arange(len(times)), 2 * rows.shape[1])
            targets, tight = (jnp.asarray(x, fit.z.dtype) for x in (rows.ravel(), (TIGHT * spread)[which]))
            pulled = _pulled(lean, asked, method, fit.z, jnp.asarray(which), targets, tight, place)
            found = awaited(pulled, "profile_prediction", f"at {len(which)} points")
            seen, value = (np.asarray(x, float).reshape(rows.shape) for x in found)
            for side, *pair in zip(sides, seen, value - float(fit.objective[0]), strict=True):
                side.add(*pair)
    ends = np.array([side.end() for side in sides]).reshape(-1, 2)
    joined = [
        np.array(sorted({(side.middle, 0.0), *side.found, *other.found}))
        for side, other in zip(sides[::2], sides[1::2])
    ]
    length = max(len(rows) for rows in joined)
    table = np.stack([np.pad(rows, ((0, length - len(rows)), (0, 0)), constant_values=np.nan) for rows in joined])
    dtype = problem.times.dtype
    array = lambda x: jnp.asarray(x, dtype)
    curves = array(table[..., 0]), array(table[..., 1])
    return PredictionProfile(
        array(times), array(middle), array(ends), *curves, level, output, problem.labels[experiment]
    )


class _Side:
    """One side of one profile, as points of (prediction, difference of the objective)."""

    def __init__(self, middle: float, spread: float, sign: int, high: float):
        self.middle, self.spread, self.sign, self.high = float(middle), float(spread), sign, high
        self.found: set[tuple[float, float]] = set()

    def next_targets(self, count: int) -> np.ndarray:
        """Values to which the prediction is pulled, such that it gets where the profile is to be known."""
        if not self.found:
            steps = self.sign * self.spread * self.high * np.linspace(0.4, 1.15, count)
            return self.middle + steps * (1 + TIGHT**2)
        (x1, y1), (x2, y2) = self._bracket()
        rise = (y2 - y1) / (x2 - x1) if x2 != x1 else self.sign / self.spread
        rise = rise if rise * self.sign > 0 else 1e-2 * self.sign / self.spread
        wish = x1 + np.clip((self.high - y1) / rise * self.sign, 0, 4 * self.spread * self.high) * self.sign
        # At the constrained optimum the pull equals the slope of the profile, y dy/dx.
        return np.full(count, wish + (TIGHT * self.spread) ** 2 * self.high * rise)

    def add(self, values: np.ndarray, differences: np.ndarray) -> None:
        fine = np.isfinite(differences) & ((values - self.middle) * self.sign > 0)
        self.found |= set(zip(values[fine].tolist(), differences[fine].tolist(), strict=True))

    def end(self) -> float:
        """Return the crossing of the level, from the straight line through the roots of the nearest points."""
        (x1, y1), (x2, y2) = self._bracket()
        if y2 < self.high * (1 - 1e-3) or y2 <= y1:
            return self.sign * np.inf
        return x1 + (self.high - y1) * (x2 - x1) / (y2 - y1)

    def _bracket(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The last point below the level and the first one above, or the two farthest; by root of twice the difference."""
        points = sorted({(self.middle, 0.0), *self.found}, key=lambda point: point[0] * self.sign)
        roots = [(x, float(np.sqrt(2 * max(y, 0.0)))) for x, y in points]
        above = next((i for i, (_, y) in enumerate(roots) if y >= self.high), len(roots) - 1)
        above = max(above, 1)
        return (roots[above - 1], roots[above]) if len(roots) > 1 else (roots[0], roots[0])


@eqx.filter_jit
def _linear(asked: Problem, z: Array, place: tuple[str, int, int]) -> tuple[Array, Array]:
    note_trace("profile_prediction, slopes", named_parts(asked))
    located = lambda z: _located(asked, z, place)
    return located(z), jax.jacfwd(located)(z)


def _located(asked: Problem, z: Array, place: tuple[str, int, int]) -> Array:
    output, experiment, _ = place
    return asked.predict(asked.natural(z))[output][experiment]


@eqx.filter_jit
def _pulled(
    problem: Problem,
    asked: Problem,
    method: GaussNewton,
    z: Array,
    which: Array,
    targets: Array,
    tight: Array,
    place: tuple[str, int, int],
) -> tuple[Array, Array]:
    """Return the prediction at the optimum with a pull, and the objective without it; infinite where that failed."""
    note_trace("profile_prediction", named_parts(problem) | {"method": method, "members": targets})

    def one(shared: PyTree, member: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        problem, asked, method, z = shared
        k, target, tight = member

        def evaluate(z: Array, held: Array, live: Array) -> tuple[LocalModel, Array]:
            model, _ = best_model(problem, z, None, live)
            doubled = lambda z: ((found := _located(asked, z, place)[k]), found)
            slope, value = jax.jacfwd(doubled, has_aux=True)(z)
            pull = (value - target) / tight
            stacked = jnp.concatenate([model.rows, slope[None] / tight])
            right = jnp.concatenate([model.pull, pull[None]])
            # A row of zeros, so that the triangle keeps what is left of the right side apart.
            joined = jnp.concatenate([stacked, right[:, None]], axis=1)
            joined = triangle(joined)[: z.size]
            good = model.good & jnp.isfinite(value) & jnp.isfinite(slope).all()
            parts = joined[:, :-1], joined[:, -1], jnp.where(good, model.value + 0.5 * pull**2, jnp.inf), good
            return eqx.tree_at(lambda m: (m.rows, m.pull, m.value, m.good), model, parts), z

        end = method.descend_by(evaluate, problem, z, jnp.zeros(z.shape, bool))
        found = _located(asked, end.z, place)[k]
        value = end.model.value - 0.5 * ((found - target) / tight) ** 2
        return found, jnp.where(end.status == FAILED, jnp.inf, value)

    return over_members(one, (problem, asked, method, z), (which, targets, tight))
