"""One compartment with first-order absorption: a swallowed drug."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, Input, PlainSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("one_compartment")
class OneCompartment(PlainSystem):
    r"""A drug that is absorbed from the gut and cleared from one well-mixed volume.

    $$\frac{dA_d}{dt} = u(t) - k_a A_d, \qquad \frac{dA_c}{dt} = k_a A_d - \frac{CL}{V} A_c, \qquad C = \frac{A_c}{V}$$

    with the amounts $A_d$ `depot` and $A_c$ `central`, $k_a$ `absorption`, $CL$ `clearance`, $V$ `volume` and the optional
    input `dose` u (mg/h). A dose D at t = 0 is an initial depot, and then, with $k_e = CL / V$, Bateman's function holds:
    $C = \frac{D}{V} \frac{k_a}{k_a - k_e} (e^{-k_e t} - e^{-k_a t})$.

    **Good values:** absorption 1.5 per h, clearance 2.8 L/h, volume 32 L from a dose of 320 mg: theophylline.

    **Reference:** Bateman (1910), Proc. Cambridge Phil. Soc. 15:423; Rowland & Tozer (2011), Clinical Pharmacokinetics and
    Pharmacodynamics, 4th edition, chapter 6.
    """

    class State(eqx.Module):
        """Amounts of a drug."""

        depot: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the gut, not yet absorbed")
        central: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the body")

    class Outputs(eqx.Module):
        """Outputs: the concentration in a blood sample, and the amounts."""

        concentration: Scalar = quantity(unit="mg/L", support=POSITIVE, doc="in the plasma")
        depot: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the gut, not yet absorbed")
        central: Scalar = quantity(unit="mg", support=POSITIVE, doc="in the body")

    absorption: Scalar = quantity(1.5, unit="1/h", support=POSITIVE, doc="rate of absorption")
    clearance: Scalar = quantity(2.8, unit="L/h", support=POSITIVE, doc="volume cleared per time")
    volume: Scalar = quantity(32.0, unit="L", support=POSITIVE, doc="volume of distribution")

    def reads(self) -> dict[str, Input]:
        return {"dose": Input(unit="mg/h", default=0.0, doc="into the depot")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        absorbed = self.absorption * y.depot
        return self.State(
            depot=optional_input(inputs, "dose") - absorbed,
            central=absorbed - self.clearance / self.volume * y.central,
        )

    def outputs(self, t: Float[Array, ""], y: State, inputs: Inputs) -> Outputs:
        return self.Outputs(concentration=y.central / self.volume, depot=y.depot, central=y.central)

    @classmethod
    def example(cls) -> "Example[OneCompartment]":
        return Example(cls(), cls.State(depot=320.0, central=0.0), jnp.linspace(0.0, 25.0, 101))
