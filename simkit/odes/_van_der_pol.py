"""Van der Pol: a self-sustained oscillation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("van_der_pol")
class VanDerPol(PlainSystem):
    r"""An oscillator that is driven while it swings little and damped while it swings far.

    $$\frac{dx}{dt} = v, \qquad \frac{dv}{dt} = \mu (1 - x^2) v - x$$

    with the position x, the velocity v and $\mu$ `damping`. Every start but the origin ends on one cycle.

    **Good values:** damping 1: period 6.6633. From about damping 100 on the equation is stiff.

    **Reference:** van der Pol (1926), Phil. Mag. 2:978, doi:10.1080/14786442608564127.
    """

    class State(eqx.Module):
        """A position and its velocity."""

        position: Scalar = quantity(doc="scaled")
        velocity: Scalar = quantity(doc="scaled")

    damping: Scalar = quantity(1.0, support=POSITIVE, doc="strength of drive and damping")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(position=y.velocity, velocity=self.damping * (1 - y.position**2) * y.velocity - y.position)

    @classmethod
    def example(cls) -> "Example[VanDerPol]":
        return Example(cls(), cls.State(position=2.0, velocity=0.0), jnp.linspace(0.0, 20.0, 201))
