"""Particle Gibbs: parameters given the noise of one path, and the noise given parameters by a conditional particle filter."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_count
from .._errors import ArgumentError
from ..engine import awaited, note_trace, over_members
from ..filters import (
    ParticleFilter,
    conditional_pass,
    euler_noise,
    euler_states,
    has_density,
    path_density,
    random_noise,
    renewed,
)
from ..problem import Problem
from ..stores import Followed, Journal
from ._counts import Counts
from ._diagnostics import describe_quality
from ._journal_blocks import in_blocks
from ._modes import Modes
from ._particle_metropolis import FIRST_MOVES, best_length, candidates_of, covariance_root
from ._posterior import Posterior
from ._target import Target
from ._walked import Walked, joined

ACCEPT = 0.25
"""Share of accepted moves to which the length of proposals is tuned."""

RENEWED = 0.1
"""Share of sweeps that draw the noise before the first datum anew, below which a warning says so."""


class ParticleGibbs(eqx.Module):
    """Particle Gibbs for stochastic systems and jump processes, in terms of the noise that makes a path.

    A sweep has two halves. Given one path for each experiment the data are independent, and random-walk Metropolis moves draw the
    parameters. Given the parameters a conditional particle filter draws a new path beside the one that is kept. Both leave the
    exact posterior of the simulated model unchanged, for any number of particles.

    With steps of `EulerMaruyama` whose noise has full rank, and at most eight states, the density of a step is known. Then the kept
    path draws a new ancestor at each datum, so that ten or twenty particles are enough, and parameters move twice: given the noise,
    where the path moves with them, and given the states, where the noise does. The first serves strengths of noise, which states at
    short steps fix, the second rates of a drift, which data and noise together fix.

    With other steps and for jump processes the random keys of a path are kept, and parameters move given these alone. The noise of
    early times is then seldom drawn anew where particles are fewer than ten times the number of data, which a warning tells, and
    chains mix slowly where data say much about the parameters given the noise: `ParticleMetropolis` is better there.

    **Arguments:**

    - `moves`: Metropolis moves of the parameters, of each kind, in a sweep. A move costs one path; a sweep as many as particles.
    - `block`: draws between two looks of the caller; a store loses at most so many.

    `log_density` of the posterior is an estimate by the conditional filter.

    **Good values:** the defaults with 20 particles and `solver=EulerMaruyama()`.

    **Reference:** Andrieu, Doucet and Holenstein (2010), J. R. Stat. Soc. B 72:269, doi:10.1111/j.1467-9868.2009.00736.x; Lindsten,
    Jordan and Schoen (2014), J. Mach. Learn. Res. 15:2145, for ancestors; Yu and Meng (2011), J. Comput. Graph. Stat. 20:531,
    doi:10.1198/jcgs.2011.203main, for both kinds of moves.
    """

    moves: int = eqx.field(static=True, default=20)
    block: int = eqx.field(static=True, default=100)

    def __check_init__(self):
        check_count("moves", self.moves)
        check_count("block", self.block)


class Sweeper(NamedTuple):
    """State of one chain, or with a leading axis of all; `noise` has a key for each experiment and datum."""

    u: Array
    noise: Array
    mean: Array
    covariance: Array
    log_lengths: Array  # of proposals given the noise, and given the states
    done: Array
    key: Array


class Swept(NamedTuple):
    """Result of a block of draws in unconstrained coordinates, with a leading axis of chains."""

    us: Float[Array, "chain draw parameter"]
    density: Float[Array, "chain draw"]
    accepted: Float[Array, "chain draw"]
    renewed: Float[Array, "chain draw"]


def check_particles(problem: Problem) -> None:
    """Refuse a likelihood without particles.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(problem.likelihood, ParticleFilter):
        raise ArgumentError(
            "`ParticleGibbs` draws paths by particles, but this problem has the likelihood "
            f"`{type(problem.likelihood).__name__}`. Give it `likelihood=simkit.filters.ParticleFilter(...)`, or take `NUTS()`."
        )
    if problem.likelihood.proposal != "bootstrap":
        raise ArgumentError(
            "`ParticleGibbs` draws paths that know nothing of the data ahead, so its particles cannot be guided: leave `proposal` "
            "of `ParticleFilter` out, or take `ParticleMetropolis()`."
        )


