"""Noise models: how a datum scatters around its predicted location."""

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, polygamma, xlogy
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import shown
from .._errors import ArgumentError
from .._registry import Registry
from .._types import Scalar
from ..core import POSITIVE, as_float_array, quantity
from ._cumulative import (
    Sides,
    laplace_sides,
    negative_binomial_sides,
    normal_sides,
    poisson_sides,
    student_sides,
)
from ._information import Information

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar  # type checkers would take it for an instance variable

Values = Float[Array, "..."]
Domain = Literal["real", "positive", "count", "share"]
LogTails = tuple[np.ndarray, np.ndarray]
"""log P(Y <= value) and log P(Y >= value)."""


class AbstractNoise(eqx.Module):
    """The distribution of a datum given the location that the model predicts.

    A noise model's numbers are quantities with names such as `noise.hare.scale`; they can be fixed, free or set by
    experiment. With `log_prob` and the Fisher information of one datum a Gauss-Newton method serves every noise model.
    `log_prob` and `sample` must be given; `information` and `log_tails` are found from draws where they are not. Censored data
    need `log_cumulative`.
    """

    domain: AbstractClassVar[Domain]
    by_datum: ClassVar[str] = "scale"
    dependent: ClassVar[bool] = False  # whether data depend on each other
    """The number that known sizes of a datum multiply: of the scatter, or numbers of trials."""

    @abc.abstractmethod
    def log_prob(self, value: Values, location: Values) -> Values:
        """The log density, or log probability, of a datum."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        """A random datum for every location."""

    def information(self, location: Values) -> Information | None:
        """The Fisher information of one datum on its location and on this model's own numbers; None: found from draws."""
        return None

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails | None:
        """log P(Y <= value) and log P(Y >= value), which quantile residuals need; None: found from draws.

        It is called with NumPy arrays outside of compiled code, so it may use SciPy.
        """
        return None

    def log_cumulative(self, value: Values, location: Values) -> Sides | None:
        """log P(Y <= value) and log P(Y > value), which censored data need; None: the model takes no censored data.

        It is part of compiled code and differentiated by the location and by the model's own numbers.
        """
        return None

    def largest(self) -> float | None:
        """The largest datum that there can be, such as the highest of a number of grades; None: there is no end."""
        return None


class AbstractNormalNoise(AbstractNoise):
    """Noise by which a datum is a function of a standard normal number and the location, increasing in the number."""

    @abc.abstractmethod
    def standard(self, value: Values, location: Values) -> Values:
        """The standard normal number of a datum."""

    @abc.abstractmethod
    def from_standard(self, z: Values, location: Values) -> Values:
        """The datum of a standard normal number."""

    @abc.abstractmethod
    def spread(self, location: Values) -> Values:
        """The standard deviation of a datum, or of its logarithm where that is normal."""

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return normal_sides(self.standard(value, location))

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return self.from_standard(jax.random.normal(key, location.shape, location.dtype), location)


def numbers_in(argument: str, kind: str = "numbers") -> Callable[[Any], tuple[Float[Array, ""], ...]]:
    """The converter of a field that holds several numbers, each with a path of its own."""

    def converted(given: Any) -> tuple[Float[Array, ""], ...]:
        if isinstance(given, str | dict) or not np.iterable(given):
            raise ArgumentError(f"Argument `{argument}` must be an array of {kind}, but it is {shown(given)}.")
        wrong = f"Argument `{argument}` must be an array of {kind}, but it is {shown(given)}."
        try:
            found = tuple(as_float_array(x) for x in given)
        except (TypeError, ValueError) as error:
            raise ArgumentError(wrong) from error
        if any(x.ndim for x in found):
            raise ArgumentError(wrong)
        return found

    return converted


def multiplied(noise: Any, sizes: Array) -> Any:
    """A noise model with the number that belongs to data multiplied by what is known of each."""
    where = lambda n: getattr(n, n.by_datum)
    return eqx.tree_at(where, noise, where(noise) * sizes.astype(where(noise).dtype))


NOISES: Registry[type[AbstractNoise]] = Registry("noise model", AbstractNoise, group="simkit.noises")
"""Noise models by the names that study files give them, each declared beside its class."""


