"""FitzHugh-Nagumo: an excitable cell in two variables."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, Input, PlainSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("fitzhugh_nagumo")
class FitzHughNagumo(PlainSystem):
    r"""An excitable cell: a large enough push sets off a pulse, a steady current a train of pulses.

    $$\frac{dv}{dt} = v - \frac{v^3}{3} - w + I, \qquad \tau \frac{dw}{dt} = v + a - b w$$

    with the voltage v, the recovery w, $a$ `offset`, $b$ `slope`, $\tau$ `timescale` and I the sum of `current` and of the
    optional input `current`. All are scaled.

    **Good values:** offset 0.7, slope 0.8, timescale 12.5; current 0 rests at (-1.1994, -0.6243), current 0.5 fires
    every 39.5 time units.

    **Reference:** FitzHugh (1961), Biophysical Journal 1:445, doi:10.1016/S0006-3495(61)86902-6; Nagumo, Arimoto & Yoshizawa
    (1962), Proc. IRE 50:2061, doi:10.1109/JRPROC.1962.288235.
    """

    class State(eqx.Module):
        """A voltage and what brings it back."""

        voltage: Scalar = quantity(doc="membrane voltage, scaled")
        recovery: Scalar = quantity(doc="slow recovery, scaled")

    offset: Scalar = quantity(0.7, support=POSITIVE, doc="offset of the recovery")
    slope: Scalar = quantity(0.8, support=POSITIVE, doc="self-damping of the recovery")
    timescale: Scalar = quantity(12.5, support=POSITIVE, doc="time of the recovery over that of the voltage")
    current: Scalar = quantity(0.5, doc="constant input current")

    def reads(self) -> dict[str, Input]:
        return {"current": Input(unit="1", default=0.0, doc="added to the applied current")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        current = self.current + optional_input(inputs, "current")
        return self.State(
            voltage=y.voltage - y.voltage**3 / 3 - y.recovery + current,
            recovery=(y.voltage + self.offset - self.slope * y.recovery) / self.timescale,
        )

    @classmethod
    def example(cls) -> "Example[FitzHughNagumo]":
        return Example(cls(), cls.State(voltage=-1.0, recovery=-0.5), jnp.linspace(0.0, 100.0, 201))
