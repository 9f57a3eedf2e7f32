"""Adaptive solves with events: the states at save times, and the events with their times and the states on both sides."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import Events, NamedEvents, Status, by_member
from ..task._task import Options, Task
from ._adaptive import Posed, moved_in_time, pose
from ._operation import solve_members


class Eventful(NamedTuple):
    """A solve with events."""

    states: Any  # at the save times; NaN after one that ends it
    status: Array
    counts: tuple[Array, Array]
    events: Events  # with encoded states
    length: Array  # of the step that would come next
    end: Array  # the time of the event that ended it; infinite where none did


def integrate_with_events(task: Task, options: Options, length: Array | None = None) -> Eventful:
    """An adaptive solve in which events happen; arguments as in `integrate_adaptive`."""
    assert task.events is not None
    posed = pose(task, options, length)
    member, ops, fixed, times, plan, way = posed
    begun = moved_in_time(member, -1.0, times[:1], ops[0][None], ops, fixed)
    held = jax.lax.stop_gradient(times)
    ys, *figures = solve_members(begun, *ops[1:], *fixed, held, plan=plan)
    status, accepted, rejected, following, end, total, when, codes = (x[0] for x in figures)
    rows, before = ys[0, : times.shape[0]], ys[0, times.shape[0] :]
    after = ((status == Status.OK) & (held > end))[:, None]
    rows = moved_in_time(member, 1.0, times, jnp.where(after, ops[0][None], rows), ops, fixed)
    states = jax.vmap(way.state)(jnp.where(after, jnp.nan, rows))
    events = _listed(posed, task.events, total, when, codes, before)
    last = jnp.array([event.ends for event in task.events.events])[jnp.maximum(events.which, 0)] & events.happened
    ended = (status == Status.OK) & ((end < held[-1]) | jnp.any(last))
    return Eventful(states, status, (accepted, rejected), events, following, jnp.where(ended, end, jnp.inf))


def _listed(posed: Posed, events: NamedEvents, total: Array, when: Array, codes: Array, before: Array) -> Events:
    """The events, with the derivatives of their times; `before` are the states there at times that are held."""
    member, ops, fixed, times, _, way = posed
    own, kinds = member.happenings, len(events.events)
    assert own is not None
    real = codes >= 0
    code = jnp.maximum(codes, 0)
    which, rest = code % kinds, code // kinds
    follows, number = rest % 2 == 1, rest // 2
    start = jax.lax.stop_gradient(times[0])
    known = [i in own.timed for i in range(kinds)]

    def listed(ops: PyTree, fixed: PyTree, start: Array, entries: Any) -> Any:
        def one(carry: tuple[Array, Array], entry: Any) -> Any:
            delta, state = carry
            real, t, y, which, number, follows = entry
            t, y = jnp.where(real, t, start), jnp.where(real, y, ops[0])
            y, before = jnp.where(follows, state, y), jnp.where(follows, delta, 0)
            moved = own.shift(ops, fixed, t, y, which, number)
            delta = jnp.where(follows & ~jnp.array(known)[which], delta, moved)
            state = own.flowed(ops, fixed, t + before, delta - before, y)
            after = own.change(ops, fixed, t + delta, state, which, number)
            return (delta, after), (t + delta, state, after)

        return jax.lax.scan(one, (jnp.zeros_like(start), ops[0]), entries)[1]

    # All that differs between members is an argument: what a rule closes over must be known.
    entries = real, when, before, which, number, follows
    time, first, second = by_member(listed, ops, fixed, start, entries)
    emptied = lambda y: jax.vmap(way.state)(jnp.where(real[:, None], y, jnp.nan))
    return Events(
        names=events.names,
        count=total,
        times=jnp.where(real, time, jnp.inf),
        which=jnp.where(real, which, -1),
        before=emptied(first),
        after=emptied(second),
    )
