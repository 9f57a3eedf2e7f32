"""Oregonator: the Belousov-Zhabotinsky reaction."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("oregonator")
class Oregonator(PlainSystem):
    r"""The core of the Belousov-Zhabotinsky reaction: stiff relaxation oscillations.

    $$\frac{d\alpha}{dt} = s (\eta - \eta \alpha + \alpha - q \alpha^2), \qquad
    \frac{d\eta}{dt} = \frac{f \rho - \eta - \eta \alpha}{s}, \qquad \frac{d\rho}{dt} = w (\alpha - \rho)$$

    with $\alpha$ `bromous_acid`, $\eta$ `bromide`, $\rho$ `cerium`, $s$ `separation`, $q$ `decay`, $f$ `stoichiometry` and
    $w$ `reduction`.

    **Good values:** the defaults from (1, 2, 3): one period in 303 time units. Stiff.

    **Reference:** Field & Noyes (1974), J. Chem. Phys. 60:1877, doi:10.1063/1.1681288.
    """

    class State(eqx.Module):
        """Scaled concentrations."""

        bromous_acid: Scalar = quantity(support=POSITIVE, doc="HBrO2, scaled")
        bromide: Scalar = quantity(support=POSITIVE, doc="Br-, scaled")
        cerium: Scalar = quantity(support=POSITIVE, doc="Ce(IV), scaled")

    separation: Scalar = quantity(77.27, support=POSITIVE, doc="ratio of the fast rates")
    decay: Scalar = quantity(8.375e-6, support=POSITIVE, doc="disproportionation of bromous acid")
    stoichiometry: Scalar = quantity(1.0, support=POSITIVE, doc="bromide made per cerium reduced")
    reduction: Scalar = quantity(0.161, support=POSITIVE, doc="rate of reduction of cerium")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        acid, bromide = y.bromous_acid, y.bromide
        return self.State(
            bromous_acid=self.separation * (bromide - bromide * acid + acid - self.decay * acid * acid),
            bromide=(self.stoichiometry * y.cerium - bromide - bromide * acid) / self.separation,
            cerium=self.reduction * (acid - y.cerium),
        )

    @classmethod
    def example(cls) -> "Example[Oregonator]":
        return Example(cls(), cls.State(bromous_acid=1.0, bromide=2.0, cerium=3.0), jnp.linspace(0.0, 360.0, 181))
