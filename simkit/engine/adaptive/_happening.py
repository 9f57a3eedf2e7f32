"""The events of one member as programs on flat arrays: conditions, shifts in time, changes of the state, known times.

An event has a place among all events, and a number: of one at known times the entry of its sorted times, of one that is found 1
where its condition has a slope at the zero crossing, so that its time has derivatives, else 0.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ..._types import State, Time
from ...core import NamedEvents, at_time, scaled
from ..task._condition import condition_of
from ._program import Ledger, Program


@dataclasses.dataclass(frozen=True, eq=False)
class Happenings:
    """Programs of the events of one member; `which` is a place among all events."""

    marks: Program  # t, y -> the conditions of the events that are found, (found,)
    slopes: Program  # t, y -> their derivatives along the solution
    shift: Program  # t, y, which, number -> the event's time minus t: zero, with derivatives
    change: Program  # t, y, which, number -> the state after the event
    flowed: Program  # t, h, y -> the state a time h later, right to second order
    coming: Program  # numbers of the next known times, (timed,) -> those times
    passed: Program  # t -> how many known times lie before t, (timed,)
    found: tuple[int, ...]  # places of the events that are found
    timed: tuple[int, ...]  # places of those at known times
    directions: tuple[str | None, ...]  # of those that are found
    ends: tuple[bool, ...]  # of all
    changes: tuple[bool, ...]  # of all: whether the state changes


def trace_happenings(
    events: NamedEvents,
    filled: Callable[[PyTree, PyTree], Any],
    field: Callable[..., Array],
    resume: Callable[..., Array] | None,
    flat: Array,
    unravel: Callable[[Array], Any],
    t: Array,
    ledger: Ledger,
) -> Happenings:
    """Trace the programs of events.

    **Arguments:**

    - `filled`: operands -> the system, the inputs and the events with those numbers.
    - `field`: operands, t, y -> the flat slope; `resume`: the same -> the state that solves algebraic equations, if there are any.
    - `flat`, `unravel`, `t`: an example of a state, its way back, and an example of a time.
    """
    kinds = events.events
    found = tuple(i for i, event in enumerate(kinds) if not event.timed)
    timed = tuple(i for i, event in enumerate(kinds) if event.timed)
    changes = tuple(event.change is not None for event in kinds)

    def marks(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Array:
        system, inputs, own = filled(ops, fixed)
        state = unravel(y)
        values = [condition_of(own.events[i], system, inputs, t, state).astype(t.dtype) for i in found]
        return jnp.stack(values) if values else jnp.broadcast_to(0 * t, (0,))

    def flowed(ops: PyTree, fixed: PyTree, t: Time, h: Time, y: State) -> Array:
        half = y + scaled(0.5 * h, field(ops, fixed, t, y))
        return y + scaled(h, field(ops, fixed, t + 0.5 * h, half))

    def slopes(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Array:
        moving = functools.partial(marks, ops, fixed)
        return jax.jvp(moving, (t, y), (jnp.ones_like(t), field(ops, fixed, t, y)))[1]

    def sorted_times(own: NamedEvents, i: int) -> tuple[Array, Array]:
        at = own.events[i].at
        assert at is not None
        at = at.astype(t.dtype)
        order = jnp.argsort(jax.lax.stop_gradient(at), stable=True)
        return at[order], order

    def entry(array: Array, number: Array) -> Array:
        return array.at[jnp.clip(number, 0, array.shape[0] - 1)].get(mode="promise_in_bounds")

    def shift(ops: PyTree, fixed: PyTree, t: Time, y: State, which: Array, number: Array) -> Array:
        total = jnp.zeros_like(t)
        if found:
            place = jnp.array([found.index(i) if i in found else 0 for i in range(len(kinds))], jnp.int32)[which]

            def value(delta: Array) -> Array:
                return marks(ops, fixed, t + delta, flowed(ops, fixed, t, delta, y))[place]

            sloped = (number == 1) & jnp.array([i in found for i in range(len(kinds))])[which]
            total = newton(value, jnp.zeros_like(t), sloped)
        own = filled(ops, fixed)[2]
        for i in timed:
            if kinds[i].at.size:
                at = entry(sorted_times(own, i)[0], number)
                finite = (which == i) & jnp.isfinite(at)
                total = total + jnp.where(finite, at - jax.lax.stop_gradient(jnp.where(finite, at, 0)), 0)
        return total

    def change(ops: PyTree, fixed: PyTree, t: Time, y: State, which: Array, number: Array) -> Array:
        system, inputs, own = filled(ops, fixed)

        def one(i: int) -> Callable[[Array, Array, Array], Array]:
            event = own.events[i]

            def changed(t: Array, y: Array, number: Array) -> Array:
                if event.change is None:
                    return y
                order = sorted_times(own, i)[1] if event.timed else None
                value = None
                if event.values is not None and order is not None:
                    value = jax.tree.map(lambda x: entry(x, entry(order, number)), event.values)
                before = system.decode(unravel(y))
                after = event.changed(system, t, before, at_time(inputs, t), value)
                encoded = system.encode(_alike(events.names[i], before, after))
                return ravel_pytree(encoded)[0].astype(y.dtype)

            return changed

        branches = [one(i) for i in range(len(kinds))]
        after = jax.lax.switch(which, branches, t, y, number) if len(branches) > 1 else branches[0](t, y, number)
        return after if resume is None else resume(ops, fixed, t, after)

    def coming(ops: PyTree, fixed: PyTree, numbers: Array) -> Array:
        own, times = filled(ops, fixed)[2], []
        for k, i in enumerate(timed):
            size = kinds[i].at.shape[0]
            at = entry(jax.lax.stop_gradient(sorted_times(own, i)[0]), numbers[k]) if size else jnp.inf
            times.append(jnp.where(numbers[k] < size, at, jnp.inf).astype(t.dtype))
        return jnp.stack(times) if times else numbers.astype(t.dtype)

    def passed(ops: PyTree, fixed: PyTree, t: Time) -> Array:
        own = filled(ops, fixed)[2]
        counts = [jnp.sum(sorted_times(own, i)[0] < t, dtype=jnp.int32) for i in timed]
        return jnp.stack(counts) if counts else jnp.broadcast_to((t != t).astype(jnp.int32), (0,))

    which = jnp.where(t == t, 0, 1).astype(jnp.int32)  # it varies over a mesh as times do
    numbers = jnp.broadcast_to(which, (len(timed),))
    return Happenings(
        marks=Program(marks, (t, flat), ledger),
        slopes=Program(slopes, (t, flat), ledger),
        shift=Program(shift, (t, flat, which, which), ledger),
        change=Program(change, (t, flat, which, which), ledger),
        flowed=Program(flowed, (t, t, flat), ledger),
        coming=Program(coming, (numbers,), ledger),
        passed=Program(passed, (t,), ledger),
        found=found,
        timed=timed,
        directions=tuple(kinds[i].direction for i in found),
        ends=tuple(event.ends for event in kinds),
        changes=changes,
    )


def newton(value: Callable[[Array], Array], zero: Array, sloped: Array) -> Array:
    """Two Newton steps from zero for the root of `value(delta) - value(0)`: zero itself, with the first and second derivatives of
    the root of `value`."""
    delta = zero
    rest = jax.lax.stop_gradient(value(zero))
    for _ in range(2):
        g, slope = jax.jvp(value, (delta,), (jnp.ones_like(delta),))
        sound = sloped & (slope != 0) & jnp.isfinite(slope)
        delta = delta - jnp.where(sound, g - rest, 0) / jnp.where(sound, slope, 1)
    return delta


def _alike(name: str, before: PyTree, after: PyTree) -> Any:
    """The state after an event, of the form of the one before.

    **Raises:** an `ArgumentError` that names the event where structure or shapes differ.
    """
    said = f"The `change` of the event `{name}` must give a state like the one that it gets"
    if jax.tree.structure(after) != jax.tree.structure(before):
        raise ArgumentError(
            f"{said}, of structure {jax.tree.structure(before)}, but it gives {jax.tree.structure(after)}. Return a copy with other "
            'numbers, such as `{**y, "speed": -y["speed"]}` or `dataclasses.replace(y, speed=-y.speed)`.'
        )

    def cast(x: Array, new: Any) -> Array:
        new = jnp.asarray(new)
        if new.shape != x.shape or (jnp.iscomplexobj(new) and not jnp.iscomplexobj(x)):
            raise ArgumentError(
                f"{said}, but of an array of shape {x.shape} it makes one of shape {new.shape} and type {new.dtype}."
            )
        return new.astype(x.dtype)

    return jax.tree.map(cast, before, after)
