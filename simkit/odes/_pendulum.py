"""Pendulum."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, Input, SeparableSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("pendulum")
class Pendulum(SeparableSystem):
    r"""A mass on a stiff rod, with an optional torque.

    $$\frac{d\theta}{dt} = \frac{L}{m l^2}, \qquad \frac{dL}{dt} = -m g l \sin \theta + \tau(t)$$

    with the angle $\theta$ from the downward vertical (`position`, rad), the angular momentum L (`momentum`, kg m^2/s), $m$
    `mass`, $l$ `length`, $g$ `gravity` and the optional input `torque` $\tau$ (N m). Without torque the energy is conserved, and
    released at rest from $\theta_0$ the period is $4 \sqrt{l / g} \, K(\sin^2 (\theta_0 / 2))$ with the complete elliptic
    integral K.

    **Good values:** 1 kg on 1 m, released at 1 rad: period 2.14 s.

    **Reference:** Landau & Lifshitz (1976), Mechanics, 3rd edition, section 11, problem 1.
    """

    mass: Scalar = quantity(1.0, unit="kg", support=POSITIVE, doc="at the end of the rod")
    length: Scalar = quantity(1.0, unit="m", support=POSITIVE, doc="of the rod")
    gravity: Scalar = quantity(9.81, unit="m/s^2", support=POSITIVE, doc="gravitational acceleration")

    def velocity(self, momentum: Array) -> Array:
        return momentum / (self.mass * self.length**2)

    def reads(self) -> dict[str, Input]:
        return {"torque": Input(unit="N m", default=0.0, doc="at the pivot")}

    def force(self, t: Float[Array, ""], position: Array, inputs: Inputs) -> Array:
        return optional_input(inputs, "torque") - self.mass * self.gravity * self.length * jnp.sin(position)

    def invariants(self, t: Float[Array, ""], y: SeparableSystem.State) -> dict[str, Array]:
        kinetic = y.momentum**2 / (2 * self.mass * self.length**2)
        return {"energy": kinetic - self.mass * self.gravity * self.length * jnp.cos(y.position)}

    @classmethod
    def example(cls) -> "Example[Pendulum]":
        return Example(cls(), cls.State(position=jnp.array(1.0), momentum=jnp.array(0.0)), jnp.linspace(0.0, 10.0, 201))
