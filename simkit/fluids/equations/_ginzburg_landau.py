"""The complex equation of Ginzburg and Landau."""

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


@SYSTEMS.named("ginzburg_landau")
class GinzburgLandau(SpectralSystem):
    r"""Waves near their onset, in one to three dimensions: a complex amplitude A with

    $$A_t = \mu A + (1 + i b) \nabla^2 A - (1 + i c) |A|^2 A$$

    with `growth` $\mu$, `dispersion` b and `rotation` c. Plane waves $A = R e^{i(kx - \omega t)}$ with $R^2 = \mu - k^2$,
    $\omega = b k^2 + c R^2$ are solutions; where $1 + bc < 0$ all are unstable, and amplitude and phase become turbulent.

    **Good values:** growth 1, dispersion 2, rotation -1.2 in a box of 100 with 256 cells and steps of 0.05.

    **Reference:** Aranson and Kramer (2002), Rev. Mod. Phys. 74:99, doi:10.1103/RevModPhys.74.99.
    """

    State = ComplexField

    grid: Grid = eqx.field(static=True)
    growth: Scalar = quantity(1.0, doc="growth of small amplitudes")
    dispersion: Scalar = quantity(2.0, doc="b: how the frequency depends on the wavenumber")
    rotation: Scalar = quantity(-1.2, doc="c: how the frequency depends on the amplitude")
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
        square = self.waves.square(self.growth.dtype)
        return lax.complex(self.growth - square, -self.dispersion * square)[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        a = self.waves.field(modes)
        cubed = scaled(a.real**2 + a.imag**2, a)
        turned = lax.complex(cubed.real - self.rotation * cubed.imag, cubed.imag + self.rotation * cubed.real)
        return -self.waves.modes(turned)

    @classmethod
    def example(cls) -> "Example[GinzburgLandau]":
        grid = Grid(64, lengths=40.0)
        x = grid.mesh()[0] * (2 * jnp.pi / 40.0)
        return Example(cls(grid), ComplexField(0.5 * jnp.cos(x), 0.3 * jnp.sin(2 * x)), jnp.linspace(0.0, 5.0, 6))
