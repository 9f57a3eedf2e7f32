"""Nested sampling through BlackJAX: the evidence, and draws, of densities with several modes and plateaus."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from scipy.special import logsumexp

from .._errors import ArgumentError, SamplingError
from ..engine import awaited, note_trace, over_members
from ._blackjax import blackjax_for
from ._counts import Counts
from ._diagnostics import describe_quality
from ._posterior import Posterior
from ._target import Target, prior_draws
from ._tempered_moves import parts_of

BLOCK = 10
"""Steps of one compiled program."""

TRIES = 4
"""Draws of the priors for each live point, of which the first that can be simulated are taken."""

MOST_BLOCKS = 2_000


class NestedSampling(eqx.Module):
    r"""Live points, drawn from the priors, of which those of lowest likelihood are replaced again and again by points of higher
    likelihood, so that the prior's mass above it shrinks by a known factor: the evidence is the integral of the likelihood over
    that mass, and the points left behind, weighted, are the posterior.

    It needs no gradients, finds modes that draws of the priors fall into, and does not mind likelihoods with plateaus or
    jumps. Each `chain` of `sample` is one run; its `draws` are drawn from the weighted points, so that more draws than the
    effective number of points, which a warning names, repeat some. There is no warm-up and no fit. Needs BlackJAX:
    `pip install "simkit[samplers]"`.

    **Arguments:**

    - `live`: live points of each run; the error of the log evidence is about the root of information gained over `live`.
    - `replaced`: points that are replaced together, by default a tenth of `live`.
    - `moves`: slices through the region of higher likelihood for each new point, by default five for each parameter.
    - `remaining`: the run ends where the live points hold less than this part of the evidence.

    **Good values:** the defaults up to some twenty parameters; twice the `moves` where runs disagree.

    **References:** Skilling (2006), doi:10.1214/06-BA127; with slices Handley, Hobson & Lasenby (2015),
    doi:10.1093/mnras/stv1911.
    """

    live: int = eqx.field(static=True, default=500)
    replaced: int | None = eqx.field(static=True, default=None)
    moves: int | None = eqx.field(static=True, default=None)
    remaining: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self) -> None:
        for name, least in (("live", 20), ("replaced", 1), ("moves", 1)):
            value = getattr(self, name)
            if value is None and name != "live":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ArgumentError(f"Argument `{name}` must be an integer of at least {least}, but it is {value!r}.")
        if self.replaced is not None and 2 * self.replaced > self.live:
            raise ArgumentError(
                f"Argument `replaced` must be at most half of the {self.live} live points, but it is {self.replaced}."
            )
        if not 0 < self.remaining < 1:
            raise ArgumentError(f"Argument `remaining` must lie between 0 and 1, but it is {self.remaining}.")


class Points(NamedTuple):
    """Points in unconstrained coordinates: log prior, log likelihood, and the likelihood above which they were drawn."""

    u: Float[Array, "*run point parameter"]
    prior: Float[Array, "*run point"]
    likelihood: Float[Array, "*run point"]
    birth: Float[Array, "*run point"]


def sample_nested(target: Target, method: NestedSampling, counts: Counts, key: PRNGKeyArray) -> Posterior:
    """All runs at once, over all devices, in blocks of one compiled program, until the last has ended."""
    blackjax_for("NestedSampling")
    place, run, weigh = jax.random.split(key, 3)
    live, chains = method.live, counts.chains
    tries = jax.vmap(target.coordinates.unconstrained)(prior_draws(target.problem, place, TRIES * chains * live))
    found = _begin(target, tries.reshape(chains, TRIES * live, -1), live)
    first, share, enough = awaited(found, "sample", "at draws of the priors")
    if not bool(np.all(np.asarray(enough))):
        raise SamplingError(
            f"Of {TRIES * live} draws of the priors fewer than {live} can be simulated ({float(np.min(share)):.2%} of those of "
            "one run). Narrow the priors, or take fewer `live` points."
        )
    states = awaited(_first(target, method, first), "sample", "before the first step")
    keys = jax.random.split(run, chains)
    dead: list[Points] = []
    calls = np.zeros(chains)
    for number in range(MOST_BLOCKS):
        found = _run(target, method, states, jax.vmap(lambda key, n=number: jax.random.fold_in(key, n))(keys))
        states, gone, cost, rest = awaited(found, "sample", f"after {(number + 1) * BLOCK} steps of nested sampling")
        dead.append(gone)
        calls += np.asarray(cost, float)
        if bool(np.all(np.asarray(rest) < np.log(method.remaining))):
            break
    else:
        raise SamplingError(
            f"Nested sampling did not end within {MOST_BLOCKS * BLOCK} steps. Its likelihood may have no maximum: give bounds, or "
            "raise `remaining`."
        )
    points = Points(*[jnp.concatenate(parts, axis=1) for parts in zip(*dead, Points(*states.particles), strict=True)])
    return _as_posterior(target, method, points, np.asarray(share, float), calls, counts, weigh)


def _algorithm(target: Target, method: NestedSampling) -> Any:
    """BlackJAX's algorithm for a target; made anew in every trace, since it holds what is traced.

    It works in JAX's default float type, whatever that of the problem.
    """
    dtype = target.problem.bounds.dtype
    parts = lambda u: tuple(x.astype(u.dtype) for x in parts_of(target, u.astype(dtype)))
    moves = method.moves or 5 * target.problem.size
    replaced = method.replaced or max(1, method.live // 10)
    return blackjax_for("NestedSampling").nss(
        lambda u: parts(u)[0], lambda u: parts(u)[1], num_inner_steps=moves, num_delete=replaced
    )


@eqx.filter_jit
def _begin(target: Target, tries: Array, live: int) -> tuple[Points, Array, Array]:
    """The first draws of the priors that can be simulated, their share of all draws, and whether they are enough."""
    note_trace("sample, first states", target.parts() | {"tries": tries})

    def one(target: Target, tries: Array) -> tuple[Points, Array, Array]:
        prior, likelihood = jax.vmap(lambda u: parts_of(target, u))(tries)
        fine = jnp.isfinite(prior) & jnp.isfinite(likelihood)
        chosen = jnp.argsort(~fine, stable=True)[:live]
        points = Points(tries[chosen], prior[chosen], likelihood[chosen], jnp.full(live, jnp.nan))
        points = Points(*[x.astype(jnp.result_type(float)) for x in points])
        return points, jnp.mean(fine, dtype=tries.dtype), jnp.sum(fine) >= live

    return over_members(one, target, tries)


@eqx.filter_jit
def _run(target: Target, method: NestedSampling, states: PyTree, keys: Array) -> tuple[PyTree, Points, Array, Array]:
    """Every run a block of steps further.

    **Returns:** the live points, those replaced, the number of likelihoods, and the logarithm of the share of the evidence that the
    live points hold.
    """
    note_trace("sample", target.parts() | {"method": method, "runs": keys})

    def one(target: Target, member: tuple[PyTree, PRNGKeyArray]) -> tuple[PyTree, Points, Array, Array]:
        state, key = member
        algorithm = _algorithm(target, method)

        def step(state: PyTree, key: PRNGKeyArray) -> tuple[PyTree, tuple[PyTree, Array]]:
            state, info = algorithm.step(key, state)
            calls = info.update_info
            return state, (info.particles, jnp.sum(calls.num_expansions) + jnp.sum(calls.num_shrink))

        state, (dead, calls) = jax.lax.scan(step, state, jax.random.split(key, BLOCK))
        found = state.integrator
        rest = found.logZ_live - jnp.logaddexp(found.logZ, found.logZ_live)
        return state, Points(*jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), dead)), jnp.sum(calls), rest

    return over_members(one, target, (states, keys))


@eqx.filter_jit
def _first(target: Target, method: NestedSampling, points: Points) -> Any:
    """The state of every run at its first live points."""
    return over_members(lambda target, points: _algorithm(target, method).init(points.u), target, points)


def _as_posterior(
    target: Target,
    method: NestedSampling,
    points: Points,
    share: np.ndarray,
    calls: np.ndarray,
    counts: Counts,
    key: PRNGKeyArray,
) -> Posterior:
    utils = blackjax_for("NestedSampling").ns.utils
    state = blackjax_for("NestedSampling").ns.base.StateWithLogLikelihood
    evidence, chosen, effective = [], [], []
    for run, k in enumerate(jax.random.split(key, counts.chains)):
        each = state(*[jnp.asarray(part[run]) for part in points])
        weigh, pick = jax.random.split(k)
        weights = np.asarray(utils.log_weights(weigh, blackjax_for("NestedSampling").ns.base.NSInfo(each, None)), float)
        evidence.append(float(np.mean(logsumexp(weights, axis=0))) + np.log(share[run]))
        weight = np.exp(logsumexp(weights, axis=1) - logsumexp(weights))
        weight = weight / weight.sum()
        effective.append(1 / np.sum(weight**2))
        chosen.append(jax.random.choice(pick, len(weight), (counts.draws,), p=jnp.asarray(weight)))
    picked = jnp.stack(chosen)
    dtype = target.problem.bounds.dtype
    u = jnp.take_along_axis(points.u, picked[..., None], axis=1).astype(dtype)
    density = jnp.take_along_axis(points.prior + points.likelihood, picked, axis=1).astype(dtype)
    theta, log_density = target.in_natural_units(u, density)
    none = jnp.zeros(density.shape, bool)
    warnings = describe_quality(theta, none)
    if min(effective) < counts.draws:
        warnings.append(
            f"Each run has some {min(effective):.0f} effective points, fewer than its {counts.draws} draws, some of which are the "
            "same: take more `live` points."
        )
    steps = jnp.broadcast_to(jnp.asarray(np.ceil(calls / counts.draws).astype(int))[:, None], density.shape)
    return Posterior(
        theta,
        log_density,
        none,
        steps,
        jnp.zeros(density.shape, density.dtype),
        target.problem.names,
        target.problem.units,
        f"nested sampling, {method.live} live points",
        tuple(warnings),
        jnp.asarray(evidence, density.dtype),
    )
