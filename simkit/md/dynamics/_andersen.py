"""Collisions with a bath, after Andersen."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ._dynamics import DYNAMICS, Body, VelocityThermostat


@DYNAMICS.named("andersen")
class Andersen(VelocityThermostat):
    r"""Velocity Verlet in which atoms collide with a bath: in a step of length h each atom, by chance, gets a new momentum

    $$p_{ic} \sim \mathcal{N}(0,\, m_i k_B T) \quad \text{with probability} \quad 1 - e^{-\nu h}$$

    It samples the canonical ensemble; atoms that constraints join collide together. Collisions stop the flow of momentum, so
    diffusion and viscosity are not those of the fluid.

    **Arguments:** `temperature` T, positive; `rate` $\nu$ of an atom's collisions, positive, one over time.

    **Good values:** a collision of an atom in a hundred to a thousand steps.

    **Source:** Andersen (1980), doi:10.1063/1.439486.
    """

    temperature: Array = quantity(support=POSITIVE)
    rate: Array = quantity(support=POSITIVE)

    @property
    def name(self) -> str:
        return "Andersen collisions"

    @property
    def conserves_momentum(self) -> bool:
        return False

    @property
    def noisy(self) -> bool:
        return True

    def coupled(self, body: Body, h: Array, momentum: Array, key: Array) -> Array:
        chance, thermal = jax.random.split(key)
        dtype = momentum.dtype
        hit = jax.random.uniform(chance, body.mass.shape, dtype) < -jnp.expm1(-self.rate * h).astype(dtype)
        # Atoms that constraints join collide together: a new momentum of one alone, projected, would not be canonical.
        leader = jnp.arange(len(momentum))
        for constraint in body.constraints:
            atom = constraint.groups().atom
            leader = leader.at[atom].set(jnp.broadcast_to(atom[:, :1], atom.shape).astype(leader.dtype))
        hit = hit[leader]
        width = jnp.sqrt(body.boltzmann * self.temperature * body.mass).astype(dtype)
        return jnp.where(hit, width * jax.random.normal(thermal, momentum.shape, dtype), momentum)
