"""Lennard-Jones."""

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._errors import check_known
from ...core import POSITIVE, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, reciprocal, tabled
from ._truncation import Truncated, Truncation

MIXING = "lorentz-berthelot", "geometric", "sixth-power"


@POTENTIALS.named("lennard_jones")
class LennardJones(PairPotential):
    r"""$u(r) = 4 \epsilon [(\sigma/r)^{12} - (\sigma/r)^6]$.

    **Arguments:**

    - `sigma`, `epsilon`: the diameter and the depth of the well: numbers, one a species, or symmetric tables over species.
    - `cutoff`: where the interaction ends, in the length unit of the positions.
    - `truncation`: `Truncated()`, `Truncated(tail=True)`, `Shifted()`, `ForceShifted()` or `Switched(inner)`.
    - `mixing`: of one number a species. Lorentz-Berthelot takes the mean of the diameters and the geometric mean of the depths;
        "geometric" the geometric mean of both; "sixth-power" that of Waldman and Hagler.

    **Good values:** sigma and epsilon 1, cutoff 2.5 (or 3 with a tail), density 0.8442 and temperature 0.72 for the liquid near its
    triple point; argon has sigma 3.405 A and epsilon 119.8 K.

    **Reference:** Allen & Tildesley (2017), Computer Simulation of Liquids, 2nd edition, section 1.3; Waldman & Hagler (1993),
    Journal of Computational Chemistry 14:1077, doi:10.1002/jcc.540140909.
    """

    sigma: Parameter = quantity(1.0, unit="length", support=POSITIVE, doc="diameter")
    epsilon: Parameter = quantity(1.0, unit="energy", support=POSITIVE, doc="depth of the well")
    cutoff: float = eqx.field(static=True, converter=float, default=2.5)
    truncation: Truncation = Truncated()
    mixing: Literal["lorentz-berthelot", "geometric", "sixth-power"] = eqx.field(
        static=True, default="lorentz-berthelot"
    )

    def __check_init__(self):
        check_known(self.mixing, MIXING, "mixing rule")

    def coefficients(self) -> Any:
        sigma, epsilon = self.sigma, self.epsilon
        if self.mixing == "sixth-power" and sigma.ndim == 1:
            cube, six = mixed("sigma", sigma**6, "geometric"), mixed("sigma", sigma**6, "arithmetic")
            some = six > 0  # a species of diameter 0 takes no part
            six, depth = jnp.where(some, six, 1), 4 * mixed("epsilon", epsilon, "geometric")
            return tabled(jnp.where(some, jnp.cbrt(six), 0)), tabled(jnp.where(some, depth * cube / six, 0))
        rule = "geometric" if self.mixing == "geometric" else "arithmetic"
        return tabled(mixed("sigma", sigma, rule) ** 2), tabled(4 * mixed("epsilon", epsilon, "geometric"))

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        square, four = (
            coefficients  # sigma^2 and 4 epsilon: powers of sigma alone would leave float32's range in SI units
        )
        inverse = reciprocal(r2)
        s2 = square * inverse
        s6 = s2 * s2 * s2
        size = four * s6
        return size * (s6 - 1), -3 * size * inverse * (2 * s6 - 1)
