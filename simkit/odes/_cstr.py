"""CSTR: an exothermic reaction in a stirred tank."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, Input, PlainSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("cstr")
class CSTR(PlainSystem):
    r"""A continuously stirred tank with a cooling jacket, in which a reaction heats itself.

    $$\frac{dc}{dt} = d (c_f - c) - k_0 e^{-E / T} c, \qquad
    \frac{dT}{dt} = d (T_f - T) + \eta k_0 e^{-E / T} c + u (T_c - T)$$

    with the concentration c, the temperature T, $d$ `dilution`, $c_f$ `feed_concentration`, $T_f$ `feed_temperature`, $k_0$
    `frequency`, $E$ `activation` (the activation energy over the gas constant), $\eta$ `heating`, $u$ `cooling`, and $T_c$
    the sum of `coolant` and of the optional input `coolant` (K).

    **Good values:** the defaults with coolant at 305 K: a cycle of 2.2 min. At 300 K the steady state at 0.5 mol/L and 350 K is
    unstable and the tank ends cold, at 324 K; with coolant at 310 K it ends hot, at 384 K.

    **Reference:** Uppal, Ray & Poore (1974), Chemical Engineering Science 29:967, doi:10.1016/0009-2509(74)80089-8; the values
    are those of Seborg, Edgar & Mellichamp (2004), Process Dynamics and Control, 2nd edition, example 2.5.
    """

    class State(eqx.Module):
        """State of a stirred tank."""

        concentration: Scalar = quantity(unit="mol/L", support=POSITIVE, doc="of the reactant")
        temperature: Scalar = quantity(unit="K", support=POSITIVE, doc="of the tank")

    dilution: Scalar = quantity(1.0, unit="1/min", support=POSITIVE, doc="flow over volume")
    feed_concentration: Scalar = quantity(1.0, unit="mol/L", support=POSITIVE, doc="reactant in the feed")
    feed_temperature: Scalar = quantity(350.0, unit="K", support=POSITIVE, doc="of the feed")
    frequency: Scalar = quantity(7.2e10, unit="1/min", support=POSITIVE, doc="Arrhenius factor of the reaction")
    activation: Scalar = quantity(8750.0, unit="K", support=POSITIVE, doc="activation energy over the gas constant")
    heating: Scalar = quantity(209.2050209205021, unit="K L/mol", support=POSITIVE, doc="warming per reactant consumed")
    cooling: Scalar = quantity(2.092050209205021, unit="1/min", support=POSITIVE, doc="heat transfer to the jacket")
    coolant: Scalar = quantity(305.0, unit="K", support=POSITIVE, doc="constant temperature of the jacket")

    def reads(self) -> dict[str, Input]:
        return {"coolant": Input(unit="K", default=0.0, doc="added to the temperature of the coolant")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        reaction = self.frequency * jnp.exp(-self.activation / y.temperature) * y.concentration
        coolant = self.coolant + optional_input(inputs, "coolant")
        warming = self.dilution * (self.feed_temperature - y.temperature) + self.cooling * (coolant - y.temperature)
        return self.State(
            concentration=self.dilution * (self.feed_concentration - y.concentration) - reaction,
            temperature=warming + self.heating * reaction,
        )

    @classmethod
    def example(cls) -> "Example[CSTR]":
        return Example(cls(), cls.State(concentration=0.6, temperature=345.0), jnp.linspace(0.0, 10.0, 201))
