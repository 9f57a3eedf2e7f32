"""Paths of particles that are drawn towards the next datum, and the weights that make up for it."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import ArgumentError
from ..core import StochasticSystem, System, refuse_jumps
from ..linear import inverse, log_determinant
from ..problem import Dataset, ForwardModel
from ..solvers import EulerMaruyama
from ._euler import Euler
from ._rows import Row, located, log_density, noise_at

PASSES = 2
"""Number of times that a guide is made: around the path of the drift, and around the path that this guide leads to the datum."""


class Guide(NamedTuple):
    r"""A normal density of the datum given the state before and after every step, by a linear system around a reference path.

    With the reference $\bar x_k$ it is $\log N(e_k - L_k (x - \bar x_k);\, 0, S_k)$, where the leading axis counts places from
    the state before the first step to that after the last one.
    """

    reference: Float[Array, "places n"]
    residual: Float[Array, "places d"]  # e
    slope: Float[Array, "places d n"]  # L
    spread: Float[Array, "places d d"]  # S


def check_guided(model: ForwardModel, data: Dataset) -> None:
    """Refuse a problem whose particles cannot be guided.

    **Raises:** an `ArgumentError`.
    """
    system, solver = model.base.system, model.method.solver
    kind = type(system).__name__
    if not isinstance(system, StochasticSystem) or type(system).encode is not System.encode:
        raise ArgumentError(
            f'`proposal="guided"` shifts the noise of a stochastic system, but `{kind}` is a jump process or steps another form of '
            'its state: take `proposal="bootstrap"`.'
        )
    refuse_jumps(system, '`proposal="guided"` shifts the noise of steps without jumps', 'take `proposal="bootstrap"`.')
    if not isinstance(solver, EulerMaruyama):
        raise ArgumentError(
            '`proposal="guided"` needs steps that are linear in their noise, so the problem\'s argument `solver` must be '
            f"`EulerMaruyama()`, but it is `{type(solver).__name__}`."
        )
    dtype = jax.tree.leaves(model.start_shapes())[0].dtype
    for name in data.values:
        noise = model.base.noise[name]
        if noise.information(jnp.ones((), dtype)) is None:
            raise ArgumentError(
                f'`proposal="guided"` needs the Fisher information of a datum, which the noise model `{type(noise).__name__}` of '
                f'`{name}` does not state: give it `information`, or take `proposal="bootstrap"`.'
            )


def guide_of(euler: Euler, x: Array, t: Array, until: Array, row: Row) -> Guide:
    """The guide of one row of data, around the path from a state."""
    begins, length = euler.within(t, until)
    count = jax.eval_shape(lambda t, x: euler.terms(t, x)[1], t, x).shape[-1]
    shift, guide = jnp.zeros((euler.substeps, count), x.dtype), None
    for _ in range(PASSES):
        guide = _around(euler, x, begins, length, until, row, shift)
        shift = _shift(euler, guide, begins, length, x)
    assert guide is not None
    return guide


def _around(
    euler: Euler, x: Array, begins: Array, length: Array, until: Array, row: Row, shift: Float[Array, "steps m"]
) -> Guide:
    """The guide around the path that shifted noise makes."""

    def forth(x: Array, now: tuple[Array, Array]) -> tuple[Array, Any]:
        t, z = now
        drift, factors = euler.terms(t, x)
        turn = jnp.eye(x.size, dtype=x.dtype) + length * jax.jacfwd(lambda x: euler.terms(t, x)[0])(x)
        forced = jnp.sqrt(length) * factors
        return x + drift * length + forced @ z, (x, turn, forced, forced @ z)

    last, (path, turns, forced, shifted) = jax.lax.scan(forth, x, (begins, shift))
    end = told(euler, until, last, row)

    def back(after: Any, now: Any) -> tuple[Any, Any]:
        (residual, slope, spread), (turn, forced, shifted) = after, now
        through = slope @ forced
        before = residual + slope @ shifted, slope @ turn, spread + through @ through.T
        return before, before

    _, before = jax.lax.scan(back, end, (turns, forced, shifted), reverse=True)
    joined = jax.tree.map(lambda first, end: jnp.concatenate([first, end[None]]), before, end)
    return Guide(jnp.concatenate([path, last[None]]), *joined)


def told(euler: Euler, t: Array, x: Array, row: Row) -> tuple[Array, Array, Array]:
    """The datum as a normal number: its distance from the output at x, the slope of that by x, and its covariance.

    The distance is the score over the Fisher information: for normal data the residual. What is missing tells nothing.
    """
    setup, dtype = euler.setup, x.dtype
    flat = lambda tree: ravel_pytree(tree)[0].astype(dtype)
    outputs = lambda x: located(setup, t, euler.state(x), row.values)
    places, slope = outputs(x), jax.jacfwd(lambda x: flat(outputs(x)))(x)
    scores, information = {}, {}
    for name, place in places.items():
        noise, value = noise_at(setup.noise[name], place, row.errors.get(name)), row.values[name].astype(place.dtype)
        seen = jnp.isfinite(value)
        log_prob = lambda place, noise=noise, value=value, seen=seen: jnp.sum(
            noise.log_prob(jnp.where(seen, value, 1), place)
        )
        safe = jnp.where(seen, place, 1)
        known: Any = noise.information(safe)
        scores[name] = jnp.where(seen, jax.grad(log_prob)(safe), jnp.nan)
        information[name] = jnp.broadcast_to(known.entry(0, 0), place.shape)
    score, weight = flat(scores), flat(information)
    seen = jnp.isfinite(score) & jnp.isfinite(weight) & (weight > 0) & jnp.isfinite(slope).all(axis=1)
    weight = jnp.where(seen, weight, 1)
    residual = jnp.where(seen, jnp.where(seen, score, 0) / weight, 0)
    return residual, jnp.where(seen[:, None], slope, 0), jnp.diag(1 / weight)


def _aimed(guide: Guide, x: Array, drift: Array, forced: Array) -> tuple[Array, Array, Array, Array, Array]:
    """The residual of the datum without noise in this step, its derivative by the noise, the covariance of the datum after the
    step and before it, in units of the datum's own spread, and these units. `guide` is that after the step."""
    residual = guide.residual - guide.slope @ (x + drift - guide.reference)
    through = guide.slope @ forced
    unit = jnp.sqrt(jnp.diag(guide.spread))
    after = guide.spread / unit[:, None] / unit[None]
    through = through / unit[:, None]
    return residual / unit, through, after, after + through @ through.T, unit


