"""The pairs of a block of clusters: energy and its gradient by everything it depends on.

Sums over pairs are small matrix products, which XLA:CPU vectorises where it does not vectorise sums. A force needs no distance
vectors then: the force on atom i is $x_i \\sum_j f_{ij} - \\sum_j f_{ij} y_j$.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ._pair_sums import Marks, Wanted, pair_sums


class Sides(NamedTuple):
    """Operands of the energy of a block of pairs, and its gradient, with rows of zeros where it is not asked for. Without charges
    they are None."""

    terms: Any  # a tuple of `PairTerm`, or None in a direction of positions alone
    x: Float[Array, "units 4 left"]  # positions, and a row of ones with which products sum; zeros in a direction
    y: Float[Array, "units 4 right"]
    charge_x: Any
    charge_y: Any
    weight: Any = None  # (units,), of the energy of each unit


def block_gradient(wanted: Wanted, sides: Sides, marks: Marks, stored: bool = False) -> tuple[Array, Sides]:
    """Energy of a block and its gradient, shaped like `sides`; zeros for what is not `wanted`.

    A gradient reads the distances once, in the loop that makes them; its tangent several times, and has them `stored`.
    """
    x, y, products = sides.x, sides.y, None
    if sides.charge_x is not None:
        products = sides.charge_x[:, :, None] * sides.charge_y[:, None, :]
    squares = lax.optimization_barrier(_squares(x, y)) if stored else _squares(x, y)
    if sides.weight is not None:
        marks = marks._replace(weight=marks.weight * sides.weight[:, None])
    found = pair_sums(wanted, sides.terms, squares, marks, products)
    by_x, by_y = _levers(found.force, x, y) if wanted != "energy" else (jnp.zeros_like(x), jnp.zeros_like(y))
    charge_x, charge_y = jax.tree.map(jnp.zeros_like, (sides.charge_x, sides.charge_y))
    if found.potential is not None:
        charge_x = jnp.einsum("nij,nj->ni", found.potential, sides.charge_y)
        charge_y = jnp.einsum("nij,ni->nj", found.potential, sides.charge_x)
    by_weight = None if sides.weight is None else found.energy / sides.weight
    return jnp.sum(found.energy), Sides(found.terms, by_x, by_y, charge_x, charge_y, by_weight)


def _squares(x: Array, y: Array) -> Array:
    d = [x[:, c, :, None] - y[:, c, None, :] for c in range(3)]
    return d[0] * d[0] + d[1] * d[1] + d[2] * d[2]


def _levers(force: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Gradients by the two sides, from 2 w du/d(r2) of each pair."""
    s, t = jnp.einsum("nij,ncj->nci", force, y), jnp.einsum("nij,nci->ncj", force, x)
    return x * s[:, 3:] - s, y * t[:, 3:] - t


def with_row(positions: Float[Array, "n 3 *rest"], value: float) -> Float[Array, "n 4 *rest"]:
    """A fourth row of one number."""
    return jnp.concatenate([positions, jnp.full_like(positions[:, :1], value)], axis=1)


def block_derivative(wanted: Wanted, sides: Sides, marks: Marks, direction: Sides) -> Sides:
    """The Hessian of a block's energy times `direction`, in which positions alone may move."""
    if direction.terms is None:
        moved = lambda x, y: block_gradient(wanted, sides._replace(x=x, y=y), marks, True)[1]
        return jax.jvp(moved, (sides.x, sides.y), (direction.x, direction.y))[1]
    return jax.jvp(lambda s: block_gradient(wanted, s, marks, True)[1], (sides,), (direction,))[1]
