"""Linearised predictions of a problem at one place, matrix-free: products with the Jacobian and its transpose."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core import Status
from ..engine import Options
from ..problem import Problem, weighted
from ._prior_model import prior_model

Vector = Float[Array, " parameters"]


class Linearised(NamedTuple):
    """The negative log posterior near one place of the coordinates of a fit.

    - `value`: of the negative log posterior, infinite where a simulation failed.
    - `gradient`: of it; `curvature`: the second derivative of the negative log prior, which is diagonal.
    - `product`: a vector times the Fisher information of the data.
    - `chi_squared`, `log_likelihood`: of the data.
    """

    value: Float[Array, ""]
    gradient: Vector
    curvature: Vector
    product: Callable[[Vector], Vector]
    chi_squared: Float[Array, ""]
    log_likelihood: Float[Array, ""]


def linearised(problem: Problem, z: Vector) -> Linearised:
    """The local model at `z`, by one linearisation of the simulations; a product is one tangent and one transposed solve."""

    def heads_of(z: Array) -> Any:
        return problem.model.heads(problem.natural(z), problem.dataset, Options(linear=True))

    heads, push, status = jax.linearize(heads_of, z, has_aux=True)
    pull = jax.linear_transpose(push, z)
    misfit, slopes = jax.value_and_grad(problem.misfit)(heads)
    penalty, prior_slope, curvature = prior_model(problem, z)
    (gradient,) = pull(slopes)
    # Once, not in each product: what a datum tells does not depend on the vector.
    known = {
        name: (problem.dataset.information(name, location, noise), jnp.isfinite(problem.data[name]))
        for name, (location, noise) in heads.items()
    }

    def product(v: Array) -> Array:
        tangents, back = push(v), {}
        for name, (information, seen) in known.items():
            moved, structure = jax.tree.flatten(tangents[name])
            # The factor of a datum's information applied, and then its transpose.
            zeros = [jnp.zeros_like(x) for x in moved]
            factor = lambda moved, i=information, s=seen, o=zeros: weighted(i, s, o, [x[..., None] for x in moved])[0]
            rows, turn = jax.linearize(factor, moved)
            (found,) = jax.linear_transpose(turn, moved)(rows)
            back[name] = jax.tree.unflatten(structure, found)
        return pull(back)[0]

    chi_squared = jnp.zeros((), problem.times.dtype)
    for name, (information, seen) in known.items():
        pulls = jax.tree.leaves(slopes[name])
        blocks = [jnp.zeros((*pulls[0].shape, 1), pulls[0].dtype)] * len(pulls)
        chi_squared = chi_squared + jnp.sum(weighted(information, seen, pulls, blocks)[1][0] ** 2)
    good = jnp.isfinite(misfit + penalty) & jnp.isfinite(gradient).all() & jnp.all(status == Status.OK)
    value = jnp.where(good, misfit + penalty, jnp.inf)
    return Linearised(value, gradient + prior_slope, curvature, product, chi_squared, -misfit)
