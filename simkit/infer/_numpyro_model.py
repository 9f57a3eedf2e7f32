"""A problem as a NumPyro model, for everything NumPyro can do that simkit has no verb for."""

from collections.abc import Callable

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from ..problem import Problem
from ._target import check_proper


def numpyro_model(problem: Problem) -> Callable[[], None]:
    """A NumPyro model with one sample site a free parameter and the likelihood as a factor.

    Failed simulations have the log likelihood minus infinity.
    """
    check_proper(problem)

    def model() -> None:
        values = []
        for name, prior, bounds in zip(problem.names, problem.priors, problem.bounds, strict=True):
            site = dist.Uniform(bounds[0], bounds[1]) if prior is None else prior
            values.append(numpyro.sample(name, site))
        theta = jnp.stack(values)
        inside = jnp.all((theta > problem.bounds[:, 0]) & (theta < problem.bounds[:, 1]))
        value, _ = problem.log_likelihood(theta)
        numpyro.factor("log_likelihood", jnp.where(inside & jnp.isfinite(value), value, -jnp.inf))

    return model
