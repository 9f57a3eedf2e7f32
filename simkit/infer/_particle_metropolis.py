"""Particle Markov chains: Metropolis steps with a likelihood that is estimated by random numbers."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from .._errors import ArgumentError
from ..engine import awaited, note_trace, over_members
from ..linear import cholesky
from ..problem import with_fresh_key
from ..stores import Followed, Journal
from ._diagnostics import describe_quality
from ._journal_blocks import in_blocks
from ._modes import Modes
from ._posterior import Posterior
from ._target import Target, prior_draws
from ._walked import Walked, joined

CANDIDATES = 64
"""Number of draws from the priors of which each chain begins at the best, where there is no fit to begin at."""


STUCK = 10
"""Number of refused proposals after which, during the warm-up, the density at a chain's place is estimated anew."""

FIRST_MOVES = 10
"""Number of moves that the first covariance of the proposals counts as. A move weighs 2 / (moves + this), which forgets the
first ones."""

SHORTEST = 0.1
"""Length of the shortest proposals, relative to the one that is best for a normal posterior known exactly."""


class ParticleMetropolis(eqx.Module):
    """Particle marginal Metropolis-Hastings: random-walk proposals, each judged by a likelihood estimate of its own.

    Draws are from the exact posterior of the simulated model, however few particles there are; with few the chain stands still
    where it was lucky. The proposal's covariance and length are tuned during the warm-up, which needs some hundred draws at least;
    there a chain that stands still estimates the likelihood at its place anew, so that it leaves a lucky estimate behind.

    **Arguments:**

    - `accept`: share of accepted proposals below which their length is shortened from 2.38 standard deviations over the square
        root of the number of parameters, which is near the best whatever the noise of the estimates. Good values are 0.1 to 0.25.
    - `block`: draws between two looks of the caller; a store loses at most so many.

    **Reference:** Andrieu, Doucet and Holenstein (2010), J. R. Stat. Soc. B 72:269, doi:10.1111/j.1467-9868.2009.00736.x; Sherlock
    et al. (2015), Ann. Stat. 43:238, doi:10.1214/14-AOS1278; Haario, Saksman and Tamminen (2001), Bernoulli 7:223.
    """

    accept: float = eqx.field(static=True, default=0.15)
    block: int = eqx.field(static=True, default=100)

    def __check_init__(self):
        if not 0 < self.accept < 1:
            raise ArgumentError(f"Argument `accept` must lie between 0 and 1, but it is {self.accept!r}.")
        if not isinstance(self.block, int) or self.block < 1:
            raise ArgumentError(f"Argument `block` must be a positive integer, but it is {self.block!r}.")


class Place(NamedTuple):
    """State of one chain, or with a leading axis of all."""

    u: Array
    density: Array
    mean: Array
    covariance: Array
    log_length: Array
    done: Array
    refused: Array
    moves: Array
    key: Array


def check_estimated(target: Target) -> None:
    """Refuse a likelihood without random numbers of its own.

    **Raises:** an `ArgumentError`.
    """
    likelihood = target.problem.likelihood
    if likelihood.with_key(jax.random.key(0)) is None:
        raise ArgumentError(
            f"`ParticleMetropolis` is for a likelihood that is estimated with random numbers, but `{type(likelihood).__name__}` "
            "draws none: take `NUTS()`."
        )


