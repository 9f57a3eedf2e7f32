"""N bodies under their own gravity."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar, Vector
from ..core import POSITIVE, SYSTEMS, Example, SeparableSystem, quantity


@SYSTEMS.named("n_body")
class NBody(SeparableSystem):
    r"""Bodies that attract each other, with a softened force at short distance.

    $$\frac{dq_i}{dt} = \frac{p_i}{m_i}, \qquad
    \frac{dp_i}{dt} = -G \sum_{j \ne i} m_i m_j \frac{q_i - q_j}{(|q_i - q_j|^2 + \epsilon^2)^{3/2}}$$

    with the positions q and the momenta p, shape (bodies, 2) or (bodies, 3), the `masses` m, shape (bodies,), $G$ `gravity`
    and $\epsilon$ `softening`. Energy, total momentum and angular momentum are conserved.

    **Good values:** three unit masses on the figure of eight, period 6.3259 with G = 1 and no softening. For many bodies a
    softening of about the distance of neighbours.

    **Reference:** Aarseth (2003), Gravitational N-Body Simulations, Cambridge University Press, chapter 1; Chenciner &
    Montgomery (2000), Annals of Mathematics 152:881, doi:10.2307/2661357 (the figure of eight).
    """

    masses: Vector = quantity((1.0, 1.0, 1.0), support=POSITIVE, doc="of the bodies, scaled")
    gravity: Scalar = quantity(1.0, support=POSITIVE, doc="gravitational constant, scaled")
    softening: Scalar = quantity(0.01, support=POSITIVE, doc="distance below which the force weakens, scaled")

    def velocity(self, momentum: Array) -> Array:
        return momentum / self.masses[:, None]

    def force(self, t: Float[Array, ""], position: Array, inputs: Inputs) -> Array:
        apart, square = self._separations(position)
        attraction = self.gravity * self.masses[:, None] * self.masses[None, :] / square**1.5
        return -jnp.sum(attraction[:, :, None] * apart, axis=1)

    def invariants(self, t: Float[Array, ""], y: SeparableSystem.State) -> dict[str, Array]:
        q, p = y.position, y.momentum
        _, square = self._separations(q)
        pairs = jnp.triu(self.masses[:, None] * self.masses[None, :] / jnp.sqrt(square), 1)
        kinetic = jnp.sum(p**2 / (2 * self.masses[:, None]))
        spin = q[:, 0] * p[:, 1] - q[:, 1] * p[:, 0] if q.shape[1] == 2 else jnp.cross(q, p)
        return {
            "energy": kinetic - self.gravity * jnp.sum(pairs),
            "momentum": jnp.sum(p, axis=0),
            "angular momentum": jnp.sum(spin, axis=0),
        }

    def _separations(self, position: Array) -> tuple[Float[Array, "n n d"], Float[Array, "n n"]]:
        """q_i - q_j, and its softened square with a 1 on the diagonal, where the separation is 0 and only 0 / 0 could arise."""
        apart = position[:, None, :] - position[None, :, :]
        return apart, jnp.sum(apart**2, axis=-1) + self.softening**2 + jnp.eye(position.shape[0], dtype=position.dtype)

    @classmethod
    def example(cls) -> "Example[NBody]":
        y0 = cls.State(
            position=jnp.array([[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]]),
            momentum=jnp.array([[0.466203685, 0.43236573], [0.466203685, 0.43236573], [-0.93240737, -0.86473146]]),
        )
        return Example(cls(), y0, jnp.linspace(0.0, 6.32591398, 201))
