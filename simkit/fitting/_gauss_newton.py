"""Gauss-Newton: a bounded trust region on the Fisher information."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..core import as_float_array
from ..problem import Problem
from ._budget import step_limit
from ._inside import inside
from ._local_model import best_model, no_model
from ._method import AbstractMethod, End, select
from ._method import ended as status_of
from ._prior_model import diagonal_of_prior
from ._quadratic import LocalModel
from ._secant import Secant, updated
from ._trust_region import Step, reflective_step

FIRST_RADIUS = 10.0
"""The first radius in linear coordinates, relative to the parameters weighted by their sensitivities (Moré's factor)."""


Progress = dict[str, Any]
"""State of a descent: the carry of its loop."""

Evaluate = Callable[
    [Float[Array, " parameters"], Bool[Array, " parameters"], Bool[Array, ""]],
    tuple[LocalModel, Float[Array, " parameters"]],
]
"""Function that a descent minimises: coordinates, held coordinates, and a flag that the result is needed -> the local model,
and its coordinates."""

RESOLVED = 1e-2
"""Standard errors within which a start that can move no more has converged all the same."""

WINDOW = 10
"""Number of accepted steps that must together gain something, or a descent ends."""

RENEWAL = 50
"""After so many iterations a descent forgets its radius and what it knows of second derivatives: both may be of another place."""

NOTHING = 1e-8, 1e-3
"""Negligible gains: of the log-likelihood, which no error bar shows, and as a share of the gain that the model still predicts.
Steps of this size come from small kinks: limiters, shores, or a solve with loose tolerances."""


class GaussNewton(AbstractMethod):
    """A trust region on the Fisher information (Fisher scoring), kept inside the bounds by reflection.

    For normal noise of known scale this is Gauss-Newton; other noise models and estimated scales join by their own
    Fisher information, so no second derivative of a simulation is ever taken. One iteration costs one forward-mode
    Jacobian of all predictions. Coordinates that move linearly are scaled by their sensitivities, as in MINPACK (Moré 1978,
    doi:10.1007/BFb0067700); those that move by their logarithm need no scale.

    **Arguments:**

    - `max_steps`: the most iterations of one start, and of each stage of growing horizons.
    - `closed_forms`: whether every start begins with scales, offsets and sizes of scatter at their best for its other parameters,
        where these have closed forms and no priors. From there on they move like all others, which leads to the best optimum
        more often than setting them to their best after each step.
    - `tolerance`: a start has converged when its model's minimum is nearer than so many standard errors, both as the noise
        model states them and as the scatter of the data shows them. What the float type cannot resolve is not asked for.

    **Good values:** the defaults. A tolerance of 1e-3 is plenty for a look; regressions in narrow curved valleys can need
    thousands of steps.
    """

    max_steps: Int[Array, ""] = eqx.field(converter=lambda n: jnp.asarray(n, int), default=200)
    tolerance: Float[Array, ""] = eqx.field(converter=as_float_array, default=1e-9)
    closed_forms: bool = eqx.field(static=True, default=True)

    @property
    def name(self) -> str:
        return "Gauss-Newton trust region"

    def loosened(self, tolerance: float, max_steps: int | None = None) -> "GaussNewton":
        steps = self.max_steps if max_steps is None else jnp.minimum(self.max_steps, max_steps)
        return GaussNewton(steps, jnp.maximum(self.tolerance, tolerance), self.closed_forms)

    def descend(self, problem: Problem, z: Float[Array, " parameters"], held: Bool[Array, " parameters"]) -> End:
        return self.descend_by(self.evaluates(problem), problem, z, held)

    def evaluates(self, problem: Problem) -> Evaluate:
        """The local model of a problem's posterior, its closed forms at their best where these are not held."""
        return lambda z, fixed, live: best_model(problem, z, fixed if self.closed_forms else None, live)

    def descend_by(
        self,
        evaluate: Evaluate,
        problem: Problem,
        z: Float[Array, " parameters"],
        held: Bool[Array, " parameters"],
    ) -> End:
        """`descend` on another local model than that of the problem's posterior, in its coordinates."""
        begun = self.begun(problem, z, held)
        return self.end_of(self.advanced(evaluate, problem, begun, held, self.max_steps))

    def begun(self, problem: Problem, z: Float[Array, " parameters"], held: Bool[Array, " parameters"]) -> Progress:
        """The state of a descent before its first step."""
        return _before(jnp.where(held, z, inside(z, problem.coordinate_bounds())), problem)

    def ended(self, state: Progress) -> Bool[Array, "*starts"]:
        """Tell whether a descent has ended."""
        stopped = state["converged"] | state["stuck"] | state["flat"]
        return stopped | (state["iterations"] >= self.max_steps)

    def end_of(self, state: Progress) -> End:
        """Return the point of a descent, and how it ended if it did."""
        status = status_of(state["model"], state["converged"], state["stuck"] | state["flat"])
        return End(state["z"], state["model"], status, state["iterations"], state["failures"])

    def advanced(
        self,
        evaluate: Evaluate,
        problem: Problem,
        state: Progress,
        held: Bool[Array, " parameters"],
        until: Int[Array, ""],
    ) -> Progress:
        """A descent taken further, until so many iterations or its end.

        Of a batch that descends together those that are there have nothing more to simulate.
        """
        bounds = problem.coordinate_bounds()
        linear = ~jnp.array(problem.log, bool)
        # Counted while running: how many rows the arrays have says nothing, since they are filled up.
        seen = sum(jnp.sum(jnp.isfinite(values)) for values in problem.data.values())
        count = jnp.maximum(jnp.asarray(seen, bounds.dtype), 1)
        eps = jnp.finfo(bounds.dtype).eps
        tolerance = jnp.maximum(self.tolerance.astype(bounds.dtype), 100 * eps)

        most = step_limit(problem)

        def live(state: Progress) -> Array:
            return ~self.ended(state) & (state["iterations"] < until)

        def body(state: Progress) -> Progress:
            model, z, first = state["model"], state["z"], ~state["model"].good
            sizes = jnp.maximum(
                state["sizes"], jnp.sqrt(jnp.sum(model.rows**2, axis=0) + diagonal_of_prior(model.curvature))
            )
            unit = jnp.where(state["unit"] > 0, state["unit"], _first_unit(model, z, sizes, linear))
            scale = jnp.where(linear & (sizes > 0), unit / jnp.where(sizes > 0, sizes, 1), 1)
            step = reflective_step(model, z, bounds, scale, held, state["radius"], state["secant"].matrix())
            place = jnp.where(held, z, inside(z + step.step, bounds))
            trial, place = evaluate(place, held | ~first, live(state))
            rounding = eps * (1 + jnp.abs(jnp.where(first, 0, model.value)) + count)
            gain = _gain(model, trial, place - z, step, rounding / jnp.sqrt(eps))
            better = trial.good & (first | (gain > 0))
            radius = jnp.where(first, state["radius"], _next_radius(gain, trial.good, step, state["radius"]))
            noise = jnp.minimum(1, jnp.sqrt(model.chi_squared / count))
            # A step is also short, and promises little, where simulations failed until it was. Residuals that are small beside
            # the noise that is stated round by less, too.
            exact = ~better & trial.good & (step.promised < 10 * rounding * noise**2)
            small = (step.decrement < tolerance * noise) | exact
            stuck = jnp.where(first, ~trial.good, radius <= eps * jnp.maximum(1, jnp.linalg.norm(z / scale)))
            secant = updated(state["secant"], model, trial, place - z, gain, better & ~first)
            z, model = select(better, (place, trial), (z, model))
            # Steps that were not taken only tell that the radius was too large.
            gains = jnp.where(better & ~first, jnp.roll(state["gains"], 1).at[0].set(gain), state["gains"])
            flat = jnp.sum(gains) < jnp.minimum(NOTHING[0] * noise**2, NOTHING[1] * 0.5 * step.decrement**2)
            return _renewed(
                {
                    "z": z,
                    "model": model,
                    "sizes": sizes,
                    "unit": unit,
                    "radius": radius,
                    # Where rounding lets no step through, a minimum nearer than the error bars show is as good as found.
                    "converged": ~first
                    & (small | (stuck & (step.decrement < RESOLVED)) | (flat & (step.decrement < RESOLVED * noise))),
                    "stuck": stuck,
                    "flat": flat,
                    "gains": gains,
                    "decrement": step.decrement,
                    "secant": secant,
                    "iterations": state["iterations"] + 1,
                    "failures": state["failures"] + (~trial.good).astype(int),
                    "starved": state["starved"] | (~trial.good & (trial.steps >= most)),
                }
            )

        return jax.lax.while_loop(live, body, state)


def _before(z: Array, problem: Problem) -> Progress:
    """The state before the first pass, which takes a step of length 0: evaluated in the loop alone, the model is compiled once."""
    zero, no, one = jnp.zeros((), int), z[0] != z[0], jnp.ones_like(z[0])
    return {
        "z": z,
        "model": no_model(z, problem),
        "sizes": jnp.zeros_like(z),
        "unit": 0 * one,
        "radius": one,
        "converged": no,
        "stuck": no,
        "flat": no,
        "decrement": 0 * one,
        "gains": jnp.full(WINDOW, jnp.inf, z.dtype) + 0 * one,
        "secant": Secant(jnp.outer(0 * z, 0 * z), 0 * one),
        "iterations": zero,
        "failures": zero,
        "starved": no,
    }


def _renewed(state: Progress) -> Progress:
    """Every so many iterations, and far from a minimum, what a descent has learnt of radius and second derivatives is forgotten."""
    fresh = (state["iterations"] > 0) & (state["iterations"] % RENEWAL == 0) & (state["decrement"] > RESOLVED)
    one = jnp.ones_like(state["radius"])
    nothing = Secant(jnp.zeros_like(state["secant"].missing), 0 * one)
    radius, secant = select(fresh, (one, nothing), (state["radius"], state["secant"]))
    return {**state, "radius": radius, "secant": secant}


def _first_unit(model: LocalModel, z: Array, sizes: Array, linear: Array) -> Array:
    """The length in linear coordinates, weighted by their sensitivities, that the first radius stands for."""
    weighted = jnp.linalg.norm(jnp.where(linear, sizes * z, 0))
    residual = jnp.linalg.norm(model.pull)
    found = FIRST_RADIUS * jnp.where(weighted > 0, weighted, jnp.where(residual > 0, residual, 1))
    return jnp.where(model.good, found, 0)


def _gain(model: LocalModel, trial: LocalModel, move: Array, step: Step, close: Array) -> Array:
    """Return the decrease of the objective.

    Near the minimum a difference of two values is all rounding; the trapezoidal rule on the gradients is not.
    """
    difference = model.value - trial.value
    trapezoid = -0.5 * (model.gradient + trial.gradient) @ move
    return jnp.where(trial.good & (step.promised < close), trapezoid, difference)


def _next_radius(gain: Array, good: Array, step: Step, radius: Array) -> Array:
    ratio = gain / jnp.maximum(step.promised, jnp.finfo(radius.dtype).tiny)
    grown = jnp.where((ratio > 0.75) & (step.length > 0.9 * radius), 2, 1) * radius
    return jnp.where(good & (ratio >= 0.25), grown, 0.25 * step.length)
