"""Importance sampling of the marginal likelihood of a population, with gradient and second derivative."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray

from ..engine import note_trace
from ..linear import cholesky, log_determinant
from ..problem import Population, Problem, named_parts
from ._conditional import Conditional, modes
from ._marginal import MODE_STEPS
from ._saem_moves import log_data, shared_places
from ._saem_statistics import (
    deviations_of,
    individual_density,
    individual_parameters,
    numbers_of,
    population_places,
)
from ._stored import blocks

FREEDOM = 5
"""Degrees of freedom of the proposals, whose tails are heavier than those of any deviation given data."""

TOGETHER = 64
"""Draws of all individuals that are simulated at once."""


class Drawn(NamedTuple):
    """Deviations drawn around the modes of individuals, and the log density of the proposal at each."""

    deviations: Float[Array, "draw individual effect"]
    density: Float[Array, "draw individual"]


class Estimated(NamedTuple):
    """The log likelihood of all individuals by importance sampling.

    - `value`, `error`: the log likelihood and its Monte Carlo error; `effective`: how many draws count of each individual.
    - `modes`, `at`: the most probable deviations, around which the draws lie, and the local model there.
    - `drawn`, `weights`: the draws, and weights that add up to 1.
    """

    value: Float[Array, ""]
    error: Float[Array, ""]
    effective: Float[Array, " individual"]
    modes: Float[Array, "individual effect"]
    at: Conditional
    drawn: Drawn
    weights: Float[Array, "draw individual"]


class Derivatives(NamedTuple):
    """Derivatives of the negative log marginal posterior by the shared numbers, and of the mean deviations of individuals."""

    gradient: Float[Array, " shared"]
    curvature: Float[Array, "shared shared"]
    follow: Float[Array, "individual effect shared"]


def drawn_around(centre: Float[Array, "individual effect"], information: Array, key: PRNGKeyArray, count: int) -> Drawn:
    """Draws of Student's distribution around the modes, with the inverse of the information as scale."""
    size, effects = centre.shape
    one, two = jax.random.split(key)
    dtype = centre.dtype
    normal = jax.random.normal(one, (count, size, effects), dtype)
    # Gamma variates by rejection would take longer to compile than all else here.
    chi = jnp.mean(jax.random.normal(two, (count, size, FREEDOM), dtype) ** 2, axis=2)
    standard = normal / jnp.sqrt(chi)[..., None]
    lower = jax.vmap(cholesky)(information)
    # With H = L L^T the distance L^-T z has the covariance of H^-1.
    solved = jax.vmap(lambda root, z: jax.scipy.linalg.solve_triangular(root, z.T, trans=1, lower=True).T, (0, 1), 1)
    norm = math.lgamma(0.5 * (FREEDOM + effects)) - math.lgamma(0.5 * FREEDOM)
    norm = norm - 0.5 * effects * math.log(FREEDOM * math.pi)
    heads = -0.5 * (FREEDOM + effects) * jnp.log1p(jnp.sum(standard**2, axis=2) / FREEDOM)
    density = norm + heads + 0.5 * jax.vmap(log_determinant)(information)[None]
    return Drawn(centre[None] + solved(lower, standard), density.astype(dtype))


def densities(
    problem: Problem, z: Float[Array, "place parameters"], deviations: Float[Array, "place individual effect"]
) -> Float[Array, "place individual"]:
    """The log density of the data of all individuals at many places, by one program whatever their number."""
    found = [_block(problem, z[own], deviations[own]) for own in blocks(len(z), TOGETHER)]
    return jnp.concatenate(found)[: len(z)]


@eqx.filter_jit
def _block(problem: Problem, z: Array, deviations: Array) -> Array:
    note_trace("fit, densities of individuals", named_parts(problem))
    return jax.vmap(lambda z, deviations: log_data(problem, z, deviations))(z, deviations)


@eqx.filter_jit
def _around(problem: Problem, z: Array, key: PRNGKeyArray, count: int) -> tuple[Array, Conditional, Drawn]:
    """The modes of individuals and draws around them."""
    note_trace("fit, modes of individuals", named_parts(problem))
    population: Population = problem.population  # pyright: ignore
    centre, at = modes(problem, z, population.deviations(z), MODE_STEPS)
    return centre, at, drawn_around(centre, at.information, key, count)


def estimated(problem: Problem, z: Float[Array, " parameters"], key: PRNGKeyArray, count: int) -> Estimated:
    """The marginal likelihood at `z` by importance sampling around the modes of individuals."""
    centre, at, drawn = _around(problem, z, key, count)
    data = densities(problem, jnp.broadcast_to(z, (count, z.size)), drawn.deviations)
    value, error, effective, weights = _weighed(data, drawn)
    return Estimated(value, error, effective, centre, at, drawn, weights)


