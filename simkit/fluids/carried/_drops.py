"""Small drops with Stokes' drag."""

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Input, PlainSystem, quantity


@SYSTEMS.named("drops")
class Drops(PlainSystem):
    r"""Drops that are small and heavy enough for Stokes' drag alone:

    $$\dot x = v, \qquad \dot v = \frac{u - v}{\tau} + g$$

    with positions x `position` and velocities v `velocity`, both `(drops, dimensions)`, the velocity u of the fluid at the drops,
    an input of the same shape, $\tau$ `response_time` and g `gravity`. For spheres of diameter d and density $\rho_d$ in a fluid of
    viscosity $\nu$ and a much smaller density $\rho$, $\tau = \rho_d d^2 / (18 \rho \nu)$. A steady stream is reached as $e^{-t /
    \tau}$, and drops fall at $g \tau$ through a fluid at rest. In a flow that turns over in a time T the number $\tau / T$ tells
    drops that follow it (below 0.1) from those that cross it (above 10).

    **Good values:** a response time of 0.01 to 10 turnover times. Very short ones are stiff.

    **Reference:** Maxey & Riley (1983), Physics of Fluids 26:883, doi:10.1063/1.864230, in the limit of heavy drops.
    """

    class State(eqx.Module):
        """Places and velocities of drops."""

        position: Float[Array, "drops dimensions"] = quantity(unit="length", doc="of the drops")
        velocity: Float[Array, "drops dimensions"] = quantity(unit="length/time", doc="of the drops")

    response_time: Scalar = quantity(
        0.1, unit="time", support=POSITIVE, doc="in which drops take up the fluid's velocity"
    )
    gravity: Float[Array, " dimensions"] = quantity((0.0, 0.0), unit="length/time2", doc="acceleration of the drops")

    def reads(self) -> dict[str, Input]:
        return {"velocity": Input(unit="length/time", doc="of the fluid at the drops, (drops, dimensions)")}

    def vector_field(self, t: ArrayLike, y: State, inputs: Inputs) -> State:
        return self.State(y.velocity, self.pull(y, inputs["velocity"]) + self.gravity[None])

    def pull(self, y: State, velocity: Array) -> Array:
        """The acceleration of the drops by the drag of a fluid with this velocity, `(drops, dimensions)`."""
        return (velocity - y.velocity) / self.response_time

    @classmethod
    def example(cls) -> "Example[Drops]":
        y0 = cls.State(jnp.zeros((2, 2)), jnp.zeros((2, 2)))
        return Example(cls(), y0, jnp.linspace(0.0, 1.0, 11), {"velocity": jnp.array([[1.0, 0.0], [0.0, 0.5]])})
