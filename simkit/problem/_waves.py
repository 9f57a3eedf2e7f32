"""Fields at the centres of cells by waves: periodic, Neumann or Dirichlet, and from one grid to another."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError, check_known

Ends = Literal["periodic", "neumann", "dirichlet"]
ENDS: tuple[Ends, ...] = ("periodic", "neumann", "dirichlet")


def basis(end: str, size: int) -> np.ndarray:
    """Orthonormal waves at the centres of cells, one a column; of periodic ones without the shortest of even sizes."""
    centres = (np.arange(size) + 0.5) * np.pi / size
    if end == "neumann":
        found = np.cos(np.outer(centres, np.arange(size)))
    elif end == "dirichlet":
        found = np.sin(np.outer(centres, np.arange(1, size + 1)))
    else:
        angles = 2 * np.outer(centres, np.arange(1, (size - 1) // 2 + 1))
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(size, -1)
        found = np.concatenate([np.ones((size, 1)), pairs], axis=1)
    return found / np.linalg.norm(found, axis=0)


def turned(x: Array, axis: int, matrix: np.ndarray) -> Array:
    """A matrix times an array along one of its axes."""
    return jnp.moveaxis(jnp.tensordot(jnp.asarray(matrix, x.dtype), x, (1, axis)), 0, axis)


def each_end(ends: Any, axes: int) -> tuple[Ends, ...]:
    """Ends along each axis, where one may be given for all.

    **Raises:** an `ArgumentError`.
    """
    each: tuple[Any, ...] = (ends,) * axes if isinstance(ends, str) else tuple(ends)
    for end in each:
        check_known(end, ENDS, "kind of end")
    if len(each) != axes:
        raise ArgumentError(
            f"Argument `ends` must be one of {', '.join(ENDS)}, or one for each of the {axes} lengths of `box`, but it is "
            f"{shown(ends)}."
        )
    return each


def rotated(x: Float[Array, "..."], shape: Sequence[int], ends: Sequence[Ends]) -> Float[Array, "..."]:
    """An array with other lengths of its last axes and the same coefficients of orthonormal waves; those that one has not are 0."""
    first = x.ndim - len(ends)
    for axis, (end, new) in enumerate(zip(ends, shape, strict=True)):
        old = x.shape[first + axis]
        if old == new:
            continue
        before, after = basis(end, old), basis(end, new)
        # The shortest sine on the centres of cells is no longer than its zeros: another wave on another grid.
        common = min(before.shape[1], after.shape[1]) - (end == "dirichlet")
        x = turned(x, first + axis, after[:, :common] @ before[:, :common].T)
    return x


def resampled(
    field: Float[Array, "..."], shape: int | Sequence[int], ends: Ends | Sequence[Ends] = "periodic"
) -> Float[Array, "..."]:
    """The same field at the centres of the cells of another grid in the same box, by its waves.

    **Arguments:**

    - `field`: its last axes, as many as `shape` has lengths, are those of the grid.
    - `shape`: the new numbers of cells. Waves that the finer grid of the two has alone are 0, or left out.
    - `ends`: "periodic", "neumann" or "dirichlet", for all axes or one for each, as in the prior.

    ```python
    import jax.numpy as jnp
    from simkit import fields

    coarse = jnp.sin(2 * jnp.pi * (jnp.arange(8.0) + 0.5) / 8)
    fine = fields.resampled(coarse, 16)
    ```
    """
    sizes = tuple(int(n) for n in np.atleast_1d(np.asarray(shape)))
    if not 0 < len(sizes) <= field.ndim or min(sizes) < 1:
        raise ArgumentError(
            f"Argument `shape` must hold a number of cells for each of at most {field.ndim} axes of the field, but it is "
            f"{shown(shape)}."
        )
    each = each_end(ends, len(sizes))
    old = field.shape[field.ndim - len(sizes) :]
    return rotated(field, sizes, each) * math.sqrt(math.prod(sizes) / math.prod(old))
