"""Counts with more zeros than their distribution has: a mixture with zeros that are there for another reason."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from .._types import Scalar
from ..core import POSITIVE, UNIT_INTERVAL, quantity
from ._cumulative import Sides
from ._information import Information
from ._noise import NOISES, AbstractNoise, Domain, LogTails, NegativeBinomial, Poisson, Values


@NOISES.named("zero_inflated_poisson")
class ZeroInflatedPoisson(AbstractNoise):
    r"""Counts of which a share is zero for another reason: $y = 0$ with probability $\pi$, otherwise $y \sim \mathrm{Poisson}(m)$.

    $$P(0) = \pi + (1 - \pi) e^{-m}, \qquad P(y) = (1 - \pi) \frac{m^y e^{-m}}{y!}$$

    with the location m, which is the mean of the counts that are not such zeros: all data have the mean $(1 - \pi) m$.

    **Good values:** share 0.05 to 0.6. Where m is below 1 the share is hardly told from a smaller mean.

    **Reference:** Lambert (1992), Technometrics 34:1, doi:10.2307/1269547.
    """

    share: Scalar = quantity(0.1, support=UNIT_INTERVAL, doc="share of zeros beside those of the distribution")
    domain: ClassVar[Domain] = "count"

    def log_prob(self, value: Values, location: Values) -> Values:
        return _mixed(self.share, value, Poisson().log_prob(value, location), -location)

    def information(self, location: Values) -> Information:
        return _information(self.share, Poisson().information(location), -location, [-jnp.ones_like(location)])

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return _tails(self.share, value, Poisson().log_tails(value, location))

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return _sides(self.share, value, Poisson().log_cumulative(value, location))

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return _drawn(key, self.share, location, Poisson())


@NOISES.named("zero_inflated_negative_binomial")
class ZeroInflatedNegativeBinomial(AbstractNoise):
    r"""Counts of which a share is zero for another reason, the others negative binomial: they scatter more than Poisson's.

    $$P(0) = \pi + (1 - \pi) (1 + m / k)^{-k}, \qquad P(y) = (1 - \pi)\, \mathrm{NB}(y; m, k)$$

    with the location m and the concentration k, as in `NegativeBinomial`.

    **Good values:** share 0.05 to 0.6, concentration 1 to 100. A small concentration makes zeros too: to tell the two apart takes
    hundreds of counts.

    **Reference:** Greene (1994), Accounting for excess zeros and sample selection in Poisson and negative binomial regression
    models, NYU working paper EC-94-10.
    """

    share: Scalar = quantity(0.1, support=UNIT_INTERVAL, doc="share of zeros beside those of the distribution")
    concentration: Scalar = quantity(10.0, support=POSITIVE, doc="concentration; large is nearly Poisson")
    domain: ClassVar[Domain] = "count"

    def _nothing(self, location: Values) -> Values:
        """log P(0) of the negative binomial distribution."""
        return -self.concentration * jnp.log1p(location / self.concentration)

    def log_prob(self, value: Values, location: Values) -> Values:
        counts = NegativeBinomial(self.concentration).log_prob(value, location)
        return _mixed(self.share, value, counts, self._nothing(location))

    def information(self, location: Values) -> Information:
        k, counts = self.concentration, NegativeBinomial(self.concentration).information(location)
        x = location / k
        # x / (1 + x) - log(1 + x), by its series where the two cancel: the first term left out is x^5, 2e-14 of the first.
        small = x < SMALL_RATIO
        near, far = jnp.where(small, x, 0), jnp.where(small, 1.0, x)
        series = -(near**2) * (1 / 2 - near * (2 / 3 - near * (3 / 4 - near * (4 / 5 - near * 5 / 6))))
        by_k = jnp.where(small, series, far / (1 + far) - jnp.log1p(far))
        return _information(self.share, counts, self._nothing(location), [-1 / (1 + x), by_k])

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return _tails(self.share, value, NegativeBinomial(self.concentration).log_tails(value, location))

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return _sides(self.share, value, NegativeBinomial(self.concentration).log_cumulative(value, location))

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return _drawn(key, self.share, location, NegativeBinomial(self.concentration))


SMALL_RATIO = 2e-3
"""Mean over concentration up to which the slope of log P(0) by the concentration is taken by its series: x^5 relative to it."""


def _mixed(share: Values, value: Values, counts: Values, nothing: Values) -> Values:
    """The log probability of a count, from that of the counts and from their log P(0)."""
    rest = jnp.log1p(-share)
    return jnp.where(value == 0, jnp.logaddexp(jnp.log(share), rest + nothing), rest + counts)


def _information(share: Values, counts: Information, nothing: Values, slopes: list[Values]) -> Information:
    r"""The information of the mixture, from that of the counts and from the slopes s of their log P(0).

    With b = P(0) of the counts and p that of the mixture it is $(1 - \pi) (I - b s s^T) + (1 - \pi)^2 b^2 s s^T / p$ of the numbers
    of the counts, $b s / p$ across and $(1 - b) / ((1 - \pi) p)$ of the share.
    """
    none, rest = jnp.exp(nothing), 1 - share
    p = share + rest * none
    # Both terms in s s^T together, which cancel as the share goes to 0.
    own = lambda i, j: -rest * none * share / p * slopes[i] * slopes[j]
    entry = lambda i, j: own(i, j) if (known := counts.entry(i, j)) is None else rest * known + own(i, j)
    rows: list[list[Values]] = [[entry(0, 0)], [none * slopes[0] / p, -jnp.expm1(nothing) / (rest * p)]]
    if len(slopes) == 2:
        rows.append([entry(1, 0), none * slopes[1] / p, entry(1, 1)])
    return Information(rows)


def _tails(share: ArrayLike, value: np.ndarray, counts: LogTails | None) -> LogTails:
    assert counts is not None
    with np.errstate(divide="ignore"):
        zero, rest = np.log(np.asarray(share)), np.log1p(-np.asarray(share))
    below = np.minimum(np.logaddexp(zero, rest + counts[0]), 0)
    return np.where(value < 0, -np.inf, below), np.where(value > 0, rest + counts[1], 0)


def _sides(share: Values, value: Values, counts: Sides | None) -> Sides:
    assert counts is not None
    rest, seen = jnp.log1p(-share), value >= 0
    # Below 0 there are no counts, and the logarithm of their probability has no derivative.
    below = jnp.logaddexp(jnp.log(share), rest + jnp.where(seen, counts[0], 0))
    return jnp.where(seen, jnp.minimum(below, 0), -jnp.inf), jnp.where(seen, rest + counts[1], 0)


def _drawn(key: PRNGKeyArray, share: Values, location: Values, counts: AbstractNoise) -> Values:
    pick, draw = jax.random.split(key)
    zero = jax.random.uniform(pick, location.shape, location.dtype) < share
    found = counts.sample(draw, location)
    return jnp.where(zero & ~jnp.isnan(found), 0, found)
