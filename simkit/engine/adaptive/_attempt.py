"""One attempted step in every lane, with its error control."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import Time
from ...core import Status, just_after, just_before
from ..kernels._objects import number
from ._flow import SAFETY, Carried, Flow, Operands
from ._happening import opposite
from ._leap import LaneEvents

RUNNING, WAITING = -1, -2
"""States of a lane that is no `Status` yet: it steps, or it waits within a step for the events of its block."""

# A step this much shorter than the whole span makes no progress; without a floor a derivative that is not finite would use up
# `max_steps` in rejected steps.
SHORTEST_STEP = 1e-24
LEAST_FACTOR, LARGEST_FACTOR = 0.2, 10.0
MOST = -4
"""Index of the largest number of steps among a flow's fixed numbers: before the length of the first step and the tolerances."""


class Happening(NamedTuple):
    """State of the events of all lanes: `found` are those by a condition, `timed` those at known times."""

    marks: Array  # (found, lanes): the conditions now, or how one leaves zero: see `leaving`
    crossed: Array  # (found, lanes): whether they pass zero in the step for whose events a lane waits
    due: Array  # the next known time
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


class Reach(NamedTuple):
    """The end of the next step of each lane, as its length, jumps, known times and the end of the solve have it."""

    t1: Array  # just before a jump, not on it
    stop: Array  # the jump or the end that comes next
    landed: Array  # whether it ends there
    live: Array  # whether it is stepped
    overdue: Array | None  # whether an event at a known time comes first; None without such events


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
    waits: Array | None = None  # whether it meets an event within the step, so that this is not taken
    arrives: Array | None = None  # whether it is taken and ends at a known time, whose events come next
    happening: Happening | None = None  # with the conditions at its end where it is taken


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
    marks = events.marks(ops, fixed, t, y)
    if events.found:
        marks = jnp.where(marks == 0, departing(events.slopes(ops, fixed, t, y)), marks)
    fired = events.passed(ops, fixed, t)
    due = soonest(events.coming(ops, fixed, fired), t)
    return Happening(marks, marks != marks, due, fired, zero, zero, jnp.full_like(t, -jnp.inf))


def departing(slopes: Array) -> Array:
    """Marks of conditions that are zero, of the sign to which they move.

    Where a condition is zero, rounding gives it either sign until it has left. Until then its mark is the smallest number, with
    the sign of the side to come, and twice that where the step ahead is to be taken though the condition seems to pass in it.
    """
    return jnp.sign(slopes) * jnp.finfo(slopes.dtype).tiny


def leaving(marks: Array) -> Array:
    """Flags of the conditions that were zero and have not been seen on the side to which they move."""
    return (marks != 0) & (jnp.abs(marks) <= 2 * jnp.finfo(marks.dtype).tiny)


def spared(marks: Array) -> Array:
    """Flags of the conditions whose next passage is rounding."""
    return jnp.abs(marks) == 2 * jnp.finfo(marks.dtype).tiny


def soonest(coming: Array, t: Time) -> Array:
    """The first of the next known times of all events."""
    return jnp.min(coming, axis=0) if coming.shape[0] else jnp.full_like(t, jnp.inf)


def attempt(flow: Flow, ops: Operands, fixed: PyTree, end: Array, s: Lanes) -> Attempt:
    """Try a step in every lane.

    The rule is the plain one: the next step is `0.9 error^(-1/order)` times this one, within a fifth and ten times, where the
    error is relative to the tolerance. A step may be accepted and the next one shorter, which saves a sixth of the steps of a
    rule that shortens on rejection only.
    """
    most = number(fixed[MOST]).astype(s.steps.dtype)
    t1, stop, landed, live, overdue = reach(flow, ops, fixed, end, s, s.status == RUNNING)
    y1, memory, dense, square, growth = flow.step(ops, fixed, s.t, t1, s.y, s.memory)
    last = landed & (stop >= end)
    square, marks = flow.apart(square), None
    if flow.events is not None and flow.events.found:
        beyond = jnp.where(landed & ~last, just_after(stop), t1) if flow.jumps else t1
        marks = flow.events.marks(flow.rooted(ops), fixed, beyond, flow.rooted(y1))
        # A condition may be no number beyond its event: a shorter step tells.
        unknown = jnp.any(jnp.isnan(marks), axis=0)
        square = jnp.where(unknown, jnp.nan, square)
        growth = growth if growth is None else jnp.where(unknown, LEAST_FACTOR, growth)
    accurate = live & (square < 1)  # false for NaN
    finite = jnp.isfinite(square)
    growth = grown(square, flow.order) if growth is None else growth
    h = flow.apart((t1 - s.t) * growth)
    if flow.jumps and flow.multistep:
        begin = lambda: flow.first(ops, fixed, just_after(stop), end, y1)
        anew = accurate & landed & ~last
        h = jnp.where(anew, jax.lax.cond(jnp.any(anew), begin, lambda: h), h)
    elif flow.jumps:
        h = jnp.where(accurate & landed, jnp.maximum(h, s.h), h)  # a jump may have cut the step short
    tiny = too_short(h, s.t, end)
    failure = jnp.full_like(s.status, RUNNING)
    failure = jnp.where(live & (s.steps + s.rejected + 1 >= most), int(Status.STEP_LIMIT), failure)
    stuck = jnp.where(finite, int(Status.STEP_TOO_SMALL), int(Status.NON_FINITE))
    failure = jnp.where(live & tiny & ~accurate, stuck, failure)
    reached = jnp.where(landed, stop, t1)
    found = Attempt(t1, reached, stop, y1, memory, dense, accurate, last, landed & ~last, h, failure)
    return found if flow.events is None else _met(flow, s, found, marks, overdue)


