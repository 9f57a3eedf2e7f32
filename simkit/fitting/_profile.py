"""Profile likelihoods: what the data say about one parameter when all others follow."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._budget import Within, budgeted, has_room
from .._doors import check_count, check_progress
from .._errors import ArgumentError, check_known
from .._progress import Progress, Say
from ..core import full_products
from ..filters import ParticleFilter
from ..problem import Problem, check_problem
from ._dependent_model import has_curvature
from ._fit_result import FitResult
from ._gauss_newton import GaussNewton
from ._given_fit import check_fit
from ._identifiability import NEGLIGIBLE
from ._method import AbstractMethod
from ._noisy_profile import LEAST, noisy_profiles
from ._optax import LBFGS
from ._profiles import Profiles, profiles_of, threshold
from ._runs import run
from ._stored import kept_work
from ._walk_outwards import first_reach, limit_of, size_of

ROUNDS = 4
"""Number of times that a profile that has not crossed the level is extended, each time twice as far."""

JUMP = 0.3
"""A value that lies by more than this share of the threshold above its neighbour is optimised again from where that ended: the
first try may have gone to another optimum."""

MENDINGS = 30
"""Most repairs in a round, since each repaired value may repair the next."""


@full_products
def profile(
    problem: Problem,
    fit: FitResult,
    *,
    names: Sequence[str] | None = None,
    points: int = 10,
    level: float = 0.95,
    method: AbstractMethod | None = None,
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> Profiles:
    """Profile likelihoods: each parameter is held at a row of values while all others are optimised again.

    The values reach about 1.3 times as far as the interval that the standard error suggests, and farther until the level is
    crossed on both sides, a bound is reached, or the side counts as open.

    **Arguments:**

    - `problem`, `fit`: a problem and the result of fitting it.
    - `names`: which parameters; by default all.
    - `points`: values a side in the first round; at least 5 for a `ParticleFilter`, 2 otherwise.
    - `level`: of the intervals.
    - `method`: `GaussNewton()` by default, `LBFGS()` for a likelihood without residuals. None for a `ParticleFilter`.
    - `store`: a folder that keeps each batch of values once it is optimised, so that the same call goes on after a crash.
    - `within`: as in `fit`: no more batches begin than end in that time; `cut` of the result says so.
    - `progress`: as in `fit`.

    Of a likelihood that a `ParticleFilter` estimates, each value is that of a quadratic's maximum, with its noise. A smooth curve
    is laid through them by local regression, and `cutoffs` of the result is larger than `threshold` by what the noise moves its
    minimum, so that intervals hold the truth as often as they say (Ionides et al. 2017, doi:10.1098/rsif.2017.0126). Random numbers
    are those of the filter's `key`. With p unknowns a value takes 9 p (p + 1) + 10 filters, 10 where there is no other.

    **Returns:** `Profiles`. **Reference:** Raue et al. (2009), Bioinformatics 25:1923, doi:10.1093/bioinformatics/btp358.

    **Good values:** the defaults; profiles in place of standard errors wherever `fit.identifiability()` says something.
    """
    check_problem(problem)
    check_fit(fit, problem)
    check_progress(progress)
    names = problem.names if names is None else (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        check_known(name, problem.names, "free parameter")
    if not names:
        raise ArgumentError(
            "Argument `names` must name at least one free parameter, but it is empty. Leave it out for all."
        )
    if not 0 < level < 1:
        raise ArgumentError(f"Argument `level` must lie between 0 and 1, but it is {level}.")
    check_count("points", points, least=LEAST if isinstance(problem.likelihood, ParticleFilter) else 2)
    if isinstance(problem.likelihood, ParticleFilter):
        return _by_particles(problem, fit, names, points, level, method, store, within, progress)
    sides = [_Side(problem, fit, problem.names.index(name), sign, level) for name in names for sign in (-1, 1)]
    if method is None:
        method = GaussNewton() if has_curvature(problem) else LBFGS()
    asked = {"fit": fit, "names": names, "points": points, "level": level, "method": method}
    with (
        Progress(None, 0, progress, verb="profile") as counter,
        kept_work(store, "profile", problem, asked) as held,
        budgeted(within, together=True),
    ):
        work = _Work(problem.lean(), fit, method, held)
        for i in range(ROUNDS):
            count, open_ = points if i == 0 else points // 2, [side for side in sides if not side.done]
            counter.tell(f"round {i + 1} of at most {ROUNDS + 1}, {len(open_)} of {len(sides)} sides open")
            work.evaluate([pair for side in open_ for pair in side.next_values(count)])
            work.mend(sides)
        counter.tell("values around the limits")
        work.evaluate([pair for side in sides for pair in side.inside_bracket()])
        work.mend(sides)
    rows = [_join(*pair) for pair in zip(sides[::2], sides[1::2], strict=True)]
    ends = np.array([side.end() for side in sides]).reshape(-1, 2)
    ajar = np.array([side.crossing() is None for side in sides]).reshape(-1, 2)
    return profiles_of(problem, names, level, rows, ends, ajar, work.cut)


def _by_particles(
    problem: Problem,
    fit: FitResult,
    names: tuple[str, ...],
    points: int,
    level: float,
    method: AbstractMethod | None,
    store: str | Path | None,
    within: Within,
    progress: Say,
) -> Profiles:
    if method is not None:
        raise ArgumentError(
            f"A method that descends, `{type(method).__name__}`, cannot profile a likelihood that particles estimate: leave "
            "`method` out, and a quadratic through estimates finds the maximum at each value."
        )
    asked = {"fit": fit, "names": names, "points": points, "level": level}
    with (
        Progress(None, 0, progress, verb="profile") as counter,
        kept_work(store, "profile", problem, asked) as held,
        budgeted(within, together=True),
    ):
        return noisy_profiles(problem, fit, names, points, level, held, counter)


class _Side:
    """One side of one profile, in the coordinates of the fit, walked outwards."""

    def __init__(self, problem: Problem, fit: FitResult, index: int, sign: int, level: float):
        self.index, self.sign, self.threshold = index, sign, threshold(level)
        self.centre = float(fit.z[index])
        self.limit, self.reach = limit_of(problem, index, sign), first_reach(fit, index, level)
        self.values, self.differences, self.ends = [self.centre], [0.0], [np.asarray(fit.z)]
        self.tried: set[tuple[float, float, float]] = set()
        covariance = np.asarray(fit.covariance)
        column, own = covariance[:, index], covariance[index, index]
        self.slope = column / own if own > 0 else 0 * column
        self.full = (
            abs(self.limit - self.centre) <= NEGLIGIBLE * size_of(fit, index)
            or self.sign * (self.limit - self.centre) <= 0
        )

    @property
    def done(self) -> bool:
        return self.full or self.crossing() is not None

    def next_values(self, count: int) -> list["Asked"]:
        """The next values outwards, up to `reach` or the bound, the reach then doubled."""
        last = self.values[-1]
        end = self.centre + self.sign * self.reach
        if self.sign * (end - self.limit) >= 0:
            end, self.full = self.limit, True
        self.reach *= 2
        values = np.linspace(last, end, count + 1)[1:]
        # The others start where the normal approximation expects them, and later where they ended last.
        ways = self.slope if len(self.values) == 1 else 0.0
        return [(self, float(value), self.ends[-1] + ways * (value - last)) for value in values]

    def inside_bracket(self) -> list["Asked"]:
        """Three more values where the profile crosses the level, since between two of them it may bend."""
        for i in range(1, len(self.values)):
            if self.differences[i] >= self.threshold:
                between = np.linspace(self.values[i - 1], self.values[i], 5)[1:-1]
                return [(self, float(value), self.ends[i - 1]) for value in between]
        return []

    def doubtful(self) -> list["Asked"]:
        """Values far above a neighbour, with where that one ended, each such pair once."""
        asked = []
        for i in range(1, len(self.values)):
            for j in (i - 1, i + 1):
                if j == len(self.values) or not self.differences[j] < 2 * self.threshold:
                    continue
                pair = self.values[i], self.values[j], self.differences[j]
                if self.differences[i] > self.differences[j] + JUMP * self.threshold and pair not in self.tried:
                    self.tried.add(pair)
                    asked.append((self, self.values[i], self.ends[j]))
        return asked

    def add(self, value: float, difference: float, end: np.ndarray) -> None:
        """Add the result at a value: a new one, in order outwards, or a better one of a known value."""
        place = int(np.searchsorted(self.sign * np.array(self.values), self.sign * value))
        if place < len(self.values) and self.values[place] == value:
            if difference < self.differences[place]:
                self.differences[place], self.ends[place] = difference, end
            return
        self.values.insert(place, value)
        self.differences.insert(place, difference)
        self.ends.insert(place, end)

    def crossing(self) -> float | None:
        """Return the crossing of the threshold, interpolated in the root of the difference, which is a line for a quadratic."""
        height = np.sqrt(np.maximum(self.differences, 0))
        target = math.sqrt(self.threshold)
        for i in range(1, len(height)):
            if height[i] >= target:
                if not math.isfinite(height[i]):
                    return self.values[i - 1]
                share = (target - height[i - 1]) / (height[i] - height[i - 1])
                return self.values[i - 1] + share * (self.values[i] - self.values[i - 1])
        return None

    def end(self) -> float:
        found = self.crossing()
        return self.limit if found is None else found


Asked = tuple[_Side, float, np.ndarray]
"""A side, the value at which its parameter is held, and where the others start."""


class _Work:
    """Optimisations at held values, batch by batch, read from a journal where it has them."""

    def __init__(self, lean: Problem, fit: FitResult, method: AbstractMethod, held: Any):
        self.lean, self.fit, self.method, self.held = lean, fit, method, held
        self.done, self.cut = 0, False

    def evaluate(self, asked: list[Asked]) -> None:
        """Re-optimise at all asked values, in batches as large as the fit's, so that the fit's own program serves."""
        batch = len(self.fit.objective)
        for first in range(0, len(asked), batch):
            part = asked[first : first + batch]
            name = f"batch-{self.done:06d}"
            found = self.held.read(name)
            if found is None:
                self.cut = self.cut or not has_room()
                if self.cut:
                    return
                found = self._optimised(part, batch)
                self.held.write(name, found)
            self.done += 1
            for (side, value, _), difference, place in zip(part, found["differences"], found["z"], strict=False):
                side.add(value, float(difference), place)

    def _optimised(self, part: list[Asked], batch: int) -> dict[str, np.ndarray]:
        fit, z = self.fit, np.asarray(self.fit.z)
        # Rows that fill the batch up hold everything, so that they end at once.
        starts, held = np.tile(z, (batch, 1)), np.ones((batch, z.size), bool)
        for row, (side, value, start) in enumerate(part):
            held[row] = np.arange(z.size) == side.index
            starts[row] = np.where(held[row], value, start)
        end = run(self.lean, self.method, 1.0, jnp.asarray(starts, fit.z.dtype), jnp.asarray(held), verb="profile")
        return {"differences": np.asarray(end.model.value, float) - float(fit.objective[0]), "z": np.asarray(end.z)}

    def mend(self, sides: list[_Side]) -> None:
        """Optimise values again from where their neighbours ended, as long as that is needed."""
        for _ in range(MENDINGS):
            asked = [one for side in sides for one in side.doubtful()]
            if not asked:
                return
            self.evaluate(asked)


def _join(lower: _Side, upper: _Side) -> tuple[np.ndarray, np.ndarray]:
    values = lower.values[:0:-1] + upper.values
    differences = lower.differences[:0:-1] + upper.differences
    return np.array(values), np.array(differences)
