"""Lotka-Volterra: predator and prey."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("lotka_volterra")
class LotkaVolterra(PlainSystem):
    r"""A prey that grows and a predator that lives on it; populations swing around a fixed point.

    $$\frac{dh}{dt} = \alpha h - \beta h l, \qquad \frac{dl}{dt} = \delta h l - \gamma l$$

    with the hares h and the lynx l (thousands), $\alpha$ `growth`, $\beta$ `predation`, $\gamma$ `death` and $\delta$
    `conversion`. $V = \delta h - \gamma \ln h + \beta l - \alpha \ln l$ is conserved.

    **Good values:** growth 0.55, predation 0.028, death 0.8, conversion 0.024 from 30 hares and 4 lynx: cycles of about ten
    years, as in the pelts of the Hudson's Bay Company.

    **Reference:** Lotka (1925), Elements of Physical Biology; Volterra (1926), Nature 118:558, doi:10.1038/118558a0.
    """

    class State(eqx.Module):
        """A prey and its predator."""

        hare: Scalar = quantity(unit="thousand", support=POSITIVE, doc="prey")
        lynx: Scalar = quantity(unit="thousand", support=POSITIVE, doc="predators")

    growth: Scalar = quantity(0.55, unit="1/year", support=POSITIVE, doc="birth rate of the prey")
    predation: Scalar = quantity(0.028, unit="1/(year thousand)", support=POSITIVE, doc="prey eaten per predator")
    death: Scalar = quantity(0.8, unit="1/year", support=POSITIVE, doc="death rate of the predators")
    conversion: Scalar = quantity(0.024, unit="1/(year thousand)", support=POSITIVE, doc="predators born per prey")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(
            hare=(self.growth - self.predation * y.lynx) * y.hare,
            lynx=(self.conversion * y.hare - self.death) * y.lynx,
        )

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        prey = self.conversion * y.hare - self.death * jnp.log(y.hare)
        return {"V": prey + self.predation * y.lynx - self.growth * jnp.log(y.lynx)}

    @classmethod
    def example(cls) -> "Example[LotkaVolterra]":
        return Example(cls(), cls.State(hare=30.0, lynx=4.0), jnp.linspace(0.0, 20.0, 81))
