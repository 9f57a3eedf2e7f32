"""Constant pressure and temperature by the equations of Martyna, Tobias and Klein."""

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import POSITIVE, quantity
from ..space._atoms import Atoms
from ..space._space import determinant
from ._centres import arms, central_virial, centre_freedom, in_cell, shared
from ._chain import Chain, Scales, chain_energy, chain_scales, chained, resting_chain
from ._dynamics import DYNAMICS, Body, CellDynamics, Pull, doubled_kinetic, on_constraints, settled

TERMS = 12  # of the exponential series: rounding for strains up to 0.1 in a step


class Barostat(eqx.Module):
    """The rate of strain of the cell, and the chains of thermostats on atoms and cell."""

    rate: Array
    atoms: Chain
    cell: Chain


@DYNAMICS.named("mtk")
class MTK(CellDynamics):
    r"""Constant pressure and temperature after Martyna, Tobias and Klein, with Nose-Hoover chains on atoms and cell:

    $$\dot x_i = p_i / m_i + g x_i, \quad \dot p_i = F_i - g p_i - \frac{\mathrm{Tr}\, g}{N_f} p_i - \frac{p_\eta}{Q} p_i, \quad
    \dot h = g h, \quad W \dot g = V (\mathbf{P} - P) + \frac{1}{N_f} \sum_i \frac{p_i^2}{m_i} \mathbf{1} - \frac{p_\xi}{Q'} g$$

    with the rate of strain g, the lattice vectors h and the pressure tensor $\mathbf{P}$. The step is reversible, and an energy is
    conserved. Momenta should be zero in sum. Of molecules whose distances are held x and p are the centres and what moves them, and
    $N_f$ is the number of their degrees of freedom.

    **Arguments:**

    - `temperature`, positive, and `pressure`, in energy per volume: `units.inside(1.0, "pressure")` of a pressure at the edge.
    - `period`: of the atoms' thermostats, and `cell_period`: of the oscillation of the cell and of its thermostats; positive.
    - `cell`: "isotropic": angles and proportions are kept; "axes": each edge for itself; "full": edges and angles.
    - `length`: of the chains.

    **Good values:** a period of a hundred steps and a cell period of a thousand. A fluid's cell is best isotropic.

    **Source:** Martyna, Tobias and Klein (1994), doi:10.1063/1.467468; the splitting: Tuckerman et al. (2006),
    doi:10.1088/0305-4470/39/19/S18.
    """

    temperature: Array = quantity(support=POSITIVE)
    pressure: Array = quantity(unit="pressure")
    period: Array = quantity(support=POSITIVE)
    cell_period: Array = quantity(support=POSITIVE)
    cell: Literal["isotropic", "axes", "full"] = eqx.field(static=True, default="isotropic")
    length: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        if self.cell not in ("isotropic", "axes", "full"):
            raise ArgumentError(f'Argument `cell` must be "isotropic", "axes" or "full", but it is {self.cell!r}.')

    @property
    def name(self) -> str:
        return f"Martyna-Tobias-Klein, {self.cell}"

    @property
    def conserves_momentum(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return False

    @property
    def skews(self) -> bool:
        return self.cell == "full"

    def begun(self, body: Body, atoms: Atoms) -> Any:
        d, dtype = atoms.position.shape[1], atoms.momentum.dtype
        shape = {"isotropic": (), "axes": (d,), "full": (d, d)}[self.cell]
        return Barostat(jnp.zeros(shape, dtype), resting_chain(self.length, dtype), resting_chain(self.length, dtype))

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Pull) -> Atoms:
        atoms = self._strained(body, 0.5 * h, self._coupled(body, 0.5 * h, atoms), force)
        return self._kicked(body, 0.5 * h, atoms, force)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        stretch, mean = _exponential(h * self._matrix(atoms))
        strained, moving = _times(atoms.position, stretch), shared(body, atoms.momentum)
        atoms = eqx.tree_at(lambda a: a.cell, atoms, _times(atoms.cell, stretch))
        if body.constraints:
            arm = arms(body, atoms.position)
            strained = strained + arm - _times(arm, stretch)
        position = strained + h * _times(moving / body.mass, mean)
        if body.constraints:
            position = position + h * (atoms.momentum - moving) / body.mass
        return settled(in_cell(body, atoms.cell), h, strained, atoms, position)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Pull, key: Array) -> Atoms:
        atoms = on_constraints(body, self._kicked(body, 0.5 * h, atoms, force))
        atoms = self._strained(body, 0.5 * h, atoms, force)
        atoms = self._strained(body, 0.5 * h, self._coupled(body, h, atoms), force)
        return self._kicked(body, 0.5 * h, atoms, force)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Pull) -> Atoms:
        atoms = on_constraints(body, self._kicked(body, -0.5 * h, atoms, force))
        atoms = self._strained(body, -0.5 * h, atoms, force)
        return self._coupled(body, -0.5 * h, atoms)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        barostat, (of_atoms, of_cell) = atoms.thermostat, self._scales(body, atoms)
        chains = chain_energy(barostat.atoms, of_atoms) + chain_energy(barostat.cell, of_cell)
        dtype = atoms.momentum.dtype
        work = self.pressure.astype(dtype) * jnp.abs(determinant(atoms.cell))
        return chains + work + 0.5 * self._mass(body, atoms) * jnp.sum(barostat.rate**2)

    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        return doubled_kinetic(body, atoms.momentum)

    def _mass(self, body: Body, atoms: Atoms) -> Array:
        """The inertia of the cell, by which it oscillates with its period."""
        d = atoms.position.shape[1]
        each = (body.freedom + d) if self.cell == "isotropic" else (body.freedom + d) / d
        period = self.cell_period / (2 * np.pi)
        return (each * body.boltzmann * self.temperature * period**2).astype(atoms.momentum.dtype)

    def _matrix(self, atoms: Atoms) -> Array:
        """The rate of strain as a matrix."""
        rate, identity = atoms.thermostat.rate, jnp.eye(atoms.position.shape[1], dtype=atoms.momentum.dtype)
        return rate if self.cell == "full" else identity * (rate if rate.ndim == 0 else rate[None])

    def _strained(self, body: Body, h: Array, atoms: Atoms, force: Pull) -> Atoms:
        """The rate of strain after a time h, by the difference of the pressures."""
        d, momentum = atoms.position.shape[1], shared(body, atoms.momentum)
        volume, velocity = jnp.abs(determinant(atoms.cell)), momentum / body.mass
        flow = _times(momentum.T, velocity)
        identity = jnp.eye(d, dtype=momentum.dtype)
        virial = central_virial(body, atoms.position, force)
        inner = flow - 0.5 * (virial + virial.T)
        excess = (
            inner
            + (jnp.trace(flow) / centre_freedom(body, d) - self.pressure.astype(momentum.dtype) * volume) * identity
        )
        drive = {"isotropic": jnp.trace, "axes": jnp.diagonal, "full": lambda g: g}[self.cell](excess)
        rate = atoms.thermostat.rate + h * drive / self._mass(body, atoms)
        return eqx.tree_at(lambda a: a.thermostat.rate, atoms, rate)

    def _kicked(self, body: Body, h: Array, atoms: Atoms, force: Pull) -> Atoms:
        """The momenta after a time h under forces, in a cell that strains."""
        g = self._matrix(atoms)
        drag = g + jnp.trace(g) / centre_freedom(body, g.shape[0]) * jnp.eye(g.shape[0], dtype=g.dtype)
        kept, mean = _exponential(-h * drag)
        moving, push = shared(body, atoms.momentum), shared(body, force.force)
        momentum = _times(moving, kept) + h * _times(push, mean)
        if body.constraints:
            momentum = momentum + atoms.momentum - moving + h * (force.force - push)
        return eqx.tree_at(lambda a: a.momentum, atoms, momentum)

    def _scales(self, body: Body, atoms: Atoms) -> tuple[Scales, Scales]:
        d, dtype, thermal = atoms.position.shape[1], atoms.momentum.dtype, body.boltzmann * self.temperature
        freedom = {"isotropic": 1, "axes": d, "full": d * (d + 1) // 2}[self.cell]
        return (
            chain_scales(self.length, body.freedom, thermal, self.period, dtype),
            chain_scales(self.length, freedom, thermal, self.cell_period, dtype),
        )

    def _coupled(self, body: Body, h: Array, atoms: Atoms) -> Atoms:
        """Momenta, rate of strain and both chains after a time h, all else standing still."""
        barostat, (of_atoms, of_cell) = atoms.thermostat, self._scales(body, atoms)
        scale, on_atoms = chained(barostat.atoms, of_atoms, doubled_kinetic(body, atoms.momentum), h)
        doubled = self._mass(body, atoms) * jnp.sum(barostat.rate**2)
        slower, on_cell = chained(barostat.cell, of_cell, doubled, h)
        after = Barostat(slower * barostat.rate, on_atoms, on_cell)
        return eqx.tree_at(lambda a: (a.momentum, a.thermostat), atoms, (scale * atoms.momentum, after))


def _exponential(a: Array) -> tuple[Array, Array]:
    """Return exp(a) of a small symmetric matrix, and the mean of exp(s a) for s from 0 to 1.

    By the series: eigenvectors of equal eigenvalues, as in every isotropic strain, have no derivatives.
    """
    identity = jnp.eye(a.shape[0], dtype=a.dtype)
    mean, power = identity, identity
    for k in range(1, TERMS):
        power = _times(power, a) / (k + 1)
        mean = mean + power
    return identity + _times(mean, a), mean


def _times(a: Array, b: Array) -> Array:
    """A product to full precision, on accelerators too."""
    return jnp.matmul(a, b, precision="highest")
