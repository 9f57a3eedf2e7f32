"""Ordinal data: grades in an order, by a cumulative logit with cutpoints."""

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import shown
from .._errors import ArgumentError
from .._types import Scalar
from ..core import POSITIVE, Metadata, as_float_array, quantity, traced
from ._cumulative import Sides
from ._information import Information
from ._noise import NOISES, AbstractNoise, Domain, LogTails, Values, numbers_in


@NOISES.named("ordered")
class Ordered(AbstractNoise):
    r"""Ordinal data 0, 1, ..., K: a grade is the number of cutpoints below a latent number (proportional odds).

    $$P(Y \le k) = \frac{1}{1 + e^{f - c_k}}, \qquad c_0 = \mathrm{first}, \quad c_{k} = c_{k-1} + \mathrm{gap}_{k-1}$$

    with the location f, which is any real number: the larger it is, the higher the grades. Gaps are positive, so that cutpoints
    stay in their order while they move; paths are `noise.pain.first`, `noise.pain.gaps.0`, `noise.pain.gaps.1`.
    `Ordered.at(cutpoints)` takes cutpoints, and `cutpoints` gives them.

    **Arguments:** `first`: the lowest cutpoint; `gaps`: those between neighbours, for K + 1 grades K - 1 of them.

    **Raises:** an `ArgumentError` for gaps that are not positive numbers.

    **Good values:** gaps of 0.5 to 3, which are on the scale of log odds. An output with a level of its own and `first` shift the
    grades alike: hold one of the two.

    **Reference:** McCullagh (1980), Journal of the Royal Statistical Society B 42:109, doi:10.1111/j.2517-6161.1980.tb01109.x.

    ```python
    import jax.numpy as jnp
    import simkit

    pain = simkit.noise.Ordered.at([-1.0, 0.5, 2.0])
    print(pain.probabilities(jnp.array([0.0, 3.0])))  # of the grades 0 to 3 at two locations
    ```
    """

    first: Scalar = quantity(0.0, doc="lowest cutpoint")
    gaps: tuple[Float[Array, ""], ...] = eqx.field(
        converter=numbers_in("gaps", "positive numbers"),
        default=(1.0,),
        metadata={"simkit": Metadata("1", POSITIVE, "distances of neighbouring cutpoints, an array")},
    )
    domain: ClassVar[Domain] = "count"

    def __check_init__(self) -> None:
        known = [np.asarray(gap) for gap in self.gaps if not traced(gap)]
        if any(np.any(gap <= 0) for gap in known):
            raise ArgumentError(
                f"The gaps of `Ordered` must be positive, but they are {[gap.tolist() for gap in known]}. Cutpoints must increase."
            )

    @classmethod
    def at(cls, cutpoints: ArrayLike | Sequence[Any]) -> "Ordered":
        """The noise model with these cutpoints, which increase."""
        try:
            found = np.asarray(cutpoints, float)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"Argument `cutpoints` must be numbers, but it is {shown(cutpoints)}.") from error
        if found.ndim != 1 or not found.size or not np.isfinite(found).all() or not np.all(np.diff(found) > 0):
            raise ArgumentError(f"Argument `cutpoints` must be numbers that increase, but it is {shown(cutpoints)}.")
        gaps = tuple(as_float_array(gap) for gap in np.diff(found))
        return cls(as_float_array(found[0]), gaps)

    @property
    def cutpoints(self) -> tuple[ArrayLike, ...]:
        """The cutpoints in their order."""
        return tuple(self._cuts())

    def _cuts(self) -> list[Any]:
        found: list[Any] = [self.first]
        for gap in self.gaps:
            found.append(found[-1] + gap)
        return found

    def largest(self) -> float:
        return float(len(self.gaps) + 1)

    def probabilities(self, location: Values) -> Values:
        """The probabilities of all grades at locations, with a last axis of grades."""
        grades = jnp.arange(len(self.gaps) + 2, dtype=location.dtype)
        spread = jax.tree.map(lambda x: jnp.broadcast_to(x, location.shape)[..., None], self)
        return jnp.exp(spread.log_prob(grades.reshape(*[1] * location.ndim, -1), location[..., None]))

    def log_prob(self, value: Values, location: Values) -> Values:
        value, location = jnp.broadcast_arrays(value, location)
        last, cuts = len(self.gaps) + 1, self._cuts()
        pick = lambda shift: sum(jnp.where(value == k + shift, cut - location, 0) for k, cut in enumerate(cuts))
        # The difference of two logistic functions is their product with the complement and 1 - exp(-gap).
        below, above = jax.nn.softplus(-pick(0)), jax.nn.softplus(pick(1))
        gap = sum((jnp.where(value == k + 1, own, 0) for k, own in enumerate(self.gaps)), jnp.zeros_like(location))
        between = (value > 0) & (value < last)
        width = jnp.log(-jnp.expm1(-jnp.where(between, gap, 1)))
        found = jnp.where(value < last, -below, 0) + jnp.where(value > 0, -above, 0) + jnp.where(between, width, 0)
        return jnp.where((value >= 0) & (value <= last) & (value == jnp.round(value)), found, -jnp.inf)

    def information(self, location: Values) -> Information:
        """The sum over all grades of the products of the slopes of their probabilities."""
        size = 2 + len(self.gaps)
        zero = jnp.zeros_like(location)
        mass = [jnp.exp(self.log_prob(zero + k, location)) for k in range(size)]
        density = [jax.nn.sigmoid(cut - location) * jax.nn.sigmoid(location - cut) for cut in self._cuts()]
        # Slopes of P(Y <= k): by the location, by the first cutpoint, and by the gaps below it.
        slopes = [[-d, d, *(d if i < k else zero for i in range(size - 2))] for k, d in enumerate(density)]
        ends = [[zero] * size, *slopes, [zero] * size]
        each = [[b - a for a, b in zip(ends[k], ends[k + 1], strict=True)] for k in range(size)]
        known = [jnp.where(p > 0, p, 1) for p in mass]
        product = lambda i, j: sum(own[i] * own[j] / p for own, p in zip(each, known, strict=True))
        return Information([[product(i, j) for j in range(i + 1)] for i in range(size)])

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        below = np.zeros(np.shape(value - location))
        above = np.zeros_like(below)
        for k, cut in enumerate(self._cuts()):
            z = np.asarray(cut - location)
            below = np.where(value == k, -np.logaddexp(0, -z), below)
            above = np.where(value == k + 1, -np.logaddexp(0, z), above)
        last = len(self.gaps) + 1
        return np.where(value < 0, -np.inf, below), np.where(value > last, -np.inf, above)

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        value, location = jnp.broadcast_arrays(jnp.floor(value), location)
        last = len(self.gaps) + 1
        z = sum(jnp.where(value == k, cut - location, 0) for k, cut in enumerate(self._cuts()))
        inside, none = (value >= 0) & (value < last), value < 0
        below = jnp.where(inside, -jax.nn.softplus(-z), jnp.where(none, -jnp.inf, 0))
        return below, jnp.where(inside, -jax.nn.softplus(z), jnp.where(none, 0, -jnp.inf))

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        latent = location + jax.random.logistic(key, location.shape, location.dtype)
        grades = sum((latent > cut).astype(location.dtype) for cut in self._cuts())
        return jnp.where(jnp.isnan(location), jnp.nan, grades)
