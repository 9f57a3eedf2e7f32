"""The density that samplers see, and where they start."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro import distributions as dist

from .._errors import ArgumentError
from ..problem import Joint, Problem, StoredPrior, Unknowns, check_gaussian, drawn, named_parts, normal_score, quantile
from ._coordinates import Unconstrained, unconstrained_coordinates

TRIES = 64
"""Draws of a prior, of which the first inside the bounds is taken."""


class Target(eqx.Module):
    """The log posterior of a problem in unconstrained coordinates; minus infinity where a simulation fails, never NaN."""

    problem: Problem
    coordinates: Unconstrained
    gradient: Literal["forward", "reverse"] = eqx.field(static=True)

    def parts(self) -> dict[str, Any]:
        """Everything that a program made from the target depends on, by the names that users know, for `note_trace`."""
        return named_parts(self.problem) | {"bounded": self.coordinates.kinds, "gradient": self.gradient}

    def log_density(self, u: Float[Array, " parameters"]) -> Float[Array, ""]:
        """log p(theta(u) | data) + log |d theta / d u|."""
        theta = self.coordinates.natural(u)
        value = self.problem.log_posterior(theta) + self.coordinates.log_volume(u)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    def in_natural_units(
        self, u: Float[Array, "chain draw parameter"], density: Float[Array, "chain draw"]
    ) -> tuple[Float[Array, "chain draw parameter"], Float[Array, "chain draw"]]:
        """Draws and their log densities, both in unconstrained coordinates, in natural units."""
        theta = jax.vmap(jax.vmap(self.coordinates.natural))(u)
        return theta, density - jax.vmap(jax.vmap(self.coordinates.log_volume))(u)


def target_of(problem: Problem, gradient: Literal["forward", "reverse"] | None = None) -> Target:
    """The target of a problem, refused where a flat prior has no bounds."""
    check_proper(problem)
    problem = problem.lean()
    return Target(problem, unconstrained_coordinates(problem), gradient or problem.default_gradient)


def check_proper(problem: Problem) -> None:
    """Refuse a flat prior on an unbounded parameter: its posterior need not exist, and it cannot be drawn from."""
    if not problem.size:
        raise ArgumentError("The problem must have at least one free parameter to be sampled, but it has none.")
    bounds = np.asarray(problem.bounds)
    for block, prior in problem.unknowns.pairs:
        if prior is None and not np.all(np.isfinite(bounds[block.span])):
            raise ArgumentError(
                f"Sampling needs a prior or two finite bounds for `{block.name}`, but it has neither: give `Free(prior=...)`."
            )


def prior_draws(problem: Problem, key: PRNGKeyArray, count: int) -> Float[Array, "draws parameters"]:
    """Draws from the priors, inside the bounds; a flat prior is drawn uniformly between its bounds.

    **Arguments:** `problem`, `key`, and how many draws. **Returns:** shape `(count, parameters)`, natural units, for `predict`.
    """
    check_proper(problem)
    check_gaussian(problem, "A draw from the priors")
    unknowns, dtype, columns = problem.unknowns, problem.bounds.dtype, []
    keys = jax.random.split(key, len(unknowns.blocks))
    for (block, prior), k in zip(unknowns.pairs, keys, strict=True):
        lower, upper = problem.bounds[block.offset]
        shape = (count, *block.shape)
        if prior is None:
            found = jax.random.uniform(k, shape, dtype, lower, upper)
        elif isinstance(prior, StoredPrior):
            found = _inside(prior.distribution(), k, shape, lower, upper).astype(dtype)
        else:
            found = prior.field(jax.random.normal(k, shape, dtype))
            found = jnp.exp(found) if block.log else found
        columns.append(found.reshape(count, block.size))
    draws = jnp.concatenate(columns, axis=1)
    for i, joint in enumerate(unknowns.joints):
        places = np.array(joint.places)
        draws = draws.at[:, places].set(_drawn_together(unknowns, joint, jax.random.fold_in(key, i), count))
    return draws


def _drawn_together(unknowns: Unknowns, joint: Joint, key: PRNGKeyArray, count: int) -> Float[Array, "count names"]:
    """Draws of unknowns with a copula, cut off at their bounds together, as `_inside` does for one."""
    places, bounds = joint.places, unknowns.bounds[np.array(joint.places)]
    priors = [unknowns.prior_at(place) for place in places]
    # Rejected by their normal scores: what these stand for takes longer to find.
    ends = jnp.stack([normal_score(prior, pair) for prior, pair in zip(priors, bounds, strict=True)])
    tries = joint.drawn(key, TRIES * count, bounds.dtype).reshape(len(places), TRIES, count)
    good = jnp.all((tries > ends[:, :1, None]) & (tries < ends[:, 1:, None]), axis=0)
    first = jnp.take_along_axis(tries, jnp.argmax(good, axis=0)[None, None], axis=1)[:, 0]
    found = jnp.stack([quantile(prior, z) for prior, z in zip(priors, first, strict=True)])
    lower, upper = bounds[:, :1], bounds[:, 1:]
    return jnp.clip(found, jnp.nextafter(lower, upper), jnp.nextafter(upper, lower)).T


def _inside(prior: dist.Distribution, key: PRNGKeyArray, shape: tuple[int, ...], lower: Array, upper: Array) -> Array:
    """Draws of a prior cut off at bounds, by rejection: the first of some tries that lies inside, else the nearest bound."""
    tries = drawn(prior, key, (TRIES, *shape))
    good = (tries > lower) & (tries < upper)
    first = jnp.take_along_axis(tries, jnp.argmax(good, axis=0)[None], axis=0)[0]
    return jnp.clip(first, jnp.nextafter(lower, upper), jnp.nextafter(upper, lower))
