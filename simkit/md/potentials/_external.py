"""External fields: energies of single atoms in places of their own."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._types import Scalar
from ...core import POSITIVE, quantity
from ._bonded import length
from ._many_body import AtomView, ManyBodyPotential
from ._potential import POTENTIALS


class ExternalField(ManyBodyPotential):
    r"""$U = \sum_i u(x_i)$. The total momentum is not conserved, and all degrees of freedom count for the temperature."""

    cutoff: float | None = eqx.field(static=True, default=None, init=False)

    @abc.abstractmethod
    def each(self, view: AtomView) -> Float[Array, " atoms"]:
        """The energy of every atom."""

    def energy(self, view: AtomView) -> Array:
        if view.real is None:
            return jnp.sum(self.each(view))
        # What is no atom stands where the first one is, so that no field is asked for what it has not.
        position = jnp.where(view.real[:, None], view.position, view.position[:1])
        return jnp.sum(jnp.where(view.real, self.each(dataclasses.replace(view, position=position)), 0))


@POTENTIALS.named("harmonic_trap")
class HarmonicTrap(ExternalField):
    r"""$u(x) = \tfrac12 k |x - c|^2$.

    **Arguments:**

    - `stiffness`: k, one number, or one an atom to hold some of them (0 for the others).
    - `centre`: c, shape (d,), or (atoms, d) to hold every atom at a place of its own.

    Positions are taken as they are, not wrapped into a cell.
    """

    stiffness: Float[Array, "*atoms"] = quantity(unit="energy/length^2", doc="force constant")
    centre: Float[Array, "*atoms d"] = quantity(unit="length", doc="where the energy is 0")

    def each(self, view: AtomView) -> Array:
        away = view.position - jnp.broadcast_to(self.centre, view.position.shape)
        return 0.5 * self.stiffness * jnp.sum(away**2, axis=-1)


@POTENTIALS.named("electric_field")
class ElectricField(ExternalField):
    r"""$u(x) = -q E \cdot x$, a uniform field.

    **Arguments:**

    - `field`: E, shape (d,), in energy / (charge length).

    In a periodic cell positions are not wrapped, so that the work on an atom that crosses the cell counts.
    """

    field: Float[Array, " d"] = quantity(unit="energy/(charge length)", doc="electric field")

    @property
    def charged(self) -> bool:
        return True

    def each(self, view: AtomView) -> Array:
        assert view.charge is not None, "refused before"
        return -view.charge * (view.position @ self.field)


@POTENTIALS.named("wall")
class Wall(ExternalField):
    r"""A flat wall of Lennard-Jones matter, $u(z) = \epsilon [\tfrac{2}{15} (\sigma/z)^9 - (\sigma/z)^3]$ for the distance
    $z = (x - p) \cdot n$ below the cutoff, minus its value there.

    **Arguments:**

    - `point`, `normal`: a point p of the wall's surface and the direction n into the space of the atoms, shape (d,).
    - `epsilon`, `sigma`: strength and range.
    - `cutoff_distance`: from where on the wall is not felt.

    An atom behind the wall has no energy: NaN.

    **Reference:** Magda, Tirrell & Davis (1985), Journal of Chemical Physics 83:1888, doi:10.1063/1.449375.
    """

    point: Float[Array, " d"] = quantity(unit="length", doc="a point of the surface")
    normal: Float[Array, " d"] = quantity(doc="direction away from the wall")
    epsilon: Scalar = quantity(1.0, unit="energy", support=POSITIVE, doc="strength")
    sigma: Scalar = quantity(1.0, unit="length", support=POSITIVE, doc="range")
    cutoff_distance: float = eqx.field(static=True, converter=float, default=2.5)

    def each(self, view: AtomView) -> Array:
        unit = self.normal / length(self.normal)
        z = (view.position - self.point[None]) @ unit
        near = z < self.cutoff_distance

        def u(z: Array) -> Array:
            three = (self.sigma / z) ** 3
            return self.epsilon * (2 / 15 * three**3 - three)

        end = jnp.asarray(self.cutoff_distance, z.dtype)
        outside = jnp.where(near, z, end)
        return jnp.where(near, u(jnp.where(outside > 0, outside, jnp.nan)) - u(end), 0)


class ExternalFunction(ExternalField):
    """Any energy of single atoms.

    **Arguments:**

    - `function`: a pytree that can be called, `function(position, species, charge) -> (atoms,)`; an Equinox module, or a function.

    ```python
    import jax.numpy as jnp
    import simkit

    ring = simkit.md.ExternalFunction(lambda position, species, charge: (jnp.linalg.norm(position, axis=1) - 3.0) ** 2)
    ```
    """

    function: Callable[..., Any]

    def each(self, view: AtomView) -> Array:
        return self.function(view.position, view.species, view.charge)
