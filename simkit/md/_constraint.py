"""What all constraints of distances share: forces along the bonds, which do no work, one matrix a molecule."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import ArgumentError
from ._space import Space


class Bonds(NamedTuple):
    """The constrained distances of every molecule, padded to one shape: M molecules of at most A atoms and C constraints.

    - `atom`: (M, A), the atoms; padding repeats a molecule's first.
    - `sign`: (M, C, A): 1 at the first end of a constraint, -1 at the second; 0 in padding.
    - `length`: (M, C), 0 in padding.
    """

    atom: Array
    sign: Array
    length: Array


class Constraint(eqx.Module):
    """Distances that do not change, in groups of atoms that share none with another constraint."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many degrees of freedom are lost."""

    @abc.abstractmethod
    def bonds(self) -> Bonds:
        """The constrained distances."""

    @abc.abstractmethod
    def placed(self, space: Space, mass: Array, before: Array, after: Array) -> Array:
        """The positions after a step with the lengths right, moved along the bonds that were `before`."""


class Molecules(NamedTuple):
    """What the linear algebra of constraints needs: bond vectors (M, C, d), couplings by the masses (M, C, C), padding."""

    bonds: Bonds
    vector: Array
    coupling: Array
    idle: Array


def molecules(constraint: Constraint, space: Space, mass: Array, position: Array) -> Molecules:
    bonds = constraint.bonds()
    bonds = bonds._replace(sign=bonds.sign.astype(position.dtype), length=bonds.length.astype(position.dtype))
    light = bonds.sign / mass[bonds.atom, 0][:, None, :].astype(position.dtype)
    coupling = jnp.einsum("mka,mla->mkl", light, bonds.sign, precision="highest")
    padded = (bonds.length == 0)[:, :, None]
    idle = jnp.where(padded, jnp.eye(bonds.length.shape[1], dtype=position.dtype)[None], 0)
    return Molecules(bonds, bond_vectors(bonds, space, position), coupling, idle)


def bond_vectors(bonds: Bonds, space: Space, position: Array) -> Array:
    """From the second end to the first, (M, C, d), to the nearest image: molecules need not be whole."""
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
    """Of one small system a molecule."""
    if matrix.shape[-1] == 1:
        return right / matrix[..., 0]
    return jnp.linalg.solve(matrix, right[..., None])[..., 0]


def spread(known: Molecules, multiplier: Array, count: int) -> Array:
    """The forces of multipliers on all atoms: along each bond, opposite at its ends."""
    each = jnp.einsum("mka,mk,mkd->mad", known.bonds.sign, multiplier, known.vector, precision="highest")
    return jnp.zeros((count, each.shape[-1]), each.dtype).at[known.bonds.atom].add(each)


def relative(known: Molecules, vector: Array) -> Array:
    """The difference of a vector of each atom between the ends of every constraint."""
    return jnp.einsum("mka,mad->mkd", known.bonds.sign, vector[known.bonds.atom], precision="highest")


def tangent(constraint: Constraint, space: Space, mass: Array, position: Array, momentum: Array) -> Array:
    """Momenta without what would change a constrained distance."""
    known = molecules(constraint, space, mass, position)
    rate = jnp.sum(known.vector * relative(known, momentum / mass), axis=-1)
    return momentum - spread(known, solved(_projector(known), rate), len(position))


def constraint_virial(
    constraint: Constraint, space: Space, mass: Array, position: Array, momentum: Array, force: Array
) -> Array:
    """What the forces that hold the lengths add to the virial, as the derivative of an energy by a deformation would be."""
    known = molecules(constraint, space, mass, position)
    turning = jnp.sum(relative(known, momentum / mass) ** 2, axis=-1)
    pulled = jnp.sum(known.vector * relative(known, force / mass), axis=-1)
    multiplier = -solved(_projector(known), pulled + turning)
    return -jnp.einsum("mk,mkd,mke->de", multiplier, known.vector, known.vector, precision="highest")


def _projector(known: Molecules) -> Array:
    overlap = jnp.einsum("mkd,mld->mkl", known.vector, known.vector, precision="highest")
    return known.coupling * overlap + known.idle


def check_constraints(held: tuple[Constraint, ...], dynamics: Any, space: Space, position: Array) -> None:
    """Refuse dynamics that would break constraints, and a start that does."""
    if held and not dynamics.keeps_constraints:
        raise ArgumentError(
            f"Argument `dynamics` must keep constraints, but {dynamics.name} does not. Take NVE, Langevin, NoseHoover, "
            "StochasticRescaling, Andersen or Berendsen, or leave `constraints` out."
        )
    for constraint in held:
        bonds = constraint.bonds()
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((bonds, space, position))):
            continue
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


ALLOWED = 1e-3  # what the first step mends without a noticeable push
