"""Kepler: a planet around a star."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, SeparableSystem, quantity


@SYSTEMS.named("kepler")
class Kepler(SeparableSystem):
    r"""A body of unit mass on its orbit in the plane around a fixed centre.

    $$\frac{dq}{dt} = p, \qquad \frac{dp}{dt} = -\mu \frac{q}{|q|^3}$$

    with the position q and the momentum p, shape (2,) each, and $\mu$ `attraction`. Energy and angular momentum are
    conserved. An orbit with semi-major axis a and eccentricity e has the period $2 \pi \sqrt{a^3 / \mu}$; from the near
    end of its axis on, $q = a (\cos E - e, \sqrt{1 - e^2} \sin E)$ with $E - e \sin E = t \sqrt{\mu / a^3}$.

    **Good values:** attraction 4 pi^2 au^3/year^2 (the Sun) from q = (1 - e, 0) au, p = (0, 2 pi sqrt((1 + e) / (1 - e)))
    au/year: one orbit a year, here with e = 0.5.

    **Reference:** Landau & Lifshitz (1976), Mechanics, 3rd edition, section 15.
    """

    attraction: Scalar = quantity(
        39.47841760435743, unit="au^3/year^2", support=POSITIVE, doc="G times the central mass"
    )

    def velocity(self, momentum: Array) -> Array:
        return momentum

    def force(self, t: Float[Array, ""], position: Array, inputs: Inputs) -> Array:
        return -self.attraction * position / jnp.sum(position**2) ** 1.5

    def invariants(self, t: Float[Array, ""], y: SeparableSystem.State) -> dict[str, Array]:
        q, p = y.position, y.momentum
        energy = jnp.sum(p**2) / 2 - self.attraction / jnp.sqrt(jnp.sum(q**2))
        return {"energy": energy, "angular momentum": q[0] * p[1] - q[1] * p[0]}

    @classmethod
    def example(cls) -> "Example[Kepler]":
        y0 = cls.State(position=jnp.array([0.5, 0.0]), momentum=jnp.array([0.0, 10.882796185405306]))
        return Example(cls(), y0, jnp.linspace(0.0, 3.0, 301))
