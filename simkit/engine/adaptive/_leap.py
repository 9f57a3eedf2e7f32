"""Events on lanes: conditions and changes of all members in lanes, and the leap of their states.

A leap is the change of the state as a function of all that the event's time depends on. The time is held; to move it by delta is
to follow the old field for delta, to change, and to follow the new field back. Delta is zero, its derivatives are not: those of the
root of the condition, or of a known time. Two midpoint steps make the first and the second derivatives exact, so that the first is
the saltation matrix (Aizerman and Gantmacher, 1958; Hiskens and Pai, 2000, IEEE Trans. Circuits Syst. I 47, 204-220).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..._types import State, Time
from ._happening import crossed
from ._member import Member

ROUNDS = 8
"""Most events at one time that set each other off."""


class LaneEvents(NamedTuple):
    """Functions of events on lanes, for states without tangents; lanes are the last axis."""

    marks: Callable[..., Array]  # ops, fixed, t, y -> conditions (found, lanes)
    slopes: Callable[..., Array]  # the same -> their derivatives along the solution
    change: Callable[..., Any]  # ops, fixed, t, y, which, number -> y
    coming: Callable[..., Array]  # ops, fixed, numbers -> next known times (timed, lanes)
    passed: Callable[..., Array]  # ops, fixed, t -> numbers of known times before t (timed, lanes)
    up: np.ndarray  # (found, 1): whether a passage upwards counts
    down: np.ndarray
    found: tuple[int, ...]
    timed: tuple[int, ...]
    ends: np.ndarray  # (events,)

    def crossed(self, before: Array, after: Array) -> Array:
        """Flags of the conditions that cross zero between two values; one that starts at zero does not."""
        return crossed(before, after, self.up, self.down)


def lane_events(
    member: Member,
    marks: Callable[..., Any] | None,
    on_arrays: Callable[[Callable[..., Any]], Callable[..., Any]],
    stack: Callable[[Any], Array],
    split: Callable[[Array], Any],
    exact: bool,
) -> tuple[LaneEvents, Callable[..., Any]]:
    """The events of a member on lanes, and their leap: ops, fixed, t, y, path, numbers -> y.

    **Arguments:**

    - `marks`: the conditions on lanes, as the flow evaluates them; None where no event is found.
    - `on_arrays`: makes a function of one member one of lanes, on arrays.
    - `stack`, `split`: from the flow's states to arrays and back.
    - `exact`: whether derivatives by the times of events are wanted.
    """
    own = member.happenings
    assert own is not None
    slopes, change = on_arrays(own.slopes), on_arrays(own.change)
    shift, flowed = on_arrays(own.shift), on_arrays(own.flowed)
    passed, coming = on_arrays(own.passed), on_arrays(own.coming)

    def conditions(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Array:
        if marks is None:
            return jnp.broadcast_to(0 * t[None], (0, t.shape[0]))
        values = marks(ops, fixed, t, y)
        return jnp.stack(values) if isinstance(values, list) else values

    known = np.array([i in own.timed for i in range(len(own.ends))])

    def leap(ops: PyTree, fixed: PyTree, t: Time, y: State, path: Array, numbers: Array) -> Any:
        if not any(own.changes):
            return y

        def changed(carry: Any, which: Array, number: Array, head: bool = False) -> tuple[Array, Array]:
            (state, delta), place = carry, jnp.maximum(which, 0)
            if exact:  # what another event sets off has the time of that; what has a time of its own moves by itself
                moved = shift(ops, fixed, t, state, place, number)
                moved = moved if head else jnp.where(jnp.array(known)[place], moved, delta)
                state = flowed(ops, fixed, t + delta, moved - delta, state)
                delta = moved
            new = change(ops, fixed, t + delta, state, place, number)
            real = which >= 0
            return jnp.where(real[None], new, carry[0]), jnp.where(real, delta, carry[1])

        def one(carry: tuple[Array, Array], event: tuple[Array, Array]) -> tuple[Any, None]:
            return jax.lax.cond(jnp.any(event[0] >= 0), changed, lambda carry, *_: carry, carry, *event), None

        carry = changed((stack(y), jnp.zeros_like(t)), path[0], numbers[0], head=True)
        if len(own.ends) > 1 or own.timed:  # one that is found does not set itself off
            more = lambda carry: jax.lax.scan(one, carry, (path[1:], numbers[1:]))[0]
            carry = jax.lax.cond(jnp.any(path[1] >= 0), more, lambda carry: carry, carry)
        state, delta = carry
        return split(flowed(ops, fixed, t + delta, -delta, state) if exact else state)

    directions = own.directions
    events = LaneEvents(
        marks=conditions,
        slopes=lambda ops, fixed, t, y: slopes(ops, fixed, t, stack(y)),
        change=lambda ops, fixed, t, y, *event: split(change(ops, fixed, t, stack(y), *event)),
        coming=coming,
        passed=passed,
        up=np.array([d != "down" for d in directions], bool)[:, None],
        down=np.array([d != "up" for d in directions], bool)[:, None],
        found=own.found,
        timed=own.timed,
        ends=np.array(own.ends),
    )
    return events, leap
