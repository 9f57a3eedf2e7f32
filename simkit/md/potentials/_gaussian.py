"""The Gaussian core."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import POSITIVE, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, tabled
from ._truncation import Truncated, Truncation


@POTENTIALS.named("gaussian_core")
class GaussianCore(PairPotential):
    r"""$u(r) = \epsilon e^{-(r / \sigma)^2}$: soft particles that may overlap, such as polymer coils.

    **Arguments:**

    - `strength`, `sigma`: $\epsilon$ and $\sigma$ (numbers, one a species, or symmetric tables); of one number a species
        the strength mixes
        geometrically, the width by its mean.
    - `cutoff`, `truncation`: where and how the interaction ends.

    **Good values:** strength 1, sigma 1, cutoff 3.2-4, temperature 0.002-0.01.

    **Reference:** Stillinger (1976), Journal of Chemical Physics 65:3968, doi:10.1063/1.432891.
    """

    strength: Parameter = quantity(1.0, unit="energy", doc="energy of full overlap")
    sigma: Parameter = quantity(1.0, unit="length", support=POSITIVE, doc="width")
    cutoff: float = eqx.field(static=True, converter=float, default=4.0)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        return tabled(mixed("strength", self.strength, "geometric")), tabled(
            mixed("sigma", self.sigma, "arithmetic") ** -2.0
        )

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        strength, narrowness = coefficients
        u = strength * jnp.exp(-narrowness * r2)
        return u, -narrowness * u
