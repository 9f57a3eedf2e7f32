"""Morse."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import POSITIVE, quantity
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, tabled
from ._truncation import Truncated, Truncation


@POTENTIALS.named("morse")
class Morse(PairPotential):
    r"""$u(r) = D [e^{-2 a (r - r_0)} - 2 e^{-a (r - r_0)}]$: a well of depth D at r_0.

    **Arguments:**

    - `depth`, `steepness`, `distance`: D, a and r_0 (numbers, one a species, or symmetric tables); of one number a species
        the depth mixes
        geometrically, the others by their mean.
    - `cutoff`, `truncation`: where and how the interaction ends.

    **Good values:** depth 1, steepness 5-6, distance 1 and cutoff 2.5 resembles Lennard-Jones.

    **Reference:** Morse (1929), Physical Review 34:57, doi:10.1103/PhysRev.34.57.
    """

    depth: Parameter = quantity(1.0, unit="energy", support=POSITIVE, doc="depth of the well")
    steepness: Parameter = quantity(5.0, unit="1/length", support=POSITIVE, doc="inverse width of the well")
    distance: Parameter = quantity(1.0, unit="length", support=POSITIVE, doc="where the well is deepest")
    cutoff: float = eqx.field(static=True, converter=float, default=2.5)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        return (
            tabled(mixed("depth", self.depth, "geometric")),
            tabled(mixed("steepness", self.steepness, "arithmetic")),
            tabled(mixed("distance", self.distance, "arithmetic")),
        )

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        depth, steepness, distance = coefficients
        r = jnp.sqrt(r2)
        decay = jnp.exp(-steepness * (r - distance))
        return depth * decay * (decay - 2), depth * steepness * decay * (1 - decay) / r