def sample_particle_metropolis(
    target: Target,
    method: ParticleMetropolis,
    modes: Modes | None,
    chains: int,
    draws: int,
    warmup: int,
    key: PRNGKeyArray,
    held: Journal | Followed | None,
) -> Posterior:
    """Draws by Metropolis steps.

    **Arguments:** `modes`: those of a fit, around the first of which chains begin; None to begin at the best of some draws from
    the priors.
    """
    block = min(method.block, warmup + draws) if held is None else held.settings["every"]
    total = warmup + draws

    def begin() -> Place:
        found = _begun(
            target, *candidates_of(target, modes, chains, key), jax.random.split(jax.random.fold_in(key, 1), chains)
        )
        return awaited(found, "sample", "where chains begin")

    def step(done: int, state: Place) -> tuple[Place, Walked]:
        found = _run(target, method, state, jnp.asarray(warmup), block)
        return awaited(found, "sample", f"draws {done * block} to {(done + 1) * block} of {total} a chain")

    blocks = in_blocks(-(-total // block), begin, step, held, "particle", Walked, key, least=warmup // block + 1)
    found, theta, density = joined(target, blocks, slice(warmup, total))
    none, ones = jnp.zeros(density.shape, bool), jnp.ones(density.shape, int)
    problem = target.problem
    units = problem.units
    warnings = list(describe_quality(theta, none, False))
    share = float(found.accepted.mean(axis=1).min())
    if share < 0.02:
        warnings.insert(
            0,
            f"A chain accepted only {share:.1%} of its proposals: take more particles, so that `filters.spread` gives 1 to 1.5, or "
            "a longer warm-up.",
        )
    return Posterior(
        theta, density, none, ones, found.accepted, problem.names, units, "particle Metropolis", tuple(warnings)
    )


def candidates_of(target: Target, modes: Modes | None, chains: int, key: PRNGKeyArray) -> tuple[Array, Array]:
    """Candidates of each chain's start, shape `(chain, candidate, parameter)`, and the covariance of the first proposals."""
    place = jax.random.fold_in(key, 0)
    if modes is None:
        theta = prior_draws(target.problem, place, chains * CANDIDATES)
        us = jax.vmap(target.coordinates.unconstrained)(theta)
        return us.reshape(chains, CANDIDATES, -1), 0.01 * jnp.atleast_2d(jnp.cov(us.T))
    center, covariance, root = (jnp.asarray(x[0]) for x in (modes.centers, modes.covariances, modes.roots()))
    white = jax.random.normal(place, (chains, 8, center.size), center.dtype)
    return center + jnp.einsum("ij,ckj->cki", root, white), covariance


@eqx.filter_jit
def _begun(target: Target, candidates: Array, covariance: Array, keys: Array) -> Place:
    """Every chain at the best of its candidates."""
    note_trace("sample, starts", target.parts() | {"chains": keys})

    def one(target: Target, member: Any) -> Place:
        us, key = member
        run, *each = jax.random.split(key, us.shape[0] + 1)
        density = jax.lax.map(lambda now: _estimate(target, *now), (us, jnp.stack(each)))
        best = jnp.argmax(density)
        length, none = best_length(us.shape[1]) * jnp.ones((), us.dtype), jnp.zeros((), jnp.int32)
        return Place(us[best], density[best], us[best], covariance, length, none, none, none, run)

    return over_members(one, target, (candidates, keys))


@eqx.filter_jit
def _run(target: Target, method: ParticleMetropolis, places: Place, warmup: Array, draws: int) -> tuple[Place, Walked]:
    """Every chain some draws further."""
    note_trace("sample", target.parts() | {"method": method, "chains": places.u, "block": draws})

    def one(target: Target, place: Place) -> Any:
        def move(place: Place, _: None) -> tuple[Place, Any]:
            key, way, estimate, accept = jax.random.split(place.key, 4)
            white = jax.random.normal(way, place.u.shape, place.u.dtype)
            tuning = place.done < warmup
            again = tuning & (place.refused >= STUCK)
            proposal = place.u + jnp.exp(place.log_length) * (covariance_root(place.covariance) @ white)
            proposal = jnp.where(again, place.u, proposal)
            density = _estimate(target, proposal, estimate)
            ratio = density - place.density
            taken = again | (jnp.log(jax.random.uniform(accept, (), ratio.dtype)) < ratio)
            u = jnp.where(taken, proposal, place.u)
            rate = jnp.where(tuning & ~again, (1.0 + place.done.astype(u.dtype)) ** -0.6, 0)
            # Of places alone that differ: a chain that stands still would teach that its posterior is a point.
            weight = jnp.where(tuning & taken & ~again, 2 / (FIRST_MOVES + place.moves.astype(u.dtype)), 0)
            apart = u - place.mean
            log_length = place.log_length + rate * (jnp.exp(jnp.minimum(ratio, 0)) - method.accept)
            best = best_length(u.size)
            log_length = jnp.clip(log_length, best + math.log(SHORTEST), best)
            covariance = (1 - weight) * place.covariance + weight * apart[:, None] * apart[None]
            after = Place(
                u,
                jnp.where(taken, density, place.density),
                place.mean + weight * apart,
                covariance,
                log_length,
                place.done + 1,
                jnp.where(taken, 0, place.refused + 1),
                place.moves + (taken & ~again),
                key,
            )
            return after, (u, after.density, taken.astype(u.dtype))

        place, found = jax.lax.scan(move, place, None, length=draws)
        return place, Walked(*found)

    return over_members(one, target, places)


def best_length(size: int) -> float:
    """Logarithm of the length of proposals that is best for a normal posterior known exactly, in its standard deviations."""
    return math.log(2.38 / math.sqrt(size))


def _estimate(target: Target, u: Array, key: PRNGKeyArray) -> Array:
    """An estimate of the log density with random numbers of its own."""
    problem = with_fresh_key(target.problem, key)
    return eqx.tree_at(lambda t: t.problem, target, problem).log_density(u)


def covariance_root(covariance: Array) -> Array:
    """A root of a covariance that may be singular, since it grew from few places."""
    width = jnp.sqrt(jnp.diag(covariance))
    unit = jnp.where(width > 0, width, 1)
    scaled = covariance / (unit[:, None] * unit[None])
    return unit[:, None] * cholesky(scaled + 1e-6 * jnp.eye(unit.size, dtype=unit.dtype))
