"""Advection and diffusion of one field."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs, Scalar, Vector
from ...core import POSITIVE, SYSTEMS, Example, quantity
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._flow2d import transport
from ..spectral._spectral import Field, SpectralSystem


@SYSTEMS.named("advection_diffusion")
class AdvectionDiffusion(SpectralSystem):
    r"""A field that moves with a uniform velocity and spreads, in one to three dimensions:

    $$u_t + c \cdot \nabla u = D \nabla^2 u$$

    It is linear, so that an exponential integrator solves it exactly whatever the step.

    **Good values:** velocity 1, diffusivity 0.01 in a box of $2\pi$.
    """

    State = Field

    grid: Grid = eqx.field(static=True)
    velocity: Vector = quantity(unit="length/time", doc="velocity, shape (dimensions,)")
    diffusivity: Scalar = quantity(1e-2, unit="length2/time", support=POSITIVE, doc="diffusivity")
    source: Any = None
    degree: ClassVar[int] = 1
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_dimensions(self)
        if getattr(self.velocity, "shape", (self.grid.dimensions,)) != (self.grid.dimensions,):
            shape = (self.grid.dimensions,)
            raise ArgumentError(
                f"Argument `velocity` must have the shape {shape} for this grid, but it has {self.velocity.shape}."
            )

    def encode(self, y: Field) -> Array:
        return self.waves.modes(y.u)[None]

    def decode(self, state: Array) -> Field:
        return Field(self.waves.field(state[0]))

    def linear(self) -> Array:
        damping = -self.diffusivity * self.waves.square(self.diffusivity.dtype)
        return lax.complex(damping, -transport(self.waves, self.velocity))[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        return jnp.zeros_like(modes)

    def invariants(self, t: ArrayLike, y: Field) -> dict[str, Array]:
        return {"mean": jnp.mean(y.u)} if self.source is None else {}

    @classmethod
    def example(cls) -> "Example[AdvectionDiffusion]":
        grid = Grid(32)
        return Example(cls(grid, velocity=[1.0]), Field(jnp.exp(jnp.sin(grid.mesh()[0]))), jnp.linspace(0.0, 5.0, 6))
