"""Steady states: integration leads there, Newton's method ends the way, and the implicit function theorem differentiates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..core import Setup, Status, at_time
from ..engine import Adaptive, Method, integrate

SPAN = 1e8
"""For how long a model is left alone, in its own unit of time; steps grow tenfold where nothing happens."""

NEWTON_STEPS = 6
STEPS = 4096
CLOSE = 1e-6
"""The last correction of Newton's method, relative to the state, that is small enough."""


def conserved(rates: np.ndarray) -> np.ndarray:
    """What a model conserves: `rows @ y` stays for every row; rows of zeros fill up a square.

    A combination of states is conserved where that of the rates vanishes at every state and for all values of the parameters.
    Random points at which all numbers are of order one make that a matter of rank without a question of scale.

    **Arguments:** `rates`, shape `(points, states)`: the rates at random points, several times as many as states.
    """
    size = rates.shape[1]
    samples = rates[np.isfinite(rates).all(axis=1)]
    rows = np.zeros((size, size))
    if len(samples) <= size:
        return rows
    largest = np.abs(samples).max(axis=0)
    largest = np.where(largest > 0, largest, 1)
    _, values, basis = np.linalg.svd(samples / largest, full_matrices=True)
    rank = int((values > 1e-9 * max(values.max(initial=0), 1e-300)).sum())
    found = basis[rank:] / largest
    rows[: size - rank] = found / np.abs(found).max(axis=1, keepdims=True) if len(found) else found
    return rows


def steady_state(setup: Setup, t: Array, method: Method, rows: Float[Array, "states states"]) -> tuple[Any, Array]:
    """The steady state that a model reaches from its initial state, and whether one was found.

    Time goes on from `t`, so that inputs have their last values. What the model conserves (`rows`, see `conserved`) keeps its value. Derivatives are those of the equations
    that define the state, not of the way there.
    """
    held = jax.lax.stop_gradient(setup)
    end = jax.lax.stop_gradient(t + jnp.asarray(SPAN, t.dtype))
    step = method.step
    going = Method(method.solver, Adaptive(step.rtol, step.atol, STEPS) if isinstance(step, Adaptive) else step)
    way = integrate(held, jnp.stack([jax.lax.stop_gradient(t), end]), going)
    flat, unravel = ravel_pytree(jax.tree.map(lambda y: y[-1], way.ys))
    reached = jnp.where(way.status == Status.OK, flat, ravel_pytree(held.y0)[0])

    # The rates are blind to what is conserved, so its drift is put into the directions that they cannot reach.
    weights = jax.lax.stop_gradient(_weights(held, rows, unravel, reached, end))

    def residual(y: Array, setup: Setup) -> Array:
        rate = ravel_pytree(setup.system.vector_field(end, unravel(y), at_time(setup.inputs, end)))[0]
        return rate + weights @ (rows @ (y - ravel_pytree(setup.y0)[0]))

    now = lambda y: residual(y, held)

    def newton(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        y, _ = state
        move = _solved(jax.jacfwd(now)(y), -now(y))
        return y + move, jnp.max(jnp.abs(move) / (jnp.abs(y) + 1e-6 * jnp.max(jnp.abs(y)) + 1e-30))

    y, correction = jax.lax.fori_loop(0, NEWTON_STEPS, newton, (reached, jnp.full_like(t, jnp.inf)))
    ok = (correction < CLOSE) & jnp.isfinite(y).all() & (way.status == Status.OK)
    y = jax.lax.stop_gradient(jnp.where(ok, y, reached))
    slope = jax.lax.stop_gradient(jax.jacfwd(now)(y))
    # A step of Newton's method from the solution: it moves nothing, and its derivatives are those of the solution. The second
    # makes the second derivatives right as well.
    for _ in range(2):
        y = y - _solved(slope, residual(y, setup))
    return unravel(jnp.where(ok, y, reached)), ok


def _weights(setup: Setup, rows: Array, unravel: Any, y: Array, t: Array) -> Array:
    """How much of each state belongs to what is conserved, in the size of the rates' derivatives."""
    rate = lambda y: ravel_pytree(setup.system.vector_field(t, unravel(y), at_time(setup.inputs, t)))[0]
    size = jnp.max(jnp.abs(jax.jacfwd(rate)(y)), axis=1, keepdims=True)
    return rows.T * jnp.where(size > 0, size, 1)


def _solved(matrix: Array, right: Array) -> Array:
    """The solution of linear equations whose unknowns and rows may be of very different size."""
    scale = 1 / jnp.maximum(jnp.max(jnp.abs(matrix), axis=1), 1e-300)
    return jnp.linalg.solve(matrix * scale[:, None], right * scale)

