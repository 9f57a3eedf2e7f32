r"""Data of which those beyond a limit are not in the table at all: the distribution of a datum given that it is there.

$$p(y \mid \mathrm{lower} < Y < \mathrm{upper}) = \frac{p(y)}{P(\mathrm{lower} < Y < \mathrm{upper})}$$
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import shown
from .._errors import ArgumentError, DataError
from ..core import Metadata
from ._bisection import bisected
from ._censored import log_probability
from ._cumulative import Sides
from ._information import Information
from ._noise import NOISES, AbstractNoise, AbstractNormalNoise, LogTails, Normal, Values
from ._normal_between import normal_between
from ._truncated_information import truncated_information

HALVINGS, DOUBLINGS = 110, 60
"""Halvings of the interval that holds a draw, which leave rounding of an interval 1e18 scales long, and doublings
of one without an end."""


@NOISES.named("truncated")
class Truncated(AbstractNoise):
    r"""Data that are in the table only because they lie between two limits.

    $p(y) / P(\mathrm{lower} < Y < \mathrm{upper})$ with p of `marginal`. A `Censored` datum is known to lie beyond its limit; of
    truncated ones not even their number is known, such as of stars too faint for a catalogue, animals smaller than
    the mesh of a net, or households without a case (counts above 0). The location of the model is that of the marginal, not of the
    data, whose mean is pushed away from the limits. Draws and predictions are of data that would be in the table.

    **Arguments:**

    - `marginal`: noise model of a datum before the choice, with a distribution function; its numbers are parameters such as
        `noise.size.marginal.scale`.
    - `lower`, `upper`: the limits; a datum at a limit is not in the table.

    **Good values:** limits that cut away less than nine tenths: beyond, location and scale are hardly told apart.

    **Errors:** the information of continuous data is an integral with an error of 1e-9 of it, that of counts a sum; of marginals of
    your own it is found from draws.

    **Raises:** an `ArgumentError` for limits that leave no room and marginals that cannot be truncated, and from the problem a
    `DataError` for data beyond the limits.

    **References:** Cohen (1991), Truncated and Censored Samples; Stan User's Guide, "Truncated or censored data".
    """

    marginal: AbstractNoise = eqx.field(
        default_factory=Normal, metadata={"simkit": Metadata(doc="noise model before the choice")}
    )
    lower: float = eqx.field(static=True, default=-math.inf)
    upper: float = eqx.field(static=True, default=math.inf)

    def __init__(self, marginal: AbstractNoise | None = None, lower: float = -math.inf, upper: float = math.inf):
        self.marginal = Normal() if marginal is None else marginal
        for name, value in (("lower", lower), ("upper", upper)):
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or math.isnan(value):
                raise ArgumentError(f"Argument `{name}` of `Truncated` must be a number, but it is {shown(value)}.")
        self.lower, self.upper = float(lower), float(upper)
        if not isinstance(self.marginal, AbstractNoise) or self._cannot():
            raise ArgumentError(
                "Argument `marginal` of `Truncated` must be a noise model of single numbers with a distribution function, such as "
                f"`Normal` or `Poisson`, but it is {shown(self.marginal)}."
            )
        least, most = self._ends()
        if not (self.lower < self.upper and max(least, self._start) < most):
            raise ArgumentError(
                f"The limits of `Truncated` must leave room for data of {type(self.marginal).__name__}, but `lower` is "
                f"{self.lower:g} and `upper` {self.upper:g}."
            )

    def _cannot(self) -> bool:
        """Tell whether the marginal has no distribution function of single numbers."""
        one = jnp.ones(())
        return (
            self.marginal.dependent or self.marginal.domain == "share" or self.marginal.log_cumulative(one, one) is None
        )

    @property
    def domain(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kind of number that a datum is."""
        return self.marginal.domain

    @property
    def scale(self) -> Any:
        """The scale of the marginal, which known sizes of data multiply."""
        return getattr(self.marginal, self.marginal.by_datum)

    @property
    def _start(self) -> float:
        """The place above which all data of the marginal lie."""
        return {"count": -1.0, "positive": 0.0}.get(self.domain, -math.inf)

    def _ends(self) -> tuple[float, float]:
        """The limits as places of the distribution function: P(a < Y <= b)."""
        lower, upper = self.lower, self.upper
        if self.domain == "count":
            lower, upper = np.floor(lower), np.ceil(upper) - 1
            return (-math.inf if lower < 0 else float(lower)), float(upper)
        return (-math.inf if self.domain == "positive" and lower <= 0 else lower), upper

    def _within(self, lower: Any, upper: Any, location: Values) -> Values:
        """The logarithm of P(lower < Y <= upper) of the marginal."""
        full = lambda x: jnp.broadcast_to(jnp.asarray(x, location.dtype), location.shape)
        return log_probability(self.marginal, jnp.ones(location.shape, bool), full(lower), full(upper), location)

    def log_prob(self, value: Values, location: Values) -> Values:
        value, location = jnp.broadcast_arrays(value, location)
        there = (value > self.lower) & (value < self.upper)
        return jnp.where(
            there, self.marginal.log_prob(value, location) - self._within(*self._ends(), location), -jnp.inf
        )

    def information(self, location: Values) -> Information | None:
        """The variance of the marginal's score among what is in the table; None where it has to be found from draws."""
        mass = lambda marginal, place: Truncated(marginal, self.lower, self.upper)._within(*self._ends(), place)
        return truncated_information(self.marginal, self._ends(), mass, location)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails | None:
        if self.marginal.log_tails(value, location) is None:
            return None
        lower, upper = (self._parted(np.full(np.shape(location), end), location) for end in self._ends())
        up_to, beyond = self._parted(value, location)
        before, from_it = self._parted(value - 1, location) if self.domain == "count" else (up_to, beyond)
        # On the side of the marginal on which differences keep their digits.
        far = lower[0] > math.log(0.5)
        left = np.where(far, _log_minus(lower[1], beyond), _log_minus(up_to, lower[0]))
        right = np.where(far, _log_minus(from_it, upper[1]), _log_minus(upper[0], before))
        mass = np.where(far, _log_minus(lower[1], upper[1]), _log_minus(upper[0], lower[0]))
        return np.minimum(left - mass, 0), np.minimum(right - mass, 0)

    def _parted(self, place: np.ndarray, location: np.ndarray) -> LogTails:
        """log P(Y <= place) and log P(Y > place) of the marginal."""
        inside = np.isfinite(place) & (place > self._start)
        at = np.where(inside, place, 1.0)
        below, above = self.marginal.log_tails(at, location)  # pyright: ignore[reportGeneralTypeIssues]
        if self.domain == "count":
            above = self.marginal.log_tails(at + 1, location)[1]  # pyright: ignore[reportOptionalSubscript]
        beyond = place == np.inf
        return (
            np.where(inside, below, np.where(beyond, 0.0, -np.inf)),
            np.where(inside, above, np.where(beyond, -np.inf, 0.0)),
        )

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        value, location = jnp.broadcast_arrays(value, location)
        lower, upper = self._ends()
        at = jnp.clip(value, lower, upper)
        mass = self._within(lower, upper, location)
        below = jnp.where(value > lower, self._within(lower, at, location) - mass, -jnp.inf)
        above = jnp.where(value < upper, self._within(at, upper, location) - mass, -jnp.inf)
        return jnp.minimum(below, 0), jnp.minimum(above, 0)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        lower, upper = self._ends()
        # Never 0: a share of 0 is the lower end, which no datum has.
        share = 1 - jax.random.uniform(key, location.shape, location.dtype)
        if isinstance(self.marginal, AbstractNormalNoise):
            return self._normal(share, lower, upper, location)
        return self._inverted(share, lower, upper, location)

    def _normal(self, share: Values, lower: float, upper: float, location: Values) -> Values:
        """The datum at a share of the probability between the limits, by the normal distribution's quantiles."""
        assert isinstance(self.marginal, AbstractNormalNoise)
        ends = []
        for end in (lower, upper):
            open_ended = math.isinf(end)
            z = (
                jnp.full_like(location, end)
                if open_ended
                else self.marginal.standard(jnp.full_like(location, end), location)
            )
            ends.append(z)
        found = self.marginal.from_standard(normal_between(share, *ends), location)
        return jnp.clip(found, self.lower, self.upper)

    def _inverted(self, share: Values, lower: float, upper: float, location: Values) -> Values:
        """The same for other noise models, by halving an interval that holds the datum."""
        whole = self.domain == "count"
        read = jnp.floor if whole else lambda x: x
        enough = lambda x: self.log_cumulative(read(x), location)[0] >= jnp.log(share)
        unit = jnp.ones_like(location) if whole else jnp.broadcast_to(self.scale, location.shape).astype(location.dtype)

        def outwards(side: int, end: float) -> Array:
            if not math.isinf(end):
                return jnp.full_like(location, end)
            if side < 0 and self.domain != "real":
                return jnp.full_like(location, self._start)
            place = lambda k: location + side * unit * 2.0**k
            wanted = side > 0
            further = lambda _, k: jnp.where(enough(place(k)) == wanted, k, k + 1)
            return place(jax.lax.fori_loop(0, DOUBLINGS, further, jnp.zeros_like(location)))

        return read(bisected(enough, outwards(-1, lower), outwards(1, upper), HALVINGS)[1])


def _log_minus(log_more: np.ndarray, log_less: np.ndarray) -> np.ndarray:
    """log(exp(a) - exp(b)) for a >= b."""
    some = log_more > -np.inf
    gap = np.where(some, log_less - np.where(some, log_more, 0), -np.inf)
    return log_more + np.log(-np.expm1(np.minimum(gap, 0)))


def check_within(name: str, key: str, values: Float[np.ndarray, "..."], noise: Any) -> None:
    """Refuse data beyond the limits of a truncated noise model, which cannot be in a table."""
    if not isinstance(noise, Truncated):
        return
    beyond = np.isfinite(values) & ~((values > noise.lower) & (values < noise.upper))
    if beyond.any():
        raise DataError(
            f"The data `{key}` of experiment `{name}` are truncated, so they must lie between {noise.lower:g} and {noise.upper:g}, "
            f"but {int(beyond.sum())} do not, such as {values[beyond].flat[0]:g}. Data that are known to lie beyond a limit are "
            "`Censored`."
        )
