"""States of a stochastic system given its data: filtered and smoothed."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._doors import check_count, check_key, shown
from .._errors import ArgumentError, SimulationError
from ..core import Setup, Status, traced
from ..engine import note_trace
from ..problem import Problem, check_problem, named_parts
from ._backward import backward_states
from ._drawn_states import drawn_paths, pulls
from ._euler import MOST, Euler, has_density
from ._kalman import KalmanFilter
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
    problem: Problem,
    theta: Any,
    *,
    given: str = "all",
    paths: int = 0,
    backward: bool = False,
    key: PRNGKeyArray | None = None,
) -> HiddenStates:
    r"""Return mean and spread of the states at the times of the data, at given parameters, and whole paths.

    **Arguments:**

    - `problem`: a problem with the likelihood `KalmanFilter` or `ParticleFilter`.
    - `theta`: the free parameters in natural units, such as `fit.estimate`.
    - `given`: "all" data (smoothed), or those up to each time ("past", filtered).
    - `paths`: how many paths of the hidden state to draw given all data; 0 by default.
    - `backward`: draw the paths of particles backwards, and take mean and spread from them. For stochastic systems with steps of
        `EulerMaruyama`, up to eight states and noise that moves each of them.
    - `key`: random numbers of the particles and of the choice of paths; those of the filter by default. Paths of `KalmanFilter`
        need one.

    **Kalman's filter:** the smoothed states follow from a pass back over the data that inverts no covariance (Bryson and Frazier
    1963), so that states that are known exactly are no exception. `paths` are draws of the states at all rows together, from the
    linear system of the filter (Durbin and Koopman 2002): exact where the filter is.

    **Particles:** the weighted ancestors of the particles that are left at the end (Kitagawa 1996), for any step and for jump
    processes, since no density of a step is needed. Each resampling takes ancestors away, so that early rows rest on few distinct
    particles: `ancestors` of the result says on how many, $1 / \sum_j W_j^2$ with $W_j$ the weight of all last particles that
    descend from particle j of the row. It falls as N over the number of rows behind it. `paths` are draws of these ancestral lines,
    in random order, and share their beginnings where it is small.

    **Backward simulation** (Godsill, Doucet and West 2004) gives a path at each row the choice of all particles there, by the
    density of the first step from each of them to the rest of the path. Early rows then rest on as many distinct particles as late
    ones; the cost is that of `paths` times the number of particles a row. With short steps the choice is narrow, as a step leads
    not far, and gains less.

    **Good values:** so many particles that `ancestors` is above 100 everywhere; 20 N for N rows is a first try. With `backward`
    a tenth of that, as many paths as particles, and steps of not less than a tenth of the time between data.

    **Raises:** an `ArgumentError`; a `SimulationError` that names the datum where a pass over the data failed.

    **Reference:** Kitagawa (1996), J. Comput. Graph. Stat. 5:1, doi:10.1080/10618600.1996.10474692; Jacob, Murray and Rubenthaler
    (2015), Stat. Comput. 25:487, doi:10.1007/s11222-013-9445-x, for how soon lines meet; Godsill, Doucet and West (2004), J. Am.
    Stat. Assoc. 99:156, doi:10.1198/016214504000000151; Durbin and Koopman (2002), Biometrika 89:603, doi:10.1093/biomet/89.3.603.
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
    _check_paths(problem, given, paths, backward, key)
    found, rows = _states(problem, as_parameters(problem, theta), given, paths, backward, key)
    if not traced(found.status):
        _check_ended(problem, found, np.asarray(rows))
    return found


