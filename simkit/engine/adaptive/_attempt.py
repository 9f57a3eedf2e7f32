"""One attempted step in every lane, with its error control."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import Time
from ...core import Status
from ._flow import SAFETY, Carried, Flow, Operands
from ._leap import LaneEvents

RUNNING, WAITING = -1, -2
"""States of a lane that is no `Status` yet: it steps, or it waits within a step for the events of its block."""

NOWHERE = 2**30
"""Place of no event."""

# A step this much shorter than the whole span makes no progress; without a floor a derivative that is not finite would use up
# `max_steps` in rejected steps.
SHORTEST_STEP = 1e-24
LEAST_FACTOR, LARGEST_FACTOR = 0.2, 10.0
MOST = -4
"""Index of the largest number of steps among a flow's fixed numbers: before the length of the first step and the tolerances."""


class Happening(NamedTuple):
    """State of the events of all lanes: `found` are those by a condition, `timed` those at known times."""

    marks: Array  # (found, lanes): the conditions now; where one is zero, its slope, which has the sign of the side to come
    leaving: Array  # (found, lanes): whether a condition was zero and has not been seen on that side yet
    crossed: Array  # (found, lanes): whether they pass zero in the step for whose events a lane waits
    due: Array  # the next known time
    until: Array  # the end of the step for whose events a lane waits
    timed: Array  # whether that ends at a known time
    fired: Array  # (timed, lanes): numbers of the next known times
    total: Array  # how many events happened
    stalled: Array  # how many since time last moved on
    since: Array  # time of the last one


class Lanes(NamedTuple):
    """State of all lanes; the lanes are the last axis of all arrays."""

    t: Array
    h: Array  # of the next attempt
    y: Any
    memory: Carried
    steps: Array
    rejected: Array
    status: Array  # RUNNING, WAITING or a Status
    happening: Happening | None = None


class Attempt(NamedTuple):
    """Result of an attempt. `t1` equals `t` in lanes that do not run."""

    t1: Array  # where the step ended; just before a jump, not on it
    reached: Array  # up to where it answers for the solution
    stop: Array  # the jump or the end that comes next
    y1: Any
    memory: Carried
    dense: Any
    accurate: Array
    last: Array  # whether it ends the solve, if it is accurate
    landed: Array  # whether it ends on a jump
    h: Array  # what to try next
    failure: Array  # the status of a lane that has to give up, else RUNNING
    waits: Array | None = None  # whether it meets an event, so that the step is not taken
    happening: Happening | None = (
        None  # with the conditions at its end where it is taken, else with what the lane waits for
    )


def started(flow: Flow, ops: Operands, fixed: PyTree, t: Time, end: Array, status: Array) -> Lanes:
    """Lanes at their initial states."""
    y = flow.begin(ops)
    h = flow.first(ops, fixed, t, end, y)
    zero = jnp.zeros_like(status)
    lanes = Lanes(t, h, y, flow.start(ops, fixed, t, y), zero, zero, status)
    return lanes if flow.events is None else lanes._replace(happening=_begun(flow, ops, fixed, t, y, zero))


def _begun(flow: Flow, ops: Operands, fixed: PyTree, t: Time, y: PyTree, zero: Array) -> Happening:
    """The events of lanes at their initial states."""
    events, ops, y = flow.events, flow.rooted(ops), flow.rooted(y)
    assert events is not None
    marks, none = events.marks(ops, fixed, t, y), zero != zero
    leaving = marks == 0
    if events.found:
        marks = jnp.where(leaving, events.slopes(ops, fixed, t, y), marks)
    fired = events.passed(ops, fixed, t)
    due = soonest(events.coming(ops, fixed, fired), t)
    return Happening(marks, leaving, marks != marks, due, t, none, fired, zero, zero, jnp.full_like(t, -jnp.inf))


def soonest(coming: Array, t: Time) -> Array:
    """The first of the next known times of all events."""
    return jnp.min(coming, axis=0) if coming.shape[0] else jnp.full_like(t, jnp.inf)


