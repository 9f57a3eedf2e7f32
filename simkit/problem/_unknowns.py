"""Unknowns of a problem: priors, bounds, starts, and the coordinates in which a fit moves."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from ._prior import StoredPrior


class Unknowns(eqx.Module):
    """The free parameters of a problem, in the order of `names`.

    - `stored`: their priors, None for a flat one.
    - `bounds`: shape `(parameters, 2)`, natural units.
    - `starts`: shape `(parameters,)`, NaN where a start is drawn.
    - `log`: whether a fit moves each by its logarithm.
    - `shared`: how many are parameters of a model or of a population; the others, the last, are deviations of individuals.
    """

    # In the order of `names`: a dict would come back from a pytree sorted by key.
    stored: tuple[StoredPrior | None, ...]
    bounds: Float[Array, "parameters 2"]
    starts: Float[Array, " parameters"]
    names: tuple[str, ...] = eqx.field(static=True)
    log: tuple[bool, ...] = eqx.field(static=True)
    shared: int = eqx.field(static=True)

    @property
    def priors(self) -> tuple[dist.Distribution | None, ...]:
        """The priors, in the order of `names`; None for a flat one."""
        return tuple(None if prior is None else prior.distribution() for prior in self.stored)

    def log_prior(self, theta: Float[Array, " parameters"]) -> Float[Array, ""]:
        """The log prior density; a parameter without a prior adds nothing."""
        count = self.shared
        total = jnp.sum(-0.5 * theta[count:] ** 2 - 0.5 * math.log(2 * math.pi))
        for prior, x in zip(self.priors[:count], theta[:count], strict=True):
            total = total if prior is None else total + jnp.asarray(prior.log_prob(x), theta.dtype)
        return total

    def natural(self, z: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Fit coordinates -> natural units: the exponential where a parameter moves by its logarithm."""
        log = np.broadcast_to(np.array(self.log, bool), z.shape)
        return jnp.where(log, jnp.exp(jnp.where(log, z, 0)), z)

    def coordinates(self, theta: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Natural units -> fit coordinates."""
        log = np.broadcast_to(np.array(self.log, bool), theta.shape)
        return jnp.where(log, jnp.log(jnp.where(log, theta, 1)), theta)

    def coordinate_bounds(self) -> Float[Array, "parameters 2"]:
        """The bounds in the coordinates of a fit."""
        return self.coordinates(self.bounds.T).T
