"""Local model of the objective for likelihoods whose data depend on each other."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..linear import eigenvalues, triangle
from ..problem import Problem
from ._prior_model import prior_model
from ._quadratic import LocalModel


def has_curvature(problem: Problem) -> bool:
    """Tell whether the likelihood of a problem has residuals or a Fisher information, which Gauss-Newton steps need."""
    theta = jnp.ones((problem.size,), problem.times.dtype)
    return has_residuals(problem) or jax.eval_shape(problem.information, theta) is not None


def has_residuals(problem: Problem) -> bool:
    """Tell whether the likelihood of a problem has residuals."""
    theta = jnp.ones((problem.size,), problem.times.dtype)
    return problem.likelihood.independent or jax.eval_shape(problem.residuals, theta) is not None


def dependent_model(problem: Problem, z: Float[Array, " parameters"]) -> LocalModel:
    """The local model at `z` from what a likelihood has: residuals, else its information, else second derivatives."""
    size = z.size
    told = lambda z: -problem.log_likelihood(problem.natural(z))[0]
    derive = jax.jacrev if problem.default_gradient == "reverse" else jax.jacfwd
    value, gradient = told(z), derive(told)(z)
    theta = problem.natural(z)
    residuals = lambda z: (problem.residuals(problem.natural(z)),) * 2
    pull, chi_squared = jnp.zeros_like(z), jnp.asarray(jnp.nan, z.dtype)
    if has_residuals(problem):
        jacobian, found = jax.jacfwd(residuals, has_aux=True)(z)
        stacked = jnp.concatenate([jacobian, found[:, None]], axis=1)
        joined = triangle(jnp.concatenate([jnp.zeros((size + 1, size + 1), z.dtype), stacked]))
        rows, pull, chi_squared = joined[:-1, :-1], joined[:-1, -1], found @ found
        gradient = gradient - found @ jacobian
    elif (information := problem.information(theta)) is not None:
        turn = jnp.where(jnp.array(problem.log, bool), theta, 1)
        rows = _root(information * turn[:, None] * turn[None])
    else:
        rows = _root(jax.jacfwd(derive(told))(z))
    penalty, prior_slope, curvature = prior_model(problem, z)
    nothing = jnp.zeros((), z.dtype)
    model = LocalModel(
        value + penalty,
        penalty,
        rows,
        pull,
        gradient + prior_slope,
        curvature,
        nothing,
        nothing,
        jnp.array(True),
    )
    good = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(model)]).all()
    finite = jax.tree.map(lambda leaf: jnp.where(good, leaf, jnp.zeros_like(leaf)), model)
    parts = jnp.where(good, model.value, jnp.inf), jnp.where(good, chi_squared, 0), good
    return eqx.tree_at(lambda m: (m.value, m.chi_squared, m.good), finite, parts)


def _root(matrix: Array) -> Array:
    """A matrix whose square is a symmetric one, without the directions in which that curves downwards."""
    diagonal = jnp.diag(matrix)
    size = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1))
    values, vectors = eigenvalues(matrix / size[:, None] / size[None])
    return jnp.sqrt(jnp.maximum(values, 0))[:, None] * vectors.T * size[None]
