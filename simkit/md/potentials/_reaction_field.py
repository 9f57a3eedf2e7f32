"""Electrostatics within a sphere, in a medium that answers from beyond it."""

from typing import Any

import equinox as eqx
from jax import lax
from jaxtyping import Array, PyTree

from ..._types import Scalar
from ...core import POSITIVE, quantity
from ._potential import POTENTIALS, PairPotential
from ._truncation import Truncated, Truncation


@POTENTIALS.named("coulomb_reaction_field")
class CoulombReactionField(PairPotential):
    r"""Coulomb's law in a sphere, beyond which a medium of the relative permittivity $\epsilon$ is polarised:

    $$u(r) = k q_i q_j \left[\frac 1 r + \frac{r^2}{r_c^3} \frac{\epsilon - 1}{2 \epsilon + 1}
    - \frac{1}{r_c} \frac{3 \epsilon}{2 \epsilon + 1}\right],$$

    which is 0 at the cutoff.

    **Arguments:**

    - `constant`: k as for `CoulombCut`.
    - `permittivity`: of the medium, relative to vacuum; 1 or more.
    - `cutoff`: radius of the sphere.

    **Good values:** 78.3 for water at 298 K, with a cutoff of 1 nm or more.

    **Reference:** Tironi, Sperb, Smith & van Gunsteren (1995), Journal of Chemical Physics 102:5451, doi:10.1063/1.469273.
    """

    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc="Coulomb's constant")
    permittivity: Scalar = quantity(78.3, support=POSITIVE, doc="relative permittivity of the medium")
    cutoff: float = eqx.field(static=True, converter=float, default=10.0)
    truncation: Truncation = Truncated()

    @property
    def charged(self) -> bool:
        return True

    def coefficients(self) -> Any:
        below = 2 * self.permittivity + 1
        rise = (self.permittivity - 1) / below / self.cutoff**3
        shift = 3 * self.permittivity / below / self.cutoff
        return self.constant, self.constant * rise, self.constant * shift

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        constant, rise, shift = coefficients
        bare = constant * lax.rsqrt(r2)
        return bare + rise * r2 - shift, rise - bare / (2 * r2)
