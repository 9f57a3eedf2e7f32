"""Weeks-Chandler-Andersen: the repulsive part of Lennard-Jones."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import POSITIVE, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, reciprocal, tabled
from ._truncation import Truncated, Truncation


@POTENTIALS.named("weeks_chandler_andersen")
class WeeksChandlerAndersen(PairPotential):
    r"""$u(r) = 4 \epsilon [(\sigma/r)^{12} - (\sigma/r)^6] + \epsilon$ below its minimum $2^{1/6} \sigma$, and 0 beyond.

    The end of the interaction moves with sigma; energy and force are continuous there.

    **Arguments:**

    - `sigma`, `epsilon`: diameter and strength (numbers, one a species, or symmetric tables), mixed after Lorentz and Berthelot.
    - `cutoff`: how far neighbours are looked for. It must be at least $2^{1/6}$ times the largest diameter, with room for the
        values a fit may try.

    **Good values:** sigma 1, epsilon 1, cutoff 1.2.

    **Reference:** Weeks, Chandler & Andersen (1971), Journal of Chemical Physics 54:5237, doi:10.1063/1.1674820.
    """

    sigma: Parameter = quantity(1.0, unit="length", support=POSITIVE, doc="diameter")
    epsilon: Parameter = quantity(1.0, unit="energy", support=POSITIVE, doc="strength")
    cutoff: float = eqx.field(static=True, converter=float, default=1.2)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        return tabled(mixed("sigma", self.sigma, "arithmetic") ** 2), tabled(
            mixed("epsilon", self.epsilon, "geometric")
        )

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        square, epsilon = coefficients
        inverse = reciprocal(r2)
        s2 = square * inverse
        s6 = s2 * s2 * s2
        repels = s6 > 0.5
        u, slope = epsilon * (4 * s6 * (s6 - 1) + 1), -12 * epsilon * s6 * inverse * (2 * s6 - 1)
        return jnp.where(repels, u, 0), jnp.where(repels, slope, 0)
