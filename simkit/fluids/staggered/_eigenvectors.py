"""Eigenvectors of the Laplacian of a stretched axis."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..grids._grid import Grid


def eigenvectors(
    grid: Grid, axis: int, fixed: tuple[bool, bool] = (False, False)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues of the Laplacian of a stretched axis, and the matrices to its eigenvectors and back.

    Its ends are walls, or `fixed`: there the value is 0.
    """
    widths, centres = grid.widths(axis), grid.centres(axis)
    through = 1 / np.diff(centres)
    operator = np.diag(through, 1) + np.diag(through, -1)
    operator -= np.diag(operator.sum(axis=1))
    operator[0, 0] -= 2 / widths[0] * fixed[0]
    operator[-1, -1] -= 2 / widths[-1] * fixed[1]
    root = np.sqrt(widths)
    values, vectors = np.linalg.eigh(operator / np.outer(root, root))
    return values, vectors.T * root, vectors / root[:, None]


def product(matrix: Array, x: Array, axis: int) -> Array:
    return jnp.moveaxis(jnp.tensordot(matrix, x, axes=(1, axis)), 0, axis)
