"""Implicit solvent: the generalized Born model with its surface area."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._errors import ArgumentError, check_known
from ..._types import Scalar
from ...core import POSITIVE, quantity
from ._every_pair import over_rows
from ._many_body import AtomView, ManyBodyPotential
from ._potential import POTENTIALS

MODELS = {"HCT": None, "OBC1": (0.8, 0.0, 2.909125), "OBC2": (1.0, 0.8, 4.85)}
"""Coefficients of tanh in the radii; HCT has none."""

OBC2_OFFSET = 0.09
"""Reduction of the radii in the integrals, in Angstrom."""


@POTENTIALS.named("generalized_born")
class GeneralizedBorn(ManyBodyPotential):
    r"""The energy of charges in a solvent that is a dielectric, over all pairs, without a cutoff:

    $$U = -\frac k2 \Big(\frac 1{\epsilon_i} - \frac 1{\epsilon_s}\Big) \sum_{ij} \frac{q_i q_j}{f_{ij}}
    + 4 \pi \gamma \sum_i (R_i + p)^2 \Big(\frac{R_i}{B_i}\Big)^6, \qquad
    f_{ij}^2 = r_{ij}^2 + B_i B_j e^{-r_{ij}^2 / 4 B_i B_j},$$

    where the Born radius $B_i$ follows from how far the other atoms, as spheres, displace the solvent around the atom.

    **Arguments:**

    - `radius`: R, one an atom; `scale`: the factor of each atom's sphere, one an atom.
    - `model`: "HCT", "OBC1" or "OBC2".
    - `constant`: Coulomb's k; `solute`, `solvent`: relative permittivities.
    - `offset`: by how much radii are smaller in the integrals, 0.09 Angstrom.
    - `surface_tension`: $\gamma$, 0 for no term of the surface; `probe`: p, the radius of a solvent molecule.

    For open space. Charges are those of the atoms.

    **Good values:** OBC2, a solvent of 78.5, and a surface tension of 5.4 cal/(mol A^2), 2.26 kJ/(mol nm^2), with a probe of 1.4 A.

    **Raises:** an `ArgumentError` where radii are not one an atom, and for a model that is not known.

    **Reference:** Hawkins, Cramer & Truhlar (1995), Chemical Physics Letters 246:122, doi:10.1016/0009-2614(95)01082-K; Onufriev,
    Bashford & Case (2004), Proteins 55:383, doi:10.1002/prot.20033; for the surface Schaefer, Bartels & Karplus (1998), Journal of
    Molecular Biology 284:835, doi:10.1006/jmbi.1998.2172.
    """

    cutoff: float | None = eqx.field(static=True, default=None, init=False)
    radius: Float[Array, " atoms"] = quantity(unit="length", support=POSITIVE, doc="radius of the atom")
    scale: Float[Array, " atoms"] = quantity(support=POSITIVE, doc="factor of the sphere that displaces solvent")
    model: Literal["HCT", "OBC1", "OBC2"] = eqx.field(static=True, default="OBC2")
    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc="Coulomb's constant")
    solute: Scalar = quantity(1.0, support=POSITIVE, doc="relative permittivity of the solute")
    solvent: Scalar = quantity(78.5, support=POSITIVE, doc="relative permittivity of the solvent")
    offset: Scalar = quantity(OBC2_OFFSET, unit="length", support=POSITIVE, doc="reduction of the radii")
    surface_tension: Scalar = quantity(0.0, unit="energy/length^2", doc="energy of the surface by its area")
    probe: Scalar = quantity(1.4, unit="length", support=POSITIVE, doc="radius of a solvent molecule")

    def __check_init__(self):
        check_known(self.model, MODELS, "model of Born radii")

    @property
    def charged(self) -> bool:
        return True

    def energy(self, view: AtomView) -> Array:
        charge = view.charge
        assert charge is not None, "refused before"
        if len(self.radius) != len(view.position) or len(self.scale) != len(view.position):
            raise ArgumentError(
                f"Arguments `radius` and `scale` must have one number for each of {len(view.position)} atoms, but have "
                f"{len(self.radius)} and {len(self.scale)}."
            )
        born = self.born_radii(view)

        def screened(index: Array, r: Array, others: Array) -> Array:
            size = born[index][:, None] * born[None]
            f = jnp.sqrt(r * r + size * jnp.exp(-(r * r) / (4 * size)))
            return charge[index] * (jnp.where(others, 1 / f, 0) @ charge)

        twice = jnp.sum(over_rows(screened, view.space, view.position)) + jnp.sum(charge**2 / born)
        strength = self.constant * (1 / self.solute - 1 / self.solvent)
        surface = jnp.sum((self.radius + self.probe) ** 2 * (self.radius / born) ** 6)
        return -0.5 * strength * twice + 4 * np.pi * self.surface_tension * surface

    def born_radii(self, view: AtomView) -> Float[Array, " atoms"]:
        """The Born radius of every atom: the larger the deeper it lies."""
        own = self.radius - self.offset
        sphere = self.scale * own

        def displaced(index: Array, r: Array, others: Array) -> Array:
            rho, s = own[index][:, None], sphere[None]
            outer = r + s
            reaches = others & (outer > rho)
            outer = jnp.where(reaches, outer, rho + 1)
            inner = jnp.maximum(rho, jnp.abs(r - s))
            a, b = 1 / inner, 1 / outer
            shell = a - b + 0.25 * (r - s * s / r) * (b * b - a * a) + jnp.log(inner / outer) / (2 * r)
            inside = jnp.where(s - r > rho, 2 * (1 / rho - a), 0)
            return 0.5 * jnp.sum(jnp.where(reaches, shell + inside, 0), axis=1)

        total = over_rows(displaced, view.space, view.position)
        factors = MODELS[self.model]
        if factors is None:
            return 1 / (1 / own - total)
        psi = total * own
        alpha, beta, gamma = factors
        return 1 / (1 / own - jnp.tanh(psi * (alpha + psi * (-beta + gamma * psi))) / self.radius)
