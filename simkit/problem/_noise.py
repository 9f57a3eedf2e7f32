"""Noise models: how a datum scatters around its predicted location."""

import abc
import math
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, polygamma, xlogy
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Scalar
from ..core import POSITIVE, quantity

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar  # type checkers would take it for an instance variable

Self = TypeVar("Self", bound="AbstractNoise")
Values = Float[Array, "..."]
Domain = Literal["real", "positive", "count"]


class AbstractNoise(eqx.Module):
    """The distribution of a datum given the location that the model predicts.

    A noise model's numbers are quantities with names such as `noise.hare.scale`; they can be fixed, free or set by
    experiment. With `log_prob` and the Fisher information of one datum a Gauss-Newton method serves every noise model.
    """

    domain: AbstractClassVar[Domain]

    @abc.abstractmethod
    def log_prob(self, value: Values, location: Values) -> Values:
        """The log density, or log probability, of a datum."""

    @abc.abstractmethod
    def information(self: Self, location: Values) -> tuple[Values, Self]:
        """The Fisher information of one datum: on the location, and on this model's own numbers, in a model's form."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        """A random datum for every location."""


class Normal(AbstractNoise):
    """value ~ N(location, scale^2)."""

    scale: Scalar = quantity(1.0, support=POSITIVE, doc="standard deviation")
    domain: ClassVar[Domain] = "real"

    def log_prob(self, value: Values, location: Values) -> Values:
        return -0.5 * ((value - location) / self.scale) ** 2 - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def information(self, location: Values) -> tuple[Values, "Normal"]:
        return self.scale**-2 + 0 * location, Normal(2 * self.scale**-2)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location + self.scale * jax.random.normal(key, location.shape, location.dtype)


class LogNormal(AbstractNoise):
    """log(value) ~ N(log(location), scale^2): the location is the median, the scale nearly a relative error."""

    scale: Scalar = quantity(0.1, support=POSITIVE, doc="standard deviation of the logarithm")
    domain: ClassVar[Domain] = "positive"

    def log_prob(self, value: Values, location: Values) -> Values:
        z = (jnp.log(value) - jnp.log(location)) / self.scale
        return -0.5 * z**2 - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi) - jnp.log(value)

    def information(self, location: Values) -> tuple[Values, "LogNormal"]:
        return (self.scale * location) ** -2, LogNormal(2 * self.scale**-2)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location * jnp.exp(self.scale * jax.random.normal(key, location.shape, location.dtype))


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

    def information(self, location: Values) -> tuple[Values, "StudentT"]:
        # Lange, Little & Taylor (1989), doi:10.1080/01621459.1989.10478852; the small cross term of scale and freedom is left out.
        nu = self.freedom
        half = 0.5 * nu
        freedom = 0.25 * (polygamma(1, half) - polygamma(1, half + 0.5)) - 0.5 * (nu + 5) / (nu * (nu + 1) * (nu + 3))
        scale = 2 * nu / ((nu + 3) * self.scale**2)
        return (nu + 1) / ((nu + 3) * self.scale**2) + 0 * location, StudentT(scale, freedom)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location + self.scale * jax.random.t(key, self.freedom, location.shape, location.dtype)


class Laplace(AbstractNoise):
    """p(value) = exp(-|value - location| / scale) / (2 scale)."""

    scale: Scalar = quantity(1.0, support=POSITIVE, doc="mean absolute deviation")
    domain: ClassVar[Domain] = "real"

    def log_prob(self, value: Values, location: Values) -> Values:
        return -jnp.abs(value - location) / self.scale - jnp.log(2 * self.scale)

    def information(self, location: Values) -> tuple[Values, "Laplace"]:
        return self.scale**-2 + 0 * location, Laplace(self.scale**-2)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location + self.scale * jax.random.laplace(key, location.shape, location.dtype)


class LogLaplace(AbstractNoise):
    """log(value) = log(location) + a Laplace variable of this scale: like `LogNormal`, but outliers pull less."""

    scale: Scalar = quantity(0.1, support=POSITIVE, doc="mean absolute deviation of the logarithm")
    domain: ClassVar[Domain] = "positive"

    def log_prob(self, value: Values, location: Values) -> Values:
        distance = jnp.abs(jnp.log(value) - jnp.log(location))
        return -distance / self.scale - jnp.log(2 * self.scale) - jnp.log(value)

    def information(self, location: Values) -> tuple[Values, "LogLaplace"]:
        return (self.scale * location) ** -2, LogLaplace(self.scale**-2)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return location * jnp.exp(self.scale * jax.random.laplace(key, location.shape, location.dtype))


class Poisson(AbstractNoise):
    """Counts whose mean and variance are the location, which must be positive."""

    domain: ClassVar[Domain] = "count"

    def log_prob(self, value: Values, location: Values) -> Values:
        return xlogy(value, location) - location - gammaln(value + 1)

    def information(self, location: Values) -> tuple[Values, "Poisson"]:
        return 1 / location, Poisson()

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return jax.random.poisson(key, location).astype(location.dtype)


class NegativeBinomial(AbstractNoise):
    """Counts with mean m, the location, and variance m + m^2 / concentration: more scatter than Poisson."""

    concentration: Scalar = quantity(10.0, support=POSITIVE, doc="concentration; large is nearly Poisson")
    domain: ClassVar[Domain] = "count"

    def log_prob(self, value: Values, location: Values) -> Values:
        k = self.concentration
        choose = gammaln(value + k) - gammaln(k) - gammaln(value + 1)
        return choose - k * jnp.log1p(location / k) + xlogy(value, location / (location + k))

    def information(self, location: Values) -> tuple[Values, "NegativeBinomial"]:
        # Mean and concentration are orthogonal. The second entry is that of a normal with the same variance function,
        # exact to leading order for large concentration, where the expectation has no closed form.
        k = self.concentration
        own = 0.5 * (location / (k * (k + location))) ** 2
        return k / (location * (k + location)), NegativeBinomial(own)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        rate, count = jax.random.split(key)
        k = jnp.broadcast_to(self.concentration, location.shape)
        gamma = jax.random.gamma(rate, k, dtype=location.dtype) * location / k
        return jax.random.poisson(count, gamma).astype(location.dtype)


NOISES: dict[str, type[AbstractNoise]] = {
    "normal": Normal,
    "log_normal": LogNormal,
    "student_t": StudentT,
    "laplace": Laplace,
    "log_laplace": LogLaplace,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
}
