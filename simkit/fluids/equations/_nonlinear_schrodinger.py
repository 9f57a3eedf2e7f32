"""The nonlinear equation of Schrodinger."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import SYSTEMS, Example, quantity, scaled
from ..grids._checks import check_dimensions
from ..grids._grid import Grid
from ..spectral._spectral import SpectralSystem
from ._complex_field import ComplexField, decoded, encoded


@SYSTEMS.named("nonlinear_schrodinger")
class NonlinearSchrodinger(SpectralSystem):
    r"""The envelope of waves, or a condensate, in one to three dimensions:

    $$i \psi_t = -\tfrac12 \nabla^2 \psi - g |\psi|^2 \psi$$

    with the `attraction` g: positive focuses, and in one dimension has the soliton $\psi = \frac{a}{\sqrt g}\,
    \mathrm{sech}(a (x - vt))
    e^{i v x + i (a^2 - v^2) t/2}$; negative spreads. $\langle |\psi|^2 \rangle$ and $\langle |\nabla\psi|^2 - g|\psi|^4
    \rangle / 2$ are
    conserved. In two and three dimensions strong focusing collapses.

    **Good values:** attraction 1, a box of 40 with 256 cells and steps of 5e-3 for solitons of height 1.

    **Reference:** Zakharov and Shabat (1972), Sov. Phys. JETP 34:62.
    """

    State = ComplexField

    grid: Grid = eqx.field(static=True)
    attraction: Scalar = quantity(1.0, doc="g: positive focuses")
    source: Any = None
    degree: ClassVar[int] = 3
    real: ClassVar[bool] = False

    def __check_init__(self):
        check_dimensions(self)

    def encode(self, y: ComplexField) -> Array:
        return encoded(self.waves, y)

    def decode(self, state: Array) -> ComplexField:
        return decoded(self.waves, state)

    def linear(self) -> Array:
        square = self.waves.square(self.attraction.dtype)
        return lax.complex(jnp.zeros_like(square), -0.5 * square)[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        psi = self.waves.field(modes)
        cubed = scaled(self.attraction * (psi.real**2 + psi.imag**2), psi)
        return self.waves.modes(lax.complex(-cubed.imag, cubed.real))

    def invariants(self, t: ArrayLike, y: ComplexField) -> dict[str, Array]:
        if self.source is not None:
            return {}
        square = y.real**2 + y.imaginary**2
        modes = self.encode(y)
        steep = sum(
            self.waves.inner(x, x)[0] for x in (self.waves.derivative(modes, i) for i in range(self.grid.dimensions))
        )
        return {"mass": jnp.mean(square), "energy": 0.5 * (steep - self.attraction * jnp.mean(square**2))}

    @classmethod
    def example(cls) -> "Example[NonlinearSchrodinger]":
        grid = Grid(96, lengths=20.0)
        x = grid.mesh()[0] - 10.0
        return Example(
            cls(grid),
            ComplexField(jnp.cos(0.5 * x) / jnp.cosh(x), jnp.sin(0.5 * x) / jnp.cosh(x)),
            jnp.linspace(0.0, 2.0, 5),
        )
