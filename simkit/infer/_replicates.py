"""Data sets drawn from a fitted model at the design of the observed data."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._doors import check_count, check_key, check_kind
from .._errors import ArgumentError, SimulationError, check_known
from ..core import Status
from ..engine import awaited, note_trace, over_members
from ..fitting import FitResult
from ..problem import Problem, check_problem, named_parts, observed
from ._posterior import Posterior

LEAST_GOOD = 0.5
"""Share of the replicates that must be simulated without a failure."""


class Replicates(NamedTuple):
    """Data of one output, a column a datum, beside those of data sets that were drawn at the same times, doses and covariates.

    - `times`, `observed`: shape `(data,)`; a censored datum has its limit.
    - `low`, `high`: the limits of quantification, infinite where there is none. `simulated` is not censored.
    - `simulated`: shape `(replicate, data)`, NaN where a simulation failed.
    - `typical`: the prediction for an individual without deviations; None where data depend on each other.
    - `individual`, `labels`: the place of the individual of each datum, and the names of individuals.
    """

    output: str
    unit: str
    times: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    simulated: np.ndarray
    typical: np.ndarray | None
    individual: np.ndarray
    labels: tuple[str, ...]

    @property
    def failed(self) -> int:
        """Number of replicates in which a simulation failed."""
        return int((~np.isfinite(self.simulated)).any(axis=1).sum())


def replicated(
    problem: Problem, result: FitResult | Posterior, output: str | None, count: int, key: PRNGKeyArray | None, verb: str
) -> Replicates:
    """Draw `count` data sets: new individuals of the population with new residual scatter, in one compiled ensemble.

    Numbers of the population are the estimate of a fit, or draws of a posterior, spread evenly.

    **Raises:** an `ArgumentError` where the arguments do not fit together, a `SimulationError` where most replicates fail.
    """
    check_problem(problem)
    check_result(problem, result)
    check_count("replicates", count, least=2)
    check_key(key)
    name = _chosen(problem, output)
    values = np.asarray(problem.data[name], float)
    seen = observed(problem)
    if values.ndim != 2 or np.ndim(seen.times) != 2:
        raise ArgumentError(
            f"`{verb}` takes outputs that are a number at each time, but the data of `{name}` have the shape {values.shape[1:]} in "
            "each experiment. Name another by `output`."
        )
    theta = jnp.asarray(_parameters(result, count), problem.bounds.dtype)
    keys = jax.random.split(jax.random.key(0) if key is None else key, count)
    found: Any = awaited(_drawn(problem.lean(), theta, keys, name), verb, f"while {count} data sets were simulated")
    rows = values.shape[1]  # without those that fill up a lean problem
    drawn = np.where(np.asarray(found[1])[:, :, :rows], np.asarray(found[0], float)[:, :, :rows], np.nan)
    kept = np.isfinite(values)
    good = np.isfinite(drawn[:, kept]).all(axis=1)
    if good.mean() < LEAST_GOOD:
        raise SimulationError(
            f"Only {int(good.sum())} of {count} data sets could be simulated. Narrow the spreads of the population, or give the "
            "problem smaller steps."
        )
    owners = np.array(_owners(problem))
    limits = problem.dataset.limits.get(name)
    ends = {} if limits is None else {end: np.asarray(x, float) for end, x in limits.by_name().items()}
    low, high = (
        np.broadcast_to(ends.get(end, open_), values.shape) for end, open_ in (("low", -np.inf), ("high", np.inf))
    )
    typical = None
    if problem.likelihood.sequential:
        typical = np.asarray(problem.heads(typical_parameters(problem, result))[0][name][0], float)[kept]
    return Replicates(
        name,
        seen.units[name],
        np.asarray(seen.times, float)[kept],
        values[kept],
        low[kept],
        high[kept],
        drawn[:, kept],
        typical,
        np.broadcast_to(owners[:, None], values.shape)[kept],
        problem.labels if problem.population is None else problem.population.labels,
    )


def check_result(problem: Problem, result: object) -> None:
    """Refuse what is no fit and no posterior of this problem.

    **Raises:** an `ArgumentError`.
    """
    what = "the result of a fit or a posterior"
    remedy = "`simkit.fit(problem)` or `simkit.sample(problem)` gives one."
    check_kind("result", result, (FitResult, Posterior), what, remedy)
    assert isinstance(result, FitResult | Posterior)
    if result.names != problem.names:
        raise ArgumentError(
            f"Argument `result` must belong to the problem, whose parameters are {problem.names}, but it has {result.names}."
        )


def central_parameters(result: FitResult | Posterior) -> Array:
    """The estimate of a fit, or the median of each parameter in a posterior."""
    return jnp.asarray(
        result.estimate if isinstance(result, FitResult) else np.median(np.asarray(result.flat()), axis=0)
    )


def typical_parameters(problem: Problem, result: FitResult | Posterior) -> Array:
    """The free parameters of an individual in the middle of the population: deviations are zero."""
    theta = jnp.asarray(central_parameters(result), problem.bounds.dtype)
    shared = problem.size if problem.population is None else problem.population.shared
    return jnp.where(jnp.arange(problem.size) < shared, theta, 0)


def _parameters(result: FitResult | Posterior, count: int) -> np.ndarray:
    if isinstance(result, FitResult):
        return np.repeat(np.asarray(result.estimate)[None], count, axis=0)
    flat = np.asarray(result.flat())
    return flat[np.linspace(0, len(flat) - 1, count).round().astype(int)]


def _chosen(problem: Problem, output: str | None) -> str:
    names = tuple(problem.data)
    if output is not None:
        check_kind("output", output, str, "the name of an output", f"The outputs with data are {names}.")
        check_known(output, names, "output with data")
        return output
    if len(names) > 1:
        raise ArgumentError(f"Argument `output` must name one of the outputs with data, {names}, but it is not given.")
    return next(iter(names))


def _owners(problem: Problem) -> tuple[int, ...]:
    """The place of the individual of each experiment; without a population each experiment is one."""
    return tuple(range(len(problem.labels))) if problem.population is None else problem.population.rows


@eqx.filter_jit
def _drawn(problem: Problem, theta: Array, keys: Array, name: str) -> tuple[Array, Array]:
    """Data of an output at each row of `theta` with fresh deviations, shape `(replicate, experiment, time)`, and what is good."""
    note_trace("replicates", named_parts(problem) | {"replicates": theta})

    def one(problem: Problem, member: tuple[Array, PRNGKeyArray]) -> tuple[Array, Array]:
        theta, key = member
        people, scatter = jax.random.split(key)
        population = problem.population
        if population is not None:
            shape = len(population.labels), population.effects
            theta = population.with_deviations(theta, jax.random.normal(people, shape, theta.dtype))
        if not problem.likelihood.independent:
            drawn = problem.simulate_data(theta, scatter)[name]
            return drawn, jnp.isfinite(drawn)
        heads, status = problem.heads(theta)
        location, noise = heads[name]
        # The locations, since noise around a value that is not finite may be a number.
        return noise.sample(scatter, location), jnp.isfinite(location) & (status == Status.OK)[:, None]

    return over_members(one, problem, (theta, keys))
