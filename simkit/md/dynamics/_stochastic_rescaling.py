"""Stochastic velocity rescaling."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ._dynamics import DYNAMICS, Body, VelocityThermostat, doubled_kinetic


@DYNAMICS.named("stochastic_rescaling")
class StochasticRescaling(VelocityThermostat):
    r"""Velocity Verlet whose momenta are rescaled at random so that the kinetic energy K has its canonical distribution:

    $$dK = (\bar K - K)\frac{dt}{\tau} + 2 \sqrt{\frac{K \bar K}{N_f}} \frac{dW}{\sqrt{\tau}}, \qquad \bar K = \tfrac12 N_f k_B T$$

    solved exactly over a step. Unlike a weak coupling without noise it samples the canonical ensemble, and it hardly disturbs the
    dynamics.

    **Arguments:** `temperature` T, positive; `relaxation` $\tau$, positive: the time in which the kinetic energy forgets.

    **Good values:** a relaxation of a hundred steps.

    **Source:** Bussi, Donadio and Parrinello (2007), doi:10.1063/1.2408420, equation A7.
    """

    temperature: Array = quantity(support=POSITIVE)
    relaxation: Array = quantity(support=POSITIVE)

    @property
    def name(self) -> str:
        return "stochastic velocity rescaling"

    @property
    def conserves_momentum(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return True

    def coupled(self, body: Body, h: Array, momentum: Array, key: Array) -> Array:
        thermal = body.boltzmann * self.temperature
        return rescaling(body, thermal, h / self.relaxation, momentum, key) * momentum


def rescaling(body: Body, thermal: Array, elapsed: Array, momentum: Array, key: Array) -> Array:
    """The factor of the momenta after a time, in units of the relaxation, at the thermal energy."""
    dtype = momentum.dtype
    kept = jnp.exp(-elapsed).astype(dtype)
    share = (1 - kept) * thermal.astype(dtype) / doubled_kinetic(body, momentum)
    normal, rest = jax.random.split(key)
    along = jax.random.normal(normal, (), dtype)
    # The sum of freedom - 1 squared normal numbers.
    across = 2 * jax.random.gamma(rest, jnp.asarray(0.5 * (body.freedom - 1), dtype), dtype=dtype)
    return jnp.sqrt(kept + share * (across + along * along) + 2 * along * jnp.sqrt(kept * share))
