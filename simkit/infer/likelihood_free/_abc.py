"""Approximate Bayesian computation by sequential Monte Carlo, the plain reference for inference without a likelihood."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_count
from ..._errors import ArgumentError, SamplingError
from ...engine import awaited, note_trace
from ...linear import cholesky
from ...problem import Problem
from .._counts import Counts
from .._posterior import Posterior
from .._target import check_proper, prior_draws
from ._features import Features, Summary, check_summary, features_of
from ._places import Places, places_of
from ._simulations import check_enough, seen_data, simulations_at


class ABCSMC(eqx.Module):
    r"""Parameters whose simulated data come close to those observed, the distance falling from generation to generation.

    Particles are drawn from the last generation's by their weights, moved by a normal kernel with twice its covariance, and kept
    where the simulated data lie within the tolerance: a quantile of the last generation's distances. Weights are prior over
    proposal density. The distance is Euclidean, of features in their standard deviations under the priors. What comes out is the
    posterior given data within the last tolerance, which is wider than the posterior.

    **Arguments:**

    - `simulations`: data sets at most. `particles`: of each generation.
    - `quantile`: of the last generation's distances, the next tolerance.
    - `acceptance`: the last generation is the first of which a smaller share is kept.
    - `summary`: a function of data by output name that returns the numbers to be compared; by default all data. Few that tell
        much are better than many.
    - `adjust`: move the particles by a linear regression on what their data differ by.

    **Good values:** 100,000 simulations and up to five summaries. `NeuralPosterior` comes closer with a tenth.

    **References:** Beaumont, Cornuet, Marin & Robert (2009), doi:10.1093/biomet/asp052; Beaumont, Zhang & Balding (2002),
    doi:10.1093/genetics/162.4.2025, for the regression.
    """

    simulations: int = eqx.field(static=True, default=100_000)
    particles: int = eqx.field(static=True, default=1_000)
    quantile: float = eqx.field(static=True, default=0.5)
    acceptance: float = eqx.field(static=True, default=0.005)
    summary: Summary | None = eqx.field(static=True, default=None)
    adjust: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        check_count("particles", self.particles, least=20)
        check_count("simulations", self.simulations)
        if self.simulations < self.particles:
            raise ArgumentError(
                f"Argument `particles` must be at most `simulations`, the data sets of all generations, {self.simulations}, but it "
                f"is {self.particles}. Take fewer `particles` or more `simulations`."
            )
        for name in ("quantile", "acceptance"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
                raise ArgumentError(f"Argument `{name}` must lie between 0 and 1, but it is {value!r}.")
        check_summary(self.summary)


class Generation(NamedTuple):
    """Particles in places, what their data differ by, their distances and log weights."""

    u: np.ndarray
    differences: np.ndarray
    distance: np.ndarray
    log_weight: np.ndarray

    def weights(self) -> np.ndarray:
        weight = np.exp(self.log_weight - self.log_weight.max())
        return weight / weight.sum()


def sample_abc(problem: Problem, method: ABCSMC, counts: Counts, key: PRNGKeyArray) -> Posterior:
    """Draws from the weighted particles of the last generation."""
    check_proper(problem)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return _sampled(problem, method, counts, key)


def _sampled(problem: Problem, method: ABCSMC, counts: Counts, key: PRNGKeyArray) -> Posterior:
    places = places_of(problem)
    place, draw, run, pick = jax.random.split(key, 4)
    theta = prior_draws(problem, place, method.particles)
    first = simulations_at(problem, places, theta, method.summary, draw)
    check_enough(first)
    features = features_of(first.raw[first.fine], seen_data(problem), method.summary)
    seen = np.asarray(features(problem.data))
    last = _kept(features, seen, first.u, first.raw, np.zeros(len(first.u)), np.where(first.fine, np.inf, -np.inf))
    used, generations, failed, tolerance = method.particles, 1, first.failed, float(np.max(last.distance))
    while used < method.simulations:
        wanted = float(np.quantile(last.distance, method.quantile))
        found, cost, bad = _next(problem, places, method, features, seen, last, wanted, used, run)
        used, failed = used + cost, failed + bad
        if len(found.u) < method.particles:  # the simulations are used up: too few for a generation
            break
        last, tolerance, generations = found, wanted, generations + 1
        if len(found.u) < method.acceptance * cost:
            break
    return _as_posterior(problem, places, method, last, counts, pick, (used, generations, failed, tolerance))


def _next(
    problem: Problem,
    places: Places,
    method: ABCSMC,
    features: Features,
    seen: np.ndarray,
    last: Generation,
    tolerance: float,
    used: int,
    key: PRNGKeyArray,
) -> tuple[Generation, int, int]:
    """The next generation, how many simulations it took, and how many of them had no data."""
    parts: list[Generation] = []
    cost, failed = 0, 0
    log_weight = jnp.asarray(np.log(np.maximum(last.weights(), np.finfo(last.u.dtype).tiny)))
    while sum(len(part.u) for part in parts) < method.particles and used + cost < method.simulations:
        propose, draw = jax.random.split(jax.random.fold_in(key, used + cost))
        moved = _proposed(problem, places, jnp.asarray(last.u), log_weight, propose, method.particles)
        u, weight = awaited(moved, "sample", f"after {used + cost} simulations")
        theta = jax.vmap(places.natural)(u)
        new = simulations_at(problem, places, theta, method.summary, draw)
        limit = np.where(new.fine, tolerance, -np.inf)
        parts.append(_kept(features, seen, np.asarray(u), new.raw, np.asarray(weight), limit))
        cost, failed = cost + method.particles, failed + new.failed
    joined = Generation(*(np.concatenate(column)[: method.particles] for column in zip(*parts, strict=True)))
    return joined, cost, failed


def _kept(
    features: Features,
    seen: np.ndarray,
    u: np.ndarray,
    raw: np.ndarray,
    log_weight: np.ndarray,
    limit: np.ndarray,
) -> Generation:
    """The particles whose data lie within a limit, each with its own."""
    there = np.where(np.isfinite(raw), raw, 1.0)
    differences = np.asarray(features.scaled(jnp.asarray(there))) - seen
    distance = np.sqrt(np.sum(differences**2, axis=1))
    kept = (distance <= limit) & np.isfinite(log_weight)
    return Generation(u[kept], differences[kept], distance[kept], log_weight[kept])


@eqx.filter_jit
def _proposed(
    problem: Problem,
    places: Places,
    u: Array,
    log_weight: Array,
    key: PRNGKeyArray,
    count: int,
) -> tuple[Float[Array, "count parameter"], Float[Array, " count"]]:
    """Particles moved by the kernel, and the logarithm of prior density over proposal density."""
    note_trace("sample, proposals", {"particles": u})
    pick, move = jax.random.split(key)
    weight = jnp.exp(log_weight - logsumexp(log_weight))
    mean = weight @ u
    centred = u - mean
    covariance = 2 * (centred.T * weight) @ centred
    spread = jnp.diag(covariance)
    root = cholesky(covariance + jnp.diag(1e-10 * jnp.where(spread > 0, spread, 1)))
    chosen = jax.random.categorical(pick, log_weight, shape=(count,))
    new = u[chosen] + jax.random.normal(move, (count, u.shape[1]), u.dtype) @ root.T
    white = lambda x: jax.scipy.linalg.solve_triangular(root, x.T, lower=True).T
    one, all_of = white(new), white(u)
    theta = jax.vmap(places.natural)(new)
    prior = jax.vmap(lambda theta, u: problem.log_prior(theta) + places.log_volume(u))(theta, new)
    density = jax.lax.map(
        lambda x: logsumexp(log_weight - 0.5 * jnp.sum((x - all_of) ** 2, axis=1)), one, batch_size=100
    )
    return new, prior - density


def _as_posterior(
    problem: Problem,
    places: Places,
    method: ABCSMC,
    last: Generation,
    counts: Counts,
    key: PRNGKeyArray,
    told: tuple[int, int, int, float],
) -> Posterior:
    chains, draws, _ = counts
    used, generations, failed, tolerance = told
    if not len(last.u):
        raise SamplingError("No particle is left whose data are finite: narrow the priors.")
    weights = last.weights()
    u = _adjusted(last, weights) if method.adjust else last.u
    chosen = np.asarray(jax.random.choice(key, len(u), (chains, draws), p=jnp.asarray(weights)))
    theta = jax.vmap(jax.vmap(places.natural))(jnp.asarray(u[chosen]))
    effective = 1 / np.sum(weights**2)
    warnings = [
        f"The posterior is that of data within {tolerance:.3g} standard deviations of those observed, wider than that of the data "
        f"themselves; it stands on {effective:.0f} effective particles."
    ]
    if failed:
        warnings.append(f"{failed} of {used} simulations gave data that are not finite and were not kept.")
    shape = (chains, draws)
    return Posterior(
        theta,
        jnp.full(shape, jnp.nan, theta.dtype),
        jnp.zeros(shape, bool),
        jnp.zeros(shape, int),
        jnp.ones(shape, theta.dtype),
        problem.names,
        problem.units,
        f"ABC-SMC of {used} simulations, {generations} generations",
        tuple(warnings),
    )


def _adjusted(last: Generation, weights: np.ndarray) -> np.ndarray:
    """Particles moved to where a weighted linear regression on the differences of their data puts them for no difference."""
    near = weights * np.maximum(1 - (last.distance / (last.distance.max() * (1 + 1e-9))) ** 2, 0)
    design: Any = np.concatenate([np.ones((len(last.u), 1)), last.differences], axis=1)
    root = np.sqrt(near)[:, None]
    slopes = np.linalg.lstsq(design * root, last.u * root, rcond=1e-10)[0]
    return last.u - last.differences @ slopes[1:]
