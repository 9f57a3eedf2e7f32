"""Lorenz 1963: chaos in convection."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("lorenz63")
class Lorenz63(PlainSystem):
    r"""A fluid heated from below, cut down to three amplitudes: the first strange attractor.

    $$\frac{dx}{dt} = \sigma (y - x), \qquad \frac{dy}{dt} = x (\rho - z) - y, \qquad \frac{dz}{dt} = x y - \beta z$$

    with $\sigma$ `prandtl`, $\rho$ `rayleigh` and $\beta$ `aspect`. The rolls at rest are the fixed points
    $x = y = \pm \sqrt{\beta (\rho - 1)}$, $z = \rho - 1$.

    **Good values:** prandtl 10, rayleigh 28, aspect 8/3: chaos, errors grow by a factor e in 1.1 time units.

    **Reference:** Lorenz (1963), J. Atmos. Sci. 20:130, doi:10.1175/1520-0469(1963)020<0130:DNF>2.0.CO;2.
    """

    class State(eqx.Module):
        """Three amplitudes of a convection roll."""

        x: Scalar = quantity(doc="strength of the convection")
        y: Scalar = quantity(doc="temperature difference across the roll")
        z: Scalar = quantity(doc="deviation from a linear temperature profile")

    prandtl: Scalar = quantity(10.0, support=POSITIVE, doc="viscosity over thermal diffusivity")
    rayleigh: Scalar = quantity(28.0, support=POSITIVE, doc="heating, in units of where convection sets in")
    aspect: Scalar = quantity(8.0 / 3.0, support=POSITIVE, doc="4 / (1 + a^2) for the wave number a of the roll")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        return self.State(
            x=self.prandtl * (y.y - y.x), y=y.x * (self.rayleigh - y.z) - y.y, z=y.x * y.y - self.aspect * y.z
        )

    @classmethod
    def example(cls) -> "Example[Lorenz63]":
        return Example(cls(), cls.State(x=1.0, y=1.0, z=1.0), jnp.linspace(0.0, 20.0, 1001))
