"""Weak coupling to a bath, after Berendsen."""

import jax.numpy as jnp
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ._dynamics import DYNAMICS, Body, VelocityThermostat, doubled_kinetic


@DYNAMICS.named("berendsen")
class Berendsen(VelocityThermostat):
    r"""Velocity Verlet whose kinetic energy relaxes to its mean without noise. **Its ensemble is wrong**: not the canonical one.

    $$\frac{dK}{dt} = \frac{\bar K - K}{\tau}, \qquad \bar K = \tfrac12 N_f k_B T$$

    Fluctuations of the kinetic energy are suppressed, so that all that is made of fluctuations (heat capacities, weights of states,
    free energies) is wrong, and energy creeps into slow modes. It is here to bring a start to its temperature, and for comparison
    with old work. For averages take `StochasticRescaling`, which is the same with the noise that is missing here.

    **Arguments:** `temperature` T, positive; `relaxation` $\tau$, positive.

    **Good values:** a relaxation of a hundred steps.

    **Source:** Berendsen et al. (1984), doi:10.1063/1.448118.
    """

    temperature: Array = quantity(support=POSITIVE)
    relaxation: Array = quantity(support=POSITIVE)

    @property
    def name(self) -> str:
        return "Berendsen, not canonical"

    @property
    def conserves_momentum(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return False

    def coupled(self, body: Body, h: Array, momentum: Array, key: Array) -> Array:
        kept = jnp.exp(-h / self.relaxation).astype(momentum.dtype)
        mean = (body.freedom * body.boltzmann * self.temperature).astype(momentum.dtype)
        return jnp.sqrt(kept + (1 - kept) * mean / doubled_kinetic(body, momentum)) * momentum
