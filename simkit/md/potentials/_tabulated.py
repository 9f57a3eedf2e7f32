"""A pair potential from a table."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..._errors import ArgumentError
from ...core import quantity
from ._potential import POTENTIALS, PairPotential, with_slope
from ._truncation import Truncated, Truncation


@POTENTIALS.named("tabulated")
class Tabulated(PairPotential):
    r"""Energies on an even grid of distances, joined by cubic polynomials that take value and slope of the table at its knots.

    **Arguments:**

    - `energies`, `slopes`: u and du/dr at even distances from `start` to `cutoff`, both ends included, of shape (knots,).
    - `start`, `cutoff`: the first and the last knot, static. Below the first the energy continues in a straight line.
    - `truncation`: how the energy ends at the last knot.

    **Good values:** knots every 0.005-0.01 diameters: the error of the energy falls with the fourth power of the spacing.

    ```python
    import jax.numpy as jnp
    import simkit

    r = jnp.linspace(0.8, 2.5, 171)
    potential = simkit.md.Tabulated(r**-12, -12 * r**-13, start=0.8, cutoff=2.5)
    ```
    """

    energies: Float[Array, " knots"] = quantity(unit="energy", doc="at the knots")
    slopes: Float[Array, " knots"] = quantity(unit="energy/length", doc="du/dr at the knots")
    start: float = eqx.field(static=True, converter=float, default=0.5)
    cutoff: float = eqx.field(static=True, converter=float, default=2.5)
    truncation: Truncation = Truncated()

    def __check_init__(self):
        shapes = jnp.shape(self.energies), jnp.shape(self.slopes)
        if shapes[0] != shapes[1] or shapes[0][-1:] < (2,):
            raise ArgumentError(
                f"Arguments `energies` and `slopes` must have the same shape (knots,), but have {shapes[0]} and {shapes[1]}."
            )
        if not 0 <= self.start < self.cutoff:
            raise ArgumentError(
                f"Argument `start` must lie between 0 and the cutoff {self.cutoff}, but is {self.start}."
            )

    def coefficients(self) -> Any:
        return jnp.stack([self.energies, self.slopes], axis=-1)

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        last = coefficients.shape[0] - 2
        spacing = (self.cutoff - self.start) / (last + 1)

        def energy(r2: Array) -> Array:
            t = (jnp.sqrt(r2) - self.start) / spacing
            k = jnp.clip(jnp.floor(t), 0, last).astype(jnp.int32)
            (u0, s0), (u1, s1) = jnp.moveaxis(coefficients[k], -1, 0), jnp.moveaxis(coefficients[k + 1], -1, 0)
            m0, m1 = s0 * spacing, s1 * spacing
            s = t - k.astype(t.dtype)
            inside = s > 0
            s = jnp.where(inside, s, 0)
            line = jnp.where(inside, 0, t * m0)
            return u0 + line + s * (m0 + s * (3 * (u1 - u0) - 2 * m0 - m1 + s * (2 * (u0 - u1) + m0 + m1)))

        return with_slope(energy, r2)
