"""Constraints; and what those of distances share: forces along the bonds, which do no work, one matrix a molecule."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import traced
from ...linear import solve
from ..space._space import Space


class Bonds(NamedTuple):
    """The constrained distances of every molecule, padded to one shape: M molecules of at most A atoms and C constraints.

    - `atom`: (M, A), the atoms; padding repeats a molecule's first.
    - `sign`: (M, C, A): 1 at the first end of a constraint, -1 at the second; 0 in padding.
    - `length`: (M, C), 0 in padding.
    """

    atom: Array
    sign: Array
    length: Array


class Groups(NamedTuple):
    """The atoms of every molecule, (M, A), which places of it hold one, and how many degrees of freedom it lost, (M,).

    Padding repeats a molecule's first atom.
    """

    atom: Array
    member: Array
    lost: Array


class Constraint(eqx.Module):
    """Shapes that do not change, of groups of atoms that share none with another constraint."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """Number of degrees of freedom that are lost."""

    @abc.abstractmethod
    def groups(self) -> Groups:
        """The atoms that are held together."""

    @abc.abstractmethod
    def drifted(
        self, space: Space, mass: Array, h: Array, before: Array, free: Array, momentum: Array
    ) -> tuple[Array, Array]:
        """Positions and momenta after a time h without forces; `free` are the positions if nothing were held."""

    @abc.abstractmethod
    def tangent(self, space: Space, mass: Array, position: Array, momentum: Array) -> Array:
        """Momenta without what would change a shape."""

    @abc.abstractmethod
    def virial(self, space: Space, mass: Array, position: Array, momentum: Array, force: Array) -> Array:
        """Return the virial of the constraint forces: the derivative of an energy by a deformation, as for potentials."""

    @abc.abstractmethod
    def check(self, space: Space, mass: Array, position: Array) -> None:
        """Refuse a start that breaks it, where it is known."""


class DistanceConstraint(Constraint):
    """Distances that do not change. A subclass names them and moves atoms back."""

    @abc.abstractmethod
    def bonds(self) -> Bonds:
        """The constrained distances."""

    @abc.abstractmethod
    def placed(self, space: Space, mass: Array, before: Array, after: Array) -> Array:
        """The positions after a step with the lengths right, moved along the bonds that were `before`."""

    def groups(self) -> Groups:
        bonds = self.bonds()
        return Groups(bonds.atom, jnp.any(bonds.sign != 0, axis=1), jnp.sum(bonds.length > 0, axis=1))

    def drifted(
        self, space: Space, mass: Array, h: Array, before: Array, free: Array, momentum: Array
    ) -> tuple[Array, Array]:
        position = self.placed(space, mass, before, free)
        # A step of no length, as between equal save times, pushes nothing.
        return position, momentum + mass * (position - free) / jnp.where(h == 0, 1.0, h).astype(position.dtype)

    def tangent(self, space: Space, mass: Array, position: Array, momentum: Array) -> Array:
        known = molecules(self, space, mass, position)
        rate = jnp.sum(known.vector * relative(known, momentum / mass), axis=-1)
        return momentum - spread(known, solved(_projector(known), rate), len(position))

    def virial(self, space: Space, mass: Array, position: Array, momentum: Array, force: Array) -> Array:
        known = molecules(self, space, mass, position)
        turning = jnp.sum(relative(known, momentum / mass) ** 2, axis=-1)
        pulled = jnp.sum(known.vector * relative(known, force / mass), axis=-1)
        multiplier = -solved(_projector(known), pulled + turning)
        return -jnp.einsum("mk,mkd,mke->de", multiplier, known.vector, known.vector, precision="highest")

    def check(self, space: Space, mass: Array, position: Array) -> None:
        bonds = self.bonds()
        if traced(bonds, space, position):
            return
        found = np.linalg.norm(np.asarray(bond_vectors(bonds, space, position)), axis=-1)
        length = np.asarray(bonds.length)
        wrong = (length > 0) & (np.abs(found - length) > ALLOWED * length)
        if wrong.any():
            m, k = np.argwhere(wrong)[0]
            ends = [int(bonds.atom[m, np.argmax(s * np.asarray(bonds.sign[m, k]))]) for s in (1, -1)]
            raise ArgumentError(
                f"The start must obey the constraints, but atoms {ends[0]} and {ends[1]} (from 0) are {found[m, k]:.6g} apart, not "
                f"{length[m, k]:.6g}. Place the atoms of a molecule at their distances."
            )


class Molecules(NamedTuple):
    """Arrays of the linear algebra of constraints: bond vectors (M, C, d), couplings by the masses (M, C, C), padding."""

    bonds: Bonds
    vector: Array
    coupling: Array
    idle: Array


def molecules(constraint: DistanceConstraint, space: Space, mass: Array, position: Array) -> Molecules:
    bonds = constraint.bonds()
    bonds = bonds._replace(sign=bonds.sign.astype(position.dtype), length=bonds.length.astype(position.dtype))
    light = bonds.sign / mass[bonds.atom, 0][:, None, :].astype(position.dtype)
    coupling = jnp.einsum("mka,mla->mkl", light, bonds.sign, precision="highest")
    padded = (bonds.length == 0)[:, :, None]
    idle = jnp.where(padded, jnp.eye(bonds.length.shape[1], dtype=position.dtype)[None], 0)
    return Molecules(bonds, bond_vectors(bonds, space, position), coupling, idle)


def bond_vectors(bonds: Bonds, space: Space, position: Array) -> Array:
    """Return vectors from the second end to the first, (M, C, d), to the nearest image: molecules need not be whole."""
    first, second = (jnp.take_along_axis(bonds.atom, jnp.argmax(s * bonds.sign, axis=-1), axis=1) for s in (1, -1))
    return space.displacement(position[first], position[second])


def shaken(known: Molecules, vector: Array) -> Array:
    """Multipliers (M, C) of the old bond vectors that give the new ones `vector` their lengths, by Newton's method.

    Each step squares the error. Derivatives are those of the last two steps: these find what the implicit function theorem
    says, twice.
    """
    squared = known.bonds.length**2

    def newton(known: Molecules, vector: Array, multiplier: Array) -> Array:
        moved = vector + jnp.einsum("mkl,ml,mld->mkd", known.coupling, multiplier, known.vector, precision="highest")
        error = jnp.sum(moved**2, axis=-1) - squared
        slope = 2 * known.coupling * jnp.einsum("mkd,mld->mkl", moved, known.vector, precision="highest")
        return multiplier - solved(slope + known.idle, jnp.where(squared > 0, error, 0))

    still = jax.lax.stop_gradient((known, vector))
    multiplier = jnp.zeros_like(squared)
    for _ in range(UNROLLED):
        multiplier = newton(*still, multiplier)
    for _ in range(2):
        multiplier = newton(known, vector, multiplier)
    return multiplier


UNROLLED = 3  # Newton steps before the last two: an error of a tenth of the length becomes rounding


def solved(matrix: Array, right: Array) -> Array:
    """Solve one small linear system for each molecule."""
    if matrix.shape[-1] == 1:
        return right / matrix[..., 0]
    return jax.vmap(solve)(matrix, right)


def spread(known: Molecules, multiplier: Array, count: int) -> Array:
    """The forces of multipliers on all atoms: along each bond, opposite at its ends."""
    each = jnp.einsum("mka,mk,mkd->mad", known.bonds.sign, multiplier, known.vector, precision="highest")
    return jnp.zeros((count, each.shape[-1]), each.dtype).at[known.bonds.atom].add(each)


def relative(known: Molecules, vector: Array) -> Array:
    """The difference of a vector of each atom between the ends of every constraint."""
    return jnp.einsum("mka,mad->mkd", known.bonds.sign, vector[known.bonds.atom], precision="highest")


def weights_of(group: Groups, mass: Array) -> Array:
    """Return the share of each atom in its molecule's mass, (M, A, 1)."""
    own = jnp.where(group.member[..., None], mass[group.atom], 0)
    return own / jnp.sum(own, axis=1, keepdims=True)


