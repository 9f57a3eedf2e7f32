"""Profiles of a likelihood that particles estimate: smooth curves through noisy values, and what noise adds to an interval."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._budget import has_room
from .._errors import SimulationError, TimeUpError
from .._progress import Progress
from ..engine import awaited, note_trace, over_members
from ..problem import Problem, named_parts
from ._fit_result import FitResult
from ._iterated_filtering import estimate, mean_estimate
from ._noisy_peak import noisy_peak
from ._prior_model import prior_slope_and_root
from ._profiles import Profiles, profiles_of, threshold
from ._walk_outwards import first_reach, limit_of, size_of

SPAN = 0.75
"""Share of the values that the smooth curve at one place looks at, as in the paper."""

GRID = 401
"""Number of places at which the smooth curve is looked at."""

ROUNDS = 4
"""Most batches of values on one side."""

CLOSE = 0.4
"""An interval that ends within this share of the values of a side has too few values inside: the next ones are closer."""

AROUND = 1.3
"""Values reach this many times as far as the interval."""

LEAST = 5
"""Fewest finite values that a smooth curve is laid through, and so fewest values of a side, which may be the only one."""

LEFT = 0.01
"""Least part of the variance of a direction of the other parameters that a design has, where one value seems to determine it."""

REPEATS = 10
"""Number of filters for the log likelihood where the other parameters ended."""


def noisy_profiles(
    problem: Problem, fit: FitResult, names: tuple[str, ...], points: int, level: float, held: Any, counter: Progress
) -> Profiles:
    """Profiles by Monte Carlo: at each value the others go to the maximum of a quadratic through estimates of the log likelihood.

    **Reference:** Ionides, Breto, Park, Smith and King (2017), J. R. Soc. Interface 14:20170126, doi:10.1098/rsif.2017.0126.
    """
    work = _Work(problem, fit, points, held)
    for name in names:
        sides = [_Side(problem, fit, problem.names.index(name), sign, level) for sign in (-1, 1)]
        work.sides.append((sides[0], sides[1]))
    for i in range(ROUNDS):
        asked = [side for pair in work.sides for side in pair if side.asks]
        if not asked:
            break
        counter.tell(f"round {i + 1} of at most {ROUNDS}, {len(asked)} of {2 * len(names)} sides")
        for side in asked:
            work.evaluate(side)
        if work.cut and i == 0:
            raise TimeUpError(
                "The time of `within` was up before all profiles had values. With a `store` the same call goes on."
            )
        for pair in work.sides:
            _judge(pair, level)
    rows, curves, ends, ajar, extra = [], [], [], [], []
    for pair in work.sides:
        found, (values, heights) = _judge(pair, level), _joined(pair)
        at = np.array([np.interp(value, found.grid, found.curve) for value in values]) - found.curve.min()
        rows.append((values, heights - found.curve.min()))
        curves.append(at)
        ends.append([side.limit if end is None else end for side, end in zip(pair, found.ends, strict=True)])
        ajar.append([end is None for end in found.ends])
        extra.append((found.cutoff, found.error))
    told, z = np.array(extra), np.asarray(fit.z, float)
    places = [problem.names.index(name) for name in names]
    outside = [name for name, i, (low, high) in zip(names, places, ends, strict=True) if not low <= z[i] <= high]
    return profiles_of(
        problem,
        names,
        level,
        rows,
        np.array(ends),
        np.array(ajar),
        work.cut,
        curves,
        told[:, 0],
        told[:, 1],
        tuple(outside),
    )


class _Side:
    """One side of one profile, in the coordinates of the fit, with its noisy values."""

    def __init__(self, problem: Problem, fit: FitResult, index: int, sign: int, level: float):
        self.index, self.sign = index, sign
        self.centre = float(fit.z[index])
        self.limit = limit_of(problem, index, sign)
        self.reach = first_reach(fit, index, level)
        self.values: list[float] = []
        self.heights: list[float] = []
        self.asks = sign * (self.limit - self.centre) > 0

    def next_values(self, count: int) -> np.ndarray:
        """Values from the inner end, or from the last one where all of it is known, to `reach` or the bound."""
        if math.isfinite(self.limit):
            self.reach = min(self.reach, abs(self.limit - self.centre))
        known = [abs(value - self.centre) for value in self.values]
        first = max(known) if known and max(known) < self.reach else 0.0
        steps = (np.arange(count) + (1.0 if first else 0.5)) / (count if first else count - 0.5)
        return self.centre + self.sign * (first + np.minimum(steps, 1.0) * (self.reach - first))

    @property
    def full(self) -> bool:
        return math.isfinite(self.limit) and self.reach >= 0.999 * abs(self.limit - self.centre)

    def near(self) -> list[tuple[float, float]]:
        """Values within reach, with their heights."""
        close = lambda value: abs(value - self.centre) <= 1.001 * self.reach
        return [(value, height) for value, height in zip(self.values, self.heights, strict=True) if close(value)]


class _Work:
    """Maxima at held values, a batch for each side, read from a journal where it has them."""

    def __init__(self, problem: Problem, fit: FitResult, points: int, held: Any):
        self.problem, self.fit, self.points, self.held = problem.lean(), fit, points, held
        self.sides: list[tuple[_Side, _Side]] = []
        self.done, self.cut = 0, False

    def evaluate(self, side: _Side) -> None:
        name = f"batch-{self.done:06d}"
        found = self.held.read(name)
        if found is None:
            self.cut = self.cut or not has_room()
            if self.cut:
                side.asks = False
                return
            values = side.next_values(self.points)
            found = {"values": values, "heights": self._maxima(side, values)}
            self.held.write(name, found)
        self.done += 1
        side.values += [float(value) for value in found["values"]]
        side.heights += [float(height) for height in found["heights"]]

    def _maxima(self, side: _Side, values: np.ndarray) -> np.ndarray:
        """The negative log posterior at each value, the others where it is largest."""
        key = jax.random.fold_in(self.problem.likelihood.key, 1 + self.done)  # pyright: ignore[reportAttributeAccessIssue]
        middle, root = _others(self.fit, side.index, values)
        dtype = self.fit.z.dtype
        rows = jnp.asarray(values, dtype), jnp.asarray(middle, dtype), jax.random.split(key, len(values))
        found = _maxima(self.problem, jnp.asarray(side.index), jnp.asarray(root, dtype), rows)
        return np.asarray(awaited(found, "profile", f"at {len(values)} values"), float)


def _others(fit: FitResult, index: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The other parameters at each value by the normal approximation, and a root of their covariance there."""
    z, covariance = np.asarray(fit.z, float), np.asarray(fit.covariance, float)
    rest = np.arange(z.size) != index
    column, own = covariance[rest, index], covariance[index, index]
    slope = column / own if own > 0 else 0 * column
    middle = z[rest][None] + slope[None] * (values - z[index])[:, None]
    size = np.array([size_of(fit, int(i)) for i in np.flatnonzero(rest)])
    inner = covariance[np.ix_(rest, rest)] - slope[:, None] * column[None]
    left, vectors = np.linalg.eigh(inner / size[:, None] / size[None])
    return middle, size[:, None] * vectors * np.sqrt(np.maximum(left, LEFT))[None]


