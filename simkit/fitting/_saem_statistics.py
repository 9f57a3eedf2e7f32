"""Sufficient statistics of individual parameters, and the numbers of a population that are most probable given them."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..linear import cholesky, inverse, log_determinant, solve
from ..problem import Population, Problem, from_scales, to_scales
from ._inside import inside

SLOWEST = 0.95**0.5
"""The least factor by which a spread changes in an iteration while it must not vanish (Kuhn & Lavielle 2005: 0.95 of variances)."""

NEWTON_STEPS, HALVINGS = 3, 8
"""Steps of Newton's method to the maximum with priors, which begin near it, and how often a step is halved at most."""

LEAST_CURVATURE = 1e-6
"""The least curvature of a step of Newton's method, as a part of the largest one."""


class Numbers(NamedTuple):
    """The numbers of a population on the scale of g: means, effects, root of the covariance, spreads between occasions."""

    mean: Array
    effects: Array
    root: Array
    occasions: Array


class Statistics(eqx.Module):
    r"""Sufficient statistics of individual parameters $\phi_i$ and of the deviations of occasions.

    - `each`: $\phi_i - o$ with an origin o near the mean, which keeps digits; `square`: the sum over individuals of products of it.
    - `occasions`: the sum over all occasions of squared deviations.
    """

    origin: Float[Array, " parameter"]
    each: Float[Array, "individual parameter"]
    square: Float[Array, "parameter parameter"]
    occasions: Float[Array, " switching"]


def numbers_of(population: Population, theta: Float[Array, " parameters"]) -> Numbers:
    """The numbers of a population on the scale of g."""
    count, first = len(population.names), population.first
    effects = theta[first + count : first + count + len(population.owners)]
    start = first + count + len(population.owners)
    return Numbers(
        to_scales(population.links, theta[np.array(population.means)]),
        effects,
        theta[first : first + count][:, None] * population.root(theta),
        theta[start : start + len(population.switching)],
    )


def _design(population: Population) -> Float[Array, "individual parameter number"]:
    """The derivatives of the means of individuals by means and effects."""
    count, size = len(population.names), len(population.labels)
    eye = jnp.broadcast_to(jnp.eye(count, dtype=population.covariates.dtype), (size, count, count))
    owner = np.array(population.owners)[:, None] == np.arange(count)[None]
    own = jnp.einsum("ei,ek->ike", population.covariates, jnp.asarray(owner, population.covariates.dtype))
    return jnp.concatenate([eye, own], axis=2)


def _present(population: Population) -> np.ndarray:
    """The deviations that there are, of shape `(individual, effect)`: some individuals have fewer occasions."""
    found = np.zeros(population.effects * len(population.labels), bool)
    found[population.places] = True
    return found.reshape(population.effects, -1).T


def individual_parameters(
    population: Population, numbers: Numbers, deviations: Float[Array, "individual effect"]
) -> tuple[Float[Array, "individual parameter"], Float[Array, "individual occasion"]]:
    """Individual parameters on the scale of g, and what occasions add to them."""
    count = len(population.names)
    each = _means(population, numbers, deviations.dtype) + deviations[:, :count] @ numbers.root.T
    return each, deviations[:, count:] * _repeated(population, numbers)[None]


def deviations_of(
    population: Population,
    numbers: Numbers,
    each: Float[Array, "individual parameter"],
    added: Float[Array, "individual occasion"],
) -> Float[Array, "individual effect"]:
    """The deviations at which individuals have these parameters."""
    own = _whitened(population, numbers, each).T
    return jnp.concatenate([own, added / _repeated(population, numbers)[None]], axis=1)


def _means(population: Population, numbers: Numbers, dtype: Any) -> Array:
    """The means of the parameters of every individual."""
    return _design(population).astype(dtype) @ jnp.concatenate([numbers.mean, numbers.effects])


