"""Objective of a fit, and its local model from one pass of forward-mode differentiation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, PyTree

from ..core import Status
from ..linear import triangle
from ..problem import Heads, Problem, remeasured, solved, weighted
from ._budget import awake
from ._dependent_model import dependent_model
from ._inside import inside
from ._prior_model import prior_model
from ._quadratic import LocalModel
from ._residuals import MOST_DATA


def local_model(problem: Problem, z: Float[Array, " parameters"]) -> LocalModel:
    """The local model at `z`: one forward-mode Jacobian of all predictions."""
    return best_model(problem, z, None)[0]


def best_model(
    problem: Problem,
    z: Float[Array, " parameters"],
    held: Bool[Array, " parameters"] | None,
    live: Bool[Array, ""] | None = None,
) -> tuple[LocalModel, Float[Array, " parameters"]]:
    """The local model at `z`, where all parameters that are not `held` and have a closed form are at their best, and that place.

    The simulation is the same for all values of these, so one forward-mode Jacobian serves. What is not `live` is not wanted:
    adaptive solves end at once.
    """
    problem = problem if live is None else awake(problem, live)
    if not problem.likelihood.independent:
        return dependent_model(problem, z), z
    bounds = problem.coordinate_bounds()

    def run(z: Array) -> Any:
        setups, trajectories = problem.model.solve(problem.natural(z), problem.times)
        if held is not None and problem.closed:
            place = jax.lax.stop_gradient(z)
            still = jax.lax.stop_gradient((setups, trajectories))
            best = inside(problem.coordinates(solved(problem, problem.natural(place), *still)), bounds)
            z = z + jnp.where(held | ~jnp.isfinite(best), 0, best - place)
            setups = remeasured(problem, problem.natural(z), setups)
        heads = problem.compare(setups, trajectories)
        steps = jnp.max(trajectories.steps + trajectories.rejected)
        return heads, (heads, trajectories.status, steps, z)

    jacobian, (heads, status, steps, z) = jax.jacfwd(run, has_aux=True)(z)
    misfit, slopes = jax.value_and_grad(problem.misfit)(heads)
    blocks, pulls = [jnp.zeros((z.size + 1, z.size), z.dtype)], [jnp.zeros(z.size + 1, z.dtype)]
    slope, chi_squared = jnp.zeros_like(z), jnp.zeros((), z.dtype)
    for name, (location, noise) in heads.items():
        seen = jnp.isfinite(problem.data[name])
        found = problem.dataset.information(name, location, noise)
        rows, scaled, rest = weighted(found, seen, jax.tree.leaves(slopes[name]), jax.tree.leaves(jacobian[name]))
        parts = zip(rows, scaled, rest, jax.tree.leaves(jacobian[name]), strict=True)
        for i, (row, pull, open_ended, block) in enumerate(parts):
            block = jnp.where(seen[..., None], block, 0)
            slope = slope + open_ended.ravel() @ block.reshape(-1, z.size)
            blocks.append(row.reshape(-1, z.size))
            pulls.append(pull.ravel())
            chi_squared = chi_squared + (jnp.sum(pull**2) if i == 0 else 0)
    joined = triangle(jnp.concatenate([jnp.concatenate(blocks), jnp.concatenate(pulls)[:, None]], axis=1))
    penalty, prior_slope, curvature = prior_model(problem, z)
    model = LocalModel(
        misfit + penalty,
        penalty,
        joined[:-1, :-1],
        joined[:-1, -1],
        slope + prior_slope,
        curvature,
        chi_squared,
        steps.astype(z.dtype),
        jnp.array(True),
        _carried(problem, heads, z.dtype),
    )
    told = jax.tree.leaves(
        eqx.tree_at(lambda m: m.predicted, model, {})
    )  # what is predicted of missing data may be anything
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in told]).all()
    good = finite & jnp.all(status == Status.OK)
    finite_model = jax.tree.map(lambda leaf: jnp.where(good, leaf, jnp.zeros_like(leaf)), model)
    value = jnp.where(good, model.value, jnp.inf)
    return eqx.tree_at(lambda m: (m.value, m.steps, m.good), finite_model, (value, model.steps, good)), z


def no_model(z: Float[Array, " parameters"], problem: Problem) -> LocalModel:
    """Return the local model before any evaluation: infinite, and without a direction."""
    square = jnp.zeros((z.size, z.size), z.dtype) + z[0] * 0
    nothing, row = square[0, 0], square[0]
    predicted = {
        name: jnp.zeros((1 + len(jax.tree.leaves(problem.base.noise[name])), *values.shape), z.dtype) + nothing
        for name, values in problem.data.items()
        if is_told(problem)
    }
    curvature = square if problem.unknowns.joints else row
    return LocalModel(nothing + jnp.inf, nothing, square, row, row, curvature, nothing, nothing, nothing > 0, predicted)


def is_told(problem: Problem) -> bool:
    """Tell whether a local model carries what is predicted of the data."""
    return problem.likelihood.independent and sum(values.size for values in problem.data.values()) <= MOST_DATA


def _carried(problem: Problem, heads: Heads, dtype: DTypeLike) -> dict[str, Array]:
    if not is_told(problem):
        return {}
    return {name: jnp.stack([x.astype(dtype) for x in jax.tree.leaves(head)]) for name, head in heads.items()}


@eqx.filter_custom_vjp
def objective(z: Float[Array, " parameters"], problem: Problem) -> Float[Array, ""]:
    """The negative log posterior, infinite where a simulation or a derivative failed; its gradient comes the cheaper way."""
    return _objective(z, problem)


def _objective(z: Array, problem: Problem) -> Array:
    value = -problem.log_likelihood(problem.natural(z))[0] - problem.unknowns.log_prior_at(z)
    return jnp.where(jnp.isfinite(value), value, jnp.inf)


@objective.def_fwd
def _objective_forward(perturbed: PyTree, z: Array, problem: Problem) -> tuple[Array, Array]:
    if problem.default_gradient == "reverse":
        value, gradient = jax.value_and_grad(_objective)(z, problem)
    else:
        doubled = lambda z: (_objective(z, problem),) * 2
        gradient, value = jax.jacfwd(doubled, has_aux=True)(z)
    # A gradient of 0 in place of one that is not finite would say that the fit has converged: it counts as a failure.
    fine = jnp.isfinite(value) & jnp.isfinite(gradient).all()
    return jnp.where(fine, value, jnp.inf), jnp.where(fine, gradient, 0)


@objective.def_bwd
def _objective_backward(gradient: Array, cotangent: Array, perturbed: PyTree, z: Array, problem: Problem) -> Array:
    return cotangent * gradient
