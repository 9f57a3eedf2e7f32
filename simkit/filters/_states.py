"""States of a stochastic system given its data: filtered and smoothed."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .._errors import ArgumentError, SimulationError
from ..core import Setup, Status, traced
from ..engine import note_trace
from ..problem import Problem, check_problem, named_parts
from ._kalman import KalmanFilter, Passed
from ._particles import ParticleFilter
from ._rows import Row, as_parameters, first_failed, rows_of


class HiddenStates(eqx.Module):
    """States of all experiments given their data, normal or as moments of particles.

    - `times`: shape `(experiments, rows)`: the start and the times of the data.
    - `mean`, `deviation`: states with leading axes `(experiments, rows)`.
    - `covariance`: shape `(experiments, rows, n, n)`, of the n numbers of the flat state.
    - `status`: how the pass over each experiment's data ended.
    """

    times: Float[Array, "experiments rows"]
    mean: Any
    deviation: Any
    covariance: Float[Array, "experiments rows n n"]
    status: Int[Array, " experiments"]


def states(problem: Problem, theta: Any, *, given: str = "all") -> HiddenStates:
    """Return mean and spread of the states at the times of the data, at given parameters.

    **Arguments:**

    - `problem`: a problem with the likelihood `KalmanFilter` or `ParticleFilter`.
    - `theta`: the free parameters in natural units, such as `fit.estimate`.
    - `given`: "all" data (smoothed; of `KalmanFilter` alone), or those up to each time ("past", filtered).

    The smoothed states follow from a pass back over the data that inverts no covariance (Bryson and Frazier 1963), so that states
    that are known exactly are no exception.

    **Raises:** an `ArgumentError`; a `SimulationError` that names the datum where a pass over the data failed.
    """
    check_problem(problem)
    likelihood = problem.likelihood
    if not isinstance(likelihood, KalmanFilter | ParticleFilter):
        raise ArgumentError(
            f"Hidden states are known to a filter, but the likelihood of this problem is `{type(likelihood).__name__}`: take "
            "`KalmanFilter` or `ParticleFilter`."
        )
    if given not in ("all", "past"):
        raise ArgumentError(f'Argument `given` must be "all" or "past", but it is {given!r}.')
    if given == "all" and isinstance(likelihood, ParticleFilter):
        raise ArgumentError('`ParticleFilter` has no smoothed states: take `given="past"`, or `KalmanFilter`.')
    found, rows = _states(problem, as_parameters(problem, theta), given)
    if not traced(found.status):
        _check_ended(problem, found, np.asarray(rows))
    return found


def _check_ended(problem: Problem, found: HiddenStates, rows: np.ndarray) -> None:
    """Refuse hidden states of which some do not exist.

    **Raises:** a `SimulationError` that names the first experiment and datum.
    """
    for i, (label, row) in enumerate(zip(problem.labels, rows.tolist(), strict=True)):
        status = Status(int(np.asarray(found.status)[i]))
        if status != Status.OK:
            time = float(np.asarray(found.times)[i, row + 1])
            particles = isinstance(problem.likelihood, ParticleFilter) and status == Status.NON_FINITE
            reason = (
                "no particle could have made the data there. Take more particles, a wider noise model, or other parameters."
                if particles
                else status.message
            )
            raise SimulationError(f"The states of experiment `{label}` are not known from t = {time:g} on: {reason}")


@eqx.filter_jit
def _states(problem: Problem, theta: Array, given: str) -> tuple[HiddenStates, Array]:
    note_trace("hidden states", named_parts(problem) | {"given": given})
    likelihood: Any = problem.likelihood
    model, data = problem.model, problem.dataset
    setups = model.setups(theta)
    each: tuple[Any, ...] = (setups, data.times, rows_of(data))
    one: Any
    if isinstance(likelihood, KalmanFilter):
        one = functools.partial(kalman_states, likelihood, smooth=given == "all")
    else:
        one = functools.partial(particle_states, likelihood, model.method)
        each = (*each, jax.random.split(likelihood.key, len(data.labels)))
    mean, covariance, statuses = eqx.filter_vmap(one)(*each)
    unravel = jax.vmap(jax.vmap(ravel_pytree(jax.tree.map(lambda y: y[0], setups.y0))[1]))
    deviation = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance, axis1=-2, axis2=-1), 0))
    rows = jax.vmap(first_failed)(statuses)
    status = jnp.take_along_axis(statuses, rows[:, None], axis=1)[:, 0]
    return HiddenStates(data.times, unravel(mean), unravel(deviation), covariance, status), rows


def kalman_states(
    likelihood: KalmanFilter, setup: Setup, times: Array, row: Row, *, smooth: bool
) -> tuple[Array, Array, Array]:
    """Means and covariances at the start and the data of one experiment, and the statuses of its data."""
    passed = likelihood.passed(setup, times, row, smooth=smooth)
    _, begin = likelihood.begun(setup, smooth=False)
    mean = jnp.concatenate([begin.mean[None], passed.mean])
    covariance = jnp.concatenate([begin.covariance[None], passed.covariance])
    if smooth:
        pull, weight = _backwards(passed)
        mean = mean + jnp.einsum("tij,tj->ti", covariance, pull)
        covariance = covariance - covariance @ weight @ covariance
    return mean, covariance, passed.status


def _backwards(passed: Passed) -> tuple[Array, Array]:
    """Pull and weight that the data after each row, and those after the start, have on the state there."""
    size = passed.mean.shape[1]
    nothing = jnp.zeros((size,), passed.mean.dtype), jnp.zeros((size, size), passed.mean.dtype)

    def step(after: tuple[Array, Array], row: Passed) -> tuple[Any, Any]:
        assert row.transition is not None
        pull, weight = after
        pull = row.score + row.kept.T @ pull
        weight = row.weight + row.kept.T @ weight @ row.kept
        before = row.transition.T @ pull, row.transition.T @ weight @ row.transition
        return before, after

    before, after = jax.lax.scan(step, nothing, passed, reverse=True)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), before, after)


def particle_states(
    likelihood: ParticleFilter, method: Any, setup: Setup, times: Array, row: Row, key: Array
) -> tuple[Array, Array, Array]:
    """Means and covariances of the particles at the start and the data of one experiment, and the statuses of its data."""
    cloud = likelihood.passed(setup, times, row, key, method)
    flat = jax.vmap(jax.vmap(lambda y: ravel_pytree(y)[0]))(cloud.states)
    weight = jnp.exp(cloud.log_weight)
    mean = jnp.einsum("tp,tpi->ti", weight, flat)
    apart = flat - mean[:, None]
    covariance = jnp.einsum("tp,tpi,tpj->tij", weight, apart, apart)
    first = ravel_pytree(setup.y0)[0][None]
    mean = jnp.concatenate([first, mean])
    covariance = jnp.concatenate([jnp.zeros_like(covariance[:1]), covariance])
    return mean, covariance, cloud.status
