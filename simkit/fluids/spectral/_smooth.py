"""Starts of few numbers: smooth fields as sums of their longest waves."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..._errors import ArgumentError
from ..._types import Scalar, Vector
from ...core import POSITIVE, Start, quantity
from ..grids._grid import Grid
from ._flow2d import Flow2D


class SmoothVorticity(Start):
    r"""A start of a plane flow by the weights of its longest waves, so that it can be fitted to few data:

    $$\omega(x) = s \sum_k a_k \big(w_k \cos(k \cdot x) + w'_k \sin(k \cdot x)\big), \qquad
    a_k^2 \propto |k|^5 e^{-2 (|k|/k_p)^2}, \qquad \sum_k a_k^2 = 1$$

    over the waves whose index is at most `waves` long, one of each pair k and -k. With independent standard normal weights,
    which is the prior to give them, it is a random field of root mean square s with the spectrum of `random_velocity`.

    - `grid`: of two dimensions, with equal cells.
    - `waves`: the longest index kept; 3 makes 28 weights, 4 makes 48.
    - `weights`: shape `(2 * pairs,)`, cosines before sines; by default 0.
    - `size`: s, the root mean square of the vorticity.
    - `peak`: $k_p$, the wave with the most energy, in units of $2\pi$ by the longest edge.

    ```python
    import simkit
    from simkit import fluids

    start = fluids.SmoothVorticity(fluids.Grid((32, 32)), waves=3)
    flow = fluids.SpectralFlow2D(start.grid, viscosity=0.1)
    run = simkit.simulate(flow, start, [0.0, 0.1], step=0.05)
    ```
    """

    grid: Grid = eqx.field(static=True)
    waves: int = eqx.field(static=True)
    peak: float = eqx.field(static=True)
    weights: Vector = quantity(doc="weights of the waves, standard normal before data")
    size: Scalar = quantity(unit="1/time", support=POSITIVE, doc="root mean square of the vorticity")

    def __init__(
        self, grid: Grid, *, waves: int = 3, weights: ArrayLike | None = None, size: ArrayLike = 1.0, peak: float = 2.0
    ):
        grid.check_dimensions((2,), "a smooth vorticity")
        grid.check_uniform("a smooth vorticity")
        if not 1 <= waves < min(grid.shape) / 3:
            raise ArgumentError(
                f"Argument `waves` must be at least 1 and less than a third of the {min(grid.shape)} cells, but it is {waves!r}."
            )
        self.grid, self.waves, self.peak = grid, waves, float(peak)
        empty: Any = np.zeros(2 * len(self._indices()))
        self.weights = empty if weights is None else weights
        self.size = size
        if jnp.shape(self.weights) != (2 * len(self._indices()),):
            raise ArgumentError(
                f"Argument `weights` must have the shape ({2 * len(self._indices())},) for waves up to {waves}, but it has "
                f"{jnp.shape(self.weights)}."
            )

    def state(self) -> Flow2D:
        index = self._indices()
        wavenumber = 2 * np.pi * index / np.array(self.grid.lengths)
        unit = np.linalg.norm(wavenumber, axis=1) * max(self.grid.lengths) / (2 * np.pi)
        power = unit**5 * np.exp(-2 * (unit / self.peak) ** 2)
        x = np.stack([c - o for c, o in zip(self.grid.mesh(), self.grid.origin, strict=True)])
        angle = np.tensordot(wavenumber, x, axes=1)
        basis = np.concatenate([np.cos(angle), np.sin(angle)])
        basis = basis * np.tile(np.sqrt(power / power.sum()), 2).reshape(-1, 1, 1)
        dtype = self.weights.dtype
        return Flow2D(self.size.astype(dtype) * jnp.tensordot(self.weights, jnp.asarray(basis, dtype), axes=1))

    def _indices(self) -> np.ndarray:
        """The indices of the waves, one of each pair, the longest waves first."""
        n = self.waves
        found = [(i, j) for i in range(n + 1) for j in range(-n, n + 1) if (i, j) > (0, 0) and i * i + j * j <= n * n]
        return np.array(sorted(found, key=lambda k: (k[0] ** 2 + k[1] ** 2, k)))
