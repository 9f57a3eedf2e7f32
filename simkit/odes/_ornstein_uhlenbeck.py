"""Ornstein-Uhlenbeck: noise with a memory."""

from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, StochasticSystem, quantity


@SYSTEMS.named("ornstein_uhlenbeck")
class OrnsteinUhlenbeck(StochasticSystem):
    r"""A value that is pulled back to its mean and pushed by noise.

    $$dx = \theta (m - x) \, dt + \sigma \, dW$$

    with $\theta$ `reversion`, $m$ `mean` and $\sigma$ `volatility`. x(t) is normal with mean
    $m + (x(0) - m) e^{-\theta t}$ and variance $\sigma^2 (1 - e^{-2 \theta t}) / (2 \theta)$.

    **Good values:** reversion 1, mean 0, volatility 0.5 from 1: standard deviation 0.354 in the long run.

    **Reference:** Uhlenbeck & Ornstein (1930), Physical Review 36:823, doi:10.1103/PhysRev.36.823.
    """

    class State(eqx.Module):
        """A value that wanders around its mean."""

        x: Scalar = quantity(doc="the value")

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "additive"

    reversion: Scalar = quantity(1.0, unit="1/s", support=POSITIVE, doc="rate of the return to the mean")
    mean: Scalar = quantity(0.0, doc="mean in the long run")
    volatility: Scalar = quantity(0.5, unit="1/s^0.5", support=POSITIVE, doc="strength of the noise")

    def drift(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(x=self.reversion * (self.mean - y.x))

    def diffusion(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(x=self.volatility)

    @classmethod
    def example(cls) -> "Example[OrnsteinUhlenbeck]":
        return Example(cls(), cls.State(x=1.0), jnp.linspace(0.0, 10.0, 101))