@eqx.filter_jit
def _maxima(problem: Problem, index: Array, root: Array, rows: tuple[Array, Array, Array]) -> Float[Array, " values"]:
    note_trace("profile", named_parts(problem) | {"values": rows[0]})

    def one(shared: tuple[Problem, Array, Array], row: tuple[Array, Array, Array]) -> Array:
        (problem, index, root), (value, middle, key) = shared, row
        place = jnp.arange(problem.size)
        source = jnp.clip(place - jnp.where(place > index, 1, 0), 0, max(problem.size - 2, 0))
        whole = lambda x: jnp.where(place == index, value, x[source] if x.size else value)
        rest = place[:-1] + jnp.where(place[:-1] >= index, 1, 0)
        for_peak, for_value = jax.random.split(key)
        if middle.size:

            def prior(x: Array) -> tuple[Array, Array]:
                slope, known = prior_slope_and_root(problem, whole(x))
                return slope[rest], known[:, rest]

            of = lambda x, key: estimate(problem, whole(x), key)
            middle = noisy_peak(of, prior, problem.coordinate_bounds()[rest], middle, root, for_peak).z
        z = whole(middle)
        return -problem.unknowns.log_prior_at(z) - mean_estimate(problem, z, for_value, REPEATS)[0]

    return over_members(one, (problem, index, root), rows)