@jax.jit
def _weighed(data: Float[Array, "draw individual"], drawn: Drawn) -> tuple[Array, Array, Array, Array]:
    """The log likelihood, its error, the effective numbers of draws, and the weights, which add up to 1."""
    count, _, effects = drawn.deviations.shape
    prior = -0.5 * jnp.sum(drawn.deviations**2, axis=-1) - 0.5 * effects * math.log(2 * math.pi)
    logs = data + prior - drawn.density
    each = logsumexp(logs, axis=0) - jnp.log(count)
    weights = jnp.exp(logs - each[None])
    variance = jnp.var(weights, axis=0) / count
    effective = jnp.sum(weights, axis=0) ** 2 / jnp.sum(weights**2, axis=0)
    return jnp.sum(each), jnp.sqrt(jnp.sum(variance)), effective, weights / count


@eqx.filter_jit
def derivatives(
    problem: Problem, z: Float[Array, " parameters"], found: Estimated, error: Float[Array, " own"]
) -> Derivatives:
    r"""Gradient and second derivative of the negative log marginal posterior at `z`, from the draws of importance sampling.

    With complete data $(y, \phi)$ the score is $E[\nabla \ell \mid y]$ (Fisher) and the information
    $-E[\nabla^2 \ell \mid y] - \mathrm{Cov}[\nabla \ell \mid y]$ (Louis 1982, doi:10.1111/j.2517-6161.1982.tb01203.x). Since
    individual parameters stay, data know the population only through what does not differ, whose second derivatives are central
    differences over shares of `error`, about their standard errors. Mean deviations follow by the derivative of the deviations at
    which individual parameters stay, plus the covariance of deviations and scores.
    """
    population: Population = problem.population  # pyright: ignore
    size, own, places = population.shared, shared_places(population), population_places(population)
    still = population.with_deviations(z, 0 * population.deviations(z))
    numbers = numbers_of(population, problem.natural(z))
    low, high = problem.coordinate_bounds()[own].T
    reach = jnp.minimum(jnp.finfo(z.dtype).eps ** (1 / 3) * error, 0.25 * (high - low))

    def of_draw(given: tuple[Array, Array]) -> tuple[Array, ...]:
        deviations, weight = given
        slopes, bend = jnp.zeros((weight.size, size), z.dtype), jnp.zeros((weight.size, size, size), z.dtype)
        each, added = individual_parameters(population, numbers, deviations)

        def density(u: Array) -> Array:
            other = numbers_of(population, problem.natural(still.at[places].set(u)))
            return individual_density(population, other, each, added)

        def still_there(u: Array) -> Array:
            other = numbers_of(population, problem.natural(still.at[places].set(u)))
            return deviations_of(population, other, each, added)

        follow = jnp.zeros((*deviations.shape, size), z.dtype).at[..., places].set(jax.jacfwd(still_there)(z[places]))
        slopes = slopes.at[:, places].set(jax.jacfwd(density)(z[places]))
        bend = bend.at[:, places[:, None], places].set(jax.jacfwd(jax.jacfwd(density))(z[places]))
        if own.size:
            data = lambda u: log_data(problem, z.at[own].set(u), deviations)
            slope = lambda u: jax.jacfwd(data)(u)
            steps = jnp.concatenate([jnp.zeros_like(reach)[None], jnp.diag(reach), -jnp.diag(reach)])
            there = jax.lax.map(lambda step: slope(z[own] + step), steps)
            rise = (there[1 : own.size + 1] - there[own.size + 1 :]) / (2 * reach)[:, None, None]
            rise = jnp.moveaxis(rise, 0, 1)
            slopes = slopes.at[:, own].set(there[0])
            bend = bend.at[:, own[:, None], own].set(0.5 * (rise + rise.transpose(0, 2, 1)))
        counts = weight > 0
        slopes, bend = jnp.where(counts[:, None], slopes, 0), jnp.where(counts[:, None, None], bend, 0)
        products = bend + slopes[:, :, None] * slopes[:, None, :]
        mean, score = weight[:, None] * deviations, weight[:, None] * slopes
        follow = weight[:, None, None] * follow + deviations[:, :, None] * score[:, None, :]
        return score, jnp.einsum("i,ikl->kl", weight, products), mean, follow

    def add(total: tuple[Array, ...], given: tuple[Array, Array]) -> tuple[tuple[Array, ...], None]:
        new = jax.vmap(of_draw)(given)
        return tuple(a + b.sum(axis=0) for a, b in zip(total, new, strict=True)), None

    count = found.weights.shape[0]
    rows = -(-count // TOGETHER)
    filled = lambda x: jnp.concatenate([x, 0 * x[: rows * TOGETHER - count]]).reshape(rows, TOGETHER, *x.shape[1:])
    many, effects = found.modes.shape
    zero = tuple(jnp.zeros(n, z.dtype) for n in ((many, size), (size, size), (many, effects), (many, effects, size)))
    (score, second, mean, follow), _ = jax.lax.scan(add, zero, (filled(found.drawn.deviations), filled(found.weights)))
    penalty = lambda u: -problem.log_prior(problem.natural(still.at[:size].set(u)))
    return Derivatives(
        jax.grad(penalty)(z[:size]) - score.sum(axis=0),
        jax.hessian(penalty)(z[:size]) - second + score.T @ score,
        follow - mean[:, :, None] * score[:, None, :],
    )
