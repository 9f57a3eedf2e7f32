"""Brusselator: a chemical clock on paper."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("brusselator")
class Brusselator(PlainSystem):
    r"""Four reactions, one of them autocatalytic, that oscillate.

    $$\frac{dx}{dt} = A + x^2 y - (B + 1) x, \qquad \frac{dy}{dt} = B x - x^2 y$$

    with the concentrations x and y, $A$ `feed` and $B$ `conversion`. The fixed point (A, B / A) gives way to a cycle where
    $B > 1 + A^2$.

    **Good values:** feed 1, conversion 3: a cycle with period 7.16.

    **Reference:** Prigogine & Lefever (1968), J. Chem. Phys. 48:1695, doi:10.1063/1.1668896.
    """

    class State(eqx.Module):
        """Concentrations of the two intermediates."""

        x: Scalar = quantity(support=POSITIVE, doc="activator, scaled")
        y: Scalar = quantity(support=POSITIVE, doc="its substrate, scaled")

    feed: Scalar = quantity(1.0, support=POSITIVE, doc="inflow of the activator")
    conversion: Scalar = quantity(3.0, support=POSITIVE, doc="conversion of the activator into its substrate")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        autocatalysis = y.x * y.x * y.y
        return self.State(
            x=self.feed + autocatalysis - (self.conversion + 1) * y.x, y=self.conversion * y.x - autocatalysis
        )

    @classmethod
    def example(cls) -> "Example[Brusselator]":
        return Example(cls(), cls.State(x=1.5, y=3.0), jnp.linspace(0.0, 20.0, 201))
