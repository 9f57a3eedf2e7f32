"""Residuals at a point of the parameters, and how much each single datum moves the estimates."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine import note_trace, over_members
from ..fitting import prior_model, root_of_prior
from ..problem import Heads, Problem, named_parts, weighted

LEFT = 1e-6
"""A datum that leaves a smaller share of what is known of some combination of parameters determines it alone."""


class Influence(NamedTuple):
    r"""Effect of each datum on the estimates, by one Gauss-Newton step without it.

    With the datum's rows A and pulls q (`weighted`) and the curvature H of all data and priors, leaving it out moves the estimates
    by $\delta = (H - A^T A)^{-1} A^T q$. Of data that depend on each other A and q are what the datum tells given all others.

    - `shift`: shape `(experiments, times, ..., parameters)`, $\delta$ in standard errors, in the coordinates of the fit.
    - `distance`: shape `(experiments, times, ...)`, Cook's distance $\delta^T H \delta / p$ (Cook 1977,
        doi:10.1080/00401706.1977.10489493); above 1 a single datum moves the estimates as far as their errors reach. Infinite, as
        its shift, where parameters are determined by the datum alone.
    - `leverage`: the trace of $A H^{-1} A^T$, the share of a degree of freedom that the datum takes for itself, with its rows given
        the data before it; these add up to the number of parameters.
    """

    shift: np.ndarray
    distance: np.ndarray
    leverage: np.ndarray


class Local(NamedTuple):
    """A problem at one point, in arrays of JAX or NumPy.

    By output the location and the noise model of each datum given those before it, rows and pulls by number, the row and the pull
    of the location that are lost with a datum, and the reciprocal of the location's standard deviation.
    """

    predicted: dict[str, Any]
    rows: dict[str, list[Any]]
    pulls: dict[str, list[Any]]
    lost: dict[str, Any]
    precision: dict[str, Any]
    curvature: Any
    status: Any


@eqx.filter_jit
def local_view(problem: Problem, z: Array) -> Local:
    """One forward-mode Jacobian of all predictions at `z`, in the coordinates of a fit."""
    note_trace("check", named_parts(problem) | {"parameters": z})

    def run(z: Array) -> Any:
        plain, status = problem.heads(problem.natural(z))
        heads = problem.likelihood.conditional(plain, problem.dataset)
        return heads, (heads, plain, status)

    jacobian, (heads, plain, status) = jax.jacfwd(run, has_aux=True)(z)
    slopes = jax.grad(problem.misfit)(heads)
    predicted, rows, pulls, precision = {}, {}, {}, {}
    for name, (location, noise) in heads.items():
        seen = jnp.isfinite(problem.data[name])
        found = problem.dataset.information(name, location, noise)
        own = jax.tree.leaves(slopes[name])
        rows[name], pulls[name], _ = weighted(found, seen, own, jax.tree.leaves(jacobian[name]))
        # Rows of a parameter that is the location itself are the factor's last pivots.
        one = [jnp.ones_like(location)[..., None], *[jnp.zeros_like(location)[..., None]] * (found.size - 1)]
        precision[name] = weighted(found, seen, own, one)[0][0][..., 0]
        predicted[name] = location, noise
    both = {name: jnp.concatenate([rows[name][0], pulls[name][0][..., None]], axis=-1) for name in rows}
    lost = dict(problem.likelihood.left_out(both, plain, problem.dataset))
    return Local(predicted, rows, pulls, lost, precision, root_of_prior(prior_model(problem, z)[2]), status)


@eqx.filter_jit
def views_of_draws(problem: Problem, theta: Array) -> tuple[Heads, Array]:
    """Predict locations, noise models and the status of each experiment for many draws of the parameters."""
    note_trace("check, draws", named_parts(problem) | {"draws": theta})

    def one(problem: Problem, theta: Array) -> Any:
        heads, status = problem.heads(theta)
        return problem.likelihood.conditional(heads, problem.dataset), status

    return over_members(one, problem, theta)


def in_numpy(problem: Problem, view: Local) -> Local:
    """A local view as NumPy arrays, without the rows that a lean problem is filled up with."""
    count = problem.dataset.rows
    cut = lambda x: np.asarray(x, float)[:, :count]
    return Local(
        jax.tree.map(cut, view.predicted),
        jax.tree.map(cut, view.rows),
        jax.tree.map(cut, view.pulls),
        jax.tree.map(cut, view.lost),
        jax.tree.map(cut, view.precision),
        np.asarray(view.curvature, float),
        np.asarray(view.status),
    )


def influences(problem: Problem, view: Local) -> dict[str, Influence]:
    """The influence of every datum of every output; NaN where a datum is missing."""
    curvature = np.asarray(view.curvature).T @ np.asarray(view.curvature)
    for blocks in view.rows.values():
        for block in blocks:
            flat = np.asarray(block).reshape(-1, len(curvature))
            curvature = curvature + flat.T @ flat
    covariance = _inverse(curvature)
    error = np.sqrt(np.diag(covariance))
    error = np.where(error > 0, error, 1)
    found = {}
    for name, blocks in view.rows.items():
        known = np.stack(blocks, axis=-2)
        leverage = np.einsum("...ip,pq,...iq->...", known, covariance, known)
        lost = np.asarray(view.lost[name])
        rows = np.concatenate([lost[..., None, :-1], known[..., 1:, :]], axis=-2)
        pulls = np.stack([lost[..., -1], *(np.asarray(q) for q in view.pulls[name][1:])], axis=-1)
        spread = rows @ covariance  # data, numbers, parameters
        taken = np.einsum("...ip,...jp->...ij", spread, rows)
        values, vectors = np.linalg.eigh(np.eye(taken.shape[-1]) - taken)
        left = np.einsum("...ij,...j,...kj->...ik", vectors, 1 / np.maximum(values, LEFT), vectors)
        step = np.einsum("...ip,...ij,...j->...p", spread, left, pulls)
        distance = np.einsum("...p,pq,...q->...", step, curvature, step) / len(curvature)
        # Without a datum that alone determines a combination of parameters these may be anything.
        alone = values[..., 0] < LEFT
        direction = np.abs(np.einsum("...ip,...i->...p", spread, vectors[..., 0])) / error
        lost = alone[..., None] & (direction > 0.5 * direction.max(axis=-1, keepdims=True))
        step, distance = np.where(lost, np.inf, step), np.where(alone, np.inf, distance)
        seen = np.isfinite(np.asarray(problem.data[name]))
        found[name] = Influence(
            np.where(seen[..., None], step / error, np.nan),
            np.where(seen, distance, np.nan),
            np.where(seen, leverage, np.nan),
        )
    return found


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """The pseudo-inverse, without the directions that neither data nor priors know."""
    size = np.sqrt(np.diag(matrix))
    size = np.where(size > 0, size, 1)
    values, vectors = np.linalg.eigh(matrix / size / size[:, None])
    known = values > 1e-13 * values.max()
    return (vectors / np.where(known, values, np.inf)) @ vectors.T / size / size[:, None]
