"""Lennard-Jones with a soft core, for atoms that appear or vanish."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ..._types import Scalar
from ...core import POSITIVE, UNIT_INTERVAL, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, reciprocal, tabled
from ._truncation import Truncated, Truncation


@POTENTIALS.named("soft_core_lennard_jones")
class SoftCoreLennardJones(PairPotential):
    r"""$u(r) = 4 \epsilon \lambda\, [1/s^2 - 1/s]$ with $s = \alpha (1 - \lambda)^m + (r/\sigma)^6$: Lennard-Jones for
    $\lambda = 1$, nothing for 0, and finite at r = 0 in between, so that free energies of atoms that appear have no singular end.

    **Arguments:**

    - `sigma`, `epsilon`: as of `LennardJones`, mixed by Lorentz and Berthelot: numbers, one a species, or symmetric tables.
    - `coupling`: $\lambda$, from 0 to 1: a number, one a species, whose product a pair has (1 for a solvent and $\lambda$ for one
        solute that appears), or a symmetric table.
    - `softness`: $\alpha$; `power`: m, 1 or 2, fixed.
    - `cutoff`, `truncation`: where and how the interaction ends.

    **Good values:** softness 0.5 with power 1 or 2; couplings closer to each other near 0, where the free energy changes fastest.

    **Reference:** Beutler, Mark, van Schaik, Gerber and van Gunsteren (1994), Chemical Physics Letters 222:529,
    doi:10.1016/0009-2614(94)00397-1.
    """

    sigma: Parameter = quantity(1.0, unit="length", support=POSITIVE, doc="diameter")
    epsilon: Parameter = quantity(1.0, unit="energy", support=POSITIVE, doc="depth of the well")
    coupling: Parameter = quantity(1.0, support=UNIT_INTERVAL, doc="how much of the interaction there is")
    softness: Scalar = quantity(0.5, support=POSITIVE, doc="height of the soft core")
    cutoff: float = eqx.field(static=True, converter=float, default=2.5)
    truncation: Truncation = Truncated()
    power: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if self.power not in (1, 2):
            raise ArgumentError(f"Argument `power` must be 1 or 2, but it is {self.power!r}.")

    def coefficients(self) -> Any:
        square = mixed("sigma", self.sigma, "arithmetic") ** 2
        some = square > 0  # a species of diameter 0 takes no part
        coupling = self.coupling[:, None] * self.coupling[None] if self.coupling.ndim == 1 else self.coupling
        four = 4 * mixed("epsilon", self.epsilon, "geometric")
        return (
            tabled(jnp.where(some, 1 / jnp.where(some, square, 1), 0)),
            tabled(four),
            tabled(coupling),
            self.softness,
        )

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        inverse_square, four, coupling, softness = coefficients
        away = 1 - coupling
        core = softness * (away if self.power == 1 else away * away)
        ratio = r2 * inverse_square
        # Where there is no diameter there is no energy: s = 1 makes the bracket zero.
        s = jnp.where(inverse_square > 0, core + ratio * ratio * ratio, 1)
        inverse = reciprocal(s)
        size = four * coupling * inverse
        return size * (inverse - 1), 3 * size * inverse * (1 - 2 * inverse) * ratio * ratio * inverse_square
