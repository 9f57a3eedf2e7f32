"""Morris-Lecar: a muscle fibre that oscillates."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, UNIT_INTERVAL, Example, Input, PlainSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("morris_lecar")
class MorrisLecar(PlainSystem):
    r"""A membrane with calcium channels that open at once and potassium channels that open slowly.

    $$C \frac{dV}{dt} = I - g_{Ca} m_\infty(V) (V - E_{Ca}) - g_K n (V - E_K) - g_L (V - E_L), \qquad
    \frac{dn}{dt} = \phi \frac{n_\infty(V) - n}{\tau(V)}$$

    $$m_\infty = \tfrac12 \left(1 + \tanh \frac{V - V_1}{V_2}\right), \quad
    n_\infty = \tfrac12 \left(1 + \tanh \frac{V - V_3}{V_4}\right), \quad \tau = 1 / \cosh \frac{V - V_3}{2 V_4}$$

    with the voltage V, the open fraction n, $C$ `capacitance`, $g$ the `conductance`s, $E$ the `reversal` potentials, $V_1$,
    $V_3$ the `midpoint`s, $V_2$, $V_4$ the `width`s, $\phi$ `rate`, and I the sum of `current` and of the optional input
    `current`.

    **Good values:** the defaults; current 80 rests, current 100 fires every 85 ms.

    **Reference:** Morris & Lecar (1981), Biophysical Journal 35:193, doi:10.1016/S0006-3495(81)84782-0; the values are those
    of Rinzel & Ermentrout (1998), Methods in Neuronal Modeling, chapter 7.
    """

    class State(eqx.Module):
        """A membrane: its voltage and the open fraction of its potassium channels."""

        voltage: Scalar = quantity(unit="mV", doc="inside minus outside")
        potassium_activation: Scalar = quantity(support=UNIT_INTERVAL, doc="open fraction of the potassium channels")

    capacitance: Scalar = quantity(20.0, unit="uF/cm^2", support=POSITIVE, doc="of the membrane")
    calcium_conductance: Scalar = quantity(4.4, unit="mS/cm^2", support=POSITIVE, doc="all calcium channels open")
    potassium_conductance: Scalar = quantity(8.0, unit="mS/cm^2", support=POSITIVE, doc="all potassium channels open")
    leak_conductance: Scalar = quantity(2.0, unit="mS/cm^2", support=POSITIVE, doc="always open")
    calcium_reversal: Scalar = quantity(120.0, unit="mV", doc="voltage without calcium current")
    potassium_reversal: Scalar = quantity(-84.0, unit="mV", doc="voltage without potassium current")
    leak_reversal: Scalar = quantity(-60.0, unit="mV", doc="voltage without leak current")
    calcium_midpoint: Scalar = quantity(-1.2, unit="mV", doc="half of the calcium channels open")
    calcium_width: Scalar = quantity(18.0, unit="mV", support=POSITIVE, doc="width of that transition")
    potassium_midpoint: Scalar = quantity(2.0, unit="mV", doc="half of the potassium channels open")
    potassium_width: Scalar = quantity(30.0, unit="mV", support=POSITIVE, doc="width of that transition")
    rate: Scalar = quantity(0.04, unit="1/ms", support=POSITIVE, doc="slowest rate of the potassium channels")
    current: Scalar = quantity(100.0, unit="uA/cm^2", doc="constant injected current")

    def reads(self) -> dict[str, Input]:
        return {"current": Input(unit="uA/cm^2", default=0.0, doc="added to the applied current")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        v, n = y.voltage, y.potassium_activation
        m = 0.5 * (1 + jnp.tanh((v - self.calcium_midpoint) / self.calcium_width))
        bend = (v - self.potassium_midpoint) / self.potassium_width
        calcium = self.calcium_conductance * m * (v - self.calcium_reversal)
        potassium = self.potassium_conductance * n * (v - self.potassium_reversal)
        leak = self.leak_conductance * (v - self.leak_reversal)
        current = self.current + optional_input(inputs, "current")
        return self.State(
            voltage=(current - calcium - potassium - leak) / self.capacitance,
            potassium_activation=self.rate * (0.5 * (1 + jnp.tanh(bend)) - n) * jnp.cosh(bend / 2),
        )

    @classmethod
    def example(cls) -> "Example[MorrisLecar]":
        return Example(cls(), cls.State(voltage=-20.0, potassium_activation=0.1), jnp.linspace(0.0, 300.0, 301))
