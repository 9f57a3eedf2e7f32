"""Censored data: numbers of which some are only known to lie below, above or between limits."""

import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from .._errors import DataError
from ._noise import AbstractNoise

Values = Float[Array, "..."]
Either = Float[Array | np.ndarray, "..."]

ENDS = ("floor", "low", "high", "ceiling")
"""The four limits, in increasing order."""

OPEN = {"floor": -np.inf, "low": -np.inf, "high": np.inf, "ceiling": np.inf}
"""The value of a limit that is not there."""


class Censored:
    """Data of one output of which some are censored: all that is known is that they lie below, above or between limits.

    In place of an array of values, as `Experiment("a", times, {"drug": Censored(values, below=0.5)})`. A censored datum adds the
    log probability of its set, such as log P(Y <= 0.5), to the likelihood, by the distribution function of the noise model; the
    others add their log density (method M3 of Beal 2001, doi:10.1023/A:1012299115260; for normal data Tobit regression).

    **Arguments:**

    - `values`: one a time, NaN where a datum is missing. What stands for a censored datum may be any number beyond its limit, such
        as the limit itself or 0.
    - `below`: the lower limit of quantification, one number or one a datum, NaN for none: a value at or below it is censored.
    - `above`: the upper limit likewise: a value at or above it is censored.
    - `floor`: what a datum below its limit must still lie above, such as 0 for concentrations. Model and data decide: with a noise
        model of positive numbers it changes nothing. `ceiling`: what a datum above its limit must still lie below.

    `Censored.flagged` reads the columns CENS and LIMIT of Monolix and nlmixr2, `Censored.between` takes intervals.

    **Raises:** a `DataError` where limits are not numbers, or not in the order floor < below < above < ceiling.

    **Good values:** limits for all data and not only for those that are censored: the Fisher information, and with it standard
    errors, and data drawn from the model need to know what would have been censored.
    """

    def __init__(
        self,
        values: Any,
        below: Any = None,
        above: Any = None,
        *,
        floor: Any = None,
        ceiling: Any = None,
    ):
        self.values = _numbers("values", values)
        given = {"floor": floor, "low": below, "high": above, "ceiling": ceiling}
        words = {"floor": "floor", "low": "below", "high": "above", "ceiling": "ceiling"}
        self.limits: dict[str, np.ndarray] = {}
        for end in ENDS:
            if given[end] is None:
                self.limits[end] = np.full(self.values.shape, OPEN[end])
                continue
            limit = _numbers(words[end], given[end])
            if limit.ndim == 0 and np.isnan(limit):
                raise DataError(f"The limit `{words[end]}` is NaN. Leave it out where there is none.")
            if limit.shape not in ((), self.values.shape):
                raise DataError(
                    f"The limits `{words[end]}` must be one number or one a datum, {self.values.shape}, but their shape is "
                    f"{limit.shape}."
                )
            self.limits[end] = np.broadcast_to(np.where(np.isnan(limit), OPEN[end], limit), self.values.shape)
        self._check_order(words)
        for end, other, word in (("floor", "low", "below"), ("ceiling", "high", "above")):
            lone = np.isfinite(self.limits[end]) & ~np.isfinite(self.limits[other])
            if lone.any():
                raise DataError(
                    f"A `{words[end]}` needs a limit `{word}`, but entry {int(np.argmax(lone))} has none. Give both, or leave "
                    f"`{words[end]}` out."
                )
        self.values = coarse(self.values, self.limits)

    @classmethod
    def flagged(cls, values: Any, flags: Any, limits: Any = None) -> "Censored":
        """Data with the columns of Monolix and nlmixr2.

        **Arguments:**

        - `values`: the column DV: the datum, or the limit where it is censored.
        - `flags`: the column CENS: 0 for a datum, 1 where it lies below its value, -1 where it lies above.
        - `limits`: the column LIMIT: the other end of the interval of a censored datum; NaN where it is open.

        Data that are not censored are taken to have the limit of the censored ones if these share one and they lie within it.
        """
        values, flags = _numbers("values", values), _numbers("flags", flags)
        limits = np.full(values.shape, np.nan) if limits is None else _numbers("limits", limits)
        for name, column in (("flags", flags), ("limits", limits)):
            if column.shape != values.shape:
                raise DataError(
                    f"The {name} of censored data must have the shape of the values, {values.shape}, but it is {column.shape}."
                )
        seen = np.isfinite(values)
        wrong = seen & ~np.isin(flags, (-1.0, 0.0, 1.0))
        if wrong.any():
            place = int(np.argmax(wrong))
            raise DataError(
                f"A flag of censored data must be 0, 1 (below its value) or -1 (above), but entry {place} is "
                f"{flags.ravel()[place]:g}."
            )
        below, above = seen & (flags == 1), seen & (flags == -1)
        found = cls.__new__(cls)
        found.values = values
        found.limits = {
            "floor": np.where(below & np.isfinite(limits), limits, -np.inf),
            "low": _shared(values, below, seen, -1),
            "high": _shared(values, above, seen, 1),
            "ceiling": np.where(above & np.isfinite(limits), limits, np.inf),
        }
        found._check_order({"floor": "LIMIT", "low": "DV", "high": "DV", "ceiling": "LIMIT"})
        return found

    @classmethod
    def between(cls, lower: Any, upper: Any) -> "Censored":
        """Data that are known by two ends each: equal for a datum, infinite or NaN at an open side, both NaN where missing."""
        lower, upper = _numbers("lower", lower), _numbers("upper", upper)
        if lower.shape != upper.shape:
            raise DataError(
                f"The ends of censored data must have one shape, but they have {lower.shape} and {upper.shape}."
            )
        left, right = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
        if np.any(left > right):
            place = int(np.argmax(left > right))
            raise DataError(
                f"The lower end of a censored datum must not lie above the upper one, but entry {place} goes from "
                f"{left.ravel()[place]:g} to {right.ravel()[place]:g}."
            )
        exact, nothing = left == right, np.isinf(left) & np.isinf(right)
        open_above = ~exact & ~nothing & np.isinf(right)
        known = ~exact & ~nothing & ~open_above
        found = cls.__new__(cls)
        found.values = np.where(nothing, np.nan, np.where(open_above, left, right))
        found.limits = {
            "floor": np.where(known, left, -np.inf),
            "low": np.where(known, right, -np.inf),
            "high": np.where(open_above, left, np.inf),
            "ceiling": np.full(left.shape, np.inf),
        }
        return found

    @property
    def mask(self) -> np.ndarray:
        """The data that are censored."""
        return np.isfinite(self.values) & ((self.values <= self.limits["low"]) | (self.values >= self.limits["high"]))

    def _check_order(self, words: dict[str, str]) -> None:
        for one, two in itertools.pairwise(ENDS):
            first, second = self.limits[one], self.limits[two]
            wrong = np.isfinite(first) & np.isfinite(second) & ~(first < second)
            if wrong.any():
                place = int(np.argmax(wrong))
                raise DataError(
                    f"The limits of censored data must be in the order floor < below < above < ceiling, but at entry {place} "
                    f"`{words[one]}` is {first.ravel()[place]:g} and `{words[two]}` is {second.ravel()[place]:g}."
                )

    def __repr__(self) -> str:
        low = int(np.sum(self.values <= self.limits["low"]))
        high = int(np.sum(self.values >= self.limits["high"]))
        return f"Censored({int(np.isfinite(self.values).sum())} data, {low} below and {high} above a limit)"


