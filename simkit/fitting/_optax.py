"""Gradient methods from Optax on the negative log posterior."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from ..core import as_float_array
from ..problem import Problem
from ._inside import inside
from ._local_model import local_model, objective
from ._method import AbstractMethod, End, ended, select
from ._trust_region import reflective_step

FOUND = 1e-3
"""Nearer than so many standard errors to the minimum of the local model, a gradient method counts as converged."""


class Optimiser(AbstractMethod):
    """Any Optax transformation, such as `optax.adam(0.05)`, for so many steps; the best point on the way is kept.

    It works in coordinates without bounds: a logistic one between two bounds, a softplus one beside one bound. A step into
    a region where simulations fail is halved until it is none.

    **Arguments:**

    - `transformation`: an Optax gradient transformation. Make it once: another one compiles again.
    - `steps`: how many steps.

    **Good values:** `optax.adam(0.05)` with 1000 steps. For fewer than a hundred parameters `GaussNewton` needs a tenth of the
    simulations and does not depend on a rate.
    """

    transformation: optax.GradientTransformation = eqx.field(static=True)
    steps: Int[Array, ""] = eqx.field(converter=lambda n: jnp.asarray(n, int), default=1000)

    @property
    def name(self) -> str:
        return "Optax"

    def loosened(self, tolerance: float, max_steps: int | None = None) -> "Optimiser":
        steps = self.steps if max_steps is None else jnp.minimum(self.steps, max_steps)
        return Optimiser(self.transformation, steps)

    def descend(self, problem: Problem, z: Float[Array, " parameters"], held: Bool[Array, " parameters"]) -> End:
        function, x, back = unbounded(problem, z, held)

        # Optax mixes integer and float types, so its code alone runs with the usual promotion where a caller asks for a strict one.
        def body(state: dict[str, Any]) -> dict[str, Any]:
            value, gradient = jax.value_and_grad(function)(state["x"])
            failed = ~jnp.isfinite(value)
            better = value < state["best"]
            good, best = select(better, (state["x"], value), (state["good"], state["best"]))
            with jax.numpy_dtype_promotion("standard"):
                step: Any = self.transformation.update(gradient, state["memory"], state["x"])
            updates, memory = step
            memory = select(failed, state["memory"], memory)
            # After a failure: half way back to the last point that could be simulated.
            x = jnp.where(failed, 0.5 * (state["x"] + state["last"]), state["x"] + updates)
            last = jnp.where(failed, state["last"], state["x"])
            return {
                "x": x,
                "last": last,
                "good": good,
                "best": best,
                "memory": memory,
                "count": state["count"] + 1,
                "failures": state["failures"] + failed.astype(int),
            }

        zero = jnp.zeros((), int)
        start = {
            "x": x,
            "last": x,
            "good": x,
            "best": jnp.inf + 0 * x[0],
            "memory": self.transformation.init(x),
            "count": zero,
            "failures": zero,
        }
        end = jax.lax.while_loop(lambda state: state["count"] < self.steps, body, start)
        return _end(problem, back(end["good"]), held, end["count"], end["failures"])


class LBFGS(AbstractMethod):
    """Limited-memory BFGS with a zoom line search, for problems with hundreds of parameters.

    Bounds as in `Optimiser`. A trial point that cannot be simulated counts as one with a very high objective.

    **Arguments:**

    - `max_steps`: the most iterations of one start.
    - `tolerance`: it ends when the largest entry of the gradient, relative to the objective, is below this.

    **Reference:** Nocedal (1980), Mathematics of Computation 35:773, doi:10.1090/S0025-5718-1980-0572855-7.
    """

    max_steps: Int[Array, ""] = eqx.field(converter=lambda n: jnp.asarray(n, int), default=500)
    tolerance: Float[Array, ""] = eqx.field(converter=as_float_array, default=1e-8)

    @property
    def name(self) -> str:
        return "L-BFGS"

    def loosened(self, tolerance: float, max_steps: int | None = None) -> "LBFGS":
        steps = self.max_steps if max_steps is None else jnp.minimum(self.max_steps, max_steps)
        return LBFGS(steps, jnp.maximum(self.tolerance, 1e-2 * tolerance))

    def descend(self, problem: Problem, z: Float[Array, " parameters"], held: Bool[Array, " parameters"]) -> End:
        raw, x, back = unbounded(problem, z, held)
        # The line search interpolates values, so they must be finite; a wall this high is never accepted.
        wall = 1e3 * jnp.sqrt(jnp.finfo(z.dtype).max) ** 0.25
        solver = optax.lbfgs()
        eps = jnp.finfo(z.dtype).eps
        tolerance = jnp.maximum(self.tolerance.astype(z.dtype), 10 * eps)

        def function(x: Array) -> Array:
            value = raw(x)
            return jnp.where(jnp.isfinite(value), value, wall)

        def body(state: dict[str, Any]) -> dict[str, Any]:
            # The line search has evaluated the point that it ended at.
            value, gradient = (optax.tree_utils.tree_get(state["memory"], key) for key in ("value", "grad"))
            with jax.numpy_dtype_promotion("standard"):
                step: Any = solver.update(
                    gradient, state["memory"], state["x"], value=value, grad=gradient, value_fn=function
                )
            updates, memory = step
            x = state["x"] + updates
            still = jnp.max(jnp.abs(gradient)) <= tolerance * (1 + jnp.abs(value))
            stuck = jnp.max(jnp.abs(updates)) <= 2 * eps * (1 + jnp.max(jnp.abs(state["x"])))
            return {"x": x, "memory": memory, "count": state["count"] + 1, "done": still | stuck}

        value, gradient = jax.value_and_grad(function)(x)
        memory = optax.tree_utils.tree_set(solver.init(x), value=value, grad=gradient)
        start = {"x": x, "memory": memory, "count": jnp.zeros((), int), "done": x[0] != x[0]}
        end = jax.lax.while_loop(lambda s: ~s["done"] & (s["count"] < self.max_steps), body, start)
        return _end(problem, back(end["x"]), held, end["count"], jnp.zeros((), int))


def unbounded(
    problem: Problem, z: Array, held: Array
) -> tuple[Callable[[Array], Array], Array, Callable[[Array], Array]]:
    """The objective of coordinates without bounds, where `z` lies in them, and the way back.

    They have no units: what moves linearly is divided by its size at `z`, or by its distance from its one bound.
    """
    bounds = problem.coordinate_bounds()
    lower, upper = bounds[:, 0], bounds[:, 1]
    below, above = jnp.isfinite(lower), jnp.isfinite(upper)
    both = below & above
    low, high = jnp.where(below, lower, 0), jnp.where(above, upper, 1)
    width = jnp.where(both, high - low, 1)
    z = inside(z, bounds)
    away = jnp.abs(jnp.where(below, z - low, jnp.where(above, high - z, z)))
    size = jnp.where(jnp.array(problem.log, bool) | both | (away == 0), 1, away)

    def back(x: Array) -> Array:
        between = low + width * jax.nn.sigmoid(x)
        one_sided = jnp.where(below, low + size * jax.nn.softplus(x), high - size * jax.nn.softplus(-x))
        moved = jnp.where(both, between, jnp.where(below | above, one_sided, size * x))
        return jnp.where(held, z, inside(moved, bounds))

    share = jnp.clip(jnp.where(both, (z - low) / width, 0.5), jnp.finfo(z.dtype).eps, 1 - jnp.finfo(z.dtype).eps)
    gap = jnp.where((below | above) & ~both, away / size, 1)
    # softplus^-1(g) = g + log(1 - exp(-g))
    inverse = gap + jnp.log(-jnp.expm1(-gap))
    x = jnp.where(
        both, jnp.log(share) - jnp.log1p(-share), jnp.where(below, inverse, jnp.where(above, -inverse, z / size))
    )
    return lambda x: objective(back(x), problem), x, back


def _end(problem: Problem, z: Array, held: Array, count: Array, failures: Array) -> End:
    model = local_model(problem, z)
    nothing = jnp.zeros_like(model.rows)
    step = reflective_step(model, z, problem.coordinate_bounds(), jnp.ones_like(z), held, jnp.ones_like(z[0]), nothing)
    return End(z, model, ended(model, step.decrement < FOUND), count, failures + (~model.good).astype(int))
