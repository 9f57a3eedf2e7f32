"""A cart that balances a pole."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, Input, PlainSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("cart_pole")
class CartPole(PlainSystem):
    r"""A uniform pole hinged to a cart that a force pushes along a rail.

    $$\ddot\theta = \frac{g \sin\theta - a \cos\theta - \mu_p \dot\theta / (m l)}
    {l \left(\frac43 - \frac{m \cos^2\theta}{M + m}\right)}, \qquad \ddot x = a - \frac{m l}{M + m} \ddot\theta \cos\theta, \qquad
    a = \frac{F - \mu_c \dot x + m l \dot\theta^2 \sin\theta}{M + m}$$

    with the cart at x, the angle $\theta$ from the upward vertical, $M$ `cart_mass`, $m$ `pole_mass`, $l$ `half_length`,
    $g$ `gravity`, viscous friction $\mu_c$ `cart_friction` and $\mu_p$ `pole_friction`, and the optional input `force` F (N).
    Without force and friction the energy is conserved. A pole that hangs swings with the square of the angular frequency
    $g / (l (\frac43 - \frac{m}{M + m}))$, and one that stands falls at that rate.

    **Good values:** the defaults, a metre of pole of 0.1 kg on a cart of 1 kg, and forces of up to 10 N.

    **Reference:** Barto, Sutton & Anderson (1983), IEEE Transactions on Systems, Man and Cybernetics 13:834,
    doi:10.1109/TSMC.1983.6313077; with the signs and the viscous friction of Florian (2007), Correct equations for the dynamics
    of the cart-pole system.
    """

    class State(eqx.Module):
        """A cart on a rail and the pole on its hinge."""

        position: Scalar = quantity(unit="m", doc="of the cart")
        velocity: Scalar = quantity(unit="m/s", doc="of the cart")
        angle: Scalar = quantity(unit="rad", doc="of the pole from the upward vertical")
        spin: Scalar = quantity(unit="rad/s", doc="how fast the angle changes")

    cart_mass: Scalar = quantity(1.0, unit="kg", support=POSITIVE, doc="of the cart")
    pole_mass: Scalar = quantity(0.1, unit="kg", support=POSITIVE, doc="of the pole")
    half_length: Scalar = quantity(0.5, unit="m", support=POSITIVE, doc="from the hinge to the middle of the pole")
    gravity: Scalar = quantity(9.81, unit="m/s^2", support=POSITIVE, doc="gravitational acceleration")
    cart_friction: Scalar = quantity(0.0, unit="N s/m", doc="between cart and rail")
    pole_friction: Scalar = quantity(0.0, unit="N m s", doc="in the hinge")

    def reads(self) -> dict[str, Input]:
        return {"force": Input(unit="N", default=0.0, doc="on the cart, along the rail")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        sine, cosine = jnp.sin(y.angle), jnp.cos(y.angle)
        whole, arm = self.cart_mass + self.pole_mass, self.pole_mass * self.half_length
        push = optional_input(inputs, "force") - self.cart_friction * y.velocity
        free = (push + arm * y.spin**2 * sine) / whole
        torque = self.gravity * sine - free * cosine - self.pole_friction * y.spin / arm
        turning = torque / (self.half_length * (4 / 3 - self.pole_mass * cosine**2 / whole))
        return self.State(
            position=y.velocity,
            velocity=free - arm / whole * turning * cosine,
            angle=y.spin,
            spin=turning,
        )

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        arm, cosine = self.pole_mass * self.half_length, jnp.cos(y.angle)
        kinetic = (
            0.5 * (self.cart_mass + self.pole_mass) * y.velocity**2
            + arm * y.velocity * y.spin * cosine
            + 2 / 3 * arm * self.half_length * y.spin**2
        )
        return {"energy": kinetic + arm * self.gravity * cosine}

    @classmethod
    def example(cls) -> "Example[CartPole]":
        y0 = cls.State(position=0.0, velocity=0.0, angle=0.1, spin=0.0)
        return Example(cls(), y0, jnp.linspace(0.0, 5.0, 101))
