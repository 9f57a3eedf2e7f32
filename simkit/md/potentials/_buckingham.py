"""Buckingham and Born-Mayer."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import POSITIVE, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, reciprocal, tabled
from ._truncation import Truncated, Truncation


@POTENTIALS.named("buckingham")
class Buckingham(PairPotential):
    r"""$u(r) = A e^{-r / \rho} - C / r^6$: Buckingham's, and Born and Mayer's with C = 0.

    The energy falls without bound at very short distance where C > 0: start from configurations without overlap.

    **Arguments:**

    - `strength`, `length`, `dispersion`: A, $\rho$ and C (numbers, one a species, or symmetric tables); of one number a species
        A and C
        mix geometrically, the length by its mean.
    - `cutoff`, `truncation`: where and how the interaction ends.

    **Good values:** silica after van Beest, Kramer and van Santen, Si-O: A 18003.7572 eV, length 0.205205 A, C 133.5381 eV A^6.

    **Reference:** Buckingham (1938), Proceedings of the Royal Society A 168:264, doi:10.1098/rspa.1938.0173; van Beest et
    al. (1990), Physical Review Letters 64:1955, doi:10.1103/PhysRevLett.64.1955.
    """

    strength: Parameter = quantity(1000.0, unit="energy", support=POSITIVE, doc="of the repulsion")
    length: Parameter = quantity(0.3, unit="length", support=POSITIVE, doc="over which the repulsion decays")
    dispersion: Parameter = quantity(0.0, unit="energy length^6", doc="of the attraction; 0 for Born-Mayer")
    cutoff: float = eqx.field(static=True, converter=float, default=2.5)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        return (
            tabled(mixed("strength", self.strength, "geometric")),
            tabled(mixed("length", self.length, "arithmetic")),
            tabled(mixed("dispersion", self.dispersion, "geometric")),
        )

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        strength, length, dispersion = coefficients
        r, inverse = jnp.sqrt(r2), reciprocal(r2)
        repulsion, attraction = strength * jnp.exp(-r / length), dispersion * inverse * inverse * inverse
        return repulsion - attraction, -repulsion / (2 * r * length) + 3 * attraction * inverse
