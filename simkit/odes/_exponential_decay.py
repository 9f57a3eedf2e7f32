"""Exponential decay."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("exponential_decay")
class ExponentialDecay(PlainSystem):
    r"""An amount of which a constant fraction decays per time.

    $$\frac{dx}{dt} = -k x, \qquad x(t) = x(0) e^{-k t}$$

    with the amount x and $k$ `rate`.

    **Good values:** rate 0.5 per day from 1 mol: half is left after 1.39 days.

    **Reference:** Rutherford & Soddy (1902), Phil. Mag. 4:370, doi:10.1080/14786440209462856.
    """

    class State(eqx.Module):
        """State: the amount that is left."""

        amount: Scalar = quantity(unit="mol", support=POSITIVE, doc="what has not decayed yet")

    rate: Scalar = quantity(0.5, unit="1/day", support=POSITIVE, doc="fraction that decays per time")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(amount=-self.rate * y.amount)

    @classmethod
    def example(cls) -> "Example[ExponentialDecay]":
        return Example(cls(), cls.State(amount=1.0), jnp.linspace(0.0, 10.0, 41))
