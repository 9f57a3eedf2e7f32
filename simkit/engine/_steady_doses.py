"""Steady states of repeated doses: the fixed point of the map over one interval, by Newton's method on that map.

The implicit function theorem differentiates it: two corrections with the matrix of the last step, whose first one has the first
derivatives of the fixed point and whose second one the second.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..core import Event, NamedEvents, held
from ..linear import held_solver, inverse
from .batching._mesh import alike_arrays
from .task._step import Adaptive
from .task._task import Options, Task

CLOSE = 1e-4
"""The last step of Newton's method, relative to the state, that is small enough; two corrections follow, each squares it."""

STEPS = 30
"""Most steps of Newton's method: a linear system needs one, and one more to see that."""

RESOLVED = 0.1
"""Share of 1 / rtol up to which accumulation is resolved: there what is lost in an interval is ten times the error of a solve."""


class Interval(NamedTuple):
    """One interval of repeated doses, for each steady state: from `at` - `interval` to `at`.

    - `late`: when in the interval a dose arrives; `amount` (n numbers) at once, `flow` (a number an infused place) for `length`.
    - `tail`: how long the infusion of the interval before still lasts.
    """

    at: Array
    interval: Array
    late: Array
    length: Array
    tail: Array
    amount: Array
    flow: Array


class Repeated(NamedTuple):
    """A simulation of one interval: its task, of which the first `size` numbers are the system's states, and the rest rates."""

    task: Task
    size: int
    solve: Callable[[Task, Options], Any]
    change: Any

    def end(self, x: Array, each: Interval) -> Array:
        """The state at the end of one interval that starts from x."""
        begin, infused = each.at - each.interval, each.flow.shape[0] > 0
        dtype, never = x.dtype, jnp.inf
        wide = lambda state, rates: jnp.concatenate([state.astype(dtype), rates.astype(dtype)])
        arrival = begin + each.late
        inside = (each.length > 0) & (each.late + each.length <= each.interval)
        rows = [(arrival, wide(each.amount, each.flow))]
        if infused:
            less = wide(jnp.zeros_like(each.amount), -each.flow)
            rows.insert(0, (jnp.where(inside, arrival + each.length, never), less))
            rows.insert(0, (jnp.where(each.tail > 0, begin + each.tail, never), less))
        times, add = (jnp.stack(parts) for parts in zip(*rows, strict=True))
        event = Event(at=times, values={"keep": jnp.ones_like(times), "add": add}, change=self.change)
        unravel = ravel_pytree(self.task.y0)[1]
        running = each.flow.astype(dtype) * (each.tail > 0).astype(dtype)
        y0 = unravel(jnp.concatenate([x, running]))
        when = jnp.stack([begin, each.at])
        task = self.task._replace(y0=y0, times=when, events=NamedEvents(("dose",), (event,)))
        last = jax.tree.map(lambda leaf: leaf[-1], self.solve(task, Options()).ys)
        return ravel_pytree(last)[0][: self.size]


class _Search(NamedTuple):
    x: Array
    matrix: Array
    steps: Array
    done: Array


def steady_doses(repeated: Repeated, each: Interval, start: Array) -> Array:
    """The states at the recorded times of steady states, shape `(rows, n)`; NaN where there is none.

    There is none where what is given does not leave, where an infusion is longer than its interval, or a lag.
    """
    return jax.vmap(lambda one: _one(repeated, one, start))(each)


def _one(repeated: Repeated, each: Interval, start: Array) -> Array:
    known = held(alike_arrays((repeated.task, each, start)))
    fixed, own = repeated._replace(task=known[0]), known[1]
    step = fixed.task.step
    rtol = jnp.asarray(step.rtol if isinstance(step, Adaptive) else CLOSE, start.dtype)
    given = jnp.concatenate([own.amount, own.flow * own.length])  # what a dose brings, at once or by an infusion
    atol = step.atol if isinstance(step, Adaptive) and step.atol is not None else rtol * jnp.max(given)
    size = jnp.broadcast_to(jnp.asarray(atol, start.dtype), ravel_pytree(fixed.task.y0)[0].shape)[: start.size] / rtol
    size = jnp.where(size > 0, size, jnp.finfo(size.dtype).tiny)  # nothing is given, and ratios of zeros are no numbers

    def ahead(x: Array) -> tuple[Array, Array]:
        end = fixed.end(x, own)
        return end, end

    identity = jnp.eye(start.size, dtype=start.dtype)

    def step_once(search: _Search) -> _Search:
        slope, end = jax.jacfwd(ahead, has_aux=True)(search.x)  # one solve for both
        matrix = identity - slope
        move = held_solver(matrix)(end - search.x)
        x = search.x + move
        done = jnp.all(jnp.abs(move) <= CLOSE * (jnp.abs(x) + size))
        return _Search(x, matrix, search.steps + 1, done)

    x = known[2] + 0 * own.at.astype(start.dtype)
    begun = _Search(x, identity + 0 * x[:, None], jnp.zeros((), jnp.int32), jnp.any(x != x))
    found = jax.lax.while_loop(lambda s: ~s.done & (s.steps < STEPS), step_once, begun)
    scale = jnp.abs(found.x) + size
    spread = jnp.max(jnp.abs(inverse(found.matrix)) * scale[None] / scale[:, None])
    fits = (own.length <= own.interval) & (own.late <= own.interval) & (own.interval > 0)
    ok = found.done & jnp.isfinite(found.x).all() & (spread <= RESOLVED / rtol) & fits
    y, matrix = jax.lax.stop_gradient((jnp.where(ok, found.x, start), jnp.where(ok, found.matrix, identity)))
    corrected = held_solver(matrix)
    y, _ = jax.lax.scan(lambda y, _: (y + corrected(repeated.end(y, each) - y), None), y, None, length=2)
    return jnp.where(ok, y, jnp.nan)