def _whitened(population: Population, numbers: Numbers, each: Array) -> Array:
    """The standard normal numbers behind parameters of individuals, shape `(parameter, individual)`."""
    apart = each - _means(population, numbers, each.dtype)
    return jax.scipy.linalg.solve_triangular(numbers.root, apart.T, lower=True)


def _repeated(population: Population, numbers: Numbers) -> Array:
    """The spread of each deviation of occasions."""
    return jnp.repeat(numbers.occasions, _most(population))


def _most(population: Population) -> int:
    """The largest number of occasions of an individual."""
    return (population.effects - len(population.names)) // max(len(population.switching), 1)


def statistics_of(
    population: Population,
    origin: Float[Array, " parameter"],
    each: Float[Array, "chain individual parameter"],
    added: Float[Array, "chain individual occasion"],
) -> Statistics:
    """The statistics of individual parameters, their mean over chains."""
    moved = each - origin[None, None]
    there = jnp.asarray(_present(population)[:, len(population.names) :])
    squares = jnp.where(there[None], added**2, 0).mean(axis=0).sum(axis=0)
    return Statistics(
        origin,
        moved.mean(axis=0),
        jnp.einsum("cik,cil->kl", moved, moved) / moved.shape[0],
        squares.reshape(len(population.switching), _most(population)).sum(axis=1),
    )


def _scatter(population: Population, statistics: Statistics, numbers: Numbers) -> Array:
    """The sum of products of the distances of individual parameters from their means."""
    coefficients = jnp.concatenate([numbers.mean - statistics.origin, numbers.effects])
    means = _design(population).astype(coefficients.dtype) @ coefficients
    cross = statistics.each.T @ means
    return statistics.square - cross - cross.T + means.T @ means


def log_density(population: Population, statistics: Statistics, numbers: Numbers) -> Float[Array, ""]:
    """The mean log density of the individual parameters, beside a constant."""
    size, visits = len(population.labels), len(population.visits)
    covariance = numbers.root @ numbers.root.T
    found = -0.5 * size * log_determinant(covariance)
    found = found - 0.5 * jnp.trace(solve(covariance, _scatter(population, statistics, numbers)))
    return found - jnp.sum(visits * jnp.log(numbers.occasions) + 0.5 * statistics.occasions / numbers.occasions**2)


def individual_density(
    population: Population,
    numbers: Numbers,
    each: Float[Array, "individual parameter"],
    added: Float[Array, "individual occasion"],
) -> Float[Array, " individual"]:
    """The log density of the parameters of every individual and of what occasions add, beside a constant."""
    z = _whitened(population, numbers, each)
    spread, there = _repeated(population, numbers), jnp.asarray(_present(population)[:, len(population.names) :])
    own = jnp.where(there, -0.5 * (added / spread[None]) ** 2 - jnp.log(spread)[None], 0).sum(axis=1)
    return own - 0.5 * jnp.sum(z**2, axis=0) - jnp.sum(jnp.log(jnp.abs(jnp.diag(numbers.root))))


def _closed(population: Population, statistics: Statistics, theta: Array) -> Array:
    """The free parameters with means and effects by weighted least squares, and the covariance of what they leave."""
    numbers, count, first = numbers_of(population, theta), len(population.names), population.first
    design, tiny = _design(population).astype(theta.dtype), jnp.finfo(theta.dtype).tiny ** 0.5
    weight = inverse(numbers.root @ numbers.root.T)
    normal = jnp.einsum("ikp,kl,ilq->pq", design, weight, design)
    found = solve(normal, jnp.einsum("ikp,kl,il->p", design, weight, statistics.each))
    mean, effects = found[:count] + statistics.origin, found[count:]
    scatter = _scatter(population, statistics, Numbers(mean, effects, numbers.root, numbers.occasions))
    spread = jnp.sqrt(jnp.maximum(jnp.diag(scatter) / len(population.labels), tiny))
    theta = theta.at[np.array(population.means)].set(from_scales(population.links, mean))
    theta = theta.at[first : first + count].set(spread)
    theta = theta.at[first + count : first + count + len(population.owners)].set(effects)
    if population.switching:
        start = first + count + len(population.owners)
        own = jnp.sqrt(jnp.maximum(statistics.occasions / len(population.visits), tiny))
        theta = theta.at[start : start + len(population.switching)].set(own)
    if population.correlated:
        places = np.array(population.correlated)
        correlation = (
            scatter[places][:, places] / len(population.labels) / spread[places][:, None] / spread[places][None]
        )
        lower = cholesky(correlation)
        left = jnp.sqrt(jnp.maximum(1 - jnp.cumsum(lower**2, axis=1) + lower**2, tiny))
        rows, columns = np.tril_indices(len(places), -1)
        theta = theta.at[population.shared - len(rows) : population.shared].set((lower / left)[rows, columns])
    return theta


