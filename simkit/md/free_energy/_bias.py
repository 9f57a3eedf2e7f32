"""Potentials that act on a collective variable."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._types import Scalar
from ...core import POSITIVE, quantity
from .._particles import Particles
from ..potentials._many_body import AtomView, ManyBodyPotential
from ..space._atoms import Atoms


def seen_as_atoms(view: AtomView) -> Atoms:
    """The atoms of a view, at rest, with the vectors of a periodic cell."""
    cell = view.space.vectors().astype(view.position.dtype) if view.space.periodic else None
    return Atoms(view.position, jnp.zeros_like(view.position), cell=cell)


def in_cell(atoms: Atoms, space: Any) -> Atoms:
    """Atoms with the vectors of the cell, as a bias shows them to a collective variable."""
    if atoms.cell is not None or not space.periodic:
        return atoms
    return eqx.tree_at(
        lambda a: a.cell, atoms, space.vectors().astype(atoms.position.dtype), is_leaf=lambda x: x is None
    )


def biased(system: Particles, bias: ManyBodyPotential) -> Particles:
    """The system with a bias beside its potential."""
    return dataclasses.replace(system, potential=system.potential + bias)


class Bias(ManyBodyPotential):
    r"""A function of a collective variable, $U = w(\xi(x))$.

    **Arguments:**

    - `cv`: the collective variable, a function from `Atoms` to a number or an array of floats that is differentiable by the
        positions; of a periodic cell the atoms bring the vectors as `atoms.cell`, and of no momenta. An Equinox module keeps its
        arrays as parameters.
    - `function`: from the value of the variable to an energy.

    A bias may pull at the centre of mass. Take dynamics with friction or a thermostat that does not keep the total momentum, such
    as `Langevin`, unless the variable is one of distances alone.

    ```python
    import jax.numpy as jnp
    from simkit import md
    distance = lambda atoms: jnp.linalg.norm(atoms.position[1] - atoms.position[0])
    potential = md.LennardJones() + md.Bias(distance, lambda r: 0.1 * r**4)
    ```
    """

    cv: Callable[[Atoms], Any]
    function: Callable[[Any], Any]
    cutoff: float | None = eqx.field(static=True, default=None, init=False)

    def energy(self, view: AtomView) -> Array:
        return jnp.reshape(self.function(self.cv(seen_as_atoms(view))), ())


class UmbrellaBias(ManyBodyPotential):
    r"""A spring on a collective variable, $U = \tfrac12 k\, |\xi(x) - c|^2$.

    **Arguments:**

    - `cv`: as of `Bias`.
    - `centre`: c, shaped like the variable.
    - `stiffness`: k. Fluctuations within a window are $\sqrt{k_B T / k}$ wide where the energy is flat.
    - `period`: of an angle, $2 \pi$: distances to the centre are then the shortest ones. None for a variable without period.

    **Source:** Torrie and Valleau (1977), Journal of Computational Physics 23:187, doi:10.1016/0021-9991(77)90121-8.

    ```python
    from simkit import md
    spring = md.UmbrellaBias(lambda atoms: atoms.position[0, 0], 0.5, 20.0)
    ```
    """

    cv: Callable[[Atoms], Any]
    centre: Float[Array, "*cv"] = quantity(unit="1", doc="where the energy is 0")
    stiffness: Scalar = quantity(unit="energy", support=POSITIVE, doc="force constant")
    period: float | None = eqx.field(static=True, default=None)
    cutoff: float | None = eqx.field(static=True, default=None, init=False)

    def of_value(self, value: Float[Array, "*cv"]) -> Float[Array, ""]:
        """The energy at a value of the variable."""
        away = value - self.centre.astype(value.dtype)
        if self.period is not None:
            away = away - self.period * jnp.round(away / self.period)
        return 0.5 * self.stiffness.astype(value.dtype) * jnp.sum(away**2)

    def energy(self, view: AtomView) -> Array:
        return self.of_value(jnp.asarray(self.cv(seen_as_atoms(view))))