@NOISES.named("normal")
class Normal(AbstractNormalNoise):
    """value ~ N(location, scale^2)."""

    scale: Scalar = quantity(1.0, support=POSITIVE, doc="standard deviation")
    domain: ClassVar[Domain] = "real"

    def log_prob(self, value: Values, location: Values) -> Values:
        return -0.5 * ((value - location) / self.scale) ** 2 - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def information(self, location: Values) -> Information:
        return Information.diagonal(self.scale**-2 + 0 * location, 2 * self.scale**-2)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return _normal_tails((value - location) / self.scale)

    def standard(self, value: Values, location: Values) -> Values:
        return (value - location) / self.scale

    def from_standard(self, z: Values, location: Values) -> Values:
        return location + self.scale * z

    def spread(self, location: Values) -> Values:
        return self.scale + 0 * location


@NOISES.named("combined")
class Combined(AbstractNormalNoise):
    r"""A constant and a proportional error together: $y \sim N(f, a^2 + b^2 f^2)$ with the location f.

    The scatter depends on the location, so each datum tells of it twice, and the information couples location and both numbers.

    **Good values:** a at the detection limit, b the relative error of the instrument, 0.05 to 0.2. To tell them apart takes data
    from below a / b to far above.
    """

    additive: Scalar = quantity(1.0, support=POSITIVE, doc="standard deviation at a location of 0")
    proportional: Scalar = quantity(0.1, support=POSITIVE, doc="relative standard deviation at large locations")
    domain: ClassVar[Domain] = "real"

    def spread(self, location: Values) -> Values:
        return jnp.sqrt(self.additive**2 + (self.proportional * location) ** 2)

    def log_prob(self, value: Values, location: Values) -> Values:
        spread = self.spread(location)
        return -0.5 * ((value - location) / spread) ** 2 - jnp.log(spread) - 0.5 * math.log(2 * math.pi)

    def information(self, location: Values) -> Information:
        a, b, f = self.additive, self.proportional, location
        variance = a**2 + (b * f) ** 2
        # Half the variance's relative derivatives: of log(spread).
        rises = b**2 * f / variance, a / variance, b * f**2 / variance
        own = [[2 * rises[i] * rises[j] for j in range(i + 1)] for i in range(3)]
        own[0][0] = own[0][0] + 1 / variance
        return Information(own)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return _normal_tails((value - location) / np.hypot(self.additive, self.proportional * location))

    def standard(self, value: Values, location: Values) -> Values:
        return (value - location) / self.spread(location)

    def from_standard(self, z: Values, location: Values) -> Values:
        return location + self.spread(location) * z


@NOISES.named("log_normal")
class LogNormal(AbstractNormalNoise):
    """log(value) ~ N(log(location), scale^2): the location is the median, the scale nearly a relative error."""

    scale: Scalar = quantity(0.1, support=POSITIVE, doc="standard deviation of the logarithm")
    domain: ClassVar[Domain] = "positive"

    def log_prob(self, value: Values, location: Values) -> Values:
        z = (jnp.log(value) - jnp.log(location)) / self.scale
        return -0.5 * z**2 - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi) - jnp.log(value)

    def information(self, location: Values) -> Information:
        return Information.diagonal((self.scale * location) ** -2, 2 * self.scale**-2)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return _normal_tails((np.log(value) - np.log(location)) / self.scale)

    def standard(self, value: Values, location: Values) -> Values:
        return (jnp.log(value) - jnp.log(location)) / self.scale

    def from_standard(self, z: Values, location: Values) -> Values:
        return location * jnp.exp(self.scale * z)

    def spread(self, location: Values) -> Values:
        return self.scale + 0 * location


@NOISES.named("student_t")
class StudentT(AbstractNoise):
    """(value - location) / scale ~ t(freedom): like a normal, but outliers pull less."""

    scale: Scalar = quantity(1.0, support=POSITIVE, doc="scale")
    freedom: Scalar = quantity(4.0, support=POSITIVE, doc="degrees of freedom")
    domain: ClassVar[Domain] = "real"

    def log_prob(self, value: Values, location: Values) -> Values:
        nu = self.freedom
        z = (value - location) / self.scale
        norm = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * jnp.log(nu * math.pi) - jnp.log(self.scale)
        return norm - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)

    def information(self, location: Values) -> Information:
        # Lange, Little & Taylor (1989), doi:10.1080/01621459.1989.10478852. At freedom 3 scale and freedom are correlated by 0.64.
        nu = self.freedom
        half = 0.5 * nu
        freedom = 0.25 * (polygamma(1, half) - polygamma(1, half + 0.5)) - 0.5 * (nu + 5) / (nu * (nu + 1) * (nu + 3))
        scale = 2 * nu / ((nu + 3) * self.scale**2)
        cross = -2 / ((nu + 1) * (nu + 3) * self.scale)
        return Information([[(nu + 1) / ((nu + 3) * self.scale**2) + 0 * location], [0, scale], [0, cross, freedom]])

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        from scipy.special import stdtr

        z = (value - location) / self.scale
        return log_of(stdtr(self.freedom, z)), log_of(stdtr(self.freedom, -z))

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return student_sides((value - location) / self.scale, self.freedom)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location + self.scale * jax.random.t(key, self.freedom, location.shape, location.dtype)