def arms_of(group: Groups, space: Space, mass: Array, position: Array) -> Array:
    """Return vectors from the centre of mass of a molecule to its atoms, (M, A, d), 0 in padding; molecules need not be whole."""
    own = position[group.atom]
    arm = space.displacement(own, jnp.broadcast_to(own[:, :1], own.shape))
    arm = arm - jnp.sum(weights_of(group, mass).astype(arm.dtype) * arm, axis=1, keepdims=True)
    return jnp.where(group.member[..., None], arm, 0)


def held_count(constraint: Constraint, real: Array) -> Array:
    """Return the number of degrees of freedom that are lost where only some rows are atoms: those of whole molecules of them."""
    group = constraint.groups()
    return jnp.sum(jnp.where(real[group.atom[:, 0]], group.lost, 0))


def _projector(known: Molecules) -> Array:
    overlap = jnp.einsum("mkd,mld->mkl", known.vector, known.vector, precision="highest")
    return known.coupling * overlap + known.idle


def constraints_of(given: Any) -> tuple[Constraint, ...]:
    """None, one constraint or a tuple of them as a tuple."""
    if given is None:
        return ()
    return given if isinstance(given, tuple) else (given,)


def check_constraints(held: tuple[Constraint, ...], dynamics: Any, space: Space, mass: Array, position: Array) -> None:
    """Refuse dynamics that would break constraints, and a start that does."""
    if held and not dynamics.keeps_constraints:
        raise ArgumentError(
            f"Argument `dynamics` must keep constraints, but {dynamics.name} does not. Take NVE, Langevin, NoseHoover, "
            "StochasticRescaling, Andersen or Berendsen, or leave `constraints` out."
        )
    for constraint in held:
        constraint.check(space, mass, position)


def obeyed(held: tuple[Constraint, ...], space: Space, mass: Array, position: Array) -> Array:
    """Positions nearest to these, by mass, whose constrained distances are right: for starts that were rounded in a file."""
    for constraint in held:
        if not isinstance(constraint, DistanceConstraint):
            continue
        for _ in range(PROJECTIONS):
            known = molecules(constraint, space, mass, position)
            position = position + spread(known, shaken(known, known.vector), len(position)) / mass
    return position


PROJECTIONS = 3
"""Each moves atoms along the bonds of the one before; errors of a tenth come to rounding."""

ALLOWED = 1e-3  # what the first step mends without a noticeable push
