"""Burgers' equation."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, quantity
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import Field, SpectralSystem, fastest


@SYSTEMS.named("burgers")
class Burgers(SpectralSystem):
    r"""Burgers' equation for a velocity of as many components as the grid has dimensions:

    $$u_t + u \cdot \nabla u = \nu \nabla^2 u$$

    In one dimension `u` has the shape `grid.shape` and the mean is kept; in more it is `(dimensions, *grid.shape)`.

    **Good values:** viscosity 0.01 to 0.1 at unit speed in a box of $2\pi$; a shock is some $4\nu$ by its jump wide and
    wants several cells.

    **Reference:** Burgers (1948), Adv. Appl. Mech. 1:171; exact solutions: Cole (1951), Q. Appl. Math. 9:225.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    viscosity: Scalar = quantity(5e-2, unit="length2/time", support=POSITIVE, doc="viscosity")
    source: Any = None
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_dimensions(self)

    def encode(self, y: Field) -> Array:
        return self.waves.modes(self._components(y.u))

    def decode(self, state: Array) -> Field:
        u = self.waves.field(state)
        return Field(u[0] if self.grid.dimensions == 1 else u)

    def linear(self) -> Array:
        return (-self.viscosity * self.waves.square(self.viscosity.dtype))[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        waves, d = self.waves, self.grid.dimensions
        if d == 1:
            u = waves.field(modes)
            return waves.derivative(-0.5 * waves.modes(u * u), 0)
        slopes = jnp.concatenate([waves.derivative(modes, axis) for axis in range(d)])
        fields = waves.field(jnp.concatenate([modes, slopes]))
        u, slopes = fields[:d], fields[d:].reshape((d, d, *self.grid.shape))  # axis, component
        return -waves.modes(jnp.sum(u[:, None] * slopes, axis=0))

    def speeds(self, y: Field) -> Any:
        return fastest(self._components(y.u))

    def invariants(self, t: ArrayLike, y: Field) -> dict[str, Array]:
        return {"mean": jnp.mean(y.u)} if self.source is None and self.grid.dimensions == 1 else {}

    @classmethod
    def example(cls) -> "Example[Burgers]":
        grid = Grid(96)
        return Example(cls(grid), Field(jnp.sin(grid.mesh()[0])), jnp.linspace(0.0, 2.0, 5))

    def _components(self, u: Array) -> Array:
        return u[None] if self.grid.dimensions == 1 else u
