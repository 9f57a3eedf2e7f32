"""Two compartments with saturable elimination: repeated infusions."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, Input, PlainSystem, Pulses, quantity
from ._inputs import optional_input


@SYSTEMS.named("two_compartment")
class TwoCompartment(PlainSystem):
    r"""A drug that spreads into tissue and leaves through an enzyme that can be saturated.

    $$\frac{dA_1}{dt} = u(t) - \frac{V_m C_1}{K_m + C_1} - Q (C_1 - C_2), \qquad \frac{dA_2}{dt} = Q (C_1 - C_2), \qquad
    C_i = \frac{A_i}{V_i}$$

    with the amounts $A_1$ `central` and $A_2$ `peripheral`, $V_m$ `max_elimination`, $K_m$ `michaelis`, $Q$ `exchange`, $V_1$
    `central_volume`, $V_2$ `peripheral_volume` and the optional input `dose` u (mg/h). A dose given at once is an initial
    amount, an infusion or a series of them a signal such as `simkit.Pulses`.

    **Good values:** the defaults with 300 mg infused over one hour every 24 hours: phenytoin.

    **Reference:** Rowland & Tozer (2011), Clinical Pharmacokinetics and Pharmacodynamics, 4th edition, chapters 16 and 19.
    """

    class State(eqx.Module):
        """Amounts of a drug."""

        central: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the plasma and what mixes with it at once")
        peripheral: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the tissue")

    class Outputs(eqx.Module):
        """Outputs: the concentration in a blood sample, and the amounts."""

        concentration: Scalar = quantity(unit="mg/L", support=POSITIVE, doc="in the plasma")
        central: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the plasma and what mixes with it at once")
        peripheral: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the tissue")

    max_elimination: Scalar = quantity(21.0, unit="mg/h", support=POSITIVE, doc="elimination by the saturated enzyme")
    michaelis: Scalar = quantity(5.0, unit="mg/L", support=POSITIVE, doc="concentration of half the elimination")
    exchange: Scalar = quantity(10.0, unit="L/h", support=POSITIVE, doc="flow between the compartments")
    central_volume: Scalar = quantity(25.0, unit="L", support=POSITIVE, doc="volume of the central compartment")
    peripheral_volume: Scalar = quantity(25.0, unit="L", support=POSITIVE, doc="volume of the peripheral compartment")

    def reads(self) -> dict[str, Input]:
        return {"dose": Input(unit="mg/h", default=0.0, doc="into the central compartment")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        central, peripheral = y.central / self.central_volume, y.peripheral / self.peripheral_volume
        eliminated = self.max_elimination * central / (self.michaelis + central)
        spread = self.exchange * (central - peripheral)
        return self.State(central=optional_input(inputs, "dose") - eliminated - spread, peripheral=spread)

    def outputs(self, t: Float[Array, ""], y: State, inputs: Inputs) -> Outputs:
        return self.Outputs(y.central / self.central_volume, central=y.central, peripheral=y.peripheral)

    @classmethod
    def example(cls) -> "Example[TwoCompartment]":
        starts = jnp.array([24.0, 48.0, 72.0])
        dose = Pulses(times=starts, amounts=jnp.full_like(starts, 300.0), duration=1.0)
        y0 = cls.State(central=300.0, peripheral=0.0)
        return Example(cls(), y0, jnp.linspace(0.0, 96.0, 193), {"dose": dose})
