"""Soft spheres."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import POSITIVE, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, reciprocal, tabled
from ._truncation import Truncated, Truncation


@POTENTIALS.named("soft_sphere")
class SoftSphere(PairPotential):
    r"""$u(r) = \epsilon (\sigma / r)^n$: repulsion alone.

    **Arguments:**

    - `sigma`, `epsilon`: diameter and strength (numbers, one a species, or symmetric tables); of one number a species
        the diameter mixes by its
        mean, the strength geometrically.
    - `exponent`: n, static; even numbers are fastest.
    - `cutoff`, `truncation`: where and how the interaction ends.

    **Good values:** exponent 12, cutoff 3 sigma; freezing at a density of 1.15 for temperature 1.

    **Reference:** Hoover et al. (1970), Journal of Chemical Physics 52:4931, doi:10.1063/1.1672728.
    """

    sigma: Parameter = quantity(1.0, unit="length", support=POSITIVE, doc="diameter")
    epsilon: Parameter = quantity(1.0, unit="energy", support=POSITIVE, doc="strength")
    exponent: float = eqx.field(static=True, converter=float, default=12.0)
    cutoff: float = eqx.field(static=True, converter=float, default=3.0)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        return tabled(mixed("sigma", self.sigma, "arithmetic") ** 2), tabled(
            mixed("epsilon", self.epsilon, "geometric")
        )

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        square, epsilon = coefficients
        inverse = reciprocal(r2)
        u = epsilon * _power(square * inverse, self.exponent / 2)
        return u, -self.exponent / 2 * inverse * u


def _power(x: Array, exponent: float) -> Array:
    return x ** int(exponent) if exponent == int(exponent) else jnp.power(x, exponent)
