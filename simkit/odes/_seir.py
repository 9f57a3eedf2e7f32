"""SEIR: an epidemic with a latent period."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("seir")
class SEIR(PlainSystem):
    r"""An epidemic of a disease that is latent before it is infectious.

    $$\frac{dS}{dt} = -\beta \frac{S I}{N}, \qquad \frac{dE}{dt} = \beta \frac{S I}{N} - \sigma E, \qquad
    \frac{dI}{dt} = \sigma E - \gamma I, \qquad \frac{dR}{dt} = \gamma I$$

    with the susceptible S, exposed E, infected I and recovered R persons, $N = S + E + I + R$, $\beta$ `transmission`,
    $\sigma$ `onset` and $\gamma$ `recovery`. N and $\ln S + \beta R / (\gamma N)$ are conserved.

    **Good values:** transmission 0.5, onset 0.2, recovery 0.1 per day from 9990 susceptible and 10 infected: a peak after
    about seven weeks.

    **Reference:** Anderson & May (1991), Infectious Diseases of Humans, Oxford University Press, chapter 6.
    """

    class State(eqx.Module):
        """A population by state of health."""

        susceptible: Scalar = quantity(unit="persons", support=POSITIVE, doc="can be infected")
        exposed: Scalar = quantity(unit="persons", support=POSITIVE, doc="infected, not yet infectious")
        infected: Scalar = quantity(unit="persons", support=POSITIVE, doc="infect others")
        recovered: Scalar = quantity(unit="persons", support=POSITIVE, doc="immune")

    transmission: Scalar = quantity(0.5, unit="1/day", support=POSITIVE, doc="infectious contacts per infected and day")
    onset: Scalar = quantity(0.2, unit="1/day", support=POSITIVE, doc="inverse of the latent period")
    recovery: Scalar = quantity(0.1, unit="1/day", support=POSITIVE, doc="inverse of the infectious period")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        population = y.susceptible + y.exposed + y.infected + y.recovered
        infections = self.transmission * y.susceptible * y.infected / population
        onsets, recoveries = self.onset * y.exposed, self.recovery * y.infected
        return self.State(
            susceptible=-infections,
            exposed=infections - onsets,
            infected=onsets - recoveries,
            recovered=recoveries,
        )

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        population = y.susceptible + y.exposed + y.infected + y.recovered
        spent = self.transmission * y.recovered / (self.recovery * population)
        return {"population": population, "final size": jnp.log(y.susceptible) + spent}

    @classmethod
    def example(cls) -> "Example[SEIR]":
        y0 = cls.State(susceptible=9990.0, exposed=0.0, infected=10.0, recovered=0.0)
        return Example(cls(), y0, jnp.linspace(0.0, 150.0, 76))
