"""Fits of populations by stochastic approximation of EM."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._errors import ArgumentError, SimulationError
from .._progress import Progress
from ..engine import note_trace
from ..problem import Population, Problem, named_parts
from ._fit_result import NOWHERE_LEFT, FitResult, summarise
from ._inside import inside
from ._marginal import MarginalValue, joint_model, positive
from ._marginal_draws import Estimated, densities, derivatives, estimated
from ._method import CONVERGED, FAILED, LIMIT, End
from ._saem import SAEM
from ._saem_moves import Chains, moved, shared_places, stepped
from ._saem_statistics import (
    Statistics,
    deviations_of,
    individual_parameters,
    maximised,
    numbers_of,
    statistics_of,
)
from ._starts import check_count_of_starts, check_drawable, check_left_out, drawn_starts, first_start, given_starts

TRIES = 16
"""Drawn starts that are tried for one at which all individuals simulate."""

TOLD = 50
"""Iterations between two lines of progress, and of one call of compiled code."""

NEAR = 0.3
"""The distance from the maximum of the marginal likelihood, in standard errors, up to which a fit has converged."""

UNRELIABLE = 0.5
"""The Monte Carlo error of a log likelihood from which on a sentence says so: differences of models of this size count."""


class State(eqx.Module):
    """One iteration: coordinates of the fit, chains, statistics, information of what does not differ, and how many were taken."""

    z: Float[Array, " parameters"]
    chains: Chains
    statistics: Statistics
    information: Float[Array, "own own"]
    iteration: Int[Array, ""]
    key: PRNGKeyArray


def fit_saem(
    problem: Problem, method: SAEM, starts: Any, key: PRNGKeyArray, options: dict[str, Any], counter: Progress
) -> FitResult:
    """Fit by `SAEM` from the first start, or from each that is given.

    **Raises:** an `ArgumentError` without a population, or for `options` that other methods take; a `SimulationError` where
    individuals cannot be simulated.
    """
    if problem.population is None:
        raise ArgumentError(
            "The method `SAEM` is for populations, but no free parameter of the problem is an `Individual`."
        )
    if problem.population.levels:
        raise ArgumentError(
            "The method `SAEM` takes individuals and their occasions, but groups of the level "
            f"`{problem.population.levels[0].name}` have a spread as well. Take `Marginal()`, the default, or `sample`."
        )
    if problem.population.mixed:
        raise ArgumentError(
            "The method `SAEM` takes parameters that are normal on their scale, but one has a `subpopulation`. Take `Marginal()`, "
            "the default, or `sample`."
        )
    if problem.population.missing:
        raise ArgumentError(
            f"The method `SAEM` needs the covariates of all individuals, but `{problem.population.missing[0].name}` is missing for "
            "some. Take `Marginal()`, the default, or `sample`."
        )
    if len(problem.population.between) < len(problem.population.names):
        raise ArgumentError(
            "The method `SAEM` needs a spread between individuals of each parameter that is an `Individual`, but one is 0. Take "
            "`Marginal()`, the default, or `sample`."
        )
    check_left_out(options, "`SAEM`, which goes once through its iterations from each start.")
    lean = problem.lean()
    if isinstance(starts, int | np.integer):
        check_count_of_starts(starts)
        check_drawable(problem)
        begins = [_first(problem, lean, key)]
    else:
        begins = list(given_starts(problem, starts))
    ends, told = [], []
    for i, z in enumerate(begins):
        own = jax.random.fold_in(key, i)
        place, error = _iterated(lean, method, z, own, counter)
        end, likelihood, distance = _summed(lean, method, place, error, jax.random.fold_in(own, 1))
        ends.append(end)
        told.append((likelihood, distance))
    end = jax.tree.map(lambda *parts: jnp.stack(parts), *ends)
    integrated = problem.size - problem.population.shared
    found = summarise(problem, method.name, end, end.iterations, end.failures, integrated)
    likelihood, distance = told[int(np.argmin(np.asarray(end.model.value)))]
    words = (*found.misfit, *_sentences(problem.population, likelihood, distance))
    return dataclasses.replace(found, misfit=words, log_likelihood_error=likelihood.error)


def _first(problem: Problem, lean: Problem, key: PRNGKeyArray) -> Array:
    """The start that is given or the first that is drawn at which all individuals simulate."""
    places = first_start(problem, drawn_starts(lean, key, TRIES))
    population: Population = problem.population  # pyright: ignore
    means = jnp.zeros((TRIES, len(population.labels), population.effects), places.dtype)
    good = np.isfinite(np.asarray(densities(lean, places, means))).all(axis=1)
    if not good.any():
        tried = f"Tried: {TRIES} places, of which at none all {len(population.labels)} individuals without deviations simulate."
        raise SimulationError(f"{NOWHERE_LEFT} {tried}")
    return places[int(np.argmax(good))]


def _iterated(
    problem: Problem, method: SAEM, z: Array, key: PRNGKeyArray, counter: Progress
) -> tuple[Array, Float[Array, " own"]]:
    """The coordinates after all iterations, with the mean deviations of the chains, and errors of what does not differ."""
    population: Population = problem.population  # pyright: ignore
    state, total = _begun(problem, method, z, key), method.burn_in + method.smoothing
    for done in range(0, total, TOLD):
        count = min(TOLD, total - done)
        burn_in = jnp.asarray(method.burn_in, int)
        state = _iterate(problem, state, burn_in, method.sweeps, jnp.asarray(count, int))
        theta = np.asarray(problem.natural(state.z))[: population.shared]
        shown = ", ".join(f"{name} {value:.4g}" for name, value in zip(problem.names[:4], theta, strict=False))
        counter.tell(f"iteration {done + count} of {total}: {shown}")
    if not np.isfinite(np.asarray(state.z)).all():
        raise SimulationError(
            f"{NOWHERE_LEFT} Tried: {total} iterations from one start, where numbers stopped being finite."
        )
    told = jnp.diag(state.information)
    error = jnp.where(told > 0, 1 / jnp.sqrt(jnp.where(told > 0, told, 1)), 1)
    return population.with_deviations(state.z, state.chains.deviations.mean(axis=0)), error


def _begun(problem: Problem, method: SAEM, z: Array, key: PRNGKeyArray) -> State:
    """Chains that begin without deviations, before the first iteration."""
    population: Population = problem.population  # pyright: ignore
    size, effects, count = len(population.labels), population.effects, len(population.names)
    zero = lambda *shape: jnp.zeros(shape, z.dtype)
    z = inside(z, problem.coordinate_bounds())
    own = len(shared_places(population))
    statistics = Statistics(zero(count), zero(size, count), zero(count, count), zero(len(population.switching)))
    chains = Chains(zero(method.chains, size, effects), zero(method.chains, size), zero(effects + 1, size) + 1)
    return State(z, chains, statistics, zero(own, own), jnp.zeros((), int), key)


@eqx.filter_jit
def _iterate(problem: Problem, state: State, burn_in: Array, sweeps: int, count: Array) -> State:
    """Take so many iterations."""
    note_trace("fit, SAEM", named_parts(problem) | {"chains": state.chains})
    population: Population = problem.population  # pyright: ignore
    dtype = state.z.dtype

    def once(_: Array, state: State) -> State:
        z, step = state.z, state.iteration - burn_in + 1
        rate = 1 / jnp.maximum(step, 1).astype(dtype)
        key, own = jax.random.split(state.key)
        chains = moved(problem, z, state.chains, own, sweeps, rate)
        numbers = numbers_of(population, problem.natural(z))
        each, added = jax.vmap(lambda x: individual_parameters(population, numbers, x))(chains.deviations)
        # As long as the statistics forget, their origin follows the mean.
        origin = jnp.where(step <= 1, numbers.mean, state.statistics.origin)
        new = statistics_of(population, origin, each, added)
        mixed = jax.tree.map(lambda old, new: old + rate * (new - old), state.statistics, new)
        statistics = jax.tree.map(lambda mixed, new: jnp.where(step <= 1, new, mixed), mixed, new)
        place = maximised(problem, statistics, z, 2 * state.iteration < burn_in)
        information = state.information
        if information.size:
            moved_z, information = stepped(problem, z, chains.deviations, information, rate)
            own_places = shared_places(population)
            place = place.at[own_places].set(moved_z[own_places])
        place = inside(place, problem.coordinate_bounds())
        numbers = numbers_of(population, problem.natural(place))
        deviations = jax.vmap(lambda x, y: deviations_of(population, numbers, x, y))(each, added)
        return State(
            place, Chains(deviations, chains.density, chains.lengths), statistics, information, state.iteration + 1, key
        )

    return jax.lax.fori_loop(0, count, once, state)


def _summed(problem: Problem, method: SAEM, z: Array, error: Array, key: PRNGKeyArray) -> tuple[End, Estimated, float]:
    """The end of a start with what importance sampling says there, and the distance from the maximum in standard errors."""
    population: Population = problem.population  # pyright: ignore
    likelihood = estimated(problem, z, key, method.draws)
    found = derivatives(problem, z, likelihood, error)
    slope, raw = np.asarray(found.gradient), np.asarray(found.curvature)
    fine = bool(np.isfinite(float(likelihood.value)) and np.isfinite(raw).all() and np.isfinite(slope).all())
    scale = np.diag(raw) if fine else np.ones(len(raw))
    unit = 1 / np.sqrt(np.where(scale > 0, scale, np.abs(scale).max()))
    bend = positive(raw, unit) if fine else np.eye(len(raw))
    distance = float(np.sqrt(slope @ np.linalg.solve(bend, slope))) if fine else np.inf
    place = population.with_deviations(z, likelihood.modes)
    still = population.with_deviations(z, 0 * likelihood.modes)
    # The prior of the deviations themselves is in the likelihood, over which they are integrated.
    own = 0.5 * (problem.size - population.shared) * np.log(2 * np.pi)
    penalty = -problem.log_prior(problem.natural(still)) - jnp.asarray(own, z.dtype)
    size = population.shared
    at = MarginalValue(
        penalty - likelihood.value,
        penalty,
        jnp.zeros((len(population.labels), size), z.dtype),
        found.gradient,
        0 * found.gradient,
        likelihood.modes,
        found.follow,
        likelihood.at.information,
        likelihood.at.chi_squared,
        jnp.asarray(fine),
    )
    model = joint_model(population, at, jnp.asarray(bend, z.dtype))
    status = (CONVERGED if distance < NEAR else LIMIT) if fine else FAILED
    total = jnp.asarray(method.burn_in + method.smoothing, int)
    return End(place, model, jnp.asarray(status, int), total, jnp.zeros((), int)), likelihood, distance


def _sentences(population: Population, likelihood: Estimated, distance: float) -> list[str]:
    """Distance from the maximum, and an error of the likelihood that counts."""
    words, error = [], float(likelihood.error)
    if not distance < NEAR:
        words.append(
            f"the maximum of the marginal likelihood is about {distance:.1g} standard errors away. Take more iterations or chains "
            "of `SAEM`."
        )
    if not error < UNRELIABLE:
        worst = population.labels[int(np.argmin(np.asarray(likelihood.effective)))]
        words.append(
            f"the log likelihood has a Monte Carlo error of {error:.2g}, most of it of `{worst}`. Take more `draws` of `SAEM`."
        )
    return words
