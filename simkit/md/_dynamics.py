"""Dynamics: how atoms move under their forces, in the two halves of a step that a particle system asks for.

Between the steps of a window momenta are half a kick ahead, so that a step needs one force and carries none: `opened` kicks by half
a step, `moved` drifts, `kicked` kicks by a whole step, `closed` takes half a kick back.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import POSITIVE, quantity
from ._atoms import Atoms


class Body(eqx.Module):
    """What of a system its dynamics need: the masses as a column, the Boltzmann constant, the degrees of freedom."""

    mass: Array
    boltzmann: float = eqx.field(static=True)
    freedom: int = eqx.field(static=True)


class Dynamics(eqx.Module):
    """How atoms move. A subclass says what it keeps beside positions and momenta, and its halves of a step."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What the method is called."""

    @property
    @abc.abstractmethod
    def conserves_momentum(self) -> bool:
        """Whether the centre of mass moves on as it does."""

    @abc.abstractmethod
    def begun(self, body: Body, atoms: Atoms) -> Any:
        """What a thermostat keeps at the start, where none is given."""

    @abc.abstractmethod
    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        """The state with momenta half a kick ahead."""

    @abc.abstractmethod
    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        """The first half of a step."""

    @abc.abstractmethod
    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        """The second half of a step."""

    @abc.abstractmethod
    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        """The inverse of `opened`."""

    @abc.abstractmethod
    def stored(self, body: Body, atoms: Atoms) -> Array:
        """The energy that went into the thermostat: with the energy of the atoms it is conserved, but for the error of the step."""


def kick(atoms: Atoms, force: Array, h: Any) -> Atoms:
    return eqx.tree_at(lambda a: a.momentum, atoms, atoms.momentum + h * force)


def drift(atoms: Atoms, mass: Array, h: Any) -> Atoms:
    return eqx.tree_at(lambda a: a.position, atoms, atoms.position + h * (atoms.momentum / mass))


def doubled_kinetic(body: Body, momentum: Array) -> Array:
    """Twice the kinetic energy."""
    return jnp.sum(momentum * momentum / body.mass)


class NVE(Dynamics):
    r"""Newton's equations by velocity Verlet, at constant energy:

    $$p_{1/2} = p_0 + \tfrac{h}{2} F(x_0), \quad x_1 = x_0 + h\, p_{1/2} / m, \quad p_1 = p_{1/2} + \tfrac{h}{2} F(x_1)$$

    Symplectic and reversible: the error of the energy is bounded, of order $h^2$ where forces are smooth up to the cutoff.

    **Good values:** steps of 0.005 in reduced units, 1-2 fs for atoms without light bonds.

    **Source:** Swope et al. (1982), doi:10.1063/1.442716.
    """

    @property
    def name(self) -> str:
        return "velocity Verlet"

    @property
    def conserves_momentum(self) -> bool:
        return True

    def begun(self, body: Body, atoms: Atoms) -> Any:
        return None

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(atoms, force, 0.5 * h)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        return drift(atoms, body.mass, h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return kick(atoms, force, h)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(atoms, force, -0.5 * h)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return jnp.zeros((), atoms.momentum.dtype)


class Langevin(Dynamics):
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

    def begun(self, body: Body, atoms: Atoms) -> Any:
        return None

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(atoms, force, 0.5 * h)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        atoms = drift(atoms, body.mass, 0.5 * h)
        momentum = atoms.momentum
        kept = jnp.exp(-self.friction * h).astype(momentum.dtype)
        width = jnp.sqrt((1 - kept * kept) * body.boltzmann * self.temperature * body.mass).astype(momentum.dtype)
        momentum = kept * momentum + width * jax.random.normal(key, momentum.shape, momentum.dtype)
        return drift(eqx.tree_at(lambda a: a.momentum, atoms, momentum), body.mass, 0.5 * h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return kick(atoms, force, h)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(atoms, force, -0.5 * h)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return jnp.full((), jnp.nan, atoms.momentum.dtype)


class StochasticRescaling(Dynamics):
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

    def begun(self, body: Body, atoms: Atoms) -> Any:
        return jnp.zeros((), atoms.momentum.dtype)

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(atoms, force, 0.5 * h)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        return drift(atoms, body.mass, h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        atoms = kick(atoms, force, 0.5 * h)
        dtype = atoms.momentum.dtype
        doubled = doubled_kinetic(body, atoms.momentum)
        kept = jnp.exp(-h / self.relaxation).astype(dtype)
        share = (1 - kept) * (body.boltzmann * self.temperature).astype(dtype) / doubled
        normal, rest = jax.random.split(key)
        along = jax.random.normal(normal, (), dtype)
        # The sum of freedom - 1 squared normal numbers.
        across = 2 * jax.random.gamma(rest, jnp.asarray(0.5 * (body.freedom - 1), dtype), dtype=dtype)
        factor = jnp.sqrt(kept + share * (across + along * along) + 2 * along * jnp.sqrt(kept * share))
        heat = atoms.thermostat + 0.5 * doubled * (1 - factor * factor)
        atoms = eqx.tree_at(lambda a: (a.momentum, a.thermostat), atoms, (factor * atoms.momentum, heat))
        return kick(atoms, force, 0.5 * h)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(atoms, force, -0.5 * h)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return atoms.thermostat
