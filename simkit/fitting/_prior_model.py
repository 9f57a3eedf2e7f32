"""Local model of the prior density."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..problem import Problem


def prior_model(problem: Problem, z: Array) -> tuple[Array, Array, Array]:
    """The negative log prior, its gradient and its second derivative, which is diagonal because priors are independent."""

    def penalty(z: Array) -> Array:
        return -problem.unknowns.log_prior_at(z)

    slope, curvature = jax.jvp(jax.grad(penalty), (z,), (jnp.ones_like(z),))
    return penalty(z), slope, jnp.maximum(curvature, 0)