class _Judged(eqx.Module):
    """A smooth profile: places and heights, the ends of the interval, the largest difference inside, the Monte Carlo error."""

    grid: np.ndarray
    curve: np.ndarray
    ends: tuple[float | None, float | None]
    cutoff: float
    error: float


def _joined(pair: tuple[_Side, _Side]) -> tuple[np.ndarray, np.ndarray]:
    """The values of both sides, increasing, and their heights."""
    told = np.array(sorted(one for side in pair for one in side.near()), float).reshape(-1, 2)
    return told[:, 0], told[:, 1]


def _judge(pair: tuple[_Side, _Side], level: float) -> _Judged:
    """Lay a smooth curve through the values of both sides, and say which sides want more."""
    values, heights = _joined(pair)
    fine = np.isfinite(heights)
    if fine.sum() < LEAST:
        raise SimulationError(
            f"Of {len(values)} values of a profile {fine.sum()} have a likelihood, too few for a curve: particles died at the "
            "others. Give the filter more particles, or fit again from more starts."
        )
    values, heights = values[fine], heights[fine]
    grid = np.linspace(values[0], values[-1], GRID)
    curve = smoothed(values, heights, grid)
    best = int(np.argmin(curve))
    error, bend = monte_carlo_error(values, heights, grid[best])
    # Where the noise is that of the place of the maximum, the interval is wider by as much.
    cutoff = threshold(level) * (1 + 2 * bend * error**2)
    over, ends = curve - curve[best] - cutoff, []
    for side, path in ((pair[0], np.arange(best, -1, -1)), (pair[1], np.arange(best, GRID))):
        out = np.flatnonzero(over[path] >= 0)
        if out.size:
            j, i = path[out[0]], path[out[0] - 1]
            share = over[i] / (over[i] - over[j])
            ends.append(grid[i] + share * (grid[j] - grid[i]))
            width = abs(ends[-1] - side.centre)
            side.asks = side.asks and width < CLOSE * side.reach
            side.reach = AROUND * width if side.asks else side.reach
        else:
            ends.append(None)
            side.asks = side.asks and not side.full
            side.reach = 2 * side.reach if side.asks else side.reach
    return _Judged(grid, curve, (ends[0], ends[1]), cutoff, error)


def _weights(distance: np.ndarray) -> np.ndarray:
    """Tricube weights of the nearest values."""
    farthest = np.sort(distance)[min(len(distance), max(LEAST, math.floor(SPAN * len(distance)))) - 1]
    return np.maximum(1 - (distance / (farthest * (1 + 1e-9))) ** 3, 0) ** 3


def smoothed(values: np.ndarray, heights: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Local quadratic regression (LOESS) of heights by values, at other places."""
    weight = np.stack([_weights(np.abs(values - place)) for place in at])
    apart = (values[None] - at[:, None]) / (values[-1] - values[0])
    terms = np.stack([np.ones_like(apart), apart, apart**2], axis=2)
    normal = np.einsum("pn,pni,pnj->pij", weight, terms, terms)
    return np.linalg.solve(normal, np.einsum("pn,pni,n->pi", weight, terms, heights)[..., None])[:, 0, 0]


def monte_carlo_error(values: np.ndarray, heights: np.ndarray, best: float) -> tuple[float, float]:
    """The standard error of the place of the minimum by the noise of the heights, and the height's half second derivative there."""
    wide = values[-1] - values[0]
    apart, weight = (values - best) / wide, _weights(np.abs(values - best))
    terms = np.stack([np.ones_like(apart), apart, apart**2], axis=1)
    normal = terms.T @ (weight[:, None] * terms)
    _, slope, bend = found = np.linalg.solve(normal, terms.T @ (weight * heights))
    if not bend > 0:
        return 0.0, 0.0
    free = max((weight > 0).sum() - 3, 1)
    noise = (weight * (heights - terms @ found) ** 2).sum() / free
    covariance = noise * np.linalg.inv(normal)
    ways = np.array([0.0, -0.5 / bend, 0.5 * slope / bend**2])
    return float(wide * np.sqrt(ways @ covariance @ ways)), float(bend / wide**2)
