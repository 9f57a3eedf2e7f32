"""Moves of the chains of all individuals, and the steps of numbers that do not differ between individuals."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..core import Status
from ..linear import solve
from ..problem import Population, Problem

ALONE, TOGETHER = 0.44, 0.3
"""Shares of accepted moves for which the lengths of moves of one deviation and of all are adapted (Roberts & Rosenthal 2001)."""

RATE = 0.4
"""Change of the logarithm of a length by an acceptance that is 1 off."""

STAYS = -1
"""The number of the move that stays."""

FURTHEST = 0.7
"""The longest step of a number that does not differ between individuals, in its logarithm or relative to its size."""


class Chains(eqx.Module):
    """The chains of all individuals.

    - `deviations`: of each chain; `density`: the log density of the data of each individual there.
    - `lengths`: of the moves of each individual, of each deviation and of all together.
    """

    deviations: Float[Array, "chain individual effect"]
    density: Float[Array, "chain individual"]
    lengths: Float[Array, "move individual"]


def owners_of(population: Population) -> np.ndarray:
    """The experiments of each individual, of shape `(individual, experiment)`."""
    return np.array(population.rows)[None] == np.arange(len(population.labels))[:, None]


def log_data(
    problem: Problem, z: Float[Array, " parameters"], deviations: Float[Array, "individual effect"]
) -> Float[Array, " individual"]:
    """The log density of the data of every individual; minus infinity where a simulation failed."""
    population: Population = problem.population  # pyright: ignore
    heads, status = problem.heads(problem.natural(population.with_deviations(z, deviations)))
    heads = problem.likelihood.conditional(heads, problem.dataset)
    value = jnp.zeros(status.shape, z.dtype)
    for name, (location, noise) in heads.items():
        each = problem.dataset.log_density(name, location, noise)
        value = value + each.reshape(each.shape[0], -1).sum(axis=1)
    value = jnp.where((status == Status.OK) & ~jnp.isnan(value), value, -jnp.inf)
    return jnp.where(jnp.asarray(owners_of(population)), value[None], 0).sum(axis=1)


def moved(
    problem: Problem, z: Float[Array, " parameters"], chains: Chains, key: PRNGKeyArray, sweeps: int, rate: Array
) -> Chains:
    """The chains after moves by Metropolis and Hastings, all of them for all individuals at once.

    A sweep draws deviations anew from the population, moves each by itself, and all together. The first move of all stays where
    it is and finds the density there.
    """
    effects = chains.deviations.shape[2]
    alone = [[float(i == j) for i in range(effects)] for j in range(effects)]
    rows = [[1.0] * effects, *alone, *([[1.0] * effects] if effects > 1 else [])]
    masks = jnp.asarray([[0.0] * effects] + rows * sweeps, z.dtype)
    kinds = jnp.asarray([STAYS] + list(range(len(rows))) * sweeps)

    def move(chains: Chains, given: tuple[Array, Array, Array]) -> tuple[Chains, None]:
        mask, kind, key = given
        now, anew, joint = chains.deviations, kind == 0, kind == effects + 1
        stays = kind == STAYS
        one, two = jax.random.split(key)
        noise = jax.random.normal(one, now.shape, now.dtype)
        length = chains.lengths[:effects].T * jnp.where(joint, chains.lengths[effects], 1)[:, None]
        place = jnp.where(anew, noise, now + mask[None, None] * length[None] * noise)
        density = jax.vmap(lambda deviations: log_data(problem, z, deviations))(place)
        # A draw of the population has the prior in its own density.
        prior = jnp.where(anew, 0, 0.5 * jnp.sum(now**2 - place**2, axis=2))
        toss = jax.random.uniform(two, density.shape, now.dtype)
        better = stays | (jnp.log(toss) < density - chains.density + prior)
        excess = better.astype(now.dtype).mean(axis=0) - jnp.where(joint, TOGETHER, ALONE)
        own = (jnp.arange(effects + 1) == kind - 1)[:, None] & ~stays
        lengths = chains.lengths * jnp.where(own, jnp.exp(rate * RATE * excess)[None], 1)
        kept = jnp.where(better[..., None], place, now)
        return Chains(kept, jnp.where(better, density, chains.density), lengths), None

    return jax.lax.scan(move, chains, (masks, kinds, jax.random.split(key, len(kinds))))[0]


def shared_places(population: Population) -> np.ndarray:
    """The places of free parameters that do not differ between individuals and are no numbers of the population."""
    return np.setdiff1d(np.arange(population.first), np.array(population.means))


def complete_model(
    problem: Problem, z: Float[Array, " parameters"], deviations: Float[Array, "chain individual effect"]
) -> tuple[Float[Array, " own"], Float[Array, "own own"]]:
    """Gradient and information of the log density of the data by what does not differ, mean over chains; 0 where a solve failed."""
    population: Population = problem.population  # pyright: ignore
    places = shared_places(population)

    def one(own: Array) -> tuple[Array, Array]:
        def run(u: Array) -> Any:
            heads, status = problem.heads(problem.natural(population.with_deviations(z.at[places].set(u), own)))
            heads = problem.likelihood.conditional(heads, problem.dataset)
            return heads, (heads, status)

        jacobian, (heads, status) = jax.jacfwd(run, has_aux=True)(z[places])
        slopes = jax.grad(problem.misfit)(heads)
        gradient = jnp.zeros(len(places), z.dtype)
        information = jnp.zeros((len(places), len(places)), z.dtype)
        for name, (location, noise) in heads.items():
            ended = (status == Status.OK).reshape((-1,) + (1,) * (location.ndim - 1))
            seen = jnp.isfinite(problem.data[name]) & ended
            found = problem.dataset.information(name, location, noise)
            blocks = [jnp.where(seen[..., None], x, 0) for x in jax.tree.leaves(jacobian[name])]
            for i, (pull, block) in enumerate(zip(jax.tree.leaves(slopes[name]), blocks, strict=True)):
                gradient = gradient - jnp.tensordot(jnp.where(seen, pull, 0), block, axes=pull.ndim)
                for j, other in enumerate(blocks):
                    if (entry := found.entry(i, j)) is not None:
                        weight = jnp.where(seen, jnp.broadcast_to(entry, seen.shape), 0)[..., None]
                        flat = lambda x: x.reshape(-1, len(places))
                        information = information + flat(weight * block).T @ flat(other)
        return gradient, information

    gradient, information = jax.vmap(one)(deviations)
    return gradient.mean(axis=0), information.mean(axis=0)


def stepped(
    problem: Problem,
    z: Float[Array, " parameters"],
    deviations: Float[Array, "chain individual effect"],
    information: Float[Array, "own own"],
    rate: Array,
) -> tuple[Float[Array, " parameters"], Float[Array, "own own"]]:
    """The coordinates after a step of what does not differ between individuals, and the smoothed information of complete data."""
    population: Population = problem.population  # pyright: ignore
    places = shared_places(population)
    still = population.with_deviations(z, 0 * population.deviations(z))
    penalty = lambda u: -problem.log_prior(problem.natural(still.at[places].set(u)))
    slope, bend = jax.jvp(jax.grad(penalty), (z[places],), (jnp.ones(len(places), z.dtype),))
    gradient, own = complete_model(problem, z, deviations)
    own = own + jnp.diag(jnp.maximum(bend, 0))
    information = information + rate * (own - information)
    size = jnp.diag(information)
    size = jnp.sqrt(jnp.where(size > 0, size, 1))
    # In units of its own error each number has the diagonal 1; what nothing informs stays.
    known = (jnp.diag(information) > 0).astype(z.dtype)
    scaled = information / size[:, None] / size[None] + jnp.diag(1 - known)
    ridge = 1e3 * jnp.finfo(z.dtype).eps * jnp.eye(len(places), dtype=z.dtype)
    step = rate * known * solve(scaled + ridge, (gradient - slope) / size) / size
    log = np.array(problem.log)[places]
    furthest = FURTHEST * jnp.where(log, 1, jnp.maximum(jnp.abs(z[places]), 3 / size))
    return z.at[places].add(jnp.clip(step, -furthest, furthest)), information
