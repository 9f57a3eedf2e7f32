"""Nose-Hoover chains: constant temperature by a deterministic thermostat."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core import POSITIVE, quantity
from ._atoms import Atoms
from ._dynamics import Body, Dynamics, doubled_kinetic, drift, kick

# The weights of Suzuki and Yoshida that make five steps of order 2 one of order 4.
_WEIGHT = 1 / (4 - 4 ** (1 / 3))
WEIGHTS = (_WEIGHT, _WEIGHT, 1 - 4 * _WEIGHT, _WEIGHT, _WEIGHT)


class Chain(eqx.Module):
    """Positions and momenta of the thermostats of a chain."""

    position: Array
    momentum: Array


class NoseHoover(Dynamics):
    r"""Nose-Hoover chains, at constant temperature and without random numbers:

    $$\dot p_i = F_i - \frac{p_{\eta_1}}{Q_1} p_i, \qquad
    \dot p_{\eta_1} = \sum_i \frac{p_i^2}{m_i} - N_f k_B T - \frac{p_{\eta_2}}{Q_2} p_{\eta_1}, \qquad
    \dot p_{\eta_j} = \frac{p_{\eta_{j-1}}^2}{Q_{j-1}} - k_B T - \frac{p_{\eta_{j+1}}}{Q_{j+1}} p_{\eta_j}$$

    with $\dot \eta_j = p_{\eta_j} / Q_j$ and masses $Q_1 = N_f k_B T (\tau / 2 \pi)^2$, $Q_j = k_B T (\tau / 2 \pi)^2$.
    Velocity Verlet between half steps of the chain, each split as Suzuki and Yoshida do: reversible, and with an energy that is
    conserved.

    **Arguments:** `temperature` T, positive; `period` $\tau$ of the thermostat's oscillation, positive; `length` of the chain.

    **Good values:** a period of a hundred steps, a chain of three. A single harmonic mode needs the chain to be sampled at all.

    **Source:** Martyna, Klein and Tuckerman (1992), doi:10.1063/1.463940; Martyna et al. (1996), doi:10.1080/00268979600100761.
    """

    temperature: Array = quantity(support=POSITIVE)
    period: Array = quantity(support=POSITIVE)
    length: int = eqx.field(static=True, default=3)

    @property
    def name(self) -> str:
        return "Nose-Hoover chains"

    @property
    def conserves_momentum(self) -> bool:
        return True

    def begun(self, body: Body, atoms: Atoms) -> Any:
        still = jnp.zeros(self.length, atoms.momentum.dtype)
        return Chain(still, still)

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(self._coupled(body, 0.5 * h, atoms), force, 0.5 * h)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        return drift(atoms, body.mass, h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return kick(self._coupled(body, h, kick(atoms, force, 0.5 * h)), force, 0.5 * h)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return self._coupled(body, -0.5 * h, kick(atoms, force, -0.5 * h))

    def stored(self, body: Body, atoms: Atoms) -> Array:
        chain, (heats, masses) = atoms.thermostat, self._scales(body, atoms.momentum.dtype)
        return jnp.sum(0.5 * chain.momentum**2 / masses + heats * chain.position)

    def _scales(self, body: Body, dtype: Any) -> tuple[Array, Array]:
        """Twice the mean kinetic energy that each thermostat holds constant, and its mass."""
        counts = np.ones(self.length)
        counts[0] = body.freedom
        heats = jnp.asarray(counts, dtype) * (body.boltzmann * self.temperature).astype(dtype)
        return heats, heats * ((self.period / (2 * np.pi)) ** 2).astype(dtype)

    def _coupled(self, body: Body, h: Array, atoms: Atoms) -> Atoms:
        """The chain and the momenta after a time h, positions standing still: two halves, so that it is its own inverse for -h."""
        heats, masses = self._scales(body, atoms.momentum.dtype)
        doubled, scale = doubled_kinetic(body, atoms.momentum), jnp.ones((), atoms.momentum.dtype)
        position, momentum = atoms.thermostat.position, list(atoms.thermostat.momentum)
        last = self.length - 1

        def pushed(j: int, w: Array) -> None:
            """A quarter of a step for the momentum of thermostat j, by what drives it and by the next one's friction."""
            driven = doubled * scale * scale if j == 0 else momentum[j - 1] ** 2 / masses[j - 1]
            half = 1.0 if j == last else jnp.exp(-0.125 * w * momentum[j + 1] / masses[j + 1])
            momentum[j] = (momentum[j] * half + 0.25 * w * (driven - heats[j])) * half

        for weight in WEIGHTS:
            w = weight * h * 2
            for j in range(last, -1, -1):
                pushed(j, w)
            scale = scale * jnp.exp(-0.5 * w * momentum[0] / masses[0])
            position = position + 0.5 * w * jnp.stack(momentum) / masses
            for j in range(last + 1):
                pushed(j, w)
        moved = Chain(position, jnp.stack(momentum))
        return eqx.tree_at(lambda a: (a.momentum, a.thermostat), atoms, (scale * atoms.momentum, moved))