def _shared(values: np.ndarray, censored: np.ndarray, seen: np.ndarray, side: int) -> np.ndarray:
    """The limits of data by flags: that of the others too, where it is one and they lie on the right side of it."""
    limits = np.where(censored, values, side * np.inf)
    known = np.unique(values[censored])
    if known.size != 1:
        return limits
    # A datum at the limit that is not flagged was quantified: its own limit lies just beyond, in single precision as well.
    beyond = known[0] * (1 + np.sign(known[0]) * side * 1e-6) if known[0] else side * np.finfo(np.float32).tiny
    at = np.where(values == known[0], beyond, known[0])
    within = seen & ~censored & (side * (at - values) > 0)
    return np.where(within, at, limits)


def _numbers(what: str, values: object) -> np.ndarray:
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise DataError(f"The {what} of censored data must be numbers, but: {error}.") from error


def coarse(values: Any, limits: Any) -> Any:
    """Values with the limit of its set in place of each that is censored; works for NumPy and JAX.

    **Arguments:** `limits`: the ends by name, None or absent for one that no datum has.
    """
    numpy: Any = np if isinstance(values, np.ndarray) else jnp
    low, high, floor, ceiling = (limits.get(end) for end in ("low", "high", "floor", "ceiling"))
    found = values
    if low is not None:
        found = numpy.where(values <= low, low, found)
    if floor is not None:
        found = numpy.where((values <= floor) & (floor > -np.inf), floor, found)
    if high is not None:
        found = numpy.where(values >= high, high, found)
    if ceiling is not None:
        found = numpy.where((values >= ceiling) & (ceiling < np.inf), ceiling, found)
    return found


