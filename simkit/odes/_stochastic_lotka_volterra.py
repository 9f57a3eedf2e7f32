"""Stochastic Lotka-Volterra: predator and prey in small numbers."""

from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, StochasticSystem, quantity


@SYSTEMS.named("stochastic_lotka_volterra")
class StochasticLotkaVolterra(StochasticSystem):
    r"""Lotka-Volterra with the chance of single births and deaths: the chemical Langevin equation of three reactions.

    $$dh = (a_1 - a_2) \, dt + \sqrt{a_1} \, dW_1 - \sqrt{a_2} \, dW_2, \qquad
    dl = (a_2 - a_3) \, dt + \sqrt{a_2} \, dW_2 - \sqrt{a_3} \, dW_3$$

    $$a_1 = \alpha h, \qquad a_2 = \beta h l, \qquad a_3 = \gamma l$$

    with the hares h and the lynx l, the rates of birth $a_1$, predation $a_2$ (a hare turns into a lynx) and death $a_3$,
    $\alpha$ `growth`, $\beta$ `predation` and $\gamma$ `death`. The equation is Ito's and holds for large numbers; where a
    number falls below 0 its rates count as 0.

    **Good values:** growth 1, predation 0.005, death 0.6 per year from 50 hares and 100 lynx.

    **Reference:** Gillespie (2000), J. Chem. Phys. 113:297, doi:10.1063/1.481811; the values are those of Wilkinson (2011),
    Stochastic Modelling for Systems Biology, 2nd edition, section 6.4.
    """

    class State(eqx.Module):
        """Numbers of a prey and of its predator."""

        hare: Scalar = quantity(unit="animals", support=POSITIVE, doc="prey")
        lynx: Scalar = quantity(unit="animals", support=POSITIVE, doc="predators")

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "general"

    growth: Scalar = quantity(1.0, unit="1/year", support=POSITIVE, doc="birth rate of the prey")
    predation: Scalar = quantity(0.005, unit="1/year", support=POSITIVE, doc="meetings that end in predation, per pair")
    death: Scalar = quantity(0.6, unit="1/year", support=POSITIVE, doc="death rate of the predators")

    def drift(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        birth, predation, death = self._rates(y)
        return self.State(hare=birth - predation, lynx=predation - death)

    def diffusion(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        birth, predation, death = (safe_sqrt(rate) for rate in self._rates(y))
        zero = jnp.zeros_like(birth)
        factors = jnp.stack([birth, -predation, zero]), jnp.stack([zero, predation, -death])
        return eqx.tree_at(lambda state: (state.hare, state.lynx), y, factors)

    def _rates(self, y: State) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
        hare, lynx = jnp.maximum(y.hare, 0), jnp.maximum(y.lynx, 0)
        return self.growth * hare, self.predation * hare * lynx, self.death * lynx

    @classmethod
    def example(cls) -> "Example[StochasticLotkaVolterra]":
        return Example(cls(), cls.State(hare=50.0, lynx=100.0), jnp.linspace(0.0, 20.0, 201))


def safe_sqrt(x: Float[Array, ""]) -> Float[Array, ""]:
    """The square root, with slope 0 instead of infinity at 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)
