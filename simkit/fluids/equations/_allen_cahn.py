"""The equation of Allen and Cahn."""

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


@SYSTEMS.named("allen_cahn")
class AllenCahn(SpectralSystem):
    r"""Two phases, +1 and -1, whose walls move by their curvature, in one to three dimensions:

    $$u_t = \epsilon^2 \nabla^2 u + u - u^3$$

    with the `width` $\epsilon$ of walls, $u = \tanh(x / \sqrt 2 \epsilon)$. The energy $\langle \epsilon^2 |\nabla u|^2
    / 2 + (1 - u^2)^2 / 4
    \rangle$ falls.

    **Good values:** a width of 0.1 in a box of $2\pi$ with 128 cells and steps of 0.1.

    **Reference:** Allen and Cahn (1979), Acta Metall. 27:1085.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    width: Scalar = quantity(0.1, unit="length", support=POSITIVE, doc="width of walls")
    source: Any = None
    degree: ClassVar[int] = 3
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_dimensions(self)

    def encode(self, y: Field) -> Array:
        return self.waves.modes(y.u)[None]

    def decode(self, state: Array) -> Field:
        return Field(self.waves.field(state[0]))

    def linear(self) -> Array:
        return (1 - self.width**2 * self.waves.square(self.width.dtype))[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        u = self.waves.field(modes)
        return -self.waves.modes(u**3)

    @classmethod
    def example(cls) -> "Example[AllenCahn]":
        grid = Grid(128)
        x = grid.mesh()[0]
        return Example(cls(grid, width=0.2), Field(0.6 * jnp.sin(x) + 0.3 * jnp.cos(2 * x)), jnp.linspace(0.0, 4.0, 5))
