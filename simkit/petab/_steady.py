"""Steady states: implicit steps lead there, the last of them Newton's, and the implicit function theorem differentiates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..core import Setup, at_time
from ..linear import back_substitute, held_solver, lu_factors

LATE = 1e8
"""Time after the start at which the model is evaluated: after all switches."""

STEPS = 400
TOLERANCE = 1e-2
"""The relative error of a step on the way, which only has to lead into the right basin."""

FLOOR, FINE = 1e-3, 1e-6
"""Parts of the largest state: what is smaller need not be followed on the way, and need not be resolved at its end."""

CLOSE = 1e-9
"""The last correction, relative to the state, that is small enough; the error is its square."""

NOTHING = 1e-12
"""Part of the largest state on the way: where all states are less, as in a model that decays, the steady state is zero."""


def conserved(rates: np.ndarray) -> np.ndarray:
    """Find the conservation laws of a model: `rows @ y` is constant for every row; rows of zeros pad it to a square.

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


class _Way(NamedTuple):
    y: Array
    h: Array
    largest: Array
    slope: Array
    steps: Array
    done: Array


def steady_state(setup: Setup, t: Array, rows: Float[Array, "states states"], late: float = LATE) -> tuple[Any, Array]:
    """The steady state that a model reaches from its initial state, and whether one was found.

    Inputs have the values they have `late` after `t`, by default long after it. What the model conserves (`rows`, see
    `conserved`) keeps its value. The way is one of linearly implicit steps of Euler's method, extrapolated and with an
    estimate of the error, whose limit for long steps is Newton's method. It is a tenth of the program that a solver would be.
    Derivatives are those of the equations that define the state, not of the way there.
    """
    end = jax.lax.stop_gradient(t + jnp.asarray(late, t.dtype))
    held, rows = jax.lax.stop_gradient((setup, rows))
    start, unravel = ravel_pytree(held.y0)
    identity = jnp.eye(start.size, dtype=start.dtype)
    # Where the numbers of the float type end, whatever the units of states and time.
    info = jnp.finfo(start.dtype)
    least, longest = float(info.tiny), float(info.max) ** 0.8

    def rate(y: Array, setup: Setup) -> Array:
        return ravel_pytree(setup.system.vector_field(end, unravel(y), at_time(setup.inputs, end)))[0]

    def pulled(y: Array, setup: Setup, slope: Array) -> Array:
        """The rates, and a pull towards what is conserved, to which they are blind."""
        return rate(y, setup) - _pull(slope, rows) @ (rows @ (y - ravel_pytree(setup.y0)[0]))

    def step(way: _Way) -> _Way:
        y = way.y
        # The rates once with their derivatives: the second evaluation is for the second half of the step alone.
        slope = jax.jacfwd(lambda y: rate(y, held))(y)
        # A start at zero has no relative change: its first step is by the decay of the states.
        own = jnp.maximum(jnp.max(jnp.abs(jnp.diagonal(slope))), least)
        h = jnp.where(way.h > 0, way.h, jnp.minimum(1e-3 / own, LATE))
        force, whole = pulled(y, held, slope), slope - _pull(slope, rows) @ rows
        move = _solver(identity / h - whole)(force)
        halves = _solver(identity * 2 / h - whole)
        half = halves(force)
        rest = halves(pulled(y + half, held, slope))
        # A state that starts from zero is as large as it becomes.
        size = jnp.maximum(jnp.abs(y), jnp.abs(y + move)) + least
        largest = jnp.maximum(way.largest, jnp.max(jnp.abs(y)))
        rough = size + FLOOR * jnp.max(size) + FINE * largest
        size = size + FINE * jnp.max(size) + NOTHING * largest
        error = jnp.max(jnp.abs(half + rest - move) / rough) / TOLERANCE
        correction = jnp.max(jnp.abs(move) / size)
        # Half of a step as long as the whole one: both are Newton's.
        newton = jnp.max(jnp.abs(move - half) / size) <= 0.1 * correction
        good = error < 1  # false for NaN
        done = good & newton & (correction < CLOSE)
        better = jnp.where(newton, y + move, y + 2 * (half + rest) - move)
        factor = jnp.clip(0.8 / jnp.sqrt(jnp.maximum(error, 1e-8)), 0.2, 30.0)
        h = h * jnp.where(jnp.isfinite(error), factor, 0.1)
        return _Way(jnp.where(good, better, y), jnp.minimum(h, longest), largest, slope, way.steps + 1, done)

    size = jnp.abs(start) + 1e-3 * jnp.max(jnp.abs(start))
    first = jnp.max(jnp.where(size > 0, jnp.abs(rate(start, held)) / jnp.where(size > 0, size, 1), 0))
    h = jnp.where(first > 0, jnp.minimum(1e-3 / jnp.maximum(first, least), longest), 0)
    begun = _Way(start, h, jnp.max(jnp.abs(start)), 0 * identity * h, jnp.zeros((), jnp.int32), h != h)
    way = jax.lax.while_loop(lambda way: ~way.done & (way.steps < STEPS), step, begun)
    ok = way.done & jnp.isfinite(way.y).all()
    y, slope = jax.lax.stop_gradient((jnp.where(ok, way.y, start), way.slope))
    corrected = held_solver(jnp.where(ok, slope - _pull(slope, rows) @ rows, identity))
    # Steps of Newton's method from the solution: they move nothing, and their derivatives are those of the solution, the first
    # ones after one step and the second ones after two.
    for _ in range(2):
        y = y - corrected(pulled(y, setup, slope))
    return unravel(jnp.where(ok, y, start)), ok


def _pull(slope: Array, rows: Array) -> Array:
    """Return the strength of the pull of each state to the conserved values: that of the rates."""
    size = jnp.max(jnp.abs(slope), axis=1, keepdims=True)
    return rows.T * jnp.where(size > 0, size, 1)


def _solver(matrix: Array) -> Callable[[Array], Array]:
    """The map to the solution of linear equations whose rows may be of very different size."""
    scale = 1 / jnp.maximum(jnp.max(jnp.abs(matrix), axis=1), 1e-300)
    factors = lu_factors(matrix * scale[:, None])
    return lambda right: back_substitute(factors, right * scale)
