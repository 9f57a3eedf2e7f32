"""Categories without an order, by a multinomial logit."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import ArgumentError
from ..core import REAL, Metadata, as_float_array
from ._information import Information
from ._noise import NOISES, AbstractNoise, Domain, LogTails, Values, numbers_in


@NOISES.named("categorical")
class Categorical(AbstractNoise):
    r"""Categories 0, 1, ..., K without an order (multinomial logit, category 0 as the baseline).

    $$\log \frac{P(Y = k)}{P(Y = 0)} = a_k + b_k f, \qquad k = 1, \ldots, K$$

    with the location f, which is any real number, intercepts a and slopes b. They have no order, so that data cannot be censored
    and have no percentiles. The paths of category 1 are
    `noise.choice.intercepts.0` and `noise.choice.slopes.0`.

    **Arguments:** `intercepts`: the log odds of categories 1 to K where the output is zero; `slopes`: their rise with the output.

    **Raises:** an `ArgumentError` for arguments that are no arrays of numbers, or of different lengths.

    **Good values:** -5 to 5. An output with a size of its own and all slopes stretch the log odds alike, and one with a level of
    its own moves with the intercepts: hold one slope and one intercept then.

    **Reference:** McFadden (1974), Conditional logit analysis of qualitative choice behavior, in Zarembka (ed.), Frontiers in
    Econometrics; Agresti (2013), Categorical Data Analysis, 3rd edition, section 8.1, ISBN 978-0-470-46363-5.

    ```python
    import jax.numpy as jnp
    import simkit

    prey = simkit.noise.Categorical(intercepts=[1.6, 4.2], slopes=[-0.1, -2.4])
    print(prey.probabilities(jnp.array([1.5, 3.5])))  # of the categories 0 to 2 at two locations
    ```
    """

    intercepts: tuple[Float[Array, ""], ...] = eqx.field(
        converter=numbers_in("intercepts"),
        default=(0.0,),
        metadata={"simkit": Metadata("1", REAL, "log odds beside category 0 where the output is zero, an array")},
    )
    slopes: tuple[Float[Array, ""], ...] = eqx.field(
        converter=numbers_in("slopes"),
        default=(1.0,),
        metadata={"simkit": Metadata("1", REAL, "rise of log odds with the output, an array")},
    )
    domain: ClassVar[Domain] = "count"

    def __check_init__(self) -> None:
        if len(self.intercepts) != len(self.slopes) or not self.slopes:
            raise ArgumentError(
                f"`Categorical` needs an intercept and a slope of every category but 0, but it has {len(self.intercepts)} "
                f"intercepts and {len(self.slopes)} slopes."
            )

    def largest(self) -> float:
        return float(len(self.slopes))

    def _logs(self, location: Any) -> list[Any]:
        """The log probabilities of all categories at locations; of NumPy arrays too."""
        xp = np if isinstance(location, np.ndarray) else jnp
        logits = [xp.zeros_like(location)] + [
            a + b * location for a, b in zip(self.intercepts, self.slopes, strict=True)
        ]
        highest = logits[0]
        for logit in logits[1:]:
            highest = xp.maximum(highest, logit)
        total = highest + xp.log(sum(xp.exp(logit - highest) for logit in logits))
        return [logit - total for logit in logits]

    def probabilities(self, location: ArrayLike) -> Values:
        """The probabilities of all categories at locations, with a last axis of categories."""
        places = as_float_array(location)
        spread = jax.tree.map(lambda x: jnp.broadcast_to(x, places.shape), self)
        return jnp.exp(jnp.stack(spread._logs(places), axis=-1))

    def log_prob(self, value: Values, location: Values) -> Values:
        value, location = jnp.broadcast_arrays(value, location)
        logs = self._logs(location)
        return sum((jnp.where(value == k, own, 0) for k, own in enumerate(logs)), self._outside(value))

    def _outside(self, value: Values) -> Values:
        """Minus infinity where a datum is no category, else 0."""
        known = (value >= 0) & (value <= len(self.slopes)) & (value == jnp.round(value))
        return jnp.where(known, jnp.zeros_like(value), -jnp.inf)

    def information(self, location: Values) -> Information:
        """The sum over all categories of the products of the slopes of their log probabilities."""
        mass = [jnp.exp(own) for own in self._logs(location)]
        count = len(self.slopes)
        zero, one = jnp.zeros_like(location), jnp.ones_like(location)
        # Slopes of the logits of categories 1 to K, by the location, the intercepts and the slopes.
        rows = [[b * one for b in self.slopes]]
        rows += [[own if i == k else zero for k in range(count)] for own in (one, location) for i in range(count)]
        mean = [sum(p * x for p, x in zip(mass[1:], row, strict=True)) for row in rows]

        def product(i: int, j: int) -> Values:
            both = sum(p * x * y for p, x, y in zip(mass[1:], rows[i], rows[j], strict=True))
            return jnp.asarray(both - mean[i] * mean[j])

        return Information([[product(i, j) for j in range(i + 1)] for i in range(len(rows))])

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        value, location = np.broadcast_arrays(value, location)
        logs = self._logs(np.asarray(location))
        sides = []
        for upto in (lambda k: k <= value, lambda k: k >= value):
            own = [np.where(upto(k), x, -np.inf) for k, x in enumerate(logs)]
            sides.append(np.logaddexp.reduce(own, axis=0))
        return sides[0], sides[1]

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        logs = self._logs(location)
        best, drawn = logs[0] - jnp.inf, jnp.zeros_like(location)
        # Gumbel's: the largest of log probabilities with scatter added has the probabilities of the categories.
        for k, (own, part) in enumerate(zip(logs, jax.random.split(key, len(logs)), strict=True)):
            height = own + jax.random.gumbel(part, location.shape, location.dtype)
            best, drawn = jnp.maximum(best, height), jnp.where(height > best, float(k), drawn)
        return jnp.where(jnp.isnan(location), jnp.nan, drawn)
