"""Coulomb's law within a cutoff: plainly cut, and damped and shifted."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from ..._types import Scalar
from ...core import POSITIVE, quantity
from ._potential import POTENTIALS, PairPotential, reciprocal, with_slope
from ._truncation import Truncated, Truncation


@POTENTIALS.named("coulomb_cut")
class CoulombCut(PairPotential):
    r"""$u(r) = k q_i q_j / r$ below the cutoff. Charges belong to the atoms and are derivable like any parameter.

    **Arguments:**

    - `constant`: k, 1 in reduced units, 332.06371 kcal A/(mol e^2), 14.399645 eV A/e^2.
    - `cutoff`, `truncation`: where and how the interaction ends.

    **Good values:** for clusters of atoms in open space with a cutoff beyond their size. In a periodic box it depends on the
    cutoff: take `CoulombDSF` or an Ewald sum.
    """

    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc="Coulomb's constant")
    cutoff: float = eqx.field(static=True, converter=float, default=10.0)
    truncation: Truncation = Truncated()

    @property
    def charged(self) -> bool:
        return True

    def coefficients(self) -> Any:
        return self.constant

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        # The square root of a reciprocal: XLA:CPU has no fast reciprocal of a square root.
        inverse = reciprocal(r2)
        u = coefficients * jnp.sqrt(inverse)
        return u, -0.5 * inverse * u


@POTENTIALS.named("coulomb_dsf")
class CoulombDSF(PairPotential):
    r"""Damped, shifted-force electrostatics: energies like Ewald's from within a sphere, at the cost of a pair potential.

    $$u(r) = k q_i q_j \left[\frac{\mathrm{erfc}(\alpha r)}{r} - \frac{\mathrm{erfc}(\alpha r_c)}{r_c} + \left(
    \frac{\mathrm{erfc}(\alpha r_c)}{r_c^2} + \frac{2 \alpha}{\sqrt \pi} \frac{e^{-\alpha^2 r_c^2}}{r_c}\right) (r - r_c)\right]$$

    and a self-energy of half the constant part of the bracket as r goes to 0, that is
    $-k q_i^2 [\mathrm{erfc}(\alpha r_c) / (2 r_c) + r_c F / 2 + \alpha / \sqrt \pi]$ an atom with F the factor of $(r - r_c)$:
    each charge is neutralised at the cutoff.

    **Arguments:**

    - `constant`: k as for `CoulombCut`.
    - `damping`: $\alpha$, in inverse length.
    - `cutoff`: where energy and force have come to 0.

    **Good values:** damping 0.2 / A with a cutoff of 12 A; more damping needs less cutoff and loses the long range.

    **Reference:** Fennell & Gezelter (2006), Journal of Chemical Physics 124:234104, doi:10.1063/1.2206581.
    """

    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc="Coulomb's constant")
    damping: Scalar = quantity(
        0.2, unit="1/length", support=POSITIVE, doc="inverse length over which charges are screened"
    )
    cutoff: float = eqx.field(static=True, converter=float, default=12.0)
    truncation: Truncation = Truncated()

    @property
    def charged(self) -> bool:
        return True

    def coefficients(self) -> Any:
        screened = lax.erfc(self.damping * self.cutoff) / self.cutoff
        return self.constant, self.damping, screened, screened / self.cutoff + 2 * self._height() / self.cutoff

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        constant, damping, at_cutoff, steepness = coefficients

        def energy(r2: Array) -> Array:
            r = jnp.sqrt(r2)
            return constant * (lax.erfc(damping * r) / r - at_cutoff + steepness * (r - self.cutoff))

        return with_slope(energy, r2)

    def self_energy(self, charge: Array | None) -> Array | float:
        if charge is None:
            return 0.0
        _, _, at_cutoff, steepness = self.coefficients()
        constant = (at_cutoff + self.cutoff * steepness) / 2 + self.damping / math.sqrt(math.pi)
        return -(self.constant * constant).astype(charge.dtype) * jnp.vdot(charge, charge)

    def _height(self) -> Array:
        """alpha exp(-(alpha r_c)^2) / sqrt(pi)."""
        return self.damping * jnp.exp(-((self.damping * self.cutoff) ** 2)) / math.sqrt(math.pi)
