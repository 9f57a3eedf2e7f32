"""Double pendulum."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("double_pendulum")
class DoublePendulum(PlainSystem):
    r"""Two masses on two stiff rods, one below the other: chaos on a desk.

    The angles $\theta_1$, $\theta_2$ (`upper_angle`, `lower_angle`) obey Lagrange's equations, with
    $\Delta = \theta_1 - \theta_2$ and $M = m_1 + m_2$,

    $$M l_1 \ddot\theta_1 + m_2 l_2 \ddot\theta_2 \cos \Delta = -m_2 l_2 \dot\theta_2^2 \sin \Delta - M g \sin \theta_1$$

    $$l_1 \ddot\theta_1 \cos \Delta + l_2 \ddot\theta_2 = l_1 \dot\theta_1^2 \sin \Delta - g \sin \theta_2$$

    with $m$ the `mass`es, $l$ the `length`s and $g$ `gravity`. The energy is conserved.

    **Good values:** 1 kg on 1 m twice, released at 2 rad and 2.5 rad: chaos.

    **Reference:** Landau & Lifshitz (1976), Mechanics, 3rd edition, section 5, problem 1 (the Lagrangian); Shinbrot et al.
    (1992), Am. J. Physics 60:491, doi:10.1119/1.16860.
    """

    class State(eqx.Module):
        """Angles from the downward vertical and their rates, of the upper and the lower rod."""

        upper_angle: Scalar = quantity(unit="rad", doc="of the upper rod")
        lower_angle: Scalar = quantity(unit="rad", doc="of the lower rod")
        upper_rate: Scalar = quantity(unit="rad/s", doc="angular velocity of the upper rod")
        lower_rate: Scalar = quantity(unit="rad/s", doc="angular velocity of the lower rod")

    upper_mass: Scalar = quantity(1.0, unit="kg", support=POSITIVE, doc="between the rods")
    lower_mass: Scalar = quantity(1.0, unit="kg", support=POSITIVE, doc="at the end")
    upper_length: Scalar = quantity(1.0, unit="m", support=POSITIVE, doc="of the upper rod")
    lower_length: Scalar = quantity(1.0, unit="m", support=POSITIVE, doc="of the lower rod")
    gravity: Scalar = quantity(9.81, unit="m/s^2", support=POSITIVE, doc="gravitational acceleration")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        total, share = self.upper_mass + self.lower_mass, self.lower_mass / (self.upper_mass + self.lower_mass)
        sin, cos = jnp.sin(y.upper_angle - y.lower_angle), jnp.cos(y.upper_angle - y.lower_angle)
        # Right-hand sides of the two equations, the first over the total mass; then Cramer's rule.
        first = -share * self.lower_length * y.lower_rate**2 * sin - self.gravity * jnp.sin(y.upper_angle)
        second = self.upper_length * y.upper_rate**2 * sin - self.gravity * jnp.sin(y.lower_angle)
        determinant = (self.upper_mass + self.lower_mass * sin**2) / total
        return self.State(
            upper_angle=y.upper_rate,
            lower_angle=y.lower_rate,
            upper_rate=(first - share * cos * second) / (self.upper_length * determinant),
            lower_rate=(second - cos * first) / (self.lower_length * determinant),
        )

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        upper, lower = self.upper_length * y.upper_rate, self.lower_length * y.lower_rate
        together = upper * lower * jnp.cos(y.upper_angle - y.lower_angle)
        kinetic = self.upper_mass * upper**2 / 2 + self.lower_mass * (upper**2 / 2 + lower**2 / 2 + together)
        depth = self.upper_length * jnp.cos(y.upper_angle)
        below = depth + self.lower_length * jnp.cos(y.lower_angle)
        return {"energy": kinetic - self.gravity * (self.upper_mass * depth + self.lower_mass * below)}

    @classmethod
    def example(cls) -> "Example[DoublePendulum]":
        return Example(cls(), cls.State(2.0, 2.5, upper_rate=0.0, lower_rate=0.0), jnp.linspace(0.0, 10.0, 401))
