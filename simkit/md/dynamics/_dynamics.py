"""Dynamics: how atoms move under their forces, in the two halves of a step that a particle system asks for.

Between the steps of a window momenta are half a kick ahead, so that a step needs one force and carries none: `opened` kicks by half
a step, `moved` drifts, `kicked` kicks by a whole step, `closed` takes half a kick back.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._registry import Registry
from ..space._atoms import Atoms
from ..space._space import Space
from ._constraint import Constraint


class Body(eqx.Module):
    """Quantities of a system that its dynamics read: masses as a column, the Boltzmann constant, degrees of freedom, constraints.

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
    """Equations of motion and their integrator. A subclass defines its auxiliary variables and the two halves of its step."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method."""

    @property
    @abc.abstractmethod
    def conserves_momentum(self) -> bool:
        """Tell whether the total momentum is conserved."""

    @property
    @abc.abstractmethod
    def noisy(self) -> bool:
        """Tell whether its steps draw random numbers."""

    @property
    @abc.abstractmethod
    def keeps_constraints(self) -> bool:
        """Tell whether it supports constraints."""

    @abc.abstractmethod
    def begun(self, body: Body, atoms: Atoms) -> Any:
        """Return the initial auxiliary variables of a thermostat, if none are given."""

    @abc.abstractmethod
    def opened(self, body: Body, h: Array, atoms: Atoms, force: PyTree) -> Atoms:
        """The state with momenta half a kick ahead."""

    @abc.abstractmethod
    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        """The first half of a step."""

    @abc.abstractmethod
    def kicked(self, body: Body, h: Array, atoms: Atoms, force: PyTree, key: Array) -> Atoms:
        """The second half of a step."""

    @abc.abstractmethod
    def closed(self, body: Body, h: Array, atoms: Atoms, force: PyTree) -> Atoms:
        """The inverse of `opened`."""

    @abc.abstractmethod
    def stored(self, body: Body, atoms: Atoms) -> Array:
        """The energy that went into the thermostat: with the energy of the atoms it is conserved, but for the error of the step."""

    @abc.abstractmethod
    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        """Twice the kinetic energy, of which temperature and pressure are made."""


DYNAMICS: Registry[type[Dynamics]] = Registry("dynamics", Dynamics)
"""Dynamics by the names that study files give them."""


class Pull(NamedTuple):
    """Forces on atoms and cell: the virial is the derivative of the energy by a deformation."""

    force: Array
    virial: Array


class CellDynamics(Dynamics):
    """Dynamics that move the cell, too: their atoms have a `cell`, and their force is a `Pull`."""

    @property
    @abc.abstractmethod
    def skews(self) -> bool:
        """Tell whether the angles of the cell change."""

    @property
    def keeps_constraints(self) -> bool:
        return True


class HalfKicked(Dynamics):
    """Dynamics that carry nothing but momenta half a kick ahead."""

    @property
    def keeps_constraints(self) -> bool:
        return True

    def opened(self, body: Body, h: Array, atoms: Atoms, force: PyTree) -> Atoms:
        return kick(atoms, force, 0.5 * h)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: PyTree) -> Atoms:
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

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: PyTree, key: Array) -> Atoms:
        def change(atoms: Atoms) -> Atoms:
            momentum = self.coupled(body, h, atoms.momentum, key)
            after = on_constraints(body, eqx.tree_at(lambda a: a.momentum, atoms, momentum))
            lost = doubled_kinetic(body, atoms.momentum) - doubled_kinetic(body, after.momentum)
            return eqx.tree_at(lambda a: a.thermostat, after, atoms.thermostat + 0.5 * lost)

        return between_kicks(body, h, atoms, force, change)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return atoms.thermostat


def kick(atoms: Atoms, force: Array, h: Array) -> Atoms:
    return eqx.tree_at(lambda a: a.momentum, atoms, atoms.momentum + h * force)


def between_kicks(body: Body, h: Array, atoms: Atoms, force: Array, change: Callable[[Atoms], Atoms]) -> Atoms:
    """A change of the momenta where they belong to the positions, in the middle of a whole kick."""
    return kick(change(on_constraints(body, kick(atoms, force, 0.5 * h))), force, 0.5 * h)


def drift(body: Body, atoms: Atoms, h: Array) -> Atoms:
    """Positions after a time h, and momenta with what the constraints gave them meanwhile."""
    return settled(body, h, atoms.position, atoms, atoms.position + h * (atoms.momentum / body.mass))


def settled(body: Body, h: Array, before: Array, atoms: Atoms, position: Array) -> Atoms:
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
