"""Langevin dynamics by the splitting BAOAB."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ..space._atoms import Atoms
from ._dynamics import DYNAMICS, Body, HalfKicked, drift, kick, on_constraints


@DYNAMICS.named("langevin")
class Langevin(HalfKicked):
    r"""Langevin dynamics at constant temperature, by the splitting BAOAB:

    $$dx = p/m\, dt, \qquad dp = F\, dt - \gamma p\, dt + \sqrt{2 \gamma m k_B T}\, dW$$

    Kick by half a step, drift by half, the exact Ornstein-Uhlenbeck process of friction and noise for a whole one, drift and kick
    by half. Averages over positions are exact for harmonic forces, and of high order elsewhere.

    **Arguments:** `temperature` T, positive; `friction` $\gamma$, positive, one over time.

    **Good values:** a friction of 1-5 per unit of reduced time or per ps: small enough to leave the dynamics much as they are.

    **Source:** Leimkuhler and Matthews (2013), doi:10.1063/1.4802990.
    """

    temperature: Array = quantity(support=POSITIVE)
    friction: Array = quantity(support=POSITIVE)

    @property
    def name(self) -> str:
        return "Langevin, BAOAB"

    @property
    def conserves_momentum(self) -> bool:
        return False

    @property
    def noisy(self) -> bool:
        return True

    def begun(self, body: Body, atoms: Atoms) -> Any:
        return None

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        atoms = drift(body, atoms, 0.5 * h)
        momentum = atoms.momentum
        kept = jnp.exp(-self.friction * h).astype(momentum.dtype)
        width = jnp.sqrt((1 - kept * kept) * body.boltzmann * self.temperature * body.mass).astype(momentum.dtype)
        momentum = kept * momentum + width * jax.random.normal(key, momentum.shape, momentum.dtype)
        return drift(body, on_constraints(body, eqx.tree_at(lambda a: a.momentum, atoms, momentum)), 0.5 * h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return kick(atoms, force, h)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return jnp.full((), jnp.nan, atoms.momentum.dtype)
