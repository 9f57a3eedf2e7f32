"""The events of one member as programs on flat arrays: conditions, shifts in time, changes of the state, known times.

An event has a place among all events, and a number: of one at known times the entry of its sorted times, of one that is found 1
where its condition has a slope at the zero crossing, so that its time has derivatives, else 0.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import State, Time
from ...core import NamedEvents, at_time
from ..task._condition import condition_of
from ..task._flat import Flattening
from ._midpoint import midpoint
from ._program import Ledger, Program

NOWHERE = 2**30
"""Place of no event."""

SLOPED = 0.1
"""Share of its change over a step below which a condition must change at its zero crossing to have a slope there; else it jumps."""

NEAR = 1e-6
"""Share of its change over a step up to which a condition after its own event counts as zero."""


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


def trace_happenings(functions: "EventFunctions", flat: Array, t: Array, ledger: Ledger) -> Happenings:
    """Trace the programs of events, with an example of a state and of a time."""
    own, kinds = functions, functions.kinds
    which = jnp.where(t == t, 0, 1).astype(jnp.int32)  # it varies over a mesh as times do
    return Happenings(
        marks=Program(own.marks, (t, flat), ledger),
        slopes=Program(own.slopes, (t, flat), ledger),
        shift=Program(own.shift, (t, flat, which, which), ledger),
        change=Program(own.change, (t, flat, which, which), ledger),
        flowed=Program(own.flowed, (t, t, flat), ledger),
        coming=Program(own.coming, (jnp.broadcast_to(which, (len(own.timed),)),), ledger),
        passed=Program(own.passed, (t,), ledger),
        found=own.found,
        timed=own.timed,
        directions=tuple(kinds[i].direction for i in own.found),
        ends=tuple(event.ends for event in kinds),
        changes=tuple(event.change is not None for event in kinds),
    )


class EventFunctions:
    """Functions of the events of one member, of its operands and of flat states.

    **Arguments:**

    - `filled`: operands -> the system, the inputs and the events with those numbers.
    - `field`: operands, t, y -> the flat slope; `resume`: the same -> the state that solves algebraic equations, if there are any.
    - `way`: between flat states and the system's; `dtype`: of times.
    """

    def __init__(
        self,
        events: NamedEvents,
        filled: Callable[[PyTree, PyTree], Any],
        field: Callable[..., Array],
        resume: Callable[..., Array] | None,
        way: Flattening,
        dtype: Any,
    ):
        self.kinds, self.names = events.events, events.names
        self.filled, self.field, self.resume, self.way, self.dtype = filled, field, resume, way, dtype
        self.found = tuple(i for i, event in enumerate(self.kinds) if not event.timed)
        self.timed = tuple(i for i, event in enumerate(self.kinds) if event.timed)
        self.sizes = [0 if event.at is None else event.at.shape[0] for event in self.kinds]

    def marks(self, ops: PyTree, fixed: PyTree, t: Time, y: State) -> Array:
        """Return the conditions of the events that are found, (found,)."""
        system, inputs, own = self.filled(ops, fixed)
        state = self.way.state(y)
        values = [condition_of(own.events[i], system, inputs, t, state).astype(t.dtype) for i in self.found]
        return jnp.stack(values) if values else jnp.broadcast_to(0 * t, (0,))

    def flowed(self, ops: PyTree, fixed: PyTree, t: Time, h: Time, y: State) -> Array:
        """Return the state a time h later, right to second order in h."""
        return midpoint(functools.partial(self.field, ops, fixed), t, h, y)

    def slopes(self, ops: PyTree, fixed: PyTree, t: Time, y: State) -> Array:
        """Return the derivatives of the conditions along the solution."""
        marks = functools.partial(self.marks, ops, fixed)
        return jax.jvp(marks, (t, y), (jnp.ones_like(t), self.field(ops, fixed, t, y)))[1]

    def shift(self, ops: PyTree, fixed: PyTree, t: Time, y: State, which: Array, number: Array) -> Array:
        """Return the time of an event minus t: zero, with derivatives."""
        total, places = jnp.zeros_like(t), range(len(self.kinds))
        if self.found:
            place = jnp.array([self.found.index(i) if i in self.found else 0 for i in places], jnp.int32)[which]
            sloped = (number == 1) & jnp.array([i in self.found for i in places])[which]

            def value(delta: Array) -> Array:
                return self.marks(ops, fixed, t + delta, self.flowed(ops, fixed, t, delta, y))[place]

            total = newton(value, total, sloped)
        return total + self.known_shift(self.filled(ops, fixed), t, which, number)

    def known_shift(self, given: Any, t: Time, which: Array, number: Array) -> Array:
        """Return the time of an event at known times minus itself held: zero, with derivatives."""
        total = jnp.zeros_like(t)
        for i in self.timed:
            if self.sizes[i]:
                at = _entry(self.sorted_times(given, i)[0], number)
                finite = (which == i) & jnp.isfinite(at)
                total = total + jnp.where(finite, at - jax.lax.stop_gradient(jnp.where(finite, at, 0)), 0)
        return total

    def change(self, ops: PyTree, fixed: PyTree, t: Time, y: State, which: Array, number: Array) -> Array:
        """Return the state after an event."""

        # Not `lax.switch`: of one whose index is batched, JAX cannot transpose the linear part (it binds `stop_gradient` there).
        def branch(i: int) -> Array:
            kept = lambda x: jnp.where(which == i, x, jax.lax.stop_gradient(x)) if eqx.is_inexact_array(x) else x
            given = self.filled(jax.tree.map(kept, ops), fixed)
            return self._changed(given, i, kept(t), kept(y), number)

        if len(self.kinds) > 1:
            last = len(self.kinds) - 1
            after = jax.lax.select_n(jnp.clip(which, 0, last), *[branch(i) for i in range(last + 1)])
        else:
            after = self._changed(self.filled(ops, fixed), 0, t, y, number)
        return after if self.resume is None else self.resume(ops, fixed, t, after)

    def _changed(self, given: Any, i: int, t: Time, y: State, number: Array) -> Array:
        system, inputs, own = given
        event, value = own.events[i], None
        if event.change is None:
            return y
        if event.values is not None:
            order = self.sorted_times(given, i)[1]
            value = jax.tree.map(lambda x: _entry(x, _entry(order, number)), event.values)
        before = system.decode(self.way.state(y))
        after = event.changed(system, t, before, at_time(inputs, t), value, name=self.names[i])
        return self.way.flat(system.encode(after)).astype(y.dtype)

    def coming(self, ops: PyTree, fixed: PyTree, numbers: Array) -> Array:
        """Return the known times with these numbers, (timed,); infinite where there are no more."""
        given, times = self.filled(ops, fixed), []
        for k, i in enumerate(self.timed):
            size = self.sizes[i]
            at = _entry(jax.lax.stop_gradient(self.sorted_times(given, i)[0]), numbers[k]) if size else jnp.inf
            times.append(jnp.where(numbers[k] < size, at, jnp.inf).astype(self.dtype))
        return jnp.stack(times) if times else numbers.astype(self.dtype)

    def passed(self, ops: PyTree, fixed: PyTree, t: Time) -> Array:
        """Return how many known times lie before t, (timed,)."""
        given = self.filled(ops, fixed)
        counts = [jnp.sum(self.sorted_times(given, i)[0] < t, dtype=jnp.int32) for i in self.timed]
        return jnp.stack(counts) if counts else jnp.broadcast_to((t != t).astype(jnp.int32), (0,))

    def sorted_times(self, given: Any, i: int) -> tuple[Array, Array]:
        """Return the known times of an event in their order, and that order."""
        system, _, own = given
        at = own.events[i].times(system).astype(self.dtype)
        order = jnp.argsort(jax.lax.stop_gradient(at), stable=True)
        return at[order], order


def _entry(array: Array, number: Array) -> Array:
    return array.at[jnp.clip(number, 0, array.shape[0] - 1)].get(mode="promise_in_bounds")


def crossed(before: Array, after: Array, up: Any, down: Any) -> Array:
    """Flags of the conditions that cross zero between two values, upwards or downwards; one that starts at zero does not."""
    return jnp.asarray(up) & (before < 0) & (after >= 0) | jnp.asarray(down) & (before > 0) & (after <= 0)


def opposite(marks: Array, values: Array) -> Array:
    """Flags of values that are zero or of the other sign than marks; products of small numbers would be zero."""
    return jnp.where(marks > 0, values <= 0, (marks < 0) & (values >= 0))


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
