"""Descent on an objective with a kink where an unknown is nothing: proximal Gauss-Newton steps, which end on the kink exactly."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..linear import solve
from ..problem import Problem
from ._inside import inside
from ._local_model import local_model, no_model
from ._method import select
from ._prior_model import root_of_prior
from ._quadratic import LocalModel

SWEEPS = 2
"""Number of passes over all coordinates between two solutions for those that are not at the kink."""

ROUNDS = 40
"""Most rounds of passes and solutions for one step."""

FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-12
"""The first and the least damping of a step, relative to the curvature of each coordinate."""


class Penalty(eqx.Module):
    r"""Cost of being away from a target, in the coordinates of the fit.

    $$\sum_j w_j |z_j - t_j| + \tfrac12 r_j (z_j - t_j)^2$$

    - `weight`, `ridge`: w and r, 0 for what is not penalised; `target`: t.
    """

    weight: Float[Array, "*lanes parameters"]
    ridge: Float[Array, "*lanes parameters"]
    target: Float[Array, "*lanes parameters"]

    def value(self, z: Float[Array, " parameters"]) -> Float[Array, ""]:
        """The cost at z."""
        away = z - self.target
        return jnp.sum(self.weight * jnp.abs(away) + 0.5 * self.ridge * away**2)


class Descent(eqx.Module):
    """State of a descent: place, local model, damping, how it stands, and steps taken."""

    z: Float[Array, "*lanes parameters"]
    model: LocalModel
    sizes: Float[Array, "*lanes parameters"]
    damping: Float[Array, "*lanes"]
    converged: Bool[Array, "*lanes"]
    stuck: Bool[Array, "*lanes"]
    iterations: Int[Array, "*lanes"]
    failures: Int[Array, "*lanes"]


class _Box(NamedTuple):
    low: Array
    high: Array


def descend(
    problem: Problem, penalty: Penalty, z: Float[Array, " parameters"], max_steps: Array, tolerance: Array
) -> Descent:
    r"""Descend from `z` to a minimum of the negative log posterior and the penalty.

    Each step is the minimum of the local quadratic model, the penalty as it is and a damping $\tfrac12 \mu \sum_j h_j d_j^2$
    with the curvatures h (Levenberg and Marquardt), inside the bounds. Proximal Newton steps: Lee, Sun and Saunders (2014),
    SIAM Journal on Optimization 24:1420, doi:10.1137/130921428.
    """
    bounds = problem.coordinate_bounds()
    box = _box(z, bounds, penalty)
    seen = sum(jnp.sum(jnp.isfinite(values)) for values in problem.data.values())
    count = jnp.maximum(jnp.asarray(seen, z.dtype), 1)
    eps = jnp.finfo(z.dtype).eps
    tolerance = jnp.maximum(tolerance.astype(z.dtype), 100 * eps)
    zero, no = jnp.zeros((), int), z[0] != z[0]
    begin = Descent(
        jnp.clip(z, box.low, box.high),
        no_model(z, problem),
        0 * z,
        FIRST_DAMPING + 0 * z[0],
        no,
        no,
        zero,
        zero,
    )

    def live(state: Descent) -> Array:
        return ~state.converged & ~state.stuck & (state.iterations < max_steps)

    def body(state: Descent) -> Descent:
        model, z, first = state.model, state.z, ~state.model.good
        root = root_of_prior(model.curvature)
        square = model.rows.T @ model.rows + root.T @ root
        sizes = jnp.maximum(state.sizes, jnp.diagonal(square))
        damped = square + jnp.diag(state.damping * jnp.where(sizes > 0, sizes, 1))
        found = _minimised(damped, damped @ z - model.gradient, penalty, box, z)
        place = jnp.where(first, z, found)
        step = place - z
        trial = local_model(problem, place)
        own, other = penalty.value(z), penalty.value(place)
        promised = -(step @ model.gradient) - 0.5 * step @ square @ step + own - other
        rounding = eps * (1 + jnp.abs(jnp.where(first, 0, model.value)) + count)
        difference = model.value - trial.value
        trapezoid = -0.5 * (model.gradient + trial.gradient) @ step
        gain = jnp.where(trial.good & (promised < rounding / jnp.sqrt(eps)), trapezoid, difference) + own - other
        better = trial.good & (first | (gain > 0))
        ratio = jnp.where(trial.good, gain / jnp.maximum(promised, jnp.finfo(z.dtype).tiny), -jnp.inf)
        factor = jnp.where(ratio > 0.75, 0.1, jnp.where(ratio < 0.25, 10.0, 1.0)).astype(z.dtype)
        damping = jnp.where(first, state.damping, jnp.maximum(state.damping * factor, LEAST_DAMPING))
        decrement = jnp.sqrt(jnp.maximum(step @ damped @ step, 0))
        small = (decrement < tolerance) & (state.damping <= FIRST_DAMPING)
        exact = ~better & trial.good & (promised < 10 * rounding)
        stuck = jnp.where(first, ~trial.good, damping > 1 / eps)
        place, model = select(better, (place, trial), (z, model))
        return Descent(
            place,
            model,
            sizes,
            damping,
            ~first & (small | exact),
            stuck,
            state.iterations + 1,
            state.failures + (~trial.good).astype(int),
        )

    return jax.lax.while_loop(live, body, begin)


def _box(z: Array, bounds: Array, penalty: Penalty) -> _Box:
    """The ends of each coordinate: a little inside its bounds, or its target where that lies on one."""
    low, high = inside(bounds[:, 0], bounds), inside(bounds[:, 1], bounds)
    held = (penalty.weight > 0) | (penalty.ridge > 0)
    low = jnp.where(held, jnp.minimum(low, penalty.target), low)
    return _Box(low, jnp.where(held, jnp.maximum(high, penalty.target), high))


def _minimised(square: Array, right: Array, penalty: Penalty, box: _Box, begin: Array) -> Array:
    r"""The minimum of $\tfrac12 u^T A u - r^T u$ and the penalty inside a box: passes over coordinates, and solutions in between.

    A pass sets each coordinate to its best by soft thresholding; a solution all that are neither at the kink nor on a bound.
    """
    scale = jnp.sqrt(jnp.diagonal(square) + penalty.ridge)
    scale = jnp.where(scale > 0, scale, 1)
    matrix = (square + jnp.diag(penalty.ridge)) / scale[:, None] / scale[None]
    right = (right + penalty.ridge * penalty.target) / scale
    weight, target = penalty.weight / scale, penalty.target * scale
    low, high = box.low * scale, box.high * scale
    kinked = penalty.weight > 0
    eps = jnp.finfo(begin.dtype).eps

    def value(u: Array) -> Array:
        return 0.5 * u @ matrix @ u - right @ u + jnp.sum(weight * jnp.abs(u - target))

    def one(j: Array, u: Array) -> Array:
        away = right[j] - matrix[j] @ u + matrix[j, j] * u[j] - matrix[j, j] * target[j]
        soft = jnp.sign(away) * jnp.maximum(jnp.abs(away) - weight[j], 0) / matrix[j, j]
        # Exactly the target where nothing is left, also where scaling would round.
        return u.at[j].set(jnp.clip(jnp.where(soft == 0, target[j], target[j] + soft), low[j], high[j]))

    def solution(u: Array) -> Array:
        free = (~kinked | (u != target)) & (u > low) & (u < high)
        sign = jnp.where(kinked, jnp.sign(u - target), 0)
        both = free[:, None] & free[None]
        own = right - weight * sign - matrix @ jnp.where(free, 0, u)
        found = solve(jnp.where(both, matrix, jnp.eye(u.size, dtype=u.dtype)), jnp.where(free, own, u))
        crossed = free & kinked & (jnp.sign(found - target) != sign)
        found = jnp.clip(jnp.where(crossed, target, found), low, high)
        return jnp.where(jnp.isfinite(found).all() & (value(found) < value(u)), found, u)

    def round_(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        before, _, i = state
        u = jax.lax.fori_loop(0, SWEEPS * before.size, lambda k, u: one(k % before.size, u), before)
        u = solution(u)
        change = jnp.max(jnp.abs(u - before))
        settled = change <= 1e-6 * jnp.max(jnp.abs(u - start)) + 10 * eps * jnp.max(jnp.abs(u))
        return u, settled, i + 1

    start = begin * scale
    unsettled = lambda state: ~state[1] & (state[2] < ROUNDS)
    u, _, _ = jax.lax.while_loop(unsettled, round_, (start, start[0] != start[0], jnp.zeros((), int)))
    return jnp.where(u == target, penalty.target, u / scale)