class Limits(eqx.Module):
    """The limits of all data of an output, in the shape of its values; None for an end that no datum has.

    A value at or below `low` stands for all from `floor` to `low`, one at or below `floor` for all below it, and those at or above
    `high` and `ceiling` likewise: so the sets and the exact values between `low` and `high` are all that can be measured, and data
    drawn from the model are censored as the data were.
    """

    floor: Float[Array, "..."] | None = None
    low: Float[Array, "..."] | None = None
    high: Float[Array, "..."] | None = None
    ceiling: Float[Array, "..."] | None = None

    def by_name(self) -> dict[str, Array]:
        """The ends that some datum has."""
        return {end: value for end in ENDS if (value := getattr(self, end)) is not None}

    def of(self, seen: Bool[Array, "..."]) -> "Limits":
        """The limits of the data that are seen, none of the others."""
        return Limits(**{end: jnp.where(seen, value, OPEN[end]) for end, value in self.by_name().items()})

    def coarse(self, values: Values) -> Values:
        """The values with the limit of its set in place of each that is censored."""
        return coarse(values, self.by_name())

    def censored(self, values: Either) -> Bool[Array | np.ndarray, "..."]:
        """The data that are censored."""
        low, high = _or_open(self.low, values, -np.inf), _or_open(self.high, values, np.inf)
        return (values <= low) | (values >= high)

    def ends(self, values: Either) -> tuple[Either, Either]:
        """The ends a and b of the set a < y <= b, or a <= y < b above a limit, of every datum; of an exact one itself."""
        numpy: Any = np if isinstance(values, np.ndarray) else jnp
        floor, low, high, ceiling = (_or_open(getattr(self, end), values, OPEN[end]) for end in ENDS)
        below, above = values <= low, values >= high
        lower = numpy.where(below, numpy.where(values <= floor, -np.inf, floor), values)
        lower = numpy.where(above, numpy.where(values >= ceiling, ceiling, high), lower)
        upper = numpy.where(below, numpy.where(values <= floor, floor, low), values)
        upper = numpy.where(above, numpy.where(values >= ceiling, np.inf, ceiling), upper)
        return lower, upper


def _or_open(limit: ArrayLike | None, values: Any, otherwise: float) -> Any:
    if limit is not None:
        return np.asarray(limit) if isinstance(values, np.ndarray) else limit
    numpy: Any = np if isinstance(values, np.ndarray) else jnp
    return numpy.full(values.shape, otherwise, values.dtype)


def steps_of(noise: AbstractNoise, limits: Limits, values: Any) -> tuple[Any, Any]:
    """The ends of sets as places of the distribution function: P(a < Y <= b), with the largest count below a limit from above.

    Ends outside of what the noise model can be are infinite.
    """
    numpy: Any = np if isinstance(values, np.ndarray) else jnp
    lower, upper = limits.ends(values)
    if noise.domain == "count":
        above = values >= _or_open(limits.high, values, np.inf)
        shift = lambda x: numpy.where(above, numpy.ceil(x) - 1, x)
        lower, upper = shift(lower), shift(upper)
        return numpy.where(lower < 0, -np.inf, lower), upper
    if noise.domain == "positive":
        return numpy.where(lower <= 0, -np.inf, lower), upper
    return lower, upper


