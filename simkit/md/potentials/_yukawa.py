"""Yukawa."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import POSITIVE, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, tabled
from ._truncation import Truncated, Truncation


@POTENTIALS.named("yukawa")
class Yukawa(PairPotential):
    r"""$u(r) = A e^{-\kappa r} / r$: screened charges.

    **Arguments:**

    - `strength`, `screening`: A and $\kappa$ (numbers, one a species, or symmetric tables). One strength a species
        is a charge, and a pair has the product of its two; the screening mixes by its mean.
    - `cutoff`, `truncation`: where and how the interaction ends.

    **Good values:** strength 1, screening 1-4, cutoff $8 / \kappa$.

    **Reference:** Robbins, Kremer & Grest (1988), Journal of Chemical Physics 88:3286, doi:10.1063/1.453924.
    """

    strength: Parameter = quantity(1.0, unit="energy length", doc="positive repels")
    screening: Parameter = quantity(1.0, unit="1/length", support=POSITIVE, doc="inverse screening length")
    cutoff: float = eqx.field(static=True, converter=float, default=6.0)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        strength = self.strength
        if strength.ndim == 1:  # like charges: the product decides the sign, and a root would lose it
            strength = strength[:, None] * strength[None, :]
        return tabled(mixed("strength", strength, "geometric")), tabled(
            mixed("screening", self.screening, "arithmetic")
        )

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        strength, screening = coefficients
        r = jnp.sqrt(r2)
        u = strength * jnp.exp(-screening * r) / r
        return u, -u * (1 + screening * r) / (2 * r2)
