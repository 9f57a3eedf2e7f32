"""Numbers of successes among trials, as shares."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlog1py, xlogy
from jaxtyping import PRNGKeyArray

from .._types import Scalar
from ..core import POSITIVE, quantity
from ._cumulative import Sides, negative_binomial_sides
from ._information import Information
from ._noise import NOISES, AbstractNoise, Domain, LogTails, NegativeBinomial, Values, log_of


@NOISES.named("binomial")
class Binomial(AbstractNoise):
    r"""The share of successes among n trials: $n y \sim \mathrm{Binomial}(n, p)$ with the location p, a probability.

    Data are shares between 0 and 1, or `Successes(counts, trials)`, which brings a number of trials for each datum. The output must
    lie between 0 and 1; at an edge the density of other data is 0. A prediction at other times is one of `trials`.

    **Reference:** McCullagh and Nelder (1989), Generalized Linear Models, doi:10.1007/978-1-4899-3242-6, chapter 4.
    """

    trials: Scalar = quantity(1.0, support=POSITIVE, doc="number of trials of a datum, held")
    domain: ClassVar[Domain] = "share"
    by_datum: ClassVar[str] = "trials"

    def log_prob(self, value: Values, location: Values) -> Values:
        k, n, ways = _counted(value, self.trials)
        return ways + xlogy(k, location) + xlog1py(n - k, -location)

    def information(self, location: Values) -> Information:
        return Information.diagonal(self.trials / (location * (1 - location)), 0)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        from scipy.special import betainc

        n = np.asarray(self.trials)
        k = np.round(value * n)
        # P(Y <= k) and P(Y >= k) by the incomplete beta function, with the ends by themselves.
        below = np.where(k < n, betainc(np.maximum(n - k, 1e-300), k + 1, 1 - location), 1.0)
        above = np.where(k > 0, betainc(np.maximum(k, 1e-300), n - k + 1, location), 1.0)
        return log_of(np.where(k < 0, 0.0, below)), log_of(np.where(k > n, 0.0, above))

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        n = jax.lax.stop_gradient(self.trials)
        k = jnp.floor(value * n * (1 + 4 * jnp.finfo(location.dtype).eps))
        # Successes before the (n - k)-th failure: both distribution functions are I_{1 - p}(n - k, k + 1).
        inside = k < n
        failures = jnp.where(inside, n - k, 1.0)
        mean = failures * location / (1 - location)
        below, above = negative_binomial_sides(k, mean, failures, NegativeBinomial(failures).log_prob)
        return jnp.where(inside, below, 0.0), jnp.where(inside, above, -jnp.inf)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return _drawn_share(key, self.trials, location)


@NOISES.named("beta_binomial")
class BetaBinomial(AbstractNoise):
    r"""The share of successes among n trials whose probability differs from datum to datum:
    $n y \sim \mathrm{Binomial}(n, q)$, $q \sim \mathrm{Beta}(p c, (1 - p) c)$ with the location p and the concentration c.

    The variance of a share is $p (1 - p) (1 + (n - 1) / (1 + c)) / n$: more scatter than `Binomial`, the limit of large c. Its
    Fisher information is found from draws. Data are those of `Binomial`.

    **Good values:** c from 1 to 1,000; data of one trial each say nothing about it.

    **Reference:** Skellam (1948), Journal of the Royal Statistical Society B 10:257.
    """

    trials: Scalar = quantity(1.0, support=POSITIVE, doc="number of trials of a datum, held")
    concentration: Scalar = quantity(10.0, support=POSITIVE, doc="concentration; large is nearly binomial")
    domain: ClassVar[Domain] = "share"
    by_datum: ClassVar[str] = "trials"

    def log_prob(self, value: Values, location: Values) -> Values:
        k, n, ways = _counted(value, self.trials)
        a, b = location * self.concentration, (1 - location) * self.concentration
        # Not by JAX's `betaln`, which has seven digits.
        beta = lambda one, two: gammaln(one) + gammaln(two) - gammaln(one + two)
        return ways + beta(k + a, n - k + b) - beta(a, b)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        from scipy.stats import betabinom

        n = np.asarray(self.trials)
        k, a, b = np.round(value * n), location * self.concentration, (1 - location) * self.concentration
        return log_of(betabinom.cdf(k, n, a, b)), log_of(betabinom.sf(k - 1, n, a, b))

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        chance, count = jax.random.split(key)
        c = jnp.broadcast_to(self.concentration, location.shape).astype(location.dtype)
        q = jax.random.beta(chance, location * c, (1 - location) * c, location.shape, location.dtype)
        return _drawn_share(count, self.trials, q)


def _counted(value: Values, trials: Values) -> tuple[Values, Values, Values]:
    """Successes, trials, which are held, and the logarithm of the number of ways to choose the ones among the others."""
    n = jax.lax.stop_gradient(trials)
    k = jnp.round(value * n)
    return k, n, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _drawn_share(key: PRNGKeyArray, trials: Values, chance: Values) -> Values:
    """A random share of successes for every probability."""
    n = jnp.broadcast_to(trials, chance.shape).astype(chance.dtype)
    return jax.random.binomial(key, n, chance, chance.shape, chance.dtype) / n
