"""Steady states: integration leads there, Newton's method ends the way, and the implicit function theorem differentiates."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
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


class Balance(eqx.Module):
    """What a model conserves: `rows @ y` stays for every row; rows that are 0 say nothing. By experiment where there are several."""

    rows: Float[Array, "states states"]


def conserved(rates: Callable[[np.ndarray], np.ndarray], size: int, seed: int = 0) -> np.ndarray:
    """An orthonormal basis of what is conserved, from rates at random points, filled up with rows of zeros.

    A combination of states is conserved where that of the rates vanishes at every state and for all values of the parameters.
    Random points of order one make that a matter of rank without a question of scale.

    **Arguments:** `rates`, from a random generator to rates at one random point; `size`, the number of states.
    """
    generator = np.random.default_rng(seed)
    samples = np.stack([rates(generator) for _ in range(3 * size + 3)])
    samples = samples[np.isfinite(samples).all(axis=1)]
    rows = np.zeros((size, size))
    if len(samples) < size + 1:
        return rows
    largest = np.abs(samples).max(axis=1, keepdims=True)
    _, values, basis = np.linalg.svd(samples / np.where(largest > 0, largest, 1), full_matrices=True)
    rank = int((values > 1e-10 * max(values.max(initial=0), 1e-300)).sum())
    rows[: size - rank] = basis[rank:]
    return rows


def steady_state(setup: Setup, t: Array, method: Method, balance: Balance | None) -> tuple[Any, Array]:
    """The steady state that a model reaches from its initial state, and whether one was found.

    Time goes on from `t`, so that inputs have their last values. What the model conserves keeps its value. Derivatives are those of the equations
    that define the state, not of the way there.
    """
    held = jax.lax.stop_gradient(setup)
    end = jax.lax.stop_gradient(t + jnp.asarray(SPAN, t.dtype))
    step = method.step
    going = Method(method.solver, Adaptive(step.rtol, step.atol, STEPS) if isinstance(step, Adaptive) else step)
    way = integrate(held, jnp.stack([jax.lax.stop_gradient(t), end]), going)
    flat, unravel = ravel_pytree(jax.tree.map(lambda y: y[-1], way.ys))
    reached = jnp.where(way.status == Status.OK, flat, ravel_pytree(held.y0)[0])
    rows = jnp.zeros((flat.size, flat.size), flat.dtype) if balance is None else balance.rows.astype(flat.dtype)

    def residual(y: Array, setup: Setup) -> Array:
        rate = ravel_pytree(setup.system.vector_field(end, unravel(y), at_time(setup.inputs, end)))[0]
        return rate + rows.T @ (rows @ (y - ravel_pytree(setup.y0)[0]))

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


def _solved(matrix: Array, right: Array) -> Array:
    """The solution of linear equations whose unknowns and rows may be of very different size."""
    scale = 1 / jnp.maximum(jnp.max(jnp.abs(matrix), axis=1), 1e-300)
    return jnp.linalg.solve(matrix * scale[:, None], right * scale)