def attempt(flow: Flow, ops: Operands, fixed: PyTree, end: Array, s: Lanes) -> Attempt:
    """Try a step in every lane.

    The rule is the plain one: the next step is `0.9 error^(-1/order)` times this one, within a fifth and ten times, where the
    error is relative to the tolerance. A step may be accepted and the next one shorter, which saves a sixth of the steps of a
    rule that shortens on rejection only.
    """
    live = s.status == RUNNING
    overdue = None
    if s.happening is not None:
        overdue = live & (s.happening.due <= s.t)
        live = live & ~overdue
    most = fixed[MOST].astype(s.steps.dtype)
    epsilon = float(jnp.finfo(s.t.dtype).eps)
    stop = flow.stop(ops, fixed, s.t, end)
    goal = stop if s.happening is None else jnp.minimum(stop, s.happening.due)
    reaches = live & (s.t + s.h * (1 + 4 * epsilon) >= goal)
    landed = reaches & (stop <= goal)
    before = stop
    if flow.jumps:
        # A jump at the end itself lies behind the solve: the last step ends two numbers before it, and a jump's step one.
        before = jnp.nextafter(stop, stop - 1)
        before = jnp.where(stop < end, before, jnp.nextafter(before, stop - 1))
    t1 = jnp.where(reaches, goal, s.t + s.h)
    t1 = jnp.where(live, jnp.where(landed, before, t1), s.t)
    y1, memory, dense, square, growth = flow.step(ops, fixed, s.t, t1, s.y, s.memory)
    square = flow.apart(square)
    accurate = live & (square < 1)  # false for NaN
    finite = jnp.isfinite(square)
    if growth is None:
        growth = SAFETY * inverse_root(jnp.where(finite, square, 1e30), 2 * flow.order)
        growth = jnp.clip(growth, LEAST_FACTOR, LARGEST_FACTOR)
    h = flow.apart((t1 - s.t) * growth)
    last = landed & (stop >= end)
    if flow.jumps and flow.multistep:
        begin = lambda: flow.first(ops, fixed, jnp.nextafter(stop, stop + 1), end, y1)
        anew = accurate & landed & ~last
        h = jnp.where(anew, jax.lax.cond(jnp.any(anew), begin, lambda: h), h)
    elif flow.jumps:
        h = jnp.where(accurate & landed, jnp.maximum(h, s.h), h)  # a jump may have cut the step short
    tiny = h < jnp.maximum(4 * epsilon * jnp.abs(s.t), SHORTEST_STEP * (end - s.t))
    failure = jnp.full_like(s.status, RUNNING)
    failure = jnp.where(live & (s.steps + s.rejected + 1 >= most), int(Status.STEP_LIMIT), failure)
    stuck = jnp.where(finite, int(Status.STEP_TOO_SMALL), int(Status.NON_FINITE))
    failure = jnp.where(live & tiny & ~accurate, stuck, failure)
    reached = jnp.where(landed, stop, t1)
    found = Attempt(t1, reached, stop, y1, memory, dense, accurate, last, landed & ~last, h, failure)
    return found if overdue is None else _met(flow, ops, fixed, s, found, overdue)


def _met(flow: Flow, ops: Operands, fixed: PyTree, s: Lanes, a: Attempt, overdue: Array) -> Attempt:
    """An attempt with the events that it meets."""
    events, kept = events_of(flow, s)
    t1 = jnp.where(a.landed, jnp.nextafter(a.stop, a.stop + 1), a.t1) if flow.jumps else a.t1
    at_end = flow.rooted(ops), fixed, t1, flow.rooted(a.y1)
    marks = events.marks(*at_end)
    crossed = crossed_from(events, kept, marks, lambda: events.slopes(*at_end)) & a.accurate[None]
    timed = a.accurate & (kept.due <= jnp.where(a.last, a.stop, a.t1))
    waits = overdue | timed | jnp.any(crossed, axis=0)
    # Where an input jumps at a known time, what is saved there is the state after the event.
    reached = jnp.where(a.landed & (kept.due <= a.stop), a.t1, a.reached) if flow.jumps else a.reached
    taken = (a.accurate & ~waits)[None]
    happening = kept._replace(
        marks=jnp.where(taken & ~(kept.leaving & (marks * kept.marks <= 0)), marks, kept.marks),
        leaving=kept.leaving & ~(taken & (marks * kept.marks > 0)),
        crossed=crossed,
        until=jnp.where(waits, a.t1, kept.until),
        timed=timed | overdue,
    )
    return a._replace(accurate=a.accurate & ~waits, waits=waits, reached=reached, happening=happening)


