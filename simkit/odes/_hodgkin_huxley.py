"""Hodgkin-Huxley: the action potential of the squid giant axon."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, UNIT_INTERVAL, Example, Input, PlainSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("hodgkin_huxley")
class HodgkinHuxley(PlainSystem):
    r"""A membrane with voltage-gated sodium and potassium channels that fires action potentials.

    $$C \frac{dV}{dt} = I - g_{Na} m^3 h (V - E_{Na}) - g_K n^4 (V - E_K) - g_L (V - E_L), \qquad
    \frac{dx}{dt} = \alpha_x(V) (1 - x) - \beta_x(V) x$$

    for the gates x = m (`sodium_activation`), h (`sodium_inactivation`) and n (`potassium_activation`), with $C$
    `capacitance`, $g$ the `conductance`s, $E$ the `reversal` potentials and I the sum of `current` and of the optional
    input `current` (uA/cm^2). The rates are those of the paper with the rest at -65 mV, time in ms.

    **Good values:** the defaults are the squid axon at 6.3 degrees Celsius, with rest at V = -65 mV, m = 0.0529, h = 0.5961,
    n = 0.3177; current 0 rests, current 10 fires every 14.6 ms.

    **Reference:** Hodgkin & Huxley (1952), J. Physiol. 117:500, doi:10.1113/jphysiol.1952.sp004764, equations 12 to 26.
    """

    class State(eqx.Module):
        """A membrane: its voltage and the open fractions of its gates."""

        voltage: Scalar = quantity(unit="mV", doc="inside minus outside")
        sodium_activation: Scalar = quantity(support=UNIT_INTERVAL, doc="m, the fast sodium gate")
        sodium_inactivation: Scalar = quantity(support=UNIT_INTERVAL, doc="h, the slow sodium gate")
        potassium_activation: Scalar = quantity(support=UNIT_INTERVAL, doc="n, the potassium gate")

    capacitance: Scalar = quantity(1.0, unit="uF/cm^2", support=POSITIVE, doc="of the membrane")
    sodium_conductance: Scalar = quantity(120.0, unit="mS/cm^2", support=POSITIVE, doc="all sodium gates open")
    potassium_conductance: Scalar = quantity(36.0, unit="mS/cm^2", support=POSITIVE, doc="all potassium gates open")
    leak_conductance: Scalar = quantity(0.3, unit="mS/cm^2", support=POSITIVE, doc="always open")
    sodium_reversal: Scalar = quantity(50.0, unit="mV", doc="voltage without sodium current")
    potassium_reversal: Scalar = quantity(-77.0, unit="mV", doc="voltage without potassium current")
    leak_reversal: Scalar = quantity(-54.387, unit="mV", doc="voltage without leak current")
    current: Scalar = quantity(10.0, unit="uA/cm^2", doc="constant injected current")

    def reads(self) -> dict[str, Input]:
        return {"current": Input(unit="uA/cm^2", default=0.0, doc="added to the applied current")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        v, m, h, n = y.voltage, y.sodium_activation, y.sodium_inactivation, y.potassium_activation
        sodium = self.sodium_conductance * m**3 * h * (v - self.sodium_reversal)
        potassium = self.potassium_conductance * n**4 * (v - self.potassium_reversal)
        leak = self.leak_conductance * (v - self.leak_reversal)
        current = self.current + optional_input(inputs, "current")
        return self.State(
            voltage=(current - sodium - potassium - leak) / self.capacitance,
            sodium_activation=expm1_ratio(-(v + 40) / 10) * (1 - m) - 4 * jnp.exp(-(v + 65) / 18) * m,
            sodium_inactivation=0.07 * jnp.exp(-(v + 65) / 20) * (1 - h) - jax.nn.sigmoid((v + 35) / 10) * h,
            potassium_activation=0.1 * expm1_ratio(-(v + 55) / 10) * (1 - n) - 0.125 * jnp.exp(-(v + 65) / 80) * n,
        )

    @classmethod
    def example(cls) -> "Example[HodgkinHuxley]":
        y0 = cls.State(voltage=-65.0, sodium_activation=0.0529, sodium_inactivation=0.5961, potassium_activation=0.3177)
        return Example(cls(), y0, jnp.linspace(0.0, 50.0, 501))


def expm1_ratio(x: Float[Array, ""]) -> Float[Array, ""]:
    """x / (exp(x) - 1), with the value 1 and every derivative right at the removable singularity x = 0."""
    # Below 0.05 the first term left out, x^8 / 1209600, is smaller than the rounding of 1.
    small = jnp.abs(x) < 0.05
    square = x * x
    series = 1 - x / 2 + square / 12 * (1 - square / 60 * (1 - square / 42))
    away = jnp.where(small, 1.0, x)  # `where` alone would pass on a NaN slope from the branch that is not taken
    return jnp.where(small, series, away / jnp.expm1(away))
