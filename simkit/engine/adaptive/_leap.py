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
        return self.up & (before < 0) & (after >= 0) | self.down & (before > 0) & (after <= 0)


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
    - `on_arrays`: makes a function of one member one of lanes, on arrays; `stack`, `split`: from the flow's states to arrays and back.
    - `exact`: whether derivatives by the times of events are wanted.
    """
    own = member.happenings
    assert own is not None
    slopes, change = on_arrays(own.slopes), on_arrays(own.change)
    shift, flowed = on_arrays(own.shift), on_arrays(own.flowed)
    passed, coming = on_arrays(own.passed), on_arrays(own.coming)

    def conditions(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Array:
        if marks is None:
            return jnp.zeros((0, t.shape[0]), t.dtype)
        values = marks(ops, fixed, t, y)
        return jnp.stack(values) if isinstance(values, list) else values

    def leap(ops: PyTree, fixed: PyTree, t: Time, y: State, path: Array, numbers: Array) -> Any:
        if not any(own.changes):
            return y
        first, delta, state = jnp.maximum(path[0], 0), jnp.zeros_like(t), stack(y)
        if exact:
            delta = shift(ops, fixed, t, state, first, numbers[0])
            state = flowed(ops, fixed, t, delta, state)

        def changed(state: Array, which: Array, number: Array) -> Array:
            new = change(ops, fixed, t + delta, state, jnp.maximum(which, 0), number)
            return jnp.where((which >= 0)[None], new, state)

        def one(state: Array, event: tuple[Array, Array]) -> tuple[Array, None]:
            after = jax.lax.cond(jnp.any(event[0] >= 0), changed, lambda state, *_: state, state, *event)
            return after, None

        state = changed(state, path[0], numbers[0])
        if len(own.ends) > 1 or own.timed:  # one that is found does not set itself off
            more = lambda state: jax.lax.scan(one, state, (path[1:], numbers[1:]))[0]
            state = jax.lax.cond(jnp.any(path[1] >= 0), more, lambda state: state, state)
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
