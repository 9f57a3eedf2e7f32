"""Rössler: the simplest folded chaos."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("rossler")
class Rossler(PlainSystem):
    r"""A spiral that folds back on itself; chaos with a single nonlinear term.

    $$\frac{dx}{dt} = -y - z, \qquad \frac{dy}{dt} = x + a y, \qquad \frac{dz}{dt} = b + z (x - c)$$

    with $a$ `growth`, $b$ `source` and $c$ `threshold`. The fixed points are $(a \zeta, -\zeta, \zeta)$ with
    $\zeta = (c \pm \sqrt{c^2 - 4 a b}) / (2 a)$.

    **Good values:** growth 0.2, source 0.2, threshold 5.7: chaos, one turn in about 5.9 time units.

    **Reference:** Rössler (1976), Physics Letters A 57:397, doi:10.1016/0375-9601(76)90101-8.
    """

    class State(eqx.Module):
        """A point in the space of the attractor."""

        x: Scalar = quantity(doc="scaled")
        y: Scalar = quantity(doc="scaled")
        z: Scalar = quantity(doc="scaled")

    growth: Scalar = quantity(0.2, doc="growth of the spiral")
    source: Scalar = quantity(0.2, doc="constant source of z")
    threshold: Scalar = quantity(5.7, doc="x at which z starts to grow")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(x=-y.y - y.z, y=y.x + self.growth * y.y, z=self.source + y.z * (y.x - self.threshold))

    @classmethod
    def example(cls) -> "Example[Rossler]":
        return Example(cls(), cls.State(x=1.0, y=1.0, z=0.0), jnp.linspace(0.0, 100.0, 1001))