def population_places(population: Population) -> np.ndarray:
    """The places of the numbers of the population among the shared free parameters."""
    return np.concatenate([np.array(population.means), np.arange(population.first, population.shared)])


def maximised(
    problem: Problem, statistics: Statistics, z: Float[Array, " parameters"], slow: Array
) -> Float[Array, " parameters"]:
    """The coordinates of a fit with the numbers of the population most probable given the statistics.

    **Arguments:** `slow`: whether spreads must not shrink fast.
    """
    population: Population = problem.population  # pyright: ignore
    places, bounds = population_places(population), problem.coordinate_bounds()
    still = population.with_deviations(z, 0 * population.deviations(z))

    def objective(u: Array) -> Array:
        theta = problem.natural(still.at[places].set(u))
        found = log_density(population, statistics, numbers_of(population, theta)) + problem.log_prior(theta)
        return jnp.where(jnp.isfinite(found), found, -jnp.inf)

    within = lambda u: inside(still.at[places].set(u), bounds)[places]
    here = still[places]
    theta = _closed(population, statistics, problem.natural(still))
    closed = problem.coordinates(theta)[places]
    closed = within(jnp.where(jnp.isfinite(closed), closed, here))
    if any(_has_prior(problem)):
        best = jnp.where(objective(closed) >= objective(here), closed, here)
        best = jax.lax.fori_loop(0, NEWTON_STEPS, lambda _, u: _newton(objective, within, u), best)
    else:
        best = closed
    spreads = slice(population.first, population.first + len(population.names))
    found = problem.natural(z.at[places].set(best))
    held = found.at[spreads].set(jnp.maximum(found[spreads], SLOWEST * problem.natural(z)[spreads]))
    return inside(z.at[places].set(problem.coordinates(jnp.where(slow, held, found))[places]), bounds)


def _has_prior(problem: Problem) -> list[bool]:
    """Tell which numbers of the population have a prior."""
    places = set(population_places(problem.population).tolist())  # pyright: ignore
    return [prior is not None for block, prior in problem.unknowns.pairs if block.offset in places]


def _newton(objective: Any, within: Any, u: Array) -> Array:
    """One step of Newton's method upwards, halved until it gains."""
    slope, bend = jax.grad(objective)(u), -jax.hessian(objective)(u)
    own = jnp.sqrt(jnp.abs(jnp.diag(bend)))
    own = jnp.where(own > 0, own, 1)  # of coordinates of any unit
    values, vectors = jnp.linalg.eigh(bend / own[:, None] / own[None])
    size = jnp.maximum(jnp.abs(values), LEAST_CURVATURE * jnp.max(jnp.abs(values)))
    step = vectors @ ((vectors.T @ (slope / own)) / size) / own
    tries = jax.vmap(lambda share: within(u + share * step))(0.5 ** jnp.arange(HALVINGS, dtype=u.dtype))
    values = jax.vmap(objective)(tries)
    best = jnp.argmax(values)
    return jnp.where(values[best] > objective(u), tries[best], u)