@NOISES.named("laplace")
class Laplace(AbstractNoise):
    """p(value) = exp(-|value - location| / scale) / (2 scale)."""

    scale: Scalar = quantity(1.0, support=POSITIVE, doc="mean absolute deviation")
    domain: ClassVar[Domain] = "real"

    def log_prob(self, value: Values, location: Values) -> Values:
        return -jnp.abs(value - location) / self.scale - jnp.log(2 * self.scale)

    def information(self, location: Values) -> Information:
        return Information.diagonal(self.scale**-2 + 0 * location, self.scale**-2)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return _laplace_tails((value - location) / self.scale)

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return laplace_sides((value - location) / self.scale)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location + self.scale * jax.random.laplace(key, location.shape, location.dtype)


@NOISES.named("log_laplace")
class LogLaplace(AbstractNoise):
    """log(value) = log(location) + a Laplace variable of this scale: like `LogNormal`, but outliers pull less."""

    scale: Scalar = quantity(0.1, support=POSITIVE, doc="mean absolute deviation of the logarithm")
    domain: ClassVar[Domain] = "positive"

    def log_prob(self, value: Values, location: Values) -> Values:
        distance = jnp.abs(jnp.log(value) - jnp.log(location))
        return -distance / self.scale - jnp.log(2 * self.scale) - jnp.log(value)

    def information(self, location: Values) -> Information:
        return Information.diagonal((self.scale * location) ** -2, self.scale**-2)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return _laplace_tails((np.log(value) - np.log(location)) / self.scale)

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return laplace_sides((jnp.log(value) - jnp.log(location)) / self.scale)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location * jnp.exp(self.scale * jax.random.laplace(key, location.shape, location.dtype))


@NOISES.named("poisson")
class Poisson(AbstractNoise):
    """Counts whose mean and variance are the location, which must be positive."""

    domain: ClassVar[Domain] = "count"

    def log_prob(self, value: Values, location: Values) -> Values:
        return xlogy(value, location) - location - gammaln(value + 1)

    def information(self, location: Values) -> Information:
        return Information.diagonal(1 / location)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        from scipy.special import gammainc, gammaincc

        above = np.where(value > 0, gammainc(np.maximum(value, 1), location), 1)
        return log_of(gammaincc(value + 1, location)), log_of(above)

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return poisson_sides(value, location)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return _poisson_draws(key, location)


LARGE_CONCENTRATION = 100.0
"""Concentration from which on Stirling's series is as good as rounding: its first term left out is 1 / (1260 k^5) = 8e-14."""


@NOISES.named("negative_binomial")
class NegativeBinomial(AbstractNoise):
    """Counts with mean m, the location, and variance m + m^2 / concentration: more scatter than Poisson."""

    concentration: Scalar = quantity(10.0, support=POSITIVE, doc="concentration; large is nearly Poisson")
    domain: ClassVar[Domain] = "count"

    def log_prob(self, value: Values, location: Values) -> Values:
        k = self.concentration
        # log[Gamma(value + k) / (Gamma(k) k^value)], which goes to 0 where k is large: there by Stirling's series, since the
        # difference of two large logarithms has no digits left at k = 1e14.
        far = k > LARGE_CONCENTRATION
        near, large = jnp.where(far, 1.0, k), jnp.where(far, k, LARGE_CONCENTRATION)
        direct = gammaln(value + near) - gammaln(near) - value * jnp.log(near)
        correction = lambda x: (1 - 1 / (30 * x * x)) / (12 * x)
        series = (
            (value + large - 0.5) * jnp.log1p(value / large) - value + correction(value + large) - correction(large)
        )
        rising = jnp.where(far, series, direct)
        return rising - gammaln(value + 1) - (k + value) * jnp.log1p(location / k) + xlogy(value, location)

    def information(self, location: Values) -> Information:
        k = self.concentration
        return Information.diagonal(k / (location * (k + location)), _concentration_information(k, location))

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        from scipy.special import betainc

        k = self.concentration
        above = np.where(value > 0, betainc(np.maximum(value, 1), k, location / (k + location)), 1)
        return log_of(betainc(k, value + 1, k / (k + location))), log_of(above)

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return negative_binomial_sides(value, location, self.concentration, self.log_prob)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        rate, count = jax.random.split(key)
        k = jnp.broadcast_to(self.concentration, location.shape)
        gamma = jax.random.gamma(rate, k, dtype=location.dtype) * location / k
        return _poisson_draws(count, gamma)


