"""A problem as a NumPyro model, for everything NumPyro can do that simkit has no verb for."""

from collections.abc import Callable

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from ..problem import AbstractFieldPrior, Problem, check_gaussian
from ._target import check_proper


def numpyro_model(problem: Problem) -> Callable[[], None]:
    """A NumPyro model with one sample site an unknown and the likelihood as a factor.

    A large array is one site, a field `name` with a prior of fields one of its white coordinates, `name.white`.

    Failed simulations have the log likelihood minus infinity.
    """
    check_proper(problem)
    check_gaussian(problem, "`numpyro_model`, whose posterior is drawn and which")

    def model() -> None:
        values, unknowns = [], problem.unknowns
        for block, prior in unknowns.pairs:
            lower, upper = problem.bounds[block.offset]
            if isinstance(prior, AbstractFieldPrior):
                sites = dist.Normal(0.0, 1.0).expand(block.shape).to_event()
                white = jnp.asarray(numpyro.sample(f"{block.name}.white", sites))
                found = prior.field(white)
                values.append((jnp.exp(found) if block.log else found).ravel())
                continue
            site = dist.Uniform(lower, upper) if prior is None else prior.distribution()
            site = site.expand(block.shape).to_event() if block.shape else site
            values.append(jnp.ravel(numpyro.sample(block.name, site)))
        theta = jnp.concatenate(values)
        inside = jnp.all((theta > problem.bounds[:, 0]) & (theta < problem.bounds[:, 1]))
        value, _ = problem.log_likelihood(theta)
        for joint, z in zip(unknowns.joints, unknowns.scores(theta), strict=True):
            numpyro.factor(f"dependence of {', '.join(joint.names)}", joint.log_density(z))
        numpyro.factor("log_likelihood", jnp.where(inside & jnp.isfinite(value), value, -jnp.inf))

    return model
