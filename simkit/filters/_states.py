"""States of a stochastic system given its data: filtered and smoothed."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._doors import check_count, check_key
from .._errors import ArgumentError, SimulationError
from ..core import Setup, Status, traced
from ..engine import note_trace
from ..problem import Problem, check_problem, named_parts
from ._kalman import KalmanFilter, Passed
from ._particles import ParticleFilter
from ._rows import Row, as_parameters, first_failed, rows_of
from ._smoothed import chosen, lines_of

FEW = 20.0
"""Effective number of ancestors below which moments of smoothed particles have errors of more than a quarter of the spread."""


class HiddenStates(eqx.Module):
    """States of all experiments given their data, normal or as moments of particles.

    - `times`: shape `(experiments, rows)`: the start and the times of the data.
    - `mean`, `deviation`: states with leading axes `(experiments, rows)`.
    - `covariance`: shape `(experiments, rows, n, n)`, of the n numbers of the flat state.
    - `status`: how the pass over each experiment's data ended.
    - `ancestors`: shape `(experiments, rows)`, of smoothed particles the effective number of distinct ones at each row from which
        the last ones descend, weighted by these; else None. Means have an error of about `deviation / sqrt(ancestors)`.
    - `paths`: drawn paths, states with leading axes `(experiments, paths, rows)`; None where none were asked for.
    """

    times: Float[Array, "experiments rows"]
    mean: Any
    deviation: Any
    covariance: Float[Array, "experiments rows n n"]
    status: Int[Array, " experiments"]
    ancestors: Float[Array, "experiments rows"] | None = None
    paths: Any = None

    def __repr__(self) -> str:
        experiments, rows = self.times.shape
        line = f"HiddenStates: {experiments} experiments, {rows} rows, {self.covariance.shape[-1]} numbers a state"
        if self.paths is not None:
            line += f", {jax.tree.leaves(self.paths)[0].shape[1]} paths"
        if self.ancestors is None or traced(self.ancestors):
            return line
        least = float(np.asarray(self.ancestors).min())
        line += f"\n  effective number of distinct particles: {least:.3g} at the least"
        if least < FEW:
            line += "\n  warning: early states rest on few particles. Take more of them."
        return line


def states(
    problem: Problem, theta: Any, *, given: str = "all", paths: int = 0, key: PRNGKeyArray | None = None
) -> HiddenStates:
    r"""Return mean and spread of the states at the times of the data, at given parameters, and whole paths.

    **Arguments:**

    - `problem`: a problem with the likelihood `KalmanFilter` or `ParticleFilter`.
    - `theta`: the free parameters in natural units, such as `fit.estimate`.
    - `given`: "all" data (smoothed), or those up to each time ("past", filtered).
    - `paths`: how many paths of the hidden state to draw given all data, of `ParticleFilter`; 0 by default.
    - `key`: random numbers of the particles and of the choice of paths; those of the filter by default.

    **Kalman's filter:** the smoothed states follow from a pass back over the data that inverts no covariance (Bryson and Frazier
    1963), so that states that are known exactly are no exception.

    **Particles:** the weighted ancestors of the particles that are left at the end (Kitagawa 1996), for any step and for jump
    processes, since no density of a step is needed. Each resampling takes ancestors away, so that early rows rest on few distinct
    particles: `ancestors` of the result says on how many, $1 / \sum_j W_j^2$ with $W_j$ the weight of all last particles that
    descend from particle j of the row. It falls as N over the number of rows behind it. `paths` are draws of these ancestral lines,
    in random order, and share their beginnings where it is small.

    **Good values:** so many particles that `ancestors` is above 100 everywhere; 20 N for N rows is a first try.

    **Raises:** an `ArgumentError`; a `SimulationError` that names the datum where a pass over the data failed.

    **Reference:** Kitagawa (1996), J. Comput. Graph. Stat. 5:1, doi:10.1080/10618600.1996.10474692; Jacob, Murray and Rubenthaler
    (2015), Stat. Comput. 25:487, doi:10.1007/s11222-013-9445-x, for how soon lines meet.
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
    check_count("paths", paths, least=0)
    check_key(key)
    if isinstance(likelihood, KalmanFilter) and (paths or key is not None):
        raise ArgumentError(
            "Arguments `paths` and `key` are for `ParticleFilter`; `KalmanFilter` draws nothing: leave them out."
        )
    if paths and given == "past":
        raise ArgumentError('Argument `paths` draws paths given all data, so `given` must be "all", but it is "past".')
    found, rows = _states(problem, as_parameters(problem, theta), given, paths, key)
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
def _states(
    problem: Problem, theta: Array, given: str, paths: int, key: PRNGKeyArray | None
) -> tuple[HiddenStates, Array]:
    note_trace("hidden states", named_parts(problem) | {"given": given, "paths": paths})
    likelihood: Any = problem.likelihood
    model, data = problem.model, problem.dataset
    setups = model.setups(theta)
    each: tuple[Any, ...] = (setups, data.times, rows_of(data))
    one: Any
    if isinstance(likelihood, KalmanFilter):
        one = functools.partial(kalman_states, likelihood, smooth=given == "all")
    else:
        one = functools.partial(particle_states, likelihood, model.method, smooth=given == "all", paths=paths)
        each = (*each, jax.random.split(likelihood.key if key is None else key, len(data.labels)))
    mean, covariance, statuses, *more = eqx.filter_vmap(one)(*each)
    unravel = jax.vmap(jax.vmap(ravel_pytree(jax.tree.map(lambda y: y[0], setups.y0))[1]))
    deviation = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance, axis1=-2, axis2=-1), 0))
    rows = jax.vmap(first_failed)(statuses)
    status = jnp.take_along_axis(statuses, rows[:, None], axis=1)[:, 0]
    return HiddenStates(data.times, unravel(mean), unravel(deviation), covariance, status, *more), rows


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
    likelihood: ParticleFilter,
    method: Any,
    setup: Setup,
    times: Array,
    row: Row,
    key: Array,
    *,
    smooth: bool,
    paths: int,
) -> tuple[Array, Array, Array, Array | None, Any]:
    """Means and covariances of the particles at the start and the data of one experiment, the statuses of its data, the effective
    number of distinct particles where all data are given, and drawn paths."""
    for_filter, for_paths = key, jax.random.fold_in(key, 1)
    cloud = likelihood.passed(setup, times, row, for_filter, method)
    flat = jax.vmap(jax.vmap(lambda y: ravel_pytree(y)[0]))(cloud.states)
    weight, effective, drawn = jnp.exp(cloud.log_weight), None, None
    if smooth:
        lines = lines_of(cloud)
        flat = jax.vmap(lambda x, places: x[places])(flat, lines.places)
        weight = jnp.broadcast_to(lines.weight, weight.shape)
        effective = jnp.concatenate([lines.effective[:1], lines.effective])
        if paths:
            later = chosen(cloud.states, lines, for_paths, paths)
            start = lambda y: jnp.broadcast_to(y, (paths, 1, *y.shape))
            drawn = jax.tree.map(lambda y, ys: jnp.concatenate([start(y), ys], axis=1), setup.y0, later)
    mean = jnp.einsum("tp,tpi->ti", weight, flat)
    apart = flat - mean[:, None]
    covariance = jnp.einsum("tp,tpi,tpj->tij", weight, apart, apart)
    first = ravel_pytree(setup.y0)[0][None]
    mean = jnp.concatenate([first, mean])
    covariance = jnp.concatenate([jnp.zeros_like(covariance[:1]), covariance])
    return mean, covariance, cloud.status, effective, drawn