def log_density(noise: AbstractNoise, limits: Limits | None, value: Values, location: Values) -> Values:
    """The log density of every datum, of a censored one the log probability of its set."""
    if limits is None:
        return noise.log_prob(value, location)
    hidden = jnp.asarray(limits.censored(value))
    lower, upper = steps_of(noise, limits, value)
    exact = noise.log_prob(jnp.where(hidden, 1, value), jnp.where(hidden, 1, location))
    intervals = limits.floor is not None or limits.ceiling is not None
    return jnp.where(hidden, log_probability(noise, hidden, lower, upper, location, intervals=intervals), exact)


def log_probability(
    noise: AbstractNoise, wanted: Array, lower: Values, upper: Values, location: Values, *, intervals: bool = True
) -> Values:
    """log P(lower < Y <= upper) of the data that are wanted; of others 0, without a derivative.

    **Arguments:** `intervals`: whether some set may have two ends; without, less is compiled.
    """
    location = jnp.where(wanted, location, 1)
    from_below, to_above = wanted & (lower > -jnp.inf), wanted & (upper < jnp.inf)
    if not intervals:
        below, above = sides(noise, jnp.where(to_above, upper, jnp.where(from_below, lower, 1)), location)
        return jnp.where(to_above, below, jnp.where(from_below, above, 0))
    at_upper = sides(noise, jnp.where(to_above, upper, 1), jnp.where(to_above, location, 1))
    at_lower = sides(noise, jnp.where(from_below, lower, 1), jnp.where(from_below, location, 1))
    open_below, open_above = wanted & ~from_below, wanted & ~to_above
    # On the side of the interval where the tail is small, the difference of the two has its digits.
    left = at_upper[0] < at_lower[1]
    more, less = jnp.where(left, at_upper[0], at_lower[1]), jnp.where(left, at_lower[0], at_upper[1])
    both = from_below & to_above
    gap = jnp.where(both, more - less, 1)
    # Of a narrow interval nothing is left of the difference: there the density in its middle times its width, which is wrong by
    # the gap's square / 24. The two errors are equal at the cubic root.
    room = 24 * jnp.finfo(gap.dtype).eps * jnp.maximum(1, jnp.abs(jnp.where(both, more, 0)))
    narrow = gap < jnp.cbrt(room) if noise.domain != "count" else jnp.zeros(gap.shape, bool)
    short = both & narrow
    wide = both & ~narrow
    middle = jnp.where(short, 0.5 * lower + 0.5 * upper, 1)
    thin = noise.log_prob(middle, jnp.where(short, location, 1)) + jnp.log(jnp.where(short, upper - lower, 1))
    gap = jnp.where(wide, gap, 1)
    found = jnp.where(wide, more, 0) + jnp.where(wide, jnp.log(-jnp.expm1(-gap)), 0)
    found = jnp.where(short, thin, found)
    found = jnp.where(open_below & to_above, at_upper[0], found)
    return jnp.where(open_above & from_below, at_lower[1], found)


def sides(noise: AbstractNoise, value: Values, location: Values) -> tuple[Values, Values]:
    """Both sides of a noise model that has a distribution function."""
    found = noise.log_cumulative(value, location)
    if found is None:
        raise TypeError(f"The noise model `{type(noise).__name__}` has no distribution function.")
    return found


def stacked_limits(rows: Sequence[dict[str, np.ndarray] | None], block: Float[Array, "..."]) -> Limits | None:
    """The limits of an output by experiment as arrays of the shape of its values; None where no datum has any."""
    if all(row is None for row in rows):
        return None
    found: dict[str, Array] = {}
    for end in ENDS:
        whole = np.full(block.shape, OPEN[end])
        for place, row in zip(whole, rows, strict=True):
            if row is not None:
                place[: row[end].shape[0]] = row[end]
        if np.isfinite(whole).any():
            found[end] = jnp.asarray(whole, block.dtype)
    return Limits(**found) if found else None
