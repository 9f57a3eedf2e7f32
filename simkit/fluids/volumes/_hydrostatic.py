"""A gas under its own weight: pressures less what hydrostatic balance explains, so that a column at rest stays so.

Balance is what differences say, p[i+1] - p[i] = (w[i] + w[i+1]) / 2, with the weight w = rho g dx of a cell for each area of
its face.
Käppeli and Mishra (2016), Astron. Astrophys. 587:A94, here for stencils of any width.
"""

from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from ..grids._cells import cells
from ._gas import Rows


def lightened(pressure: list[Array], weight: list[Array]) -> list[Array]:
    """The pressures of a stencil less what the weights between them and the middle one add: all alike where they are in balance."""
    middle = len(pressure) // 2
    found = list(pressure)
    for step in (1, -1):
        added: Any = 0.0
        for i in range(middle + step, -1 if step < 0 else len(pressure), step):
            added = added + 0.5 * (weight[i] + weight[i - step])
            found[i] = pressure[i] - step * added
    return found


def continued(rows: Rows, weight: Array, axis: int, side: int) -> tuple[Rows, Array]:
    """Equal ghosts of a gas beyond an open end with a weight, as a gas of one temperature that is in balance."""
    ghosts = weight.shape[axis]
    share = 0.5 * cells(weight / rows[-1], axis, 0, 1)
    share = jnp.clip(share if side else -share, -0.9, 0.9)  # a cell as heavy as that holds no column
    ratio = (1 + share) / (1 - share)
    away = range(1, ghosts + 1) if side else range(ghosts, 0, -1)
    factor = jnp.concatenate([ratio**k for k in away], axis)
    return [rows[0] * factor, *rows[1:-1], rows[-1] * factor], weight * factor


def balanced(temperature: Array, pull: list[Any], pressure: ArrayLike) -> Array:
    """Pressures in balance at temperatures p / rho on a whole grid.

    - `pull`: g dx along each axis; `pressure`: of the first cell.
    """
    total = jnp.broadcast_to(jnp.asarray(pressure, temperature.dtype), temperature.shape)
    for axis, g in enumerate(pull):
        n, share = temperature.shape[axis], 0.5 * g / temperature
        ratio = (1 + cells(share, axis, 0, n - 1)) / (1 - cells(share, axis, 1, n))
        first = jnp.ones_like(cells(share, axis, 0, 1))
        total = total * jnp.cumprod(jnp.concatenate([first, ratio], axis), axis)
    return total
