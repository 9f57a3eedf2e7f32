"""The equation of Swift and Hohenberg."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import SYSTEMS, Example, quantity
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import Field, SpectralSystem


@SYSTEMS.named("swift_hohenberg")
class SwiftHohenberg(SpectralSystem):
    r"""Stripes and spots of a wavelength of their own, in one to three dimensions:

    $$u_t = r u - (1 + \nabla^2)^2 u + g u^2 - u^3$$

    with `forcing` r and `quadratic` g. Stripes of wavenumber 1 grow where r is positive; $g > 0$ makes hexagons of spots.

    **Good values:** forcing 0.2, quadratic 0 (stripes) or 1 (spots) in a box of $20\pi$ with 128 cells an axis and steps
    of 0.5.

    **Reference:** Swift and Hohenberg (1977), Phys. Rev. A 15:319, doi:10.1103/PhysRevA.15.319.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    forcing: Scalar = quantity(0.2, doc="distance from the onset of the pattern")
    quadratic: Scalar = quantity(0.0, doc="factor of the square, which prefers spots")
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
        return (self.forcing - (1 - self.waves.square(self.forcing.dtype)) ** 2)[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        u = self.waves.field(modes)
        return self.waves.modes(self.quadratic * u**2 - u**3)

    @classmethod
    def example(cls) -> "Example[SwiftHohenberg]":
        grid = Grid(64, lengths=20.0)
        y0 = Field(0.1 * jnp.cos(0.1 * jnp.pi * grid.mesh()[0]) + 0.05 * jnp.sin(0.3 * jnp.pi * grid.mesh()[0]))
        return Example(cls(grid), y0, jnp.linspace(0.0, 10.0, 5))
