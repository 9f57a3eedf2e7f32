"""Fits of populations: the likelihood of the population's numbers, the individuals integrated out."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._doors import shown
from .._errors import ArgumentError
from ..core import as_float_array, traced
from ..linear import cholesky
from ..problem import Population, Problem
from ._conditional import conditional, modes
from ._levels import covariances, log_determinants, solved, summed, whole
from ._method import AbstractMethod, End, ended, select
from ._quadratic import LocalModel
from ._trust_region import inside, reflective_step

MODE_STEPS = 50
"""The most steps to the mode of an individual."""


def _as_flag(given: Any) -> Bool[Array, ""]:
    if not isinstance(given, bool | np.bool_ | jax.Array):
        raise ArgumentError(f"Argument `warm` must be True or False, but it is {shown(given)}.")
    return jnp.asarray(given, bool)


class Marginal(AbstractMethod):
    r"""Maximum marginal likelihood of a population by Laplace's approximation, with Fisher information as curvature (FOCE).

    $$-\log p(y_i) \approx g_i(\hat\eta_i) + \tfrac12 \log\det H_i, \qquad H_i = I + J_i^T W J_i$$

    where $g_i$ is the negative log density of the data and the deviations of one individual, $\hat\eta_i$ its minimum, J the
    sensitivities of all predictions to the deviations and W their Fisher information. For normal noise and models that are linear
    in the deviations it is exact. Individuals of one group are approximated together, with the deviations of the group: $H_i$ is
    then that of the outermost group, shaped like an arrow, from which individuals are eliminated one by one. The gradient follows
    the minima by the implicit function theorem, and a bounded trust region takes its steps from a quasi-Newton matrix that begins
    with the products of the individuals' gradients.

    **Arguments:**

    - `max_steps`: the most iterations of one start.
    - `tolerance`: a start has converged when the model's minimum is nearer than so many standard errors.
    - `warm`: the first search for the modes of the individuals begins at the deviations of the start instead of zero.

    **References:** Lindstrom & Bates (1990), doi:10.2307/2532087; Wang (2007), doi:10.1007/s10928-007-9060-6; Almquist, Leander &
    Jirstrand (2015), doi:10.1007/s10928-015-9409-1, for the gradient.
    """

    max_steps: Int[Array, ""] = eqx.field(converter=lambda n: jnp.asarray(n, int), default=300)
    tolerance: Float[Array, ""] = eqx.field(converter=as_float_array, default=1e-4)
    warm: Bool[Array, ""] = eqx.field(converter=_as_flag, default=False)

    def __check_init__(self):
        if traced(self.max_steps) or traced(self.tolerance):
            return
        if not np.all(np.asarray(self.max_steps) >= 1):
            raise ArgumentError(f"Argument `max_steps` must be at least 1, but it is {np.asarray(self.max_steps)}.")
        if not np.all((np.asarray(self.tolerance) > 0) & np.isfinite(np.asarray(self.tolerance))):
            raise ArgumentError(
                f"Argument `tolerance` must be a positive number of standard errors, but it is {np.asarray(self.tolerance):g}."
            )

    @property
    def name(self) -> str:
        return "marginal likelihood (FOCE)"

    def loosened(self, tolerance: float, max_steps: int | None = None) -> "Marginal":
        steps = self.max_steps if max_steps is None else jnp.minimum(self.max_steps, max_steps)
        return Marginal(steps, jnp.maximum(self.tolerance, tolerance), self.warm)

    @property
    def once(self) -> "Marginal":
        """The same method, compiled to the same program, that evaluates the objective where a start stands, and its modes."""
        return Marginal(jnp.ones_like(self.max_steps), self.tolerance, jnp.ones_like(self.warm))

    def descend(self, problem: Problem, z: Float[Array, " parameters"], held: Bool[Array, " parameters"]) -> End:
        population = population_in(problem)
        count = population.shared
        bounds, held = problem.coordinate_bounds()[:count], held[:count]
        z = population.with_deviations(z, jnp.where(self.warm, population.deviations(z), 0))
        origin = z[:count]

        def body(state: dict[str, Any]) -> dict[str, Any]:
            now, first = state["now"], ~state["now"].good
            bend, size, radius = state["bend"], state["size"], state["radius"]
            step = reflective_step(now.model(bend), state["z"][:count], bounds, size, held, radius, 0 * bend)
            moved = jnp.where(held, state["z"][:count], inside(state["z"][:count] + step.step, bounds))
            place = state["z"].at[:count].set(jnp.where(first, state["z"][:count], moved))
            new = marginal(problem, place)
            gain = jnp.where(first, 1, now.value - new.value)
            rounding = jnp.finfo(z.dtype).eps * (1 + jnp.abs(jnp.where(first, 0, now.value))) * 100
            better = new.good & (gain > 0)
            size = jnp.where(first & new.good, _sizes(problem, origin, new), size)
            bend = jnp.where(
                first, _products(new, size), _updated(state["bend"], place[:count] - state["z"][:count], new, now)
            )
            bend = jnp.where(new.good, bend, state["bend"])
            ratio = gain / jnp.maximum(step.promised, jnp.finfo(z.dtype).tiny)
            grown = jnp.where((ratio > 0.75) & (step.length > 0.9 * state["radius"]), 2, 1) * state["radius"]
            radius = jnp.where(new.good & (ratio >= 0.1), grown, 0.25 * step.length)
            place, kept = select(better, (_at_modes(population, place, new), new), (state["z"], now))
            small = ~first & (step.decrement < self.tolerance.astype(z.dtype))
            return {
                "z": place,
                "now": kept,
                "bend": bend,
                "size": size,
                "radius": jnp.where(first, state["radius"], radius),
                "converged": small | (~first & (step.promised < 10 * rounding)),
                "stuck": jnp.where(first, ~new.good, radius < 1e-10),
                "iterations": state["iterations"] + 1,
                "failures": state["failures"] + (~new.good).astype(int),
            }

        zero = jnp.zeros((), int)
        start = {
            "z": jnp.concatenate([inside(z[:count], bounds), z[count:]]),
            "now": _nowhere(population, z),
            # Both come from the first point.
            "bend": jnp.eye(count, dtype=z.dtype) + 0 * z[0],
            "size": jnp.ones(count, z.dtype) + 0 * z[0],
            "radius": 1 + 0 * z[0],
            "converged": z[0] != z[0],
            "stuck": z[0] != z[0],
            "iterations": zero,
            "failures": zero,
        }
        goes_on = lambda s: ~s["converged"] & ~s["stuck"] & (s["iterations"] < self.max_steps)
        end = jax.lax.while_loop(goes_on, body, start)
        model = joint_model(population, end["now"], end["bend"])
        return End(end["z"], model, ended(model, end["converged"]), end["iterations"], end["failures"])


class MarginalValue(eqx.Module):
    """The marginal objective at one point of the coordinates of the population.

    - `value`, `penalty`: the negative log marginal posterior, and its part that is the prior's.
    - `each`: the gradients of the individuals, or of the outermost groups; `slope`, `curvature`: of the prior.
    - `deviations`: the modes; `follow`: their derivative by the population; `information`: as in `Conditional`.
    """

    value: Float[Array, ""]
    penalty: Float[Array, ""]
    each: Float[Array, "unit shared"]
    slope: Float[Array, " shared"]
    curvature: Float[Array, " shared"]
    deviations: Float[Array, "individual effect"]
    follow: Float[Array, "individual effect shared"]
    information: Float[Array, "individual effect effect"]
    chi_squared: Float[Array, ""]
    good: Bool[Array, ""]

    @property
    def gradient(self) -> Float[Array, " shared"]:
        """The gradient of `value`."""
        return self.each.sum(axis=0) + self.slope

    def model(self, bend: Float[Array, "shared shared"]) -> LocalModel:
        """The quadratic model with a given second derivative."""
        zero = 0 * self.slope
        rows = cholesky(bend).T
        return LocalModel(
            self.value, self.penalty, rows, zero, self.gradient, zero, self.chi_squared, 0 * self.value, self.good
        )


def population_in(problem: Problem) -> Population:
    """The population of a problem.

    **Raises:** an `ArgumentError` where there is none.
    """
    if problem.population is None:
        raise ArgumentError(
            "The method `Marginal` is for populations, but no free parameter of the problem is an `Individual`."
        )
    return problem.population


def marginal(problem: Problem, z: Float[Array, " parameters"]) -> MarginalValue:
    """The marginal objective and its gradient at `z`, from whose deviations the search for the modes begins."""
    population = population_in(problem)
    count, effects = population.shared, population.effects
    found, _ = modes(problem, z, population.deviations(z), MODE_STEPS)
    found = jax.lax.stop_gradient(found)

    def terms(u: Array) -> Any:
        place = jnp.concatenate([u[:count], z[count:]])
        each = conditional(problem, place, found + u[None, count:])
        return (each.value, each.information, each.gradient), each

    (rise, turn, bend), each = jax.jacfwd(terms, has_aux=True)(
        jnp.concatenate([z[:count], jnp.zeros(effects, z.dtype)])
    )
    # The derivative of a log determinant is the trace of the inverse with that of the matrix.
    rise = rise + 0.5 * jnp.einsum("ikl,iklp->ip", covariances(population, each.information), turn)
    # Where the minimum goes: d eta / d z = -(d2 g / d eta2)^-1 d2 g / d eta dz.
    good = jnp.all(each.good) & jnp.isfinite(rise).all() & jnp.isfinite(bend).all()
    own = jnp.where(good, bend[..., count:], jnp.eye(effects, dtype=z.dtype)[None])
    follow = -solved(population, own, jnp.where(good, bend[..., :count], 0))
    gradient = rise[:, :count] + jnp.einsum("ik,ikp->ip", rise[:, count:], follow)

    def penalty(shared: Array) -> Array:
        own = z[count:]
        density = problem.log_prior(problem.natural(jnp.concatenate([shared, own])))
        return -density - 0.5 * jnp.sum(own**2) - 0.5 * own.size * math.log(2 * math.pi)

    slope, curvature = jax.jvp(jax.grad(penalty), (z[:count],), (jnp.ones(count, z.dtype),))
    prior = penalty(z[:count])
    total = jnp.sum(each.value) + 0.5 * log_determinants(population, each.information) + prior
    good = good & jnp.isfinite(total) & jnp.isfinite(gradient).all() & jnp.isfinite(follow).all()
    return MarginalValue(
        jnp.where(good, total, jnp.inf),
        jnp.where(good, prior, 0),
        summed(population, jnp.where(good, gradient, 0)),
        jnp.where(good, slope, 0),
        jnp.where(good, jnp.maximum(curvature, 0), 0),
        found,
        jnp.where(good, follow, 0),
        each.information,
        each.chi_squared,
        good,
    )


def joint_model(population: Population, at: MarginalValue, bend: Float[Array, "shared shared"]) -> LocalModel:
    r"""The local model of population and individuals together, from which covariances and starts of samplers come.

    The population's numbers are distributed with the precision B, the deviations around $\hat\eta + D (z - \hat z)$ with the
    precision H.
    """
    if population.levels:
        return _joint_model_of_groups(population, at, bend)
    size, effects = len(population.labels), population.effects
    lower = jax.vmap(cholesky)(at.information).transpose(0, 2, 1)
    top = cholesky(bend).T
    # Deviations stand by effect and then by individual.
    own = jnp.einsum("ikl,ij->kilj", lower, jnp.eye(size, dtype=bend.dtype)).reshape(effects * size, effects * size)
    cross = -jnp.einsum("ikl,ilp->kip", lower, at.follow).reshape(effects * size, -1)
    # An occasion that an individual does not have hangs together with nothing.
    own, cross = own[population.places][:, population.places], cross[population.places]
    return _joined(at, top, own, cross)


def _joint_model_of_groups(population: Population, at: MarginalValue, bend: Array) -> LocalModel:
    """The same where groups join individuals: one dense root of the precision of all deviations."""
    own = cholesky(whole(population, at.information)).T
    follow = at.follow.transpose(1, 0, 2).reshape(-1, bend.shape[0])[population.places]
    return _joined(at, cholesky(bend).T, own, -own @ follow)


def _joined(at: MarginalValue, top: Array, own: Array, cross: Array) -> LocalModel:
    empty = jnp.zeros((top.shape[0], own.shape[1]), top.dtype)
    rows = jnp.concatenate([jnp.concatenate([top, empty], axis=1), jnp.concatenate([cross, own], axis=1)])
    zero = jnp.zeros(rows.shape[0], top.dtype)
    slope = jnp.concatenate([at.gradient, jnp.zeros(own.shape[1], top.dtype)])
    return LocalModel(at.value, at.penalty, rows, zero, slope, zero, at.chi_squared, 0 * at.value, at.good)


def sharpened(problem: Problem, end: End, once: Callable[[np.ndarray], End]) -> End:
    """The end of all starts, the best with the second derivative of the objective in place of what the search made of it.

    It consists of central differences of the gradient, by shares of the standard errors: the gradient is known to the root of the
    rounding error, as the modes are, of which the third root is the best step. `once` evaluates the objective at places by the
    program that the search ran.
    """
    best = int(np.argmin(np.asarray(end.model.value)))
    if not np.isfinite(np.asarray(end.model.value)[best]):
        return end
    count, z = population_in(problem).shared, np.asarray(end.z)[best]
    error = 1 / np.linalg.norm(np.asarray(end.model.rows)[best][:count, :count], axis=0)
    low, high = np.asarray(problem.coordinate_bounds())[:count].T
    reach = np.minimum(np.finfo(z.dtype).eps ** (1 / 6) * error, 0.25 * (high - low))
    # On a bound the difference is taken inside of it.
    centre = np.clip(z[:count], low + 1.5 * reach, high - 1.5 * reach)
    places = np.tile(z, (2 * count, 1))
    own = np.arange(count)
    places[own, own], places[count + own, own] = centre + reach, centre - reach
    slopes = np.asarray(once(places).model.slope)[:, :count]
    bend = (slopes[:count] - slopes[count:]) / (places[own, own] - places[count + own, own])[:, None]
    top = np.linalg.cholesky(positive(0.5 * (bend + bend.T), error)).T
    rows = np.array(end.model.rows)
    rows[best, :count, :count] = top
    return eqx.tree_at(lambda e: e.model.rows, end, jnp.asarray(rows, end.model.rows.dtype))


def positive(bend: np.ndarray, error: np.ndarray) -> np.ndarray:
    """A second derivative without what of it is not positive.

    In these errors all coordinates have one unit: what is flat, or bends the wrong way at a bound, is not known from the data, and
    its variance is large.
    """
    values, vectors = np.linalg.eigh(bend * error[:, None] * error)
    values = np.maximum(values, 1e-8 * np.abs(values).max())
    return (vectors * values) @ vectors.T / error[:, None] / error


def _sizes(problem: Problem, z: Array, at: MarginalValue) -> Array:
    """The sizes of coordinates: 1 of logarithms, and where a number is zero about its standard error, as the gradients tell."""
    log, bounds = jnp.array(problem.log[: z.size], bool), problem.coordinate_bounds()[: z.size]
    pulls = jnp.sqrt(jnp.sum(at.each**2, axis=0) + at.curvature)
    error = jnp.minimum(
        jnp.where(pulls > 0, 1 / jnp.where(pulls > 0, pulls, 1), jnp.inf), 0.5 * (bounds[:, 1] - bounds[:, 0])
    )
    zero = jnp.where(jnp.isfinite(error), error, 1)
    return jax.lax.stop_gradient(jnp.where(log, 1, jnp.where(z == 0, zero, jnp.abs(z)))).astype(z.dtype)


def _products(at: MarginalValue, size: Array) -> Array:
    """The first second derivative: the products of the individuals' gradients, which have its mean, and the prior's."""
    centred = at.each - at.each.mean(axis=0)[None]
    products = centred.T @ centred + jnp.diag(at.curvature)
    return products + jnp.diag(0.1 * jnp.diag(products) + 1e-3 / size**2)


def _updated(bend: Array, move: Array, new: MarginalValue, now: MarginalValue) -> Array:
    """Broyden, Fletcher, Goldfarb and Shanno's update, damped as Powell (1978) does so that it stays positive."""
    rise, ahead = new.gradient - now.gradient, bend @ move
    expected, seen = move @ ahead, move @ rise
    safe = jnp.where(expected > 0, expected, 1)
    share = jnp.where(seen < 0.2 * expected, 0.8 * expected / jnp.where(expected > seen, expected - seen, 1), 1)
    mixed = share * rise + (1 - share) * ahead
    found = bend + jnp.outer(mixed, mixed) / jnp.where(expected > 0, move @ mixed, 1) - jnp.outer(ahead, ahead) / safe
    fine = (expected > 0) & jnp.isfinite(found).all()
    return jnp.where(fine, found, bend)


def _at_modes(population: Population, z: Array, at: MarginalValue) -> Array:
    return population.with_deviations(z, at.deviations)


def _nowhere(population: Population, z: Array) -> MarginalValue:
    """Before the first point."""
    count, size, effects = population.shared, len(population.labels), population.effects
    units = len(population.levels[-1].labels) if population.levels else size
    zero = 0 * z[0]
    many = lambda *shape: jnp.zeros(shape, z.dtype) + zero
    eye = jnp.eye(effects, dtype=z.dtype)[None] + many(size, effects, effects)
    return MarginalValue(
        zero + jnp.inf,
        zero,
        many(units, count),
        many(count),
        many(count),
        many(size, effects),
        many(size, effects, count),
        eye,
        zero,
        zero > 0,
    )