def events_of(flow: Flow, s: Lanes) -> tuple[LaneEvents, Happening]:
    """The events of a flow and their state in its lanes, where it has any."""
    assert flow.events is not None
    assert s.happening is not None
    return flow.events, s.happening


def crossed_from(events: LaneEvents, kept: Happening, marks: Array, slopes: Callable[[], Array]) -> Array:
    """Flags of the conditions that have crossed zero.

    One that starts from zero, to which rounding gives either sign, has crossed where it also moves away from the side to which it
    went: else a ball that has just bounced would bounce once more.
    """
    crossed = events.crossed(kept.marks, marks)
    if not events.found:
        return crossed
    back = lambda: crossed & (~kept.leaving | (slopes() * kept.marks < 0))
    return jax.lax.cond(jnp.any(kept.leaving & crossed), back, lambda: crossed)


def inverse_root(x: Array, power: int) -> Array:
    """x**(-1/power) to 2 in 100 up to power 16, which is plenty for the length of a step.

    Exponential and logarithm would take as long as all stages of a step of two states. Here the exponent of the floating point
    number is divided, and two steps of Newton's iteration mend what that does to its fraction.
    """
    short = jnp.clip(x, 1e-30, 1e30).astype(jnp.float32)
    one = 0x3F800000
    bits = jax.lax.bitcast_convert_type(short, jnp.int32)
    guess = jax.lax.bitcast_convert_type(one + one // power - bits // power, jnp.float32)
    for _ in range(2):
        guess = guess * (1 + 1 / power - short / power * jax.lax.integer_pow(guess, power))
    return guess.astype(x.dtype)


def moved(
    flow: Flow, ops: Operands, fixed: PyTree, s: Lanes, a: Attempt, accept: Array, again: Array | None = None
) -> Lanes:
    """The lanes after an attempt: on where `accept`, as they were where `again`, else with a shorter step to try."""
    live = s.status == RUNNING
    t1, memory = a.t1, a.memory
    if flow.jumps:
        t1 = jnp.where(a.landed, jnp.nextafter(a.stop, a.stop + 1), t1)
        memory = memory._replace(kept=None)
        fresh = lambda: flow.start(ops, fixed, t1, a.y1)._replace(kept=None)
        same = lambda: memory
        restarted = jax.lax.cond(jnp.any(accept & a.landed), fresh, same)
        memory = select(accept & a.landed, restarted, memory)._replace(kept=a.memory.kept)
    waits = jnp.zeros_like(live) if a.waits is None else a.waits
    counted = live & ~waits if again is None else live & ~waits & ~again
    status = jnp.where(a.failure != RUNNING, a.failure, s.status)
    status = jnp.where(accept & a.last, int(Status.OK), status)
    status = jnp.where(counted, status, s.status)
    if a.waits is not None:
        status = jnp.where(waits & live, WAITING, status)
    return Lanes(
        t=jnp.where(accept, t1, s.t),
        h=jnp.where(counted, a.h, s.h),
        y=select(accept, a.y1, s.y),
        memory=select(accept, memory._replace(kept=None), s.memory._replace(kept=None))._replace(kept=memory.kept),
        steps=s.steps + accept.astype(s.steps.dtype),
        rejected=s.rejected + (live & ~a.accurate & ~waits).astype(s.rejected.dtype),
        status=status,
        happening=_kept_waiting(s, a, live, again),
    )


def _kept_waiting(s: Lanes, a: Attempt, live: Array, again: Array | None) -> Happening | None:
    """The events of lanes after an attempt: those that wait already keep what they wait for, those that save hold still."""
    if a.happening is None or s.happening is None:
        return None
    return select(live if again is None else live & ~again, a.happening, s.happening)


def select(where: Array, new: PyTree, old: PyTree) -> Any:
    """`new` in the lanes of a mask, `old` in the others, leaf by leaf; a number without lanes is that of the only one."""
    over = lambda a: where.reshape((1,) * (a.ndim - 1) + where.shape) if a.ndim else where[0]
    return jax.tree.map(lambda a, b: jnp.where(over(a), a, b), new, old)
