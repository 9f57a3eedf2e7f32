"""Pairs of named atoms with parameters of their own: what a force field says of 1-4 pairs and of pairs that it overrides."""

import equinox as eqx
from jaxtyping import Array, Int

from ..._types import Scalar
from ...core import POSITIVE, quantity
from ._bonded import as_indices, optional_indices
from ._bonds import BondPotential
from ._potential import POTENTIALS, Parameter


@POTENTIALS.named("lennard_jones_bond")
class LennardJonesBond(BondPotential):
    r"""$u(r) = 4 \epsilon [(\sigma/r)^{12} - (\sigma/r)^6]$ between named atoms, without a cutoff and with numbers of their own.

    **Arguments:**

    - `atoms`, `kind`: as for `HarmonicBond`.
    - `sigma`, `epsilon`: one number, one a pair, or one a kind.

    For 1-4 pairs that do not follow a mixing rule, as in CHARMM. Pairs that are scaled by one factor are `ListedPairs`.
    """

    atoms: Int[Array, "terms 2"] = eqx.field(converter=as_indices)
    sigma: Parameter = quantity(unit="length", support=POSITIVE, doc="diameter")
    epsilon: Parameter = quantity(unit="energy", doc="depth of the well")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_distance(self, r: Array) -> Array:
        six = (self.each(self.sigma) / r) ** 6
        return 4 * self.each(self.epsilon) * six * (six - 1)


@POTENTIALS.named("coulomb_bond")
class CoulombBond(BondPotential):
    r"""$u(r) = k p / r$ between named atoms, without a cutoff; p stands for a product of charges.

    **Arguments:**

    - `atoms`, `kind`: as for `HarmonicBond`.
    - `product`: p, of any sign: one number, one a pair, or one a kind.
    - `constant`: k as for `CoulombCut`.
    """

    atoms: Int[Array, "terms 2"] = eqx.field(converter=as_indices)
    product: Parameter = quantity(unit="charge^2", doc="product of the charges")
    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc="Coulomb's constant")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_distance(self, r: Array) -> Array:
        return self.constant * self.each(self.product) / r
