"""Constant pressure and temperature by stochastic rescaling of cell and momenta."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ..space._atoms import Atoms
from ..space._space import determinant
from ._centres import arms, central_virial, in_cell, shared
from ._dynamics import DYNAMICS, Body, CellDynamics, Pull, between_kicks, doubled_kinetic, drift, kick, on_constraints
from ._stochastic_rescaling import rescaling


@DYNAMICS.named("stochastic_cell_rescaling")
class StochasticCellRescaling(CellDynamics):
    r"""Velocity Verlet in a cell that is scaled at random, so that its volume has the distribution of constant pressure:

    $$d\lambda = -\frac{\beta_T \lambda}{2 \tau_P} \left( P_0 - P - \frac{k_B T}{2 V} \right) dt
    + \sqrt{\frac{k_B T \beta_T}{2 \tau_P}}\, dW, \qquad \lambda = \sqrt{V}$$

    Positions are scaled as the edges of the cell are, momenta inversely, in the middle of the drift. Momenta are rescaled at
    random, too, as by `StochasticRescaling`. All lengths change alike; the cell relaxes without oscillation, so it also brings a
    start to its density. Of molecules whose distances are held the centres are scaled.

    **Arguments:** `temperature`; `pressure` $P_0$, in energy per volume; `relaxation` of the kinetic energy; `cell_relaxation`
    $\tau_P$; `compressibility` $\beta_T$, of which only the size matters; all but the pressure positive.

    **Good values:** a relaxation of a hundred steps, a cell relaxation of five hundred; for a Lennard-Jones liquid a
    compressibility of 0.1, for water 4.5e-5 per bar.

    **Source:** Bernetti and Bussi (2020), doi:10.1063/5.0020514.
    """

    temperature: Array = quantity(support=POSITIVE)
    pressure: Array = quantity(unit="pressure")
    relaxation: Array = quantity(support=POSITIVE)
    cell_relaxation: Array = quantity(support=POSITIVE)
    compressibility: Array = quantity(support=POSITIVE)

    @property
    def name(self) -> str:
        return "stochastic cell rescaling"

    @property
    def conserves_momentum(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return True

    @property
    def skews(self) -> bool:
        return False

    def begun(self, body: Body, atoms: Atoms) -> Any:
        """Return the change of the logarithm of the volume in the next drift."""
        return jnp.zeros((), atoms.momentum.dtype)

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Pull) -> Atoms:
        return kick(atoms, force.force, 0.5 * h)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        atoms = drift(body, atoms, 0.5 * h)
        scale = jnp.exp(atoms.thermostat / atoms.position.shape[1])
        position, momentum = atoms.position * scale, atoms.momentum / scale
        if body.constraints:
            position = position + (1 - scale) * arms(body, atoms.position)
            momentum = atoms.momentum + (1 / scale - 1) * shared(body, atoms.momentum)
        moving = position, momentum, jnp.zeros_like(scale), atoms.cell * scale
        scaled = eqx.tree_at(lambda a: (a.position, a.momentum, a.thermostat, a.cell), atoms, moving)
        return drift(in_cell(body, scaled.cell), scaled, 0.5 * h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Pull, key: Array) -> Atoms:
        def change(atoms: Atoms) -> Atoms:
            of_cell, of_momenta = jax.random.split(key)
            thermal = body.boltzmann * self.temperature
            factor = rescaling(body, thermal, h / self.relaxation, atoms.momentum, of_momenta)
            coming = self._coming(body, h, atoms, force, of_cell)
            return eqx.tree_at(lambda a: (a.momentum, a.thermostat), atoms, (factor * atoms.momentum, coming))

        return between_kicks(body, h, atoms, force.force, change)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Pull) -> Atoms:
        return on_constraints(body, kick(atoms, force.force, -0.5 * h))

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return jnp.full((), jnp.nan, atoms.momentum.dtype)

    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        return doubled_kinetic(body, atoms.momentum)

    def _coming(self, body: Body, h: Array, atoms: Atoms, force: Pull, key: Array) -> Array:
        dtype, volume = atoms.momentum.dtype, jnp.abs(determinant(atoms.cell))
        doubled = doubled_kinetic(body, shared(body, atoms.momentum))
        virial = central_virial(body, atoms.position, force)
        found = (doubled - jnp.trace(virial)) / (atoms.position.shape[1] * volume)
        thermal = (body.boltzmann * self.temperature).astype(dtype)
        pace = (0.5 * h * self.compressibility / self.cell_relaxation).astype(dtype)
        push = self.pressure.astype(dtype) - found - 0.5 * thermal / volume
        noise = jnp.sqrt(pace * thermal / volume) * jax.random.normal(key, (), dtype)
        return 2 * jnp.log1p(noise - pace * push)