def _shift(euler: Euler, guide: Guide, begins: Array, length: Array, x: Array) -> Float[Array, "steps m"]:
    """The mean of the guided noise along a path."""

    def step(x: Array, now: tuple[Array, Guide]) -> tuple[Array, Array]:
        t, after = now
        drift, factors = euler.terms(t, x)
        forced = jnp.sqrt(length) * factors
        residual, through, _, total, _ = _aimed(after, x, drift * length, forced)
        z = through.T @ (inverse(total) @ residual)
        return x + drift * length + forced @ z, z

    return jax.lax.scan(step, x, (begins, jax.tree.map(lambda leaf: leaf[1:], guide)))[1]


class Flown(NamedTuple):
    """A random path to the next datum: its state there, what path and datum add to its log weight, and its flat state after the
    first step, where that is asked for."""

    state: Any
    gained: Float[Array, ""]
    first: Float[Array, " n"] | None


def guided(
    euler: Euler, guide: Guide, y: Any, t: Array, until: Array, row: Row, key: PRNGKeyArray, *, first: bool = False
) -> Flown:
    r"""A random path that looks at the next datum.

    Each step draws its noise z from the normal law given the guide's datum, $N(e; 0, T)$ before and $N(e - M z; 0, S)$ after with
    $T = S + M M^T$: by $z = \xi + M^T T^{-1} (e - M \xi - \epsilon)$ with standard normal $\xi$ and $\epsilon$ of covariance S.
    The weight gains $N(e; 0, T) / N(e - M z; 0, S)$, the ratio of the law of z to the one it is drawn from.
    """
    x, (begins, length) = ravel_pytree(y)[0], euler.within(t, until)
    outputs = guide.residual.shape[-1]
    count = jax.eval_shape(lambda t, x: euler.terms(t, x)[1], t, x).shape[-1]
    drawn = jax.random.normal(key, (euler.substeps, count + outputs), x.dtype)

    def step(carry: tuple[Array, Array], now: tuple[Array, Guide, Array]) -> tuple[Any, Array | None]:
        (x, gained), (t, after, drawn) = carry, now
        drift, factors = euler.terms(t, x)
        forced = jnp.sqrt(length) * factors
        residual, through, spread, total, _ = _aimed(after, x, drift * length, forced)
        white, error = drawn[:count], root(spread) @ drawn[count:]
        precision = inverse(total)
        z = white + through.T @ (precision @ (residual - through @ white - error))
        left = residual - through @ z
        gained = gained + normal(residual, precision, total) - normal(left, inverse(spread), spread)
        x = x + drift * length + forced @ z
        return (x, gained), x if first else None

    start = x, jnp.zeros((), x.dtype)
    (x, gained), path = jax.lax.scan(step, start, (begins, jax.tree.map(lambda leaf: leaf[1:], guide), drawn))
    y = euler.state(x)
    gained = gained + log_density(euler.setup, until, y, row)
    return Flown(y, gained, path[0] if path is not None else None)


def blind(euler: Euler, y: Any, t: Array, until: Array, row: Row, key: PRNGKeyArray) -> Flown:
    """A random path that knows nothing of the next datum."""
    z = jax.random.normal(key, (euler.substeps, euler.start.size), euler.start.dtype)
    first, last = euler.row(t, until, ravel_pytree(y)[0], z)
    y = euler.state(last)
    return Flown(y, log_density(euler.setup, until, y, row), first)


def normal(residual: Array, precision: Array, covariance: Array) -> Float[Array, ""]:
    """The log density of a normal number at zero mean."""
    return -0.5 * (
        residual @ precision @ residual + log_determinant(covariance) + residual.size * math.log(2 * math.pi)
    )


def root(covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The lower triangle L of a positive covariance L L^T, entry by entry where outputs are few."""
    if covariance.shape[0] == 1:
        return jnp.sqrt(covariance)
    return jnp.linalg.cholesky(covariance)
