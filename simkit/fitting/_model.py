"""What a fit minimises, and its local model from one pass of forward-mode differentiation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..core import Status
from ..problem import Problem
from ..problem._closed import remeasured, solved
from ._budget import awake
from ._inside import inside


class LocalModel(eqx.Module):
    r"""The negative log posterior f near one point z of the coordinates of a fit.

    $$f(z + s) \approx f + s^T (R^T q + b) + \tfrac12 s^T (R^T R + \mathrm{diag}(c)) s$$

    where $R^T R$ is the Fisher information of the data. R and q come from a QR decomposition of the weighted Jacobian, never
    from its square, so that a step keeps the digits which squaring the condition number would cost.

    - `value`: f, infinite where a simulation failed; `penalty`: the part of it that is the negative log prior.
    - `rows`, `pull`: R, of shape `(parameters, parameters)`, and q.
    - `slope`: b, the gradient of the prior and of data without information.
    - `curvature`: c, the second derivative of the negative log prior, at least 0.
    - `chi_squared`: the sum of squared standardised residuals (Pearson's, for counts).
    - `steps`: those that the experiment took which took most, accepted and rejected.
    - `good`: whether all simulations ended and everything is finite; else all but `value` and `steps` is 0.
    """

    value: Float[Array, "*starts"]
    penalty: Float[Array, "*starts"]
    rows: Float[Array, "*starts parameters parameters"]
    pull: Float[Array, "*starts parameters"]
    slope: Float[Array, "*starts parameters"]
    curvature: Float[Array, "*starts parameters"]
    chi_squared: Float[Array, "*starts"]
    steps: Float[Array, "*starts"]
    good: Bool[Array, "*starts"]

    @property
    def gradient(self) -> Float[Array, " parameters"]:
        """The gradient of the negative log posterior."""
        return self.pull @ self.rows + self.slope


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
    bounds = problem.coordinate_bounds()

    def run(z: Array) -> Any:
        setups, trajectories = problem._solve(problem.natural(z))
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
        weights = noise.information(jnp.where(seen, location, 1))
        parts = zip(*map(jax.tree.leaves, (weights, slopes[name], jacobian[name])), strict=True)
        for i, (weight, pull, block) in enumerate(parts):
            informed = seen & (weight > 0)
            root = jnp.sqrt(jnp.where(informed, weight, 1))
            # Missing data must not touch the rest: what the model predicts there may be anything.
            block = jnp.where(seen[..., None], block, 0)
            slope = slope + jnp.where(seen & ~informed, pull, 0).ravel() @ block.reshape(-1, z.size)
            blocks.append((jnp.where(informed, root, 0)[..., None] * block).reshape(-1, z.size))
            pulls.append(jnp.where(informed, pull / root, 0).ravel())
            chi_squared = chi_squared + (jnp.sum(pulls[-1] ** 2) if i == 0 else 0)
    triangle = jnp.linalg.qr(
        jnp.concatenate([jnp.concatenate(blocks), jnp.concatenate(pulls)[:, None]], axis=1), mode="r"
    )
    penalty, prior_slope, curvature = _prior(problem, z)
    model = LocalModel(
        misfit + penalty,
        penalty,
        triangle[:-1, :-1],
        triangle[:-1, -1],
        slope + prior_slope,
        curvature,
        chi_squared,
        steps.astype(z.dtype),
        jnp.array(True),
    )
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(model)]).all()
    good = finite & jnp.all(status == Status.OK)
    finite_model = jax.tree.map(lambda leaf: jnp.where(good, leaf, jnp.zeros_like(leaf)), model)
    value = jnp.where(good, model.value, jnp.inf)
    return eqx.tree_at(lambda m: (m.value, m.steps, m.good), finite_model, (value, model.steps, good)), z


def no_model(z: Float[Array, " parameters"]) -> LocalModel:
    """Where nothing was evaluated yet: infinite, and without a direction."""
    square = jnp.zeros((z.size, z.size), z.dtype) + z[0] * 0
    nothing, row = square[0, 0], square[0]
    return LocalModel(nothing + jnp.inf, nothing, square, row, row, row, nothing, nothing, nothing > 0)


def _prior(problem: Problem, z: Array) -> tuple[Array, Array, Array]:
    """The negative log prior, its gradient and its second derivative, which is diagonal because priors are independent."""

    def penalty(z: Array) -> Array:
        return -problem.log_prior(problem.natural(z))

    slope, curvature = jax.jvp(jax.grad(penalty), (z,), (jnp.ones_like(z),))
    return penalty(z), slope, jnp.maximum(curvature, 0)


@eqx.filter_custom_vjp
def objective(z: Float[Array, " parameters"], problem: Problem) -> Float[Array, ""]:
    """The negative log posterior, infinite where a simulation failed; its gradient comes the way the problem finds cheaper."""
    return _objective(z, problem)


def _objective(z: Array, problem: Problem) -> Array:
    value = -problem.log_posterior(problem.natural(z))
    return jnp.where(jnp.isfinite(value), value, jnp.inf)


@objective.def_fwd
def _objective_forward(perturbed: Any, z: Array, problem: Problem) -> tuple[Array, Array]:
    if problem.default_gradient == "reverse":
        value, gradient = jax.value_and_grad(_objective)(z, problem)
    else:
        doubled = lambda z: (_objective(z, problem),) * 2
        gradient, value = jax.jacfwd(doubled, has_aux=True)(z)
    return value, jnp.where(jnp.isfinite(gradient) & jnp.isfinite(value), gradient, 0)


@objective.def_bwd
def _objective_backward(gradient: Array, cotangent: Array, perturbed: Any, z: Array, problem: Problem) -> Array:
    return cotangent * gradient
