"""Harmonic oscillator."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, SeparableSystem, quantity


@SYSTEMS.named("harmonic_oscillator")
class HarmonicOscillator(SeparableSystem):
    r"""A mass on a spring.

    $$\frac{dq}{dt} = \frac{p}{m}, \qquad \frac{dp}{dt} = -k q$$

    with the position q (m), the momentum p (kg m/s), both of any one shape, $m$ `mass` and $k$ `stiffness`. The energy is
    conserved, and $q(t) = q(0) \cos \omega t + \frac{p(0)}{m \omega} \sin \omega t$ with $\omega = \sqrt{k / m}$.

    **Good values:** mass 1 kg and stiffness 1 N/m from position 1 m: period 2 pi s.

    **Reference:** Landau & Lifshitz (1976), Mechanics, 3rd edition, section 21.
    """

    mass: Scalar = quantity(1.0, unit="kg", support=POSITIVE, doc="of the body")
    stiffness: Scalar = quantity(1.0, unit="N/m", support=POSITIVE, doc="of the spring")

    def velocity(self, momentum: Array) -> Array:
        return momentum / self.mass

    def force(self, t: Float[Array, ""], position: Array, inputs: Inputs) -> Array:
        return -self.stiffness * position

    def invariants(self, t: Float[Array, ""], y: SeparableSystem.State) -> dict[str, Array]:
        return {"energy": jnp.sum(y.momentum**2) / (2 * self.mass) + self.stiffness * jnp.sum(y.position**2) / 2}

    @classmethod
    def example(cls) -> "Example[HarmonicOscillator]":
        return Example(cls(), cls.State(position=jnp.array(1.0), momentum=jnp.array(0.0)), jnp.linspace(0.0, 20.0, 201))
