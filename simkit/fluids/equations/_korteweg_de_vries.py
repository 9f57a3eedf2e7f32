"""The equation of Korteweg and de Vries."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import SYSTEMS, Example, quantity
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import Field, SpectralSystem, fastest


@SYSTEMS.named("korteweg_de_vries")
class KortewegDeVries(SpectralSystem):
    r"""Long waves on shallow water, in one dimension:

    $$u_t + a\, u u_x + b\, u_{xxx} = 0$$

    with `steepening` a and `dispersion` b. Mass $\langle u \rangle$, momentum $\langle u^2 \rangle / 2$ and energy
    $\langle b u_x^2 / 2 - a u^3 / 6 \rangle$ are conserved. With a = 6 and b = 1 a soliton of speed c is
    $u = \frac{c}{2}\, \mathrm{sech}^2\left(\frac{\sqrt c}{2}(x - ct)\right)$.

    **Good values:** a = 6, b = 1, a box of 40 with 256 cells and steps of 1e-3 for solitons of speed 1 to 4.

    **Reference:** Korteweg and de Vries (1895), Phil. Mag. 39:422; Zabusky and Kruskal (1965), Phys. Rev. Lett. 15:240.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    steepening: Scalar = quantity(6.0, doc="factor of the nonlinear term")
    dispersion: Scalar = quantity(1.0, doc="factor of the third derivative")
    source: Any = None
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_dimensions(self, (1,))

    def encode(self, y: Field) -> Array:
        return self.waves.modes(y.u)[None]

    def decode(self, state: Array) -> Field:
        return Field(self.waves.field(state[0]))

    def linear(self) -> Array:
        k = self.waves.wavenumber(0, self.dispersion.dtype)
        return lax.complex(jnp.zeros_like(k), self.dispersion * k**3)[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        u = self.waves.field(modes)
        return self.waves.derivative(self.waves.modes(-0.5 * self.steepening * u * u), 0)

    def speeds(self, y: Field) -> Any:
        return abs(float(self.steepening)) * fastest(y.u[None])

    def invariants(self, t: ArrayLike, y: Field) -> dict[str, Array]:
        if self.source is not None:
            return {}
        slope = self.waves.field(self.waves.derivative(self.waves.modes(y.u), 0))
        energy = jnp.mean(0.5 * self.dispersion * slope**2 - self.steepening * y.u**3 / 6)
        return {"mass": jnp.mean(y.u), "momentum": 0.5 * jnp.mean(y.u**2), "energy": energy}

    @classmethod
    def example(cls) -> "Example[KortewegDeVries]":
        grid = Grid(64, lengths=20.0)
        y0 = Field(jnp.asarray(0.5 / jnp.cosh(0.5 * (grid.mesh()[0] - 10.0)) ** 2))
        return Example(cls(grid), y0, jnp.linspace(0.0, 2.0, 5))
