"""Logistic growth."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("logistic_growth")
class LogisticGrowth(PlainSystem):
    r"""A population that grows until its surroundings are full.

    $$\frac{dN}{dt} = r N \left(1 - \frac{N}{K}\right), \qquad N(t) = \frac{K}{1 + (K / N(0) - 1) e^{-r t}}$$

    with the size N, $r$ `growth` and $K$ `capacity`.

    **Good values:** growth 0.8 per day and capacity 10 thousand from 0.2 thousand: half full after 4.9 days.

    **Reference:** Verhulst (1838), Correspondance mathématique et physique 10:113.
    """

    class State(eqx.Module):
        """A population."""

        size: Scalar = quantity(unit="thousand", support=POSITIVE, doc="size of the population")

    growth: Scalar = quantity(0.8, unit="1/day", support=POSITIVE, doc="growth rate of a small population")
    capacity: Scalar = quantity(10.0, unit="thousand", support=POSITIVE, doc="size at which growth ends")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(size=self.growth * y.size * (1 - y.size / self.capacity))

    @classmethod
    def example(cls) -> "Example[LogisticGrowth]":
        return Example(cls(), cls.State(size=0.2), jnp.linspace(0.0, 12.0, 49))
