"""Bonds: harmonic, Morse, FENE."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...core import POSITIVE, quantity
from ..space._space import Space
from ._bonded import BondedPotential, as_indices, length, optional_indices
from ._potential import POTENTIALS, Parameter


class BondPotential(BondedPotential):
    """A function of the distance of two atoms."""

    @property
    def size(self) -> int:
        return 2

    def term(self, space: Space, position: Array) -> Array:
        return self.of_distance(distance(space, position))

    @abc.abstractmethod
    def of_distance(self, r: Float[Array, " terms"]) -> Float[Array, " terms"]:
        """The energy of each bond."""


@POTENTIALS.named("harmonic_bond")
class HarmonicBond(BondPotential):
    r"""$u(r) = \tfrac12 k (r - r_0)^2$.

    **Arguments:**

    - `atoms`: the two atoms of every bond, shape (terms, 2).
    - `stiffness`, `length`: k and r_0: one number, one a bond, or one a kind.
    - `kind`: shape (terms,), which row of the parameters a bond takes; None for single numbers or one a bond.

    **Good values:** 900-1200 kcal/(mol A^2) for bonds of water and of hydrocarbons. LAMMPS, AMBER, CHARMM and OPLS print k / 2.

    ```python
    import simkit

    bonds = simkit.md.HarmonicBond([[0, 1], [0, 2]], stiffness=900.0, length=1.0)
    ```
    """

    atoms: Int[Array, "terms 2"] = eqx.field(converter=as_indices)
    stiffness: Parameter = quantity(unit="energy/length^2", support=POSITIVE, doc="force constant")
    length: Parameter = quantity(unit="length", support=POSITIVE, doc="length at rest")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_distance(self, r: Array) -> Array:
        stretch = r - self.each(self.length)
        return 0.5 * self.each(self.stiffness) * stretch**2


@POTENTIALS.named("morse_bond")
class MorseBond(BondPotential):
    r"""$u(r) = D [1 - e^{-a (r - r_0)}]^2$: a bond that breaks.

    **Arguments:**

    - `atoms`, `kind`: as for `HarmonicBond`.
    - `depth`, `steepness`, `length`: D, a and r_0; near r_0 the stiffness is $2 D a^2$.

    **Reference:** Morse (1929), Physical Review 34:57, doi:10.1103/PhysRev.34.57.
    """

    atoms: Int[Array, "terms 2"] = eqx.field(converter=as_indices)
    depth: Parameter = quantity(unit="energy", support=POSITIVE, doc="energy that breaks the bond")
    steepness: Parameter = quantity(unit="1/length", support=POSITIVE, doc="inverse width of the well")
    length: Parameter = quantity(unit="length", support=POSITIVE, doc="length at rest")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_distance(self, r: Array) -> Array:
        decay = jnp.exp(-self.each(self.steepness) * (r - self.each(self.length)))
        return self.each(self.depth) * (1 - decay) ** 2


@POTENTIALS.named("fene_bond")
class FENEBond(BondPotential):
    r"""The bond of bead-spring polymers, finitely extensible and repulsive:

    $$u(r) = -\tfrac12 k R^2 \ln[1 - (r/R)^2] + 4 \epsilon [(\sigma/r)^{12} - (\sigma/r)^6 + \tfrac14],$$

    the second part up to $2^{1/6} \sigma$. A bond longer than R has no energy: NaN.

    **Arguments:**

    - `atoms`, `kind`: as for `HarmonicBond`.
    - `stiffness`, `extent`: k and R; `epsilon`, `sigma`: of the repulsion between bonded beads, which the potential of the pairs
        must then leave out.

    **Good values:** the defaults, with a time step of 0.005-0.01.

    **Reference:** Kremer & Grest (1990), Journal of Chemical Physics 92:5057, doi:10.1063/1.458541.
    """

    atoms: Int[Array, "terms 2"] = eqx.field(converter=as_indices)
    stiffness: Parameter = quantity(30.0, unit="energy/length^2", support=POSITIVE, doc="force constant")
    extent: Parameter = quantity(1.5, unit="length", support=POSITIVE, doc="longest possible bond")
    epsilon: Parameter = quantity(1.0, unit="energy", support=POSITIVE, doc="strength of the repulsion")
    sigma: Parameter = quantity(1.0, unit="length", support=POSITIVE, doc="diameter of the repulsion")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_distance(self, r: Array) -> Array:
        extent, epsilon = self.each(self.extent), self.each(self.epsilon)
        spring = -0.5 * self.each(self.stiffness) * extent**2 * jnp.log1p(-((r / extent) ** 2))
        six = (self.each(self.sigma) / r) ** 6
        return spring + jnp.where(six > 0.5, epsilon * (4 * six * (six - 1) + 1), 0)


def distance(space: Space, position: Array) -> Array:
    """Return the distance between the atoms of pairs, (terms, 2, d) -> (terms,)."""
    return length(space.displacement(position[:, 0], position[:, 1]))
