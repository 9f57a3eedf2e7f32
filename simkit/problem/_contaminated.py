"""Normal data of which a share is wrong: a mixture of two normal distributions."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._types import Scalar
from ..core import POSITIVE, UNIT_INTERVAL, Support, quantity
from ._cumulative import Sides, normal_sides
from ._information import Information
from ._noise import NOISES, AbstractNoise, Domain, LogTails, Normal, Values

WIDEST, NODES = 9.0, 256
"""Nodes of the trapezoidal rule for the information, in t with z = sinh(t), up to so many standard deviations of the wider part;
they leave an error of 1e-8 of it for a widening up to 100."""


@NOISES.named("contaminated_normal")
class ContaminatedNormal(AbstractNoise):
    r"""A normal error of which a share is an outlier: $y \sim (1 - \epsilon)\, N(f, \sigma^2) + \epsilon\, N(f, (w \sigma)^2)$.

    Beside `StudentT`, whose outliers have no end and no number, it says how many data are wrong and by how much: posterior draws of
    `share` and `widening` are answers. Data far out pull at the fit as if their scale were $w \sigma$.

    **Good values:** share 0.01 to 0.1, widening 3 to 10. Hold one of the two where outliers are few: together they take some ten.

    **References:** Tukey (1960), A survey of sampling from contaminated distributions; Box & Tiao (1968),
    doi:10.1093/biomet/55.1.119.
    """

    scale: Scalar = quantity(1.0, support=POSITIVE, doc="standard deviation of the good data")
    share: Scalar = quantity(0.05, support=UNIT_INTERVAL, doc="share of outliers")
    widening: Scalar = quantity(
        5.0, support=Support(1.0, math.inf), doc="standard deviation of outliers over that of good data"
    )
    domain: ClassVar[Domain] = "real"

    def log_prob(self, value: Values, location: Values) -> Values:
        good, bad = Normal(self.scale), Normal(self.scale * self.widening)
        return self._mixed(good.log_prob(value, location), bad.log_prob(value, location))

    def _mixed(self, good: Values, bad: Values) -> Values:
        """The logarithm of a mixture of two probabilities, given by their logarithms."""
        return jnp.logaddexp(jnp.log1p(-self.share) + good, jnp.log(self.share) + bad)

    def information(self, location: Values) -> Information:
        """The information by quadrature over z = (y - f) / scale, from which that of all numbers follows."""
        scale, share, wide = jnp.broadcast_arrays(self.scale, self.share, self.widening)
        dtype = scale.dtype
        end = jnp.arcsinh(WIDEST * wide)[..., None]
        t = end * jnp.linspace(-1.0, 1.0, NODES, dtype=dtype).reshape(*[1] * scale.ndim, NODES)
        z, width = jnp.sinh(t), jnp.cosh(t) * 2 * end / (NODES - 1)
        share, wide = share[..., None], wide[..., None]
        normal = lambda x: jnp.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
        good, bad = normal(z), normal(z / wide) / wide
        density = (1 - share) * good + share * bad
        of_bad = share * bad / density  # the probability that a datum is an outlier
        pull = z * ((1 - of_bad) + of_bad / wide**2)
        # Scores of the location and the scale in units of the scale, of the share and of the widening.
        scores = pull, z * pull - 1, (bad - good) / density, of_bad * ((z / wide) ** 2 - 1) / wide
        mean = lambda a, b: jnp.sum(a * b * density * width, axis=-1)
        unit = [1 / scale, 1 / scale, jnp.ones_like(scale), jnp.ones_like(scale)]
        # Those of the location are odd in z and the others even, so that nothing couples them.
        rows = [[mean(scores[0], scores[0]) * unit[0] ** 2 + 0 * location]]
        rows += [[0, *[mean(scores[i], scores[j]) * unit[i] * unit[j] for j in range(1, i + 1)]] for i in (1, 2, 3)]
        return Information(rows)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        parts = [Normal(s).log_tails(value, location) for s in (self.scale, self.scale * self.widening)]
        shares = np.log1p(-self.share), np.log(self.share)
        below, above = (np.logaddexp(shares[0] + good, shares[1] + bad) for good, bad in zip(*parts, strict=True))
        return np.minimum(below, 0), np.minimum(above, 0)

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        z = (value - location) / self.scale
        good, bad = normal_sides(z), normal_sides(z / self.widening)
        # Of two ones rounding may leave more than one.
        return jnp.minimum(self._mixed(good[0], bad[0]), 0), jnp.minimum(self._mixed(good[1], bad[1]), 0)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        pick, draw = jax.random.split(key)
        outlier = jax.random.uniform(pick, location.shape, location.dtype) < self.share
        spread = self.scale * jnp.where(outlier, self.widening, 1)
        return location + spread * jax.random.normal(draw, location.shape, location.dtype)
