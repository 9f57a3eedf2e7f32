"""Parallel tempering: replicas from the prior to the posterior that exchange places, for several modes and the evidence."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._errors import ArgumentError, SamplingError
from ..engine import awaited, note_trace, over_members
from ._counts import Counts
from ._diagnostics import describe_quality
from ._posterior import Posterior
from ._target import Target, prior_draws
from ._tempered_moves import ACCEPTANCE, At, Kernel, moved, parts_of

ROUNDS = 6
"""Rounds of warm-up, after each of which temperatures, covariances and steps are chosen anew."""

FEW_RESTARTS = 20
"""Passages from the prior to the posterior, all runs together, below which modes may be weighed badly."""

REJECTED = 0.7
"""Mean rejection of exchanges above which more temperatures are asked for; one half is best (Syed et al. 2022, section 4.3)."""


class ParallelTempering(eqx.Module):
    r"""Replicas at inverse temperatures $0 = \beta_0 < \dots < \beta_N = 1$, each with the density
    $p(\theta)\, p(y \mid \theta)^{\beta}$, move for themselves and exchange their places, even and odd pairs by turns.

    The one at 0 is drawn anew from the prior in each scan, so that places from anywhere reach the posterior: its draws, unlike
    chains that begin in one mode, have the modes in the right proportions, and hold them for ever. The temperatures are chosen in
    the warm-up so that all pairs reject alike. The evidence $p(y)$ comes along, by stepping stones. Each `chain` of `sample` is
    one run of all replicas. There is no fit.

    **Arguments:**

    - `temperatures`: how many. A warning says a better number where exchanges are rejected too often.
    - `kernel`: "hmc" moves along gradients, "random_walk" needs none; both by the covariance of each temperature's draws, with
        steps tuned in the warm-up.
    - `moves`: moves of each replica between two exchanges.
    - `leapfrog`: steps of one move of "hmc".

    **Good values:** the defaults with 600 scans of warm-up and 2,000 draws, for ten parameters and a data set of hundreds.

    **References:** Syed, Bouchard-Côté, Deligiannidis & Doucet (2022), doi:10.1111/rssb.12464; for the evidence Xie et al. (2011),
    doi:10.1093/sysbio/syq085.
    """

    temperatures: int = eqx.field(static=True, default=12)
    kernel: Kernel = eqx.field(static=True, default="hmc")
    moves: int = eqx.field(static=True, default=1)
    leapfrog: int = eqx.field(static=True, default=6)

    def __check_init__(self) -> None:
        if self.kernel not in ACCEPTANCE:
            raise ArgumentError(f'Argument `kernel` must be "hmc" or "random_walk", but it is {self.kernel!r}.')
        for name, least in (("temperatures", 2), ("moves", 1), ("leapfrog", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ArgumentError(f"Argument `{name}` must be an integer of at least {least}, but it is {value!r}.")


class Tuned(NamedTuple):
    """Choices of the warm-up by temperature: inverse temperature, and root and step of its moves."""

    betas: Float[Array, " temperature"]
    roots: Float[Array, "temperature parameter parameter"]
    steps: Float[Array, " temperature"]


class Replicas(NamedTuple):
    """The replicas of one run by temperature.

    `number` tells who is where, `fresh` who came from the prior and has not been at the posterior since, `restarts` how many did
    arrive there, and `scan` the number of exchanges.
    """

    u: Float[Array, "temperature parameter"]
    prior: Float[Array, " temperature"]
    likelihood: Float[Array, " temperature"]
    fresh: Array
    restarts: Int[Array, ""]
    scan: Int[Array, ""]
    key: PRNGKeyArray


class _Scan(NamedTuple):
    """Record of one scan of one run."""

    u: Array
    prior: Array
    likelihood: Array
    accept: Array
    rejected: Array
    rates: Array
    places: Array
    rises: Array


class Scanned(NamedTuple):
    """Results of a block of scans of one run.

    `rejected` and `accepted` are means over the scans, `mean` and `square` of the places by temperature; `ratios` are the
    logarithms of the mean ratios of neighbouring densities.
    """

    u: Float[Array, "draw parameter"]
    prior: Float[Array, " draw"]
    likelihood: Float[Array, " draw"]
    accept: Float[Array, " draw"]
    rejected: Array
    accepted: Array
    mean: Array
    square: Array
    ratios: Array


def sample_parallel(target: Target, method: ParallelTempering, counts: Counts, key: PRNGKeyArray) -> Posterior:
    """All runs at once, over all devices, in blocks of one compiled program."""
    chains, draws, warmup = counts
    size, count = target.problem.size, method.temperatures
    block = max(1, min(-(-warmup // ROUNDS), 200)) if warmup else min(draws, 200)
    place, run, priors = jax.random.split(key, 3)
    first = jax.vmap(target.coordinates.unconstrained)(prior_draws(target.problem, place, chains * count))
    spread = np.asarray(jnp.std(first, axis=0))
    dtype = first.dtype
    root = np.diag(np.where(np.isfinite(spread) & (spread > 0), spread, 1))
    tuned = Tuned(
        jnp.asarray(np.linspace(0, 1, count) ** 4, dtype),
        jnp.asarray(np.broadcast_to(root, (count, size, size)), dtype),
        jnp.full((count,), 0.2 if method.kernel == "hmc" else 2.38 / size**0.5, dtype),
    )
    states = awaited(
        _begin(target, first.reshape(chains, count, size), jax.random.split(run, chains)),
        "sample",
        "before the first scan",
    )

    def scanned(states: Replicas, tuned: Tuned, number: int, tune: float) -> tuple[Replicas, Scanned, Array]:
        key = jax.random.fold_in(priors, number)
        fresh = jax.vmap(target.coordinates.unconstrained)(prior_draws(target.problem, key, chains * block))
        found = _run(target, method, tuned, states, fresh.reshape(chains, block, size), jnp.asarray(tune, dtype), block)
        return awaited(found, "sample", f"after {number * block} scans of {count} temperatures")

    rounds = -(-warmup // block)
    for number in range(rounds):
        states, found, steps = scanned(states, tuned, number, 1.0)
        tuned = _tuned(tuned, found, np.asarray(steps))
    states = states._replace(restarts=jnp.zeros_like(states.restarts))
    blocks: list[Scanned] = []
    for number in range(rounds, rounds + -(-draws // block)):
        states, found, _ = scanned(states, tuned, number, 0.0)
        blocks.append(found)
    return _as_posterior(target, method, blocks, np.asarray(states.restarts), draws)


@eqx.filter_jit
def _begin(target: Target, u: Array, keys: Array) -> Replicas:
    note_trace("sample, first states", target.parts() | {"replicas": u})

    def one(target: Target, member: tuple[Array, PRNGKeyArray]) -> Replicas:
        u, key = member
        prior, likelihood = jax.vmap(lambda u: parts_of(target, u))(u)
        none = jnp.zeros((), jnp.int32)
        return Replicas(u, prior, likelihood, jnp.zeros(u.shape[0], bool).at[0].set(True), none, none, key)

    return over_members(one, target, (u, keys))


@eqx.filter_jit
def _run(
    target: Target,
    method: ParallelTempering,
    tuned: Tuned,
    states: Replicas,
    fresh: Array,
    tune: Array,
    block: int,
) -> tuple[Replicas, Scanned, Array]:
    """Every run a block of scans further, and the steps of its moves, which change where `tune` is 1."""
    note_trace("sample", target.parts() | {"method": method, "runs": fresh, "block": block})

    def one(shared: tuple[Target, Tuned, Array], member: tuple[Replicas, Array]) -> tuple[Replicas, Scanned, Array]:
        target, tuned, tune = shared
        state, fresh = member

        def scan(carry: tuple[Replicas, Array], new: Array) -> tuple[tuple[Replicas, Array], _Scan]:
            state, steps = carry
            state, rates = _moved(target, method, tuned._replace(steps=steps), state, new)
            steps = steps * jnp.exp(tune * (rates - ACCEPTANCE[method.kernel]) / jnp.sqrt(1.0 * method.moves))
            rises = jnp.diff(tuned.betas) * state.likelihood[:-1]
            state, rejected = _exchanged(tuned.betas, state)
            return (state, steps), _Scan(
                state.u[-1], state.prior[-1], state.likelihood[-1], rates[-1], rejected, rates, state.u, rises
            )

        (state, steps), found = jax.lax.scan(scan, (state, tuned.steps), fresh)
        mean = jnp.mean(found.places, axis=0)
        centred = found.places - mean[None]
        square = jnp.einsum("ski,skj->kij", centred, centred) / block
        ratios = logsumexp(found.rises, axis=0) - jnp.log(jnp.asarray(block, mean.dtype))
        rejected, accepted = jnp.mean(found.rejected, axis=0), jnp.mean(found.rates, axis=0)
        told = Scanned(found.u, found.prior, found.likelihood, found.accept, rejected, accepted, mean, square, ratios)
        return state, told, steps

    return over_members(one, (target, tuned, tune), (states, fresh))

    return over_members(one, (target, tuned, tune), (states, fresh))


def _moved(
    target: Target, method: ParallelTempering, tuned: Tuned, state: Replicas, new: Array
) -> tuple[Replicas, Array]:
    """The replicas after moves of their own, the one of the prior drawn anew; and the mean acceptance probabilities."""
    key, *keys = jax.random.split(state.key, method.moves + 1)
    prior, likelihood = parts_of(target, new)
    at = (
        state.u.at[0].set(new),
        state.prior.at[0].set(prior),
        state.likelihood.at[0].set(likelihood),
    )

    def single(beta: Array, root: Array, step: Array, at: At, key: PRNGKeyArray) -> tuple[At, Array]:
        one = jax.tree.map(lambda x: x[None], at)
        after, rate = moved(target, method.kernel, method.leapfrog, beta, root, step, one, key)
        return jax.tree.map(lambda x: x[0], after), rate

    def all_of_them(at: At, key: PRNGKeyArray) -> tuple[At, Array]:
        hot, places = jax.tree.map(lambda x: x[1:], (tuned, at))
        keys = jax.random.split(key, hot.betas.shape[0])
        after, rates = jax.vmap(single)(hot.betas, hot.roots, hot.steps, places, keys)
        return jax.tree.map(lambda x, y: x.at[1:].set(y), at, after), rates

    at, rates = jax.lax.scan(all_of_them, at, jnp.stack(keys))
    known = jnp.concatenate([jnp.ones_like(rates[0, :1]), jnp.mean(rates, axis=0)])
    return state._replace(u=at[0], prior=at[1], likelihood=at[2], fresh=state.fresh.at[0].set(True), key=key), known


def _exchanged(betas: Array, state: Replicas) -> tuple[Replicas, Array]:
    """The replicas after the exchanges of a scan, and the probability with which each pair rejects one."""
    key, toss = jax.random.split(state.key)
    count, level = betas.shape[0], state.likelihood
    gain = jnp.diff(betas) * (level[:-1] - level[1:])
    gain = jnp.where(jnp.isnan(gain), -jnp.inf, gain)  # of two failed simulations
    tried = jnp.arange(count - 1) % 2 == state.scan % 2
    accepted = tried & (jnp.log(jax.random.uniform(toss, gain.shape, gain.dtype)) < gain)
    place = jnp.arange(count)
    # Even or odd pairs are tried, so that no place is in two of them.
    place = place + jnp.concatenate([accepted, jnp.zeros(1, bool)]) - jnp.concatenate([jnp.zeros(1, bool), accepted])
    fresh = state.fresh[place]
    arrived = fresh[-1]
    state = Replicas(
        state.u[place],
        state.prior[place],
        level[place],
        fresh.at[-1].set(False),
        state.restarts + arrived,
        state.scan + 1,
        key,
    )
    return state, 1 - jnp.minimum(1, jnp.exp(gain))


def _tuned(tuned: Tuned, found: Scanned, steps: np.ndarray) -> Tuned:
    """Temperatures at equal rejections, and roots of the covariances of all runs together.

    Rejections add up to the communication barrier, a function of beta that does not depend on the choice of temperatures.
    """
    betas, dtype = np.asarray(tuned.betas, float), tuned.betas.dtype
    rejected = np.nan_to_num(np.asarray(found.rejected, float).mean(axis=0), nan=1.0)
    # Pairs that never reject keep a share, so that no two temperatures become one.
    length = np.concatenate([[0.0], np.cumsum(rejected + 1e-3)])
    even = np.linspace(0, length[-1], len(betas))
    new = np.interp(even, length, betas)
    new[0], new[-1] = 0.0, 1.0
    means, squares = np.asarray(found.mean, float), np.asarray(found.square, float)
    runs, (draws, size) = means.shape[0], found.u.shape[1:]
    apart = means - means.mean(axis=0)
    covariance = squares.mean(axis=0) + np.einsum("rki,rkj->kij", apart, apart) / runs
    # Draws of a block are few: their covariance is drawn towards its diagonal, the more the fewer they are.
    share = runs * draws / (runs * draws + 5.0 * size)
    diagonal = np.einsum("kii->ki", covariance)
    old = np.einsum("kij,kij->ki", *[np.asarray(tuned.roots, float)] * 2)
    diagonal = np.where(np.isfinite(diagonal) & (diagonal > 0), diagonal, old)
    mixed = share * covariance + (1 - share) * diagonal[:, :, None] * np.eye(size)
    roots = np.stack([_root(each, line) for each, line in zip(mixed, diagonal, strict=True)])
    # Where temperatures have moved, so have their widths: what was learnt at one place holds between its neighbours.
    places = [np.interp(new, betas, np.log(step)) for step in np.asarray(steps, float)]
    roots = roots[np.argmin(np.abs(new[:, None] - betas[None]), axis=1)]
    return Tuned(
        jnp.asarray(new, dtype), jnp.asarray(roots, dtype), jnp.asarray(np.exp(np.mean(places, axis=0)), dtype)
    )


def _root(covariance: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    try:
        found = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        found = np.full(covariance.shape, np.nan)
    return found if np.isfinite(found).all() else np.diag(np.sqrt(diagonal))


def _as_posterior(
    target: Target, method: ParallelTempering, blocks: list[Scanned], restarts: np.ndarray, draws: int
) -> Posterior:
    joined = lambda name: np.concatenate([np.asarray(getattr(each, name)) for each in blocks], axis=1)[:, :draws]
    u, accept = jnp.asarray(joined("u")), jnp.asarray(joined("accept"))
    density = jnp.asarray(joined("prior") + joined("likelihood"))
    if not bool(jnp.isfinite(density).any()):
        raise SamplingError(
            "No replica reached a place where the model can be simulated: hardly any draw of the priors can. Narrow the priors."
        )
    theta, log_density = target.in_natural_units(u, density)
    ratios = np.stack([np.asarray(each.ratios, float) for each in blocks])
    peak = ratios.max(axis=0)
    peak = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(divide="ignore"):  # where no replica of the prior could be simulated
        evidence = (np.log(np.mean(np.exp(ratios - peak), axis=0)) + peak).sum(axis=1)
    rejected = np.mean([np.asarray(each.rejected, float) for each in blocks], axis=(0, 1))
    explained = describe_quality(theta, np.zeros(density.shape, bool))
    count = method.temperatures
    cost = method.moves * (method.leapfrog if method.kernel == "hmc" else 1) * (count - 1)
    return Posterior(
        theta,
        log_density,
        jnp.zeros(density.shape, bool),
        jnp.full(density.shape, cost),
        accept,
        target.problem.names,
        target.problem.units,
        f"parallel tempering, {count} temperatures",
        (*_exchanges(rejected, int(restarts.sum()), count), *explained),
        jnp.asarray(evidence, density.dtype),
    )


def _exchanges(rejected: np.ndarray, restarts: int, count: int) -> list[str]:
    """Sentences about exchanges that are too rare."""
    barrier = float(rejected.sum())
    if rejected.mean() > REJECTED:
        return [
            f"Exchanges are rejected with probability {rejected.mean():.2g} (about 0.5 is best): take "
            f"`temperatures={math.ceil(2 * barrier) + 1}` or more."
        ]
    if restarts < FEW_RESTARTS:
        return [
            f"Only {restarts} times a place drawn from the prior reached the posterior, so the weights of several modes are rough: "
            "draw more."
        ]
    return []
