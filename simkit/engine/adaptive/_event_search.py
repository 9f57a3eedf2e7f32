"""Events: where a member ends, found by a solve that looks for it, and a second one that ends there and has derivatives.

The first solve stops before the step in which the condition passes zero, whatever other members do. The place within the step
is found by bisection of the method's dense output. The second solve ends there, its end held, and Newton steps for the
condition move time and state to where they belong as functions of everything else: the implicit function theorem, to second
order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ..._types import Time
from ...core import ParticleSystem, Status, StochasticSystem, SystemTerm, by_member, scaled
from ...solvers import slope_of
from ..task._condition import condition_of, passes
from ..task._task import Options, Task
from ._adaptive import flowed, moved_in_time, pose
from ._block import horner
from ._member import Member
from ._operation import solve_members
from ._plan import Plan


class Ended(NamedTuple):
    """A solve that may have ended at an event."""

    states: Any  # at the save times; NaN after the event
    status: Array
    counts: tuple[Array, Array]
    searched: Array  # steps of the solve that looked for the event
    time: Array  # of the event; infinite where there was none, NaN where the solve failed
    state: Any  # at the event, else at the last time


def integrate_to_event(task: Task, options: Options) -> Ended:
    """An adaptive solve that ends at an event."""
    member, ops, fixed, times, plan, unravel = pose(task, options)
    held = jax.lax.stop_gradient(times)
    end, width, kind, searched = _found(member, jax.lax.stop_gradient(ops), fixed, held, plan)
    begun = moved_in_time(member, -1.0, times[:1], ops[0][None], ops, fixed)
    # Save times after the end are not reached and not written: what stands there is taken for the end, then for NaN.
    until = jnp.concatenate([held, end[None]])
    ys, *figures = solve_members(begun, *ops[1:], *fixed, until, plan=plan)
    status, accepted, rejected = (x[0] for x in figures[:3])
    last, after = ys[0, -1], (held > end)[:, None]
    rows = jnp.where(after, last[None], ys[0, :-1])
    rows = moved_in_time(member, 1.0, times, rows, ops, fixed)
    rows = jnp.where(after, jnp.nan, rows)
    sound = status == Status.OK
    happened = kind.passed & sound
    last = jnp.where(sound, last, ops[0])  # derivatives of others must not meet numbers that are not finite

    def ended(
        ops: PyTree, fixed: PyTree, time: Time, end: Array, width: Array, last: Array, happened: Array, kind: Passage
    ) -> tuple[Array, Array]:
        assert member.event is not None
        passing = member.event
        after_end = lambda delta: flowed(member, ops, fixed, end, delta, last)
        delta = _newton(lambda delta: passing(ops, fixed, end + delta, after_end(delta)), happened, width, kind)
        (stopped,) = moved_in_time(member, 1.0, time[None], last[None], ops, fixed)
        return end + delta, jnp.where(happened, after_end(delta), stopped)

    # The numbers of a failed member must not meet what it shares with others.
    time, final = by_member(ended, ops, fixed, times[-1], end, width, last, happened, kind)
    time = jnp.where(happened, time, jnp.where(sound, jnp.inf, jnp.nan))
    final = unravel(jnp.where(sound, final, jnp.nan))
    return Ended(jax.vmap(unravel)(rows), status, (accepted, rejected), searched, time, final)


def event_on_grid(task: Task, states: PyTree) -> tuple[Any, Array, Any]:
    """Rows up to an event, its time and the state there, from states at save times.

    Between two of them the state is the cubic through both states and slopes; that of a stochastic system, which has no slope,
    and of particles with a thermostat, is a line.
    """
    system, inputs, times, event = task.system, task.inputs, task.times, task.event
    assert event is not None
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
    rough = isinstance(system, StochasticSystem) or (isinstance(system, ParticleSystem) and not system.smooth)

    def between(theta: Array) -> Array:
        line = y0 + scaled(theta, y1 - y0)
        if rough:
            return line
        slope = lambda t, y: ravel_pytree(slope_of(SystemTerm(system, inputs), t, unravel(y)))[0]
        first, second = (scaled(t1 - t0, slope(t, y)) - (y1 - y0) for t, y in ((t0, y0), (t1, y1)))
        return line + scaled(theta * (1 - theta), scaled(1 - theta, first) - scaled(theta, second))

    value = lambda theta: condition(t0 + theta * (t1 - t0), between(theta))
    theta, kind = _bisected(value, event.direction, happened, times)
    theta = theta + _newton(lambda delta: value(theta + delta), happened, jnp.ones_like(theta), kind)
    time = t0 + theta * (t1 - t0)
    failed = jnp.where(finite.all(), jnp.inf, jnp.nan)
    rows = jnp.where((happened & (times > time))[:, None], jnp.nan, flat)
    state = jnp.where(happened, between(theta), flat[-1])
    return jax.vmap(unravel)(rows), jnp.where(happened, time, failed), unravel(state)


class Passage(NamedTuple):
    """Zero crossing of a condition."""

    passed: Array  # whether it does
    smooth: Array  # whether its value there is zero, but for rounding, so that the place can be improved
    sloped: Array  # whether it has a slope there, so that the place has derivatives; where it jumps it has none


SMOOTH, SLOPED = 1e-3, 0.1
"""Smallest share of its change over a step that a condition must change at its zero crossing."""


def _found(member: Member, ops: PyTree, fixed: PyTree, times: Array, plan: Plan) -> tuple[Array, Array, Passage, Array]:
    """Return the end of a member, the length of the step with its event, the zero crossing, and the number of steps up to it."""
    ends = times[jnp.array([0, -1])]
    found = solve_members(ops[0][None], *ops[1:], *fixed, ends, plan=plan._replace(event=True))
    status, accepted, rejected, length, start, *past = (x[0] for x in found[1:])
    passed = (status == Status.OK) & (length < 0)
    width = jnp.where(passed, -length, 0)
    y, stop = found[0][0, -1], start + width
    memory = member.start(ops, fixed, start, y)
    if past:
        before = ravel_pytree(memory.past)[1](past[0])
        memory = memory._replace(past=before, tolerances=tuple(fixed[-2:]))
    dense = member.step(ops, fixed, start, stop, y, memory)[2]
    increments = member.polynomial(ops, fixed, dense)
    assert member.event is not None
    passing = member.event
    value = lambda theta: passing(ops, fixed, start + theta * width, horner(y, increments, theta))
    theta, kind = _bisected(value, member.direction, passed, times)
    return jnp.where(passed, start + theta * width, times[-1]), width, kind, accepted + rejected


def _bisected(
    value: Callable[[Array], Array], direction: str | None, passed: Array, like: Array
) -> tuple[Array, Passage]:
    """Bisect for the place in a step, from 0 to 1, just after a zero crossing, to the resolution of the float type.

    A condition that jumps as an input does passes zero after the step: at 1.
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
    kind = Passage(passed, inside & (share < SMOOTH), inside & (share < SLOPED))
    return jax.lax.stop_gradient((high, kind))


def _newton(value: Callable[[Array], Array], happened: Array, width: Array, kind: Passage) -> Array:
    """Two Newton steps from zero: next to nothing in value, they carry the first and second derivatives of the root."""
    delta = jnp.zeros_like(width)
    rest = jax.lax.stop_gradient(jnp.where(kind.smooth, 0, value(delta)))
    for _ in range(2):
        g, slope = jax.jvp(value, (delta,), (jnp.ones_like(delta),))
        sound = happened & kind.sloped & (slope != 0) & jnp.isfinite(slope)
        move = jnp.where(sound, g - rest, 0) / jnp.where(sound, slope, 1)
        delta = jnp.clip(delta - move, -width, width)
    return delta
