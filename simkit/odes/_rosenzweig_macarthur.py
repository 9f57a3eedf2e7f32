"""Rosenzweig-MacArthur: a predator that can be satisfied."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("rosenzweig_macarthur")
class RosenzweigMacArthur(PlainSystem):
    r"""A prey with limited room and a predator with a limited appetite: more room for the prey sets off cycles.

    $$\frac{dN}{dt} = r N \left(1 - \frac{N}{K}\right) - \frac{a N P}{1 + a h N}, \qquad
    \frac{dP}{dt} = \frac{\epsilon a N P}{1 + a h N} - m P$$

    with the prey N, the predator P, $r$ `growth`, $K$ `capacity`, $a$ `attack`, $h$ `handling`, $\epsilon$ `conversion` and
    $m$ `death`. Both survive at $N^* = m / (a (\epsilon - m h))$, a state that gives way to a cycle where
    $K > 2 N^* + 1 / (a h)$.

    **Good values:** growth 1, capacity 5, attack 1.5, handling 0.5, conversion 0.5, death 0.4 from prey 1 and predator 1:
    a cycle of about twenty days.

    **Reference:** Rosenzweig & MacArthur (1963), American Naturalist 97:209, doi:10.1086/282272.
    """

    class State(eqx.Module):
        """A prey and its predator."""

        prey: Scalar = quantity(unit="g/m^2", support=POSITIVE, doc="density of the prey")
        predator: Scalar = quantity(unit="g/m^2", support=POSITIVE, doc="density of the predator")

    growth: Scalar = quantity(1.0, unit="1/day", support=POSITIVE, doc="growth rate of few prey")
    capacity: Scalar = quantity(5.0, unit="g/m^2", support=POSITIVE, doc="prey without predators")
    attack: Scalar = quantity(1.5, unit="m^2/(g day)", support=POSITIVE, doc="area a predator searches")
    handling: Scalar = quantity(0.5, unit="day", support=POSITIVE, doc="time that a unit of prey takes to eat")
    conversion: Scalar = quantity(0.5, support=POSITIVE, doc="predator gained per prey eaten")
    death: Scalar = quantity(0.4, unit="1/day", support=POSITIVE, doc="death rate of the predator")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        eaten = self.attack * y.prey * y.predator / (1 + self.attack * self.handling * y.prey)
        return self.State(
            prey=self.growth * y.prey * (1 - y.prey / self.capacity) - eaten,
            predator=self.conversion * eaten - self.death * y.predator,
        )

    @classmethod
    def example(cls) -> "Example[RosenzweigMacArthur]":
        return Example(cls(), cls.State(prey=1.0, predator=1.0), jnp.linspace(0.0, 60.0, 121))