LARGE_MEAN = 2.0**30
"""Mean from which on counts are drawn as rounded normal numbers: those of 32 bits end at twice it. The skewness, 1 / sqrt(mean),
is 3e-5 there."""


def _poisson_draws(key: PRNGKeyArray, mean: Values) -> Values:
    """Counts with these means; NaN where a mean is negative or not finite."""
    drawn = (mean >= 0) & (mean < LARGE_MEAN)
    counts = jax.random.poisson(key, jnp.where(drawn, mean, 1.0)).astype(mean.dtype)
    known = (mean >= LARGE_MEAN) & jnp.isfinite(mean)
    large = jnp.where(known, mean, LARGE_MEAN)
    normal = jax.random.normal(jax.random.fold_in(key, 1), mean.shape, mean.dtype)
    return jnp.where(drawn, counts, jnp.where(known, jnp.round(large + jnp.sqrt(large) * normal), jnp.nan))


def log_of(probability: np.ndarray) -> np.ndarray:
    """The logarithm of a probability; of one that underflows that of the smallest number, 38 standard deviations out."""
    return np.log(np.maximum(probability, np.finfo(float).tiny))


def _normal_tails(z: ArrayLike) -> LogTails:
    from scipy.special import log_ndtr

    z = np.asarray(z)
    return log_ndtr(z), log_ndtr(-z)


def _laplace_tails(z: ArrayLike) -> LogTails:
    z = np.asarray(z)
    far = math.log(0.5) - np.abs(z)
    near = np.log1p(-np.exp(far))
    return np.where(z < 0, far, near), np.where(z < 0, near, far)


NODES = 96
"""Nodes of the trapezoidal rule in the logarithm, which leave an error of 1e-9."""


def _concentration_information(k: Values, mean: Values) -> Values:
    r"""The information of a negative binomial datum on its concentration k.

    $$I_{kk} = \int_0^\infty s e^{-ks} \left[\frac{1 - G(s)}{1 - e^{-s}} - \frac{1 - e^{-ms}}{s}\right] ds, \qquad
    G = E\,e^{-sY} = \left(1 + \frac{m}{k} (1 - e^{-s})\right)^{-k}$$

    from $E[\psi'(k) - \psi'(k + Y)] - m / (k (k + m))$ and
    $\psi'(k) - \psi'(k + y) = \int s e^{-ks} (1 - e^{-sy}) / (1 - e^{-s}) ds$.
    The brackets cancel as k grows; where they leave too few digits, the information is that of a normal with the same variance
    function, whose relative error is of order 1 / k.
    """
    k, mean = jnp.broadcast_arrays(k, mean)
    dtype = mean.dtype
    # s runs over the scales 1 / (k + m) to 1 / k, where 1 - G and exp(-k s) change.
    low, high = jnp.log(1e-6 / (k + mean)), jnp.log(60.0 / k)
    share = jnp.broadcast_to(jnp.linspace(0.0, 1.0, NODES, dtype=dtype), (*mean.shape, NODES))
    k1, m1, begin, width = (x[..., None] for x in (k, mean, low, high - low))
    s = jnp.exp(begin + width * share)
    weight = (high - low) / (NODES - 1)
    survivor = -jnp.expm1(-k1 * jnp.log1p(-m1 / k1 * jnp.expm1(-s)))
    inner = survivor / -jnp.expm1(-s) + jnp.expm1(-m1 * s) / s
    exact = weight * jnp.sum(s**2 * jnp.exp(-k1 * s) * inner, axis=-1)
    smooth = 0.5 * (mean / (k * (k + mean))) ** 2
    # What rounding leaves of the difference, against what is left of it.
    lost = 8 * jnp.finfo(dtype).eps * mean / (k * (k + mean)) > 1e-2 * smooth
    return jnp.where(lost, smooth, exact)
