r"""Molecules whose shapes are held, in a cell that moves: their centres of mass move with it, their shapes do not.

With arms r from the centres and the part u of the momenta that moves them, a strain takes x to (x - r)(1 + g) + r and changes u
alone. What drives the cell is then the pressure of the centres, in which the forces that hold the shapes have no part:

$$P d V = \sum_i \frac{u_i^2}{m_i} - \mathrm{Tr} \Big( \frac{\partial U}{\partial \epsilon} + \sum_i F_i \otimes r_i \Big)$$
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..space._space import Triclinic
from ._constraint import arms_of, weights_of
from ._dynamics import Body, Pull


def arms(body: Body, position: Array) -> Array:
    """Return the vector from the molecule's centre of mass to each atom; 0 for atoms of none. Molecules need not be whole."""
    found = jnp.zeros_like(position)
    for held in body.constraints:
        group = held.groups()
        arm = arms_of(group, body.space, body.mass, position)
        found = found.at[group.atom].add(arm)
    return found


def shared(body: Body, vector: Array) -> Array:
    """Return the part of momenta, or of forces, that moves the centres: each atom's share by its mass."""
    found = vector
    for held in body.constraints:
        group = held.groups()
        own = jnp.where(group.member[..., None], vector[group.atom], 0)
        share = weights_of(group, body.mass) * jnp.sum(own, axis=1, keepdims=True)
        found = found.at[group.atom].add(share - own)
    return found


def central_virial(body: Body, position: Array, force: Pull) -> Array:
    """The derivative of the energy by a deformation that moves centres alone."""
    if not body.constraints:
        return force.virial
    return force.virial + jnp.matmul(force.force.T, arms(body, position), precision="highest")


def centre_freedom(body: Body, dimensions: int) -> Any:
    """Return the degrees of freedom of the centres of mass."""
    return body.unheld - dimensions * atoms_beside(body)


def atoms_beside(body: Body) -> Any:
    """Return by how many the atoms are more than the centres of mass."""
    found: Any = 0
    for held in body.constraints:
        group = held.groups()
        joined = jnp.sum(group.member, axis=1) - 1
        if body.real is not None:
            joined = jnp.where(body.real[group.atom[:, 0]], joined, 0)
        found = found + jnp.sum(joined).astype(body.mass.dtype)
    return found


def in_cell(body: Body, cell: Array) -> Body:
    """The body in a cell that has moved."""
    return dataclasses.replace(body, space=Triclinic(cell)) if body.constraints else body
