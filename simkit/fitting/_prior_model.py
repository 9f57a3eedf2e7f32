"""Local model of the prior density.

Its second derivative is diagonal where priors are independent, and is then given as that diagonal, shape `(parameters,)`. Where a
copula joins some, it is given as a root P of shape `(parameters, parameters)`: the second derivative is P^T P.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..linear import triangle
from ..problem import AbstractField, Problem


def prior_model(problem: Problem, z: Array) -> tuple[Array, Array, Array]:
    """The negative log prior, its gradient and its second derivative, without what of it is negative."""

    def penalty(z: Array) -> Array:
        return -problem.unknowns.log_prior_at(z)

    if problem.unknowns.joints:
        return penalty(z), jax.grad(penalty)(z), _joint_root(problem, z)
    slope, curvature = jax.jvp(jax.grad(penalty), (z,), (jnp.ones_like(z),))
    for block, prior in problem.unknowns.fields:
        if not isinstance(prior, AbstractField):  # not diagonal: that of a flat field
            curvature = curvature.at[block.span].set(1)
    return penalty(z), slope, jnp.maximum(curvature, 0)


def prior_slope_and_root(problem: Problem, z: Array) -> tuple[Array, Array]:
    """The gradient of the negative log prior, and a root of its second derivative."""
    _, slope, curvature = prior_model(problem, z)
    return slope, root_of_prior(curvature)


def _joint_root(problem: Problem, z: Array) -> Array:
    """A root of the second derivative: normal scores of a copula, whitened, are residuals; the rest is diagonal."""
    unknowns, ones = problem.unknowns, jnp.ones_like(z)

    def rest(z: Array) -> Array:
        theta = problem.natural(z)
        inside = zip(unknowns.joints, unknowns.scores(theta), strict=True)
        both = sum((joint.log_density(s) - 0.5 * jnp.sum(s**2) for joint, s in inside), jnp.zeros((), z.dtype))
        return -(unknowns.log_prior_at(z) - both)

    # What is left of normal and log-normal priors beside their scores is linear.
    diagonal = jnp.maximum(jax.jvp(jax.grad(rest), (z,), (ones,))[1], 0)
    rows = [jnp.diag(jnp.sqrt(diagonal))]
    scores = jax.jvp(lambda z: unknowns.scores(problem.natural(z)), (z,), (ones,))[1]  # each reads its own number alone
    for joint, slopes in zip(unknowns.joints, scores, strict=True):
        own = jnp.zeros((len(joint.places), z.size), z.dtype)
        own = own.at[np.arange(len(joint.places)), np.array(joint.places)].set(slopes)
        rows.append(joint.whitened(own))
    return triangle(jnp.concatenate(rows))


def root_of_prior(curvature: Any) -> Any:
    """A root of the second derivative, shape `(parameters, parameters)`, in NumPy or JAX as it is given."""
    if curvature.ndim == 2:
        return curvature
    return (jnp if isinstance(curvature, jax.Array) else np).diag(curvature**0.5)


def diagonal_of_prior(curvature: Any) -> Any:
    """The diagonal of the second derivative."""
    return (curvature**2).sum(axis=0) if curvature.ndim == 2 else curvature


def times_prior(curvature: Array, v: Array) -> Array:
    """The second derivative times a vector."""
    return curvature.T @ (curvature @ v) if curvature.ndim == 2 else curvature * v
