"""Regions that hold nearly all of a learned posterior, to which priors are cut off for further simulations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ...engine import awaited, note_trace
from ...problem import Problem
from .._target import prior_draws
from ._density import Density, Standard
from ._places import Places

LEFT_OUT = 1e-4
"""Part of the learned posterior outside of the region."""

KNOWN = 10_000
"""Draws of the learned posterior by which the region's lowest density is found."""

MOST_TRIES = 200
"""Draws of the priors for each one wanted, after which the rest comes from the learned posterior by weights."""

CHOICES = 32
"""Draws of the learned posterior of which one is taken by its weight."""


class Region(eqx.Module):
    """The set on which the density of a learned posterior is at least `least`, in places."""

    density: Density
    standard: Standard
    places: Places
    context: Float[Array, " context"]
    least: Float[Array, ""]

    def log_prob(self, u: Float[Array, "batch parameter"]) -> Float[Array, " batch"]:
        context = jnp.broadcast_to(self.context, (u.shape[0], self.context.shape[0]))
        return self.density.log_prob(self.standard(u), context)

    @eqx.filter_jit
    def holds(self, u: Float[Array, "batch parameter"]) -> Bool[Array, " batch"]:
        """Tell which points lie inside."""
        return self.log_prob(u) >= self.least


def region_of(density: Density, standard: Standard, places: Places, context: Array, key: PRNGKeyArray) -> Region:
    """The region of highest density that holds all but `LEFT_OUT` of a learned posterior."""
    region = Region(density, standard, places, context, jnp.zeros((), jnp.float32))
    _, values = awaited(_from_density(region, key, KNOWN), "sample", "while a region was found")
    least = np.quantile(np.asarray(values), LEFT_OUT)
    return eqx.tree_at(lambda r: r.least, region, jnp.asarray(least, jnp.float32))


@eqx.filter_jit
def _from_density(region: Region, key: PRNGKeyArray, count: int) -> tuple[Array, Array]:
    note_trace("sample, draws of a learned posterior", {"density": region.density, "draws": count})
    z = region.density.sample(key, region.context, count)
    u = region.standard.back(z)
    return u, region.log_prob(u)


def drawn_in(region: Region, problem: Problem, key: PRNGKeyArray, count: int) -> Float[Array, "count parameter"]:
    """Draws of the priors inside a region, in natural units."""
    chunk, found, tried = max(4 * count, 10_000), [], 0
    while sum(map(len, found)) < count and tried < MOST_TRIES * count:
        theta = prior_draws(problem, jax.random.fold_in(key, tried), chunk)
        inside = np.asarray(region.holds(jax.vmap(region.places.of)(theta)))
        found.append(np.asarray(theta)[inside])
        tried += chunk
    theta = np.concatenate(found)[:count]
    if len(theta) < count:
        rest = _weighed(region, problem, jax.random.fold_in(key, -1 % 2**31), count - len(theta))
        theta = np.concatenate([theta, np.asarray(awaited(rest, "sample", "inside a region"))])
    return jnp.asarray(theta)


@eqx.filter_jit
def _weighed(region: Region, problem: Problem, key: PRNGKeyArray, count: int) -> Array:
    """Draws of the learned posterior, taken by prior over density inside the region: nearly draws of the prior there."""
    place, pick = jax.random.split(key)
    u, log_q = _from_density(region, place, CHOICES * count)
    theta = jax.vmap(region.places.natural)(u)
    prior = jax.vmap(lambda u, theta: problem.log_prior(theta) + region.places.log_volume(u))(u, theta)
    weight = jnp.where(log_q >= region.least, prior - log_q.astype(prior.dtype), -jnp.inf)
    weight = jnp.where(jnp.isfinite(weight), weight, -1e30).reshape(count, CHOICES)
    chosen = jax.random.categorical(pick, weight, axis=1)
    return jnp.take_along_axis(theta.reshape(count, CHOICES, -1), chosen[:, None, None], axis=1)[:, 0]
