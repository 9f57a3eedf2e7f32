"""SIR: an epidemic in a closed population."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("sir")
class SIR(PlainSystem):
    r"""An epidemic that runs through a population and leaves the recovered immune.

    $$\frac{dS}{dt} = -\beta \frac{S I}{N}, \qquad \frac{dI}{dt} = \beta \frac{S I}{N} - \gamma I, \qquad
    \frac{dR}{dt} = \gamma I$$

    with the susceptible S, infected I and recovered R persons, $N = S + I + R$, $\beta$ `transmission` and $\gamma$
    `recovery`. Each case infects $\beta / \gamma$ others at first. N and $\ln S + \beta R / (\gamma N)$ are conserved, which
    fixes the final size of the epidemic.

    **Good values:** transmission 1.66 and recovery 0.4545 per day from 762 susceptible and 1 infected: influenza in a boarding
    school.

    **Reference:** Kermack & McKendrick (1927), Proc. R. Soc. A 115:700, doi:10.1098/rspa.1927.0118.
    """

    class State(eqx.Module):
        """A population by state of health."""

        susceptible: Scalar = quantity(unit="persons", support=POSITIVE, doc="can be infected")
        infected: Scalar = quantity(unit="persons", support=POSITIVE, doc="infect others")
        recovered: Scalar = quantity(unit="persons", support=POSITIVE, doc="immune")

    transmission: Scalar = quantity(
        1.66, unit="1/day", support=POSITIVE, doc="infectious contacts per infected and day"
    )
    recovery: Scalar = quantity(0.4545, unit="1/day", support=POSITIVE, doc="inverse of the infectious period")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        infections = self.transmission * y.susceptible * y.infected / (y.susceptible + y.infected + y.recovered)
        recoveries = self.recovery * y.infected
        return self.State(susceptible=-infections, infected=infections - recoveries, recovered=recoveries)

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        population = y.susceptible + y.infected + y.recovered
        spent = self.transmission * y.recovered / (self.recovery * population)
        return {"population": population, "final size": jnp.log(y.susceptible) + spent}

    @classmethod
    def example(cls) -> "Example[SIR]":
        y0 = cls.State(susceptible=762.0, infected=1.0, recovered=0.0)
        return Example(cls(), y0, jnp.linspace(0.0, 15.0, 31))