def reach(flow: Flow, ops: Operands, fixed: PyTree, end: Array, s: Lanes, live: Array) -> Reach:
    """The end of the next step of the lanes in `live`."""
    overdue, epsilon = None, float(jnp.finfo(s.t.dtype).eps)
    stop = goal = flow.stop(ops, fixed, s.t, end)
    if s.happening is not None and flow.events is not None and flow.events.timed:
        overdue = live & (s.happening.due <= s.t)
        live = live & ~overdue
        goal = jnp.minimum(stop, s.happening.due)
    reaches = live & (s.t + s.h * (1 + 4 * epsilon) >= goal)
    landed = reaches & (stop <= goal)
    before = stop
    if flow.jumps:
        # A jump at the end itself lies behind the solve: the last step ends two numbers before it, and a jump's step one.
        before = just_before(stop)
        before = jnp.where(stop < end, before, just_before(before))
    t1 = jnp.where(reaches, goal, s.t + s.h)
    return Reach(jnp.where(live, jnp.where(landed, before, t1), s.t), stop, landed, live, overdue)


def arrived(found: Reach, happening: Happening) -> Array:
    """Flags of the lanes whose next step ends at a known time of an event, or which are past it."""
    return happening.due <= jnp.where(found.landed, found.stop, found.t1)


def _met(flow: Flow, s: Lanes, a: Attempt, marks: Array | None, overdue: Array | None) -> Attempt:
    """An attempt with the events that it meets."""
    events, kept = events_of(flow, s)
    waits, arrives, reached = None, None, a.reached
    if marks is not None:
        # Only signs are looked at here, so that an attempt is one kernel; what rounding did is told apart where lanes wait.
        crossed = events.crossed(kept.marks, marks) & a.accurate[None] & ~spared(kept.marks)
        waits = jnp.any(crossed, axis=0)
        still = leaving(kept.marks) & opposite(kept.marks, marks)
        marks = jnp.where(still, jnp.where(spared(kept.marks), 0.5 * kept.marks, kept.marks), marks)
        kept = kept._replace(marks=jnp.where((a.accurate & ~waits)[None], marks, kept.marks), crossed=crossed)
    if overdue is not None:
        arrives = a.accurate & (kept.due <= a.reached)
        arrives = arrives if waits is None else arrives & ~waits
        # What is saved at the time of an event is the state after it.
        reached = jnp.where(arrives, just_before(kept.due), reached)
        waits = overdue if waits is None else waits | overdue
    accurate = a.accurate if waits is None else a.accurate & ~waits
    return a._replace(accurate=accurate, waits=waits, arrives=arrives, reached=reached, happening=kept)


def events_of(flow: Flow, s: Lanes) -> tuple[LaneEvents, Happening]:
    """The events of a flow and their state in its lanes, where it has any."""
    assert flow.events is not None
    assert s.happening is not None
    return flow.events, s.happening


def grown(square: Array, order: int) -> Array:
    """The next step over this one, from the square of the error over its tolerance."""
    growth = SAFETY * inverse_root(jnp.where(jnp.isfinite(square), square, 1e30), 2 * order)
    return jnp.clip(growth, LEAST_FACTOR, LARGEST_FACTOR)


def too_short(h: Array, t: Time, end: Array) -> Array:
    """Flags of steps that make no progress."""
    epsilon = float(jnp.finfo(h.dtype).eps)
    return h < jnp.maximum(4 * epsilon * jnp.abs(t), SHORTEST_STEP * (end - t))


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
        # The last step ends just before the end; a lane that is done has come to it. With an event there it is not done.
        ended = a.last if a.arrives is None else a.last & ~a.arrives
        t1 = jnp.where(a.landed, just_after(a.stop), jnp.where(ended, a.stop, t1))
        memory = memory._replace(kept=None)
        fresh = lambda: flow.start(ops, fixed, t1, a.y1)._replace(kept=None)
        same = lambda: memory
        restarted = jax.lax.cond(jnp.any(accept & a.landed), fresh, same)
        memory = select(accept & a.landed, restarted, memory)._replace(kept=a.memory.kept)
    kept = live if a.waits is None else live & ~a.waits
    counted = kept if again is None else kept & ~again
    status = jnp.where(a.failure != RUNNING, a.failure, s.status)
    status = jnp.where(accept & a.last, int(Status.OK), status)
    status = jnp.where(counted, status, s.status)
    if a.waits is not None:
        status = jnp.where(live & a.waits, WAITING, status)
    h = jnp.where(counted, a.h, s.h)
    if a.arrives is not None:
        arrives = accept & a.arrives
        status, h = jnp.where(arrives, WAITING, status), jnp.where(arrives, jnp.maximum(a.h, s.h), h)
    return Lanes(
        t=jnp.where(accept, t1, s.t),
        h=h,
        y=select(accept, a.y1, s.y),
        memory=select(accept, memory._replace(kept=None), s.memory._replace(kept=None))._replace(kept=memory.kept),
        steps=s.steps + accept.astype(s.steps.dtype),
        rejected=s.rejected + (kept & ~a.accurate).astype(s.rejected.dtype),
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
