"""Electrostatics of slabs in cells that are periodic in three dimensions."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import Scalar
from ...core import POSITIVE, quantity
from ._ewald import check_cell
from ._many_body import AtomView, ManyBodyPotential
from ._potential import POTENTIALS


@POTENTIALS.named("slab_correction")
class SlabCorrection(ManyBodyPotential):
    r"""Correction of an Ewald sum for a slab between vacuum and vacuum, which takes off what dipoles do to their images,

    $$U = \frac{2 \pi k}{V} \Big[M_z^2 - Q \sum_i q_i z_i^2 - \frac{Q^2 L_z^2}{12}\Big],\qquad
    M_z = \sum_i q_i z_i,\ Q = \sum_i q_i$$

    **Arguments:**

    - `constant`: k, that of the Ewald sum.

    The cell has a third lattice vector along z of length $L_z$, most of it empty, and atoms stay on their side: z are coordinates
    that are not wrapped.

    **Good values:** a cell three times as high as the slab.

    **Raises:** an `ArgumentError` where the space is no periodic cell in three dimensions.

    **Reference:** Yeh & Berkowitz (1999), Journal of Chemical Physics 111:3155, doi:10.1063/1.479595; with a charge Ballenegger,
    Arnold & Cerda (2009), Journal of Chemical Physics 131:094107, doi:10.1063/1.3216473.

    ```python
    import simkit

    cell = simkit.md.Orthorhombic([2.0, 2.0, 6.0])
    electrostatics = simkit.md.ewald_sum(cell, 0.9) + simkit.md.SlabCorrection()
    ```
    """

    cutoff: float | None = eqx.field(static=True, default=None, init=False)
    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc="Coulomb's constant")

    @property
    def charged(self) -> bool:
        return True

    def energy(self, view: AtomView) -> Array:
        charge = view.charge
        assert charge is not None, "refused before"
        check_cell(view.space, " for a slab")
        z, total = view.position[:, 2], jnp.sum(charge)
        height = view.space.vectors().astype(z.dtype)[2, 2]
        moment = jnp.vdot(charge, z)
        found = moment**2 - total * jnp.vdot(charge, z * z) - total**2 * height**2 / 12
        return 2 * math.pi * self.constant / view.space.volume().astype(z.dtype) * found
