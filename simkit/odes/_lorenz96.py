"""Lorenz 1996: weather on a circle of latitude."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar, Vector
from ..core import SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("lorenz96")
class Lorenz96(PlainSystem):
    r"""Advection, damping and forcing on a circle: a small model of the predictability of weather.

    $$\frac{dx_i}{dt} = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + F$$

    with the n components of `x` on a circle and $F$ `forcing`. Without damping and forcing $\sum x_i^2$ is conserved. The
    equilibrium $x_i = F$ is unstable for F above 8/9.

    **Good values:** forcing 8 with 40 components: chaos; a time unit stands for five days.

    **Reference:** Lorenz (1996), Predictability: a problem partly solved, ECMWF Seminar on Predictability, volume 1.
    """

    class State(eqx.Module):
        """A quantity of the atmosphere at equally spaced places on a circle of latitude."""

        x: Vector = quantity(doc="scaled, shape (n,) with n of at least 4")

    forcing: Scalar = quantity(8.0, doc="constant forcing")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        advection = (jnp.roll(y.x, -1) - jnp.roll(y.x, 2)) * jnp.roll(y.x, 1)
        return self.State(x=advection - y.x + self.forcing)

    @classmethod
    def example(cls) -> "Example[Lorenz96]":
        return Example(cls(), cls.State(x=jnp.full(40, 8.0).at[0].add(0.01)), jnp.linspace(0.0, 10.0, 201))
