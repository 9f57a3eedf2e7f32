"""Nose-Hoover chains: constant temperature by a deterministic thermostat."""

from typing import Any

import equinox as eqx
from jax.typing import DTypeLike
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ..space._atoms import Atoms
from ._chain import Scales, chain_energy, chain_scales, chained, resting_chain
from ._dynamics import DYNAMICS, Body, Dynamics, between_kicks, doubled_kinetic, drift, kick, on_constraints


@DYNAMICS.named("nose_hoover")
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

    @property
    def noisy(self) -> bool:
        return False

    @property
    def keeps_constraints(self) -> bool:
        return True

    def begun(self, body: Body, atoms: Atoms) -> Any:
        return resting_chain(self.length, atoms.momentum.dtype)

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return kick(self._coupled(body, 0.5 * h, atoms), force, 0.5 * h)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        return drift(body, atoms, h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return between_kicks(body, h, atoms, force, lambda atoms: self._coupled(body, h, atoms))

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return self._coupled(body, -0.5 * h, on_constraints(body, kick(atoms, force, -0.5 * h)))

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return chain_energy(atoms.thermostat, self._scales(body, atoms.momentum.dtype))

    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        return doubled_kinetic(body, atoms.momentum)

    def _scales(self, body: Body, dtype: DTypeLike) -> Scales:
        return chain_scales(self.length, body.freedom, body.boltzmann * self.temperature, self.period, dtype)

    def _coupled(self, body: Body, h: Array, atoms: Atoms) -> Atoms:
        """The chain and the momenta after a time h, positions standing still."""
        scales = self._scales(body, atoms.momentum.dtype)
        scale, chain = chained(atoms.thermostat, scales, doubled_kinetic(body, atoms.momentum), h)
        return eqx.tree_at(lambda a: (a.momentum, a.thermostat), atoms, (scale * atoms.momentum, chain))
