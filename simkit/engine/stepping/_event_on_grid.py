"""The event that ends a run of particles, found between save times."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ...core import Events, NamedEvents, ParticleSystem, SystemTerm, scaled
from ...solvers import slope_of
from ..adaptive._happening import SLOPED, newton
from ..task._condition import condition_of, passes
from ..task._task import Task


def event_on_grid(task: Task, states: PyTree) -> tuple[Any, Array, Any]:
    """Rows up to an event, its time and the state there, from states at save times.

    Between two of them the state is the cubic through both states and slopes; that of particles with a thermostat is a line.
    """
    system, inputs, times = task.system, task.inputs, task.times
    assert task.events is not None
    (event,) = task.events.events
    flat = jax.vmap(lambda y: ravel_pytree(y)[0])(states)
    unravel = ravel_pytree(jax.tree.map(lambda x: x[0], states))[1]
    condition = lambda t, y: condition_of(event, system, inputs, t, unravel(y)).astype(t.dtype)
    values = jax.lax.stop_gradient(jax.vmap(condition)(times, flat))
    passed = passes(event.direction, values[:-1], values[1:])
    happened, place = jnp.any(passed), jnp.argmax(passed)
    finite = jnp.isfinite(flat).all(axis=1)
    # Where nothing happened, or a state is not finite, derivatives must not meet numbers that are not finite either.
    picked = lambda i: jnp.where(finite[i], flat[i], flat[0])
    (t0, t1), (y0, y1) = times[place + jnp.arange(2)], (picked(place), picked(place + 1))
    assert isinstance(system, ParticleSystem)

    def between(theta: Array) -> Array:
        line = y0 + scaled(theta, y1 - y0)
        if not system.smooth:
            return line
        slope = lambda t, y: ravel_pytree(slope_of(SystemTerm(system, inputs), t, unravel(y)))[0]
        first, second = (scaled(t1 - t0, slope(t, y)) - (y1 - y0) for t, y in ((t0, y0), (t1, y1)))
        return line + scaled(theta * (1 - theta), scaled(1 - theta, first) - scaled(theta, second))

    value = lambda theta: condition(t0 + theta * (t1 - t0), between(theta))
    theta, sloped = _bisected(value, event.direction, happened, times)
    theta = theta + newton(lambda delta: value(theta + delta), jnp.zeros_like(theta), sloped)
    time = t0 + theta * (t1 - t0)
    failed = jnp.where(finite.all(), jnp.inf, jnp.nan)
    rows = jnp.where((happened & (times > time))[:, None], jnp.nan, flat)
    state = jnp.where(happened, between(theta), flat[-1])
    return jax.vmap(unravel)(rows), jnp.where(happened, time, failed), unravel(state)


def ended_by(events: NamedEvents, time: Array, state: Any) -> Events:
    """The only event of a run, from its time (infinite where it did not happen) and the state there."""
    happened = jnp.isfinite(time)
    rows = jax.tree.map(lambda x: jnp.where(happened, x, jnp.nan)[None], state)
    when = jnp.where(happened, time, jnp.inf)[None]
    which = jnp.where(happened, 0, -1)[None]
    return Events(events.names, happened.astype(int), when, which, rows, rows)


def _bisected(
    value: Callable[[Array], Array], direction: str | None, passed: Array, like: Array
) -> tuple[Array, Array]:
    """Bisect for the place in a step, from 0 to 1, just after a zero crossing, to the resolution of the float type.

    A condition that jumps as an input does passes zero after the step: at 1. Also a flag: whether the condition has a slope there.
    """
    zero = jnp.zeros_like(like[0])
    first, final = value(zero), value(zero + 1)

    def halved(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = carry
        middle = 0.5 * (low + high)
        beyond = passes(direction, first, value(middle))
        return jnp.where(beyond, low, middle), jnp.where(beyond, middle, high)

    digits = jnp.finfo(like.dtype).nmant + 2
    low, high = jax.lax.fori_loop(0, digits, halved, (zero, zero + 1))
    share = jnp.abs(value(high) - value(low)) / jnp.where(final == first, 1, jnp.abs(final - first))
    inside = passed & passes(direction, first, final)
    return jax.lax.stop_gradient((high, inside & (share < SLOPED)))
