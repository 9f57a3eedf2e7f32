"""The equation of Fisher, Kolmogorov, Petrovsky and Piskunov."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, quantity
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import Field, SpectralSystem


@SYSTEMS.named("fisher_kpp")
class FisherKPP(SpectralSystem):
    r"""A population that spreads and grows to what its place carries, in one to three dimensions:

    $$u_t = D \nabla^2 u + r\, u (1 - u)$$

    Fronts run at $2\sqrt{rD}$ into what is empty.

    **Good values:** D = 1, r = 1 in a box of 100 with 256 cells and steps of 0.1; a front is some $10 \sqrt{D/r}$ wide.

    **Reference:** Fisher (1937), Ann. Eugen. 7:355; an exact front of speed $5/\sqrt 6$: Ablowitz and Zeppetella (1979),
    Bull. Math. Biol. 41:835.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    diffusivity: Scalar = quantity(1.0, unit="length2/time", support=POSITIVE, doc="spread")
    growth: Scalar = quantity(1.0, unit="1/time", support=POSITIVE, doc="growth where it is rare")
    source: Any = None
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_dimensions(self)

    def encode(self, y: Field) -> Array:
        return self.waves.modes(y.u)[None]

    def decode(self, state: Array) -> Field:
        return Field(self.waves.field(state[0]))

    def linear(self) -> Array:
        return (self.growth - self.diffusivity * self.waves.square(self.diffusivity.dtype))[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        u = self.waves.field(modes)
        return self.waves.modes(-self.growth * u * u)

    @classmethod
    def example(cls) -> "Example[FisherKPP]":
        grid = Grid(96, lengths=60.0)
        y0 = Field(jnp.asarray(0.5 * jnp.exp(-((grid.mesh()[0] - 30.0) ** 2) / 20.0)))
        return Example(cls(grid), y0, jnp.linspace(0.0, 6.0, 4))