def sample_particle_gibbs(
    target: Target,
    method: ParticleGibbs,
    modes: Modes | None,
    counts: Counts,
    key: PRNGKeyArray,
    held: Journal | Followed | None,
) -> Posterior:
    """Draws by sweeps; `modes` as for `sample_particle_metropolis`."""
    chains, draws, warmup = counts
    total = warmup + draws
    block = min(method.block, total) if held is None else held.settings["every"]

    def begin() -> Sweeper:
        keys = jax.random.split(jax.random.fold_in(key, 1), chains)
        found = _begun(target, *candidates_of(target, modes, chains, key), keys)
        return awaited(found, "sample", "where chains begin")

    def step(done: int, state: Sweeper) -> tuple[Sweeper, Swept]:
        found = _run(target, method, state, jnp.asarray(warmup), block)
        return awaited(found, "sample", f"draws {done * block} to {(done + 1) * block} of {total} a chain")

    blocks = in_blocks(-(-total // block), begin, step, held, "gibbs", Swept, key, least=warmup // block + 1)
    kept = slice(warmup, total)
    found, theta, density = joined(target, [Walked(b.us, b.density, b.accepted) for b in blocks], kept)
    share = np.concatenate([np.asarray(b.renewed) for b in blocks], axis=1)[:, kept].mean(axis=1).min()
    none, ones = jnp.zeros(density.shape, bool), jnp.ones(density.shape, int)
    warnings = list(describe_quality(theta, none, False))
    if share < RENEWED:
        warnings.insert(
            0,
            f"Only {share:.1%} of the sweeps drew the noise before the first datum anew in some chain: take more particles.",
        )
    problem = target.problem
    return Posterior(
        theta, density, none, ones, found.accepted, problem.names, problem.units, "particle Gibbs", tuple(warnings)
    )


def _prior(target: Target, u: Array) -> tuple[Array, Array]:
    """Parameters in natural units, and their log prior density in unconstrained coordinates."""
    theta = target.coordinates.natural(u)
    return theta, target.problem.log_prior(theta) + target.coordinates.log_volume(u)


def _joint(target: Target, u: Array, noise: Array) -> Array:
    """The log density of parameters and data, given the noise; minus infinity where there is none."""
    theta, prior = _prior(target, u)
    value = prior + path_density(target.problem, theta, noise)
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def _with_states(target: Target, u: Array, states: Array) -> Array:
    """The log density of parameters, states and data; minus infinity where there is none."""
    theta, prior = _prior(target, u)
    value = prior + euler_noise(target.problem, theta, states)[1]
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def _moved(
    density: Callable[[Array], Array], u: Array, log_length: Array, root: Array, rate: Array, moves: int, key: Array
) -> tuple[Array, Array, Array]:
    """Parameters after some Metropolis moves, the length of proposals tuned at a rate, and the share that was accepted."""

    def move(carry: tuple[Array, Array, Array], key: Array) -> tuple[Any, Array]:
        u, value, log_length = carry
        way, accept = jax.random.split(key)
        proposal = u + jnp.exp(log_length) * (root @ jax.random.normal(way, u.shape, u.dtype))
        other = density(proposal)
        taken = jnp.log(jax.random.uniform(accept, (), u.dtype)) < other - value
        chance = jnp.where(other > value, 1, jnp.exp(jnp.minimum(other - value, 0)))
        chance = jnp.where(jnp.isfinite(chance), chance, 0)
        after = jnp.where(taken, proposal, u), jnp.where(taken, other, value)
        return (*after, log_length + rate * (chance - ACCEPT)), taken.astype(u.dtype)

    (u, _, log_length), taken = jax.lax.scan(move, (u, density(u), log_length), jax.random.split(key, moves))
    return u, log_length, jnp.mean(taken)


@eqx.filter_jit
def _begun(target: Target, candidates: Array, covariance: Array, keys: Array) -> Sweeper:
    """Every chain at the best of its candidates, with noise that particles drew there."""
    note_trace("sample, starts", target.parts() | {"chains": keys})

    def one(target: Target, member: Any) -> Sweeper:
        us, key = member
        run, unused, *each = jax.random.split(key, us.shape[0] + 2)
        any_noise = random_noise(target.problem, unused)

        def drawn(now: tuple[Array, Array]) -> tuple[Array, Array]:
            theta, prior = _prior(target, now[0])
            noise, density = conditional_pass(target.problem, theta, any_noise, now[1], jnp.array(False))
            total = prior + density
            return noise, jnp.where(jnp.isfinite(total), total, -jnp.inf)

        noises, density = jax.lax.map(drawn, (us, jnp.stack(each)))
        best = jnp.argmax(density)
        lengths = best_length(us.shape[1]) * jnp.ones((2,), us.dtype)
        return Sweeper(us[best], noises[best], us[best], covariance, lengths, jnp.zeros((), jnp.int32), run)

    return over_members(one, target, (candidates, keys))


@eqx.filter_jit
def _run(target: Target, method: ParticleGibbs, chains: Sweeper, warmup: Array, draws: int) -> tuple[Sweeper, Swept]:
    """Every chain some sweeps further."""
    note_trace("sample", target.parts() | {"method": method, "chains": chains.u, "block": draws})

    def one(target: Target, chain: Sweeper) -> Any:
        def sweep(chain: Sweeper, nothing: None) -> tuple[Sweeper, Any]:
            key, for_moves, for_others, for_noise = jax.random.split(chain.key, 4)
            tuning = chain.done < warmup
            root = covariance_root(chain.covariance)
            rate = jnp.where(tuning, (1.0 + chain.done.astype(chain.u.dtype)) ** -0.6, 0) / method.moves
            noise, lengths = chain.noise, chain.log_lengths
            walk = lambda density, u, length, key: _moved(density, u, length, root, rate, method.moves, key)
            given_noise = lambda u: _joint(target, u, noise)
            u, length, taken = walk(given_noise, chain.u, lengths[0], for_moves)
            lengths = lengths.at[0].set(length)
            if has_density(target.problem):
                states = euler_states(target.problem, _prior(target, u)[0], noise)
                u, length, more = walk(lambda u: _with_states(target, u, states), u, lengths[1], for_others)
                lengths, taken = lengths.at[1].set(length), 0.5 * (taken + more)
                back, density = euler_noise(target.problem, _prior(target, u)[0], states)
                # Without a density no parameter has moved, and there is no way back from the states.
                noise = jnp.where(jnp.isfinite(density), back, noise)
            theta, prior = _prior(target, u)
            after, density = conditional_pass(target.problem, theta, noise, for_noise, jnp.array(True))
            weight = jnp.where(tuning, 2 / (FIRST_MOVES + chain.done.astype(u.dtype)), 0)
            apart = u - chain.mean
            covariance = (1 - weight) * chain.covariance + weight * apart[:, None] * apart[None]
            place = Sweeper(u, after, chain.mean + weight * apart, covariance, lengths, chain.done + 1, key)
            return place, (u, prior + density, taken, renewed(after, noise).astype(u.dtype))

        chain, found = jax.lax.scan(sweep, chain, None, length=draws)
        return chain, Swept(*found)

    return over_members(one, target, chains)
