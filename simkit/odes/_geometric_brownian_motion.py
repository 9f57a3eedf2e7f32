"""Geometric Brownian motion: growth with noise."""

from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, StochasticSystem, quantity


@SYSTEMS.named("geometric_brownian_motion")
class GeometricBrownianMotion(StochasticSystem):
    r"""A value whose relative growth is a constant and noise, in Ito's sense.

    $$dx = \mu x \, dt + \sigma x \, dW, \qquad x(t) = x(0) \exp \left((\mu - \sigma^2 / 2) t + \sigma W(t)\right)$$

    with $\mu$ `growth` and $\sigma$ `volatility`. The mean is $x(0) e^{\mu t}$, the variance
    $x(0)^2 e^{2 \mu t} (e^{\sigma^2 t} - 1)$.

    **Good values:** growth 0.1 and volatility 0.2 per year from 1: a share.

    **Reference:** Black & Scholes (1973), J. Political Economy 81:637, doi:10.1086/260062.
    """

    class State(eqx.Module):
        """A price or a population."""

        x: Scalar = quantity(support=POSITIVE, doc="the value")

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "diagonal"

    growth: Scalar = quantity(0.1, unit="1/year", doc="mean relative growth")
    volatility: Scalar = quantity(0.2, unit="1/year^0.5", support=POSITIVE, doc="strength of the noise")

    def drift(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(x=self.growth * y.x)

    def diffusion(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(x=self.volatility * y.x)

    @classmethod
    def example(cls) -> "Example[GeometricBrownianMotion]":
        return Example(cls(), cls.State(x=1.0), jnp.linspace(0.0, 5.0, 101))
