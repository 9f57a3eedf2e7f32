"""The equation of Cahn and Hilliard."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, quantity, scaled
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import Field, SpectralSystem


@SYSTEMS.named("cahn_hilliard")
class CahnHilliard(SpectralSystem):
    r"""A mixture that separates, in one to three dimensions; its mean is kept:

    $$u_t = M \nabla^2 (u^3 - u - \epsilon^2 \nabla^2 u)$$

    with `mobility` M and the `width` $\epsilon$ of walls. The energy $\langle \epsilon^2 |\nabla u|^2 / 2 + (1 - u^2)^2
    / 4 \rangle$ falls.

    **Good values:** mobility 1 and a width of 0.2 in a box of $2\pi$ with 128 cells; steps of 1e-3 while it separates,
    then longer:
    adaptive ones find that out.

    **Reference:** Cahn and Hilliard (1958), J. Chem. Phys. 28:258, doi:10.1063/1.1744102.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    mobility: Scalar = quantity(1.0, support=POSITIVE, doc="mobility")
    width: Scalar = quantity(0.2, unit="length", support=POSITIVE, doc="width of walls")
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
        square = self.waves.square(self.width.dtype)
        return (self.mobility * (square - self.width**2 * square**2))[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        u = self.waves.field(modes)
        return scaled(self.mobility, self.waves.laplacian(self.waves.modes(u**3)))

    def invariants(self, t: ArrayLike, y: Field) -> dict[str, Array]:
        return {"mean": jnp.mean(y.u)} if self.source is None else {}

    @classmethod
    def example(cls) -> "Example[CahnHilliard]":
        grid = Grid(96)
        x = grid.mesh()[0]
        return Example(cls(grid, width=0.4), Field(0.3 * jnp.sin(x) + 0.2 * jnp.cos(2 * x)), jnp.linspace(0.0, 1.0, 5))
