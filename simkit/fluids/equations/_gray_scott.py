"""The reaction of Gray and Scott."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, quantity
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import SpectralSystem


@SYSTEMS.named("gray_scott")
class GrayScott(SpectralSystem):
    r"""A substance that makes more of itself from a food that flows in, in one to three dimensions:

    $$a_t = D_a \nabla^2 a - a b^2 + F (1 - a), \qquad b_t = D_b \nabla^2 b + a b^2 - (F + k) b$$

    with the food a, the eater b, `feed` F and `kill` k. Spots that divide, stripes and waves, depending on the two.

    **Good values:** diffusivities 2e-5 and 1e-5, feed 0.035 and kill 0.065 (spots that divide) in a box of 2.5 with 256
    cells an axis and
    steps of 1 to 2.

    **Reference:** Pearson (1993), Science 261:189, doi:10.1126/science.261.5118.189.
    """

    class State(eqx.Module):
        """Food and what eats it, each `grid.shape`."""

        food: Array = quantity(doc="what is fed")
        eater: Array = quantity(doc="what lives on it")

    grid: Grid = eqx.field(static=True)
    food_diffusivity: Scalar = quantity(2e-5, unit="length2/time", support=POSITIVE, doc="diffusivity of the food")
    eater_diffusivity: Scalar = quantity(1e-5, unit="length2/time", support=POSITIVE, doc="diffusivity of the eater")
    feed: Scalar = quantity(0.035, unit="1/time", support=POSITIVE, doc="how fast food flows in and all flows out")
    kill: Scalar = quantity(0.065, unit="1/time", support=POSITIVE, doc="how fast the eater dies besides")
    source: Any = None
    degree: ClassVar[int] = 3
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_dimensions(self)

    def encode(self, y: State) -> Array:
        return self.waves.modes(jnp.stack([y.food, y.eater]))

    def decode(self, state: Array) -> State:
        fields = self.waves.field(state)
        return self.State(fields[0], fields[1])

    def linear(self) -> Array:
        square = self.waves.square(self.feed.dtype)
        food = -self.food_diffusivity * square - self.feed
        return jnp.stack([food, -self.eater_diffusivity * square - self.feed - self.kill])

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        a, b = self.waves.field(modes)
        eaten = a * b * b
        return self.waves.modes(jnp.stack([self.feed - eaten, eaten]))

    @classmethod
    def example(cls) -> "Example[GrayScott]":
        grid = Grid(64, lengths=1.0)
        b = jnp.asarray(0.25 * jnp.exp(-(((grid.mesh()[0] - 0.5) / 0.08) ** 2)))
        return Example(cls(grid), cls.State(1 - 2 * b, b), jnp.linspace(0.0, 100.0, 5))