def _check_paths(problem: Problem, given: str, paths: int, backward: Any, key: Any) -> None:
    """Refuse drawn paths that there cannot be.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(backward, bool):
        raise ArgumentError(f"Argument `backward` must be True or False, but it is {shown(backward)}.")
    if isinstance(problem.likelihood, KalmanFilter):
        if backward:
            raise ArgumentError(
                "Argument `backward` is for `ParticleFilter`; paths of `KalmanFilter` are draws given all data: leave it out."
            )
        if bool(paths) != (key is not None):
            raise ArgumentError(
                "`KalmanFilter` needs random numbers to draw paths, and for nothing else: give both `paths` and `key`, or neither."
            )
    if paths and given == "past":
        raise ArgumentError('Argument `paths` draws paths given all data, so `given` must be "all", but it is "past".')
    if backward and paths < 2:
        raise ArgumentError(
            f"With `backward` mean and spread are those of drawn paths, so `paths` must be at least 2, but it is {paths}."
        )
    if backward and not has_density(problem):
        raise ArgumentError(
            f"Backward simulation needs the density of a step: a StochasticSystem without jumps of at most {MOST} states, and for "
            "the problem `solver=EulerMaruyama()`. Leave `backward` out."
        )


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
    problem: Problem, theta: Array, given: str, paths: int, backward: bool, key: PRNGKeyArray | None
) -> tuple[HiddenStates, Array]:
    note_trace("hidden states", named_parts(problem) | {"given": given, "paths": paths, "backward": backward})
    likelihood: Any = problem.likelihood
    model, data = problem.model, problem.dataset
    setups = model.setups(theta)
    each: tuple[Any, ...] = (setups, data.times, rows_of(data))
    one: Any
    if isinstance(likelihood, KalmanFilter):
        one = functools.partial(kalman_states, likelihood, smooth=given == "all", paths=paths)
        each = (*each, None if key is None else jax.random.split(key, len(data.labels)))
    else:
        smooth = given == "all"
        one = functools.partial(
            particle_states, likelihood, model.method, smooth=smooth, paths=paths, backward=backward
        )
        each = (*each, jax.random.split(likelihood.key if key is None else key, len(data.labels)))
    mean, covariance, statuses, *more = eqx.filter_vmap(one)(*each)
    unravel = jax.vmap(jax.vmap(ravel_pytree(jax.tree.map(lambda y: y[0], setups.y0))[1]))
    deviation = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance, axis1=-2, axis2=-1), 0))
    rows = jax.vmap(first_failed)(statuses)
    status = jnp.take_along_axis(statuses, rows[:, None], axis=1)[:, 0]
    return HiddenStates(data.times, unravel(mean), unravel(deviation), covariance, status, *more), rows


def kalman_states(
    likelihood: KalmanFilter, setup: Setup, times: Array, row: Row, key: Array | None, *, smooth: bool, paths: int
) -> tuple[Array, Array, Array, None, Any]:
    """Means and covariances at the start and the data of one experiment, the statuses of its data, and drawn paths."""
    passed = likelihood.passed(setup, times, row, smooth=smooth)
    _, begin = likelihood.begun(setup, smooth=False)
    mean = jnp.concatenate([begin.mean[None], passed.mean])
    covariance = jnp.concatenate([begin.covariance[None], passed.covariance])
    drawn = None
    if smooth:
        pull, weight = pulls(passed)
        mean = mean + jnp.einsum("tij,tj->ti", covariance, pull)
        if key is not None:
            unravel = jax.vmap(jax.vmap(ravel_pytree(setup.y0)[1]))
            drawn = unravel(drawn_paths(begin.covariance, passed, mean, key, paths))
        covariance = covariance - covariance @ weight @ covariance
    return mean, covariance, passed.status, None, drawn


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
    backward: bool,
) -> tuple[Array, Array, Array, Array | None, Any]:
    """Means and covariances of the particles at the start and the data of one experiment, the statuses of its data, the effective
    number of distinct particles where all data are given, and drawn paths."""
    for_filter, for_paths = key, jax.random.fold_in(key, 1)
    cloud = likelihood.passed(setup, times, row, for_filter, method, firsts=backward)
    if backward:
        euler = Euler.of(setup, method)
        mean, covariance, effective, drawn = backward_states(euler, setup, times, cloud, for_paths, paths)
        return mean, covariance, cloud.status, effective, drawn
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
