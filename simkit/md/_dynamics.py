"""Dynamics: how atoms move under their forces, in the two halves of a step that a particle system asks for.

Between the steps of a window momenta are half a kick ahead, so that a step needs one force and carries none: `opened` kicks by half
a step, `moved` drifts, `kicked` kicks by a whole step, `closed` takes half a kick back.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ._atoms import Atoms
from ._constraint import Constraint
from ._space import Space


class Body(eqx.Module):
    """What of a system its dynamics need: masses as a column, the Boltzmann constant, degrees of freedom, and what is held.

    `unheld` are the degrees of freedom if nothing were held, and `real` says which rows are atoms, where some are padding.
    """

    mass: Array
    space: Space
    constraints: tuple[Constraint, ...]
    boltzmann: float = eqx.field(static=True)
    freedom: Any  # a whole number, or an array where only some rows are atoms
    unheld: Any
    real: Array | None = None


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

    @property
    @abc.abstractmethod
    def noisy(self) -> bool:
        """Whether its steps draw random numbers."""

    @property
    @abc.abstractmethod
    def keeps_constraints(self) -> bool:
        """Whether distances can be held."""

    @abc.abstractmethod
    def begun(self, body: Body, atoms: Atoms) -> Any:
        """What a thermostat keeps at the start, where none is given."""

    @abc.abstractmethod
    def opened(self, body: Body, h: Array, atoms: Atoms, force: Any) -> Atoms:
        """The state with momenta half a kick ahead."""

    @abc.abstractmethod
    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        """The first half of a step."""

    @abc.abstractmethod
    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Any, key: Array) -> Atoms:
        """The second half of a step."""

    @abc.abstractmethod
    def closed(self, body: Body, h: Array, atoms: Atoms, force: Any) -> Atoms:
        """The inverse of `opened`."""

    @abc.abstractmethod
    def stored(self, body: Body, atoms: Atoms) -> Array:
        """The energy that went into the thermostat: with the energy of the atoms it is conserved, but for the error of the step."""

    @abc.abstractmethod
    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        """Twice the kinetic energy, of which temperature and pressure are made."""


class Pull(NamedTuple):
    """What moves a cell as well as atoms: the forces, and the virial, the derivative of the energy by a deformation."""

    force: Array
    virial: Array


class CellDynamics(Dynamics):
    """Dynamics that move the cell, too: their atoms have a `cell`, and their force is a `Pull`."""

    @property
    @abc.abstractmethod
    def skews(self) -> bool:
        """Whether the angles of the cell change."""

    @property
    def keeps_constraints(self) -> bool:
        return True


class HalfKicked(Dynamics):
    """Dynamics that carry nothing but momenta half a kick ahead."""

    @property
    def keeps_constraints(self) -> bool:
        return True

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Any) -> Atoms:
        return kick(atoms, force, 0.5 * h)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Any) -> Atoms:
        return on_constraints(body, kick(atoms, force, -0.5 * h))

    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        return doubled_kinetic(body, atoms.momentum)


class VelocityThermostat(HalfKicked):
    """Velocity Verlet with momenta changed once a step, where they belong to the positions: between its two half kicks."""

    @abc.abstractmethod
    def coupled(self, body: Body, h: Array, momentum: Array, key: Array) -> Array:
        """The momenta after a time h in contact with the bath."""

    def begun(self, body: Body, atoms: Atoms) -> Any:
        """The heat that the bath took."""
        return jnp.zeros((), atoms.momentum.dtype)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        return drift(body, atoms, h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Any, key: Array) -> Atoms:
        def change(atoms: Atoms) -> Atoms:
            momentum = self.coupled(body, h, atoms.momentum, key)
            after = on_constraints(body, eqx.tree_at(lambda a: a.momentum, atoms, momentum))
            lost = doubled_kinetic(body, atoms.momentum) - doubled_kinetic(body, after.momentum)
            return eqx.tree_at(lambda a: a.thermostat, after, atoms.thermostat + 0.5 * lost)

        return between_kicks(body, h, atoms, force, change)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return atoms.thermostat


def kick(atoms: Atoms, force: Array, h: Any) -> Atoms:
    return eqx.tree_at(lambda a: a.momentum, atoms, atoms.momentum + h * force)


def between_kicks(body: Body, h: Array, atoms: Atoms, force: Array, change: Callable[[Atoms], Atoms]) -> Atoms:
    """A change of the momenta where they belong to the positions, in the middle of a whole kick."""
    return kick(change(on_constraints(body, kick(atoms, force, 0.5 * h))), force, 0.5 * h)


def drift(body: Body, atoms: Atoms, h: Any) -> Atoms:
    """Positions after a time h, and momenta with what the constraints gave them meanwhile."""
    return settled(body, h, atoms.position, atoms, atoms.position + h * (atoms.momentum / body.mass))


def settled(body: Body, h: Any, before: Array, atoms: Atoms, position: Array) -> Atoms:
    """Positions and momenta after a time h without forces, from where atoms were `before` and would be if nothing were held."""
    momentum = atoms.momentum
    for constraint in body.constraints:
        position, momentum = constraint.drifted(body.space, body.mass, h, before, position, momentum)
    return eqx.tree_at(lambda a: (a.position, a.momentum), atoms, (position, momentum))


def on_constraints(body: Body, atoms: Atoms) -> Atoms:
    """Momenta that change no length that is held."""
    momentum = atoms.momentum
    for constraint in body.constraints:
        momentum = constraint.tangent(body.space, body.mass, atoms.position, momentum)
    return eqx.tree_at(lambda a: a.momentum, atoms, momentum) if body.constraints else atoms


def doubled_kinetic(body: Body, momentum: Array) -> Array:
    """Twice the kinetic energy."""
    return jnp.sum(momentum * momentum / body.mass)
