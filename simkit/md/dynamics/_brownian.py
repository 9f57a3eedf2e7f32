"""Overdamped dynamics."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ..space._atoms import Atoms
from ._dynamics import DYNAMICS, Body, Dynamics


@DYNAMICS.named("brownian")
class Brownian(Dynamics):
    r"""Overdamped Langevin dynamics: what remains of `Langevin` where friction is strong. Only positions matter:

    $$dx = \frac{F}{m \gamma}\, dt + \sqrt{\frac{2 k_B T}{m \gamma}}\, dW, \qquad
    x_{n+1} = x_n + \frac{h}{m \gamma} F(x_n) + \sqrt{\frac{k_B T h}{2 m \gamma}} (R_n + R_{n+1})$$

    with normal numbers $R_n$, each used in two steps, which makes averages over positions of second order, and exact for harmonic
    forces. $R_0 = 0$ at the start of a run. Momenta are none: the state holds $F / \gamma$, the mass times the mean velocity, in
    their place, and outputs take the kinetic energy to be its mean.

    **Arguments:** `temperature` T, positive; `friction` $\gamma$, positive, one over time; $m \gamma$ is the drag.

    **Good values:** steps of which $h / (m \gamma)$ times the stiffness of the stiffest motion is below 0.1.

    **Source:** Leimkuhler and Matthews (2013), doi:10.1093/amrx/abs010.
    """

    temperature: Array = quantity(support=POSITIVE)
    friction: Array = quantity(support=POSITIVE)

    @property
    def name(self) -> str:
        return "Brownian, with averaged noise"

    @property
    def conserves_momentum(self) -> bool:
        return False

    @property
    def noisy(self) -> bool:
        return True

    @property
    def keeps_constraints(self) -> bool:
        return False

    def begun(self, body: Body, atoms: Atoms) -> Any:
        """The noise of the last step."""
        return jnp.zeros_like(atoms.position)

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return self._dragged(atoms, force)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        noise = jax.random.normal(key, atoms.position.shape, atoms.position.dtype)
        width = jnp.sqrt(0.5 * h * body.boltzmann * self.temperature / (self.friction * body.mass)).astype(noise.dtype)
        position = atoms.position + h * atoms.momentum / body.mass + width * (atoms.thermostat + noise)
        return eqx.tree_at(lambda a: (a.position, a.thermostat), atoms, (position, noise))

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return self._dragged(atoms, force)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return atoms

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return jnp.full((), jnp.nan, atoms.momentum.dtype)

    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        return (body.freedom * body.boltzmann * self.temperature).astype(atoms.momentum.dtype)

    def _dragged(self, atoms: Atoms, force: Array) -> Atoms:
        return eqx.tree_at(lambda a: a.momentum, atoms, force / self.friction.astype(force.dtype))
