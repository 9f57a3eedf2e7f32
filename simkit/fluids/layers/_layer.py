"""The space between two plane walls, with its grid."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ..grids._grid import Grid
from ._legendre import lobatto


@dataclasses.dataclass(frozen=True, init=False)
class PlaneLayer:
    r"""The space between two plane walls, periodic along them: known while tracing, and hashable.

    Fields are Fourier series along the walls and polynomials across them. The points along the walls are equally spaced, those
    across are the points of Gauss, Legendre and Lobatto, which stand close together at the walls; the first and the last
    are on the walls. The series are so short that products of two of them are projected exactly (Orszag): wave
    indices up to (n - 1)/3, and polynomials up to the degree (2 n - 5)/3 across.

    **Arguments:**

    - `shape`: the number of points along each axis, `(nx, nz)` or `(nx, ny, nz)`, the last axis across the layer and at least 8.
        With `ny = 1` nothing changes along y, but there is a velocity along it.
    - `lengths`: the periods along the walls and last the distance between the walls, one number for all or one each. Any unit.
    - `origin`: the lower corner, one number or one an axis.

    Fields have the shape `shape`, a velocity `(dimensions, *shape)`, its last component across.

    **Good values:** lengths along the walls of a wavelength or some, `(2 * np.pi / 3.117, 1.0)` for a pair of convection rolls, in
    numbers of points that are products of 2, 3 and 5.

    **Raises:** an `ArgumentError` for shapes and lengths that do not fit together.

    **Source:** Orszag (1971), J. Atmos. Sci. 28:1074.

    ```python
    from simkit import fluids

    layer = fluids.PlaneLayer((32, 17), lengths=(2.0, 1.0))
    x, z = layer.mesh()
    print(layer)  # prints PlaneLayer(32 x 17 points, lengths 2 x 1)
    ```
    """

    shape: tuple[int, ...]
    lengths: tuple[float, ...]
    origin: tuple[float, ...]

    def __init__(
        self, shape: Sequence[int], lengths: float | Sequence[float] = 1.0, origin: float | Sequence[float] = 0.0
    ):
        box = Grid(shape, lengths, origin)
        if box.dimensions == 1:
            raise ArgumentError(
                f"Argument `shape` must be the numbers of points (nx, nz) or (nx, ny, nz), but is {shape!r}. Write "
                "`PlaneLayer((32, 17))`."
            )
        if box.shape[-1] < 8:
            raise ArgumentError(
                f"Argument `shape` must have at least 8 points across the layer, its last axis, but has {box.shape[-1]}. "
                "Take 17 or more, which resolve a flow that sticks to walls."
            )
        object.__setattr__(self, "shape", box.shape)
        object.__setattr__(self, "lengths", box.lengths)
        object.__setattr__(self, "origin", box.origin)

    @property
    def dimensions(self) -> int:
        """Two or three."""
        return len(self.shape)

    @property
    def depth(self) -> float:
        """The distance between the walls."""
        return self.lengths[-1]

    @property
    def degree(self) -> int:
        """The highest degree N of polynomials across; those of the velocity across have N + 1."""
        return (2 * self.shape[-1] - 5) // 3

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """The highest wave index along each axis of the walls."""
        return tuple((n - 1) // 3 for n in self.shape[:-1])

    def heights(self) -> Float[np.ndarray, " nz"]:
        """The coordinates of the points across the layer, from the lower wall to the upper one."""
        return self.origin[-1] + 0.5 * self.depth * (1 + lobatto(self.shape[-1]).places)

    def weights(self) -> Float[np.ndarray, " nz"]:
        """The weights of the points across in a mean over the layer; their sum is 1."""
        return lobatto(self.shape[-1]).weights

    def mesh(self) -> tuple[Float[np.ndarray, "..."], ...]:
        """The coordinates of the points, an array of shape `shape` for each axis."""
        along = [
            start + length * np.arange(n) / n
            for start, length, n in zip(self.origin[:-1], self.lengths[:-1], self.shape[:-1], strict=True)
        ]
        return tuple(np.meshgrid(*along, self.heights(), indexing="ij"))

    def mean(self, field: ArrayLike) -> Array:
        """The mean over the layer of fields `(..., *shape)`, exact for products of two series."""
        field = jnp.asarray(field)
        along = tuple(range(field.ndim - self.dimensions, field.ndim - 1))
        return jnp.mean(field, axis=along) @ jnp.asarray(self.weights(), field.dtype)

    def check_field(self, field: Any, name: str, leading: tuple[int, ...] = ()) -> None:
        """Refuse an array that has not the shape of the layer, with the sizes of the axes in front of it."""
        shape = (*leading, *self.shape)
        if jnp.shape(field) != shape:
            raise ArgumentError(
                f"Argument `{name}` must have the shape {shape} of its layer, the axis across last, but has "
                f"{jnp.shape(field)}. Build it on `layer.mesh()`."
            )

    def __repr__(self) -> str:
        points, lengths = " x ".join(map(str, self.shape)), " x ".join(f"{x:.6g}" for x in self.lengths)
        return f"PlaneLayer({points} points, lengths {lengths})"
