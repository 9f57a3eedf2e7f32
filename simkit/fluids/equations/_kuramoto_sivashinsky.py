"""The equation of Kuramoto and Sivashinsky."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, quantity
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import Field, SpectralSystem, fastest, left_out, without_mean


@SYSTEMS.named("kuramoto_sivashinsky")
class KuramotoSivashinsky(SpectralSystem):
    r"""Flame fronts and other fronts that wrinkle chaotically. In one dimension the slope u of a front,

    $$u_t + u u_x + u_{xx} + \nu u_{xxxx} = 0$$

    and in two and three dimensions the front itself, freed of its mean,

    $$u_t + \tfrac12 |\nabla u|^2 + \nabla^2 u + \nu \nabla^4 u = 0$$

    **Good values:** viscosity 1; a box of 22 is the smallest that is chaotic, with 48 cells and steps of 0.1 to 0.25.

    **Reference:** Kuramoto and Tsuzuki (1976), Prog. Theor. Phys. 55:356; Sivashinsky (1977), Acta Astronaut. 4:1177;
    steps: Kassam and
    Trefethen (2005), doi:10.1137/S1064827502410633.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    viscosity: Scalar = quantity(1.0, support=POSITIVE, doc="factor of the fourth derivative")
    source: Any = None
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_dimensions(self)

    def encode(self, y: Field) -> Array:
        modes = self.waves.modes(y.u)[None]
        return modes if self.grid.dimensions == 1 else without_mean(modes, self.grid)

    def decode(self, state: Array) -> Field:
        return Field(self.waves.field(state[0]))

    def linear(self) -> Array:
        square = self.waves.square(self.viscosity.dtype)
        return (square - self.viscosity * square**2)[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        waves, d = self.waves, self.grid.dimensions
        if d == 1:
            u = waves.field(modes)
            return waves.derivative(-0.5 * waves.modes(u * u), 0)
        slopes = waves.field(jnp.concatenate([waves.derivative(modes, axis) for axis in range(d)]))
        return without_mean(waves.modes(-0.5 * jnp.sum(slopes**2, axis=0, keepdims=True)), self.grid)

    def speeds(self, y: Field) -> Any:
        return fastest(y.u[None]) if self.grid.dimensions == 1 else None

    def unheard(self, y: Field) -> tuple[str, float] | None:
        return None if self.grid.dimensions == 1 else left_out("a mean, which fronts do not feel", np.mean(y.u), y.u)

    def invariants(self, t: ArrayLike, y: Field) -> dict[str, Array]:
        return {"mean": jnp.mean(y.u)} if self.source is None else {}

    @classmethod
    def example(cls) -> "Example[KuramotoSivashinsky]":
        grid = Grid(48, lengths=22.0)
        x = grid.mesh()[0] * (2 * jnp.pi / 22.0)
        return Example(cls(grid), Field(jnp.cos(x) + 0.3 * jnp.sin(2 * x)), jnp.linspace(0.0, 10.0, 6))
