"""One attempted step in every lane, with its error control."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import Time
from ...core import Status
from ._flow import SAFETY, Carried, Flow, Operands

RUNNING = -1

# A step this much shorter than the whole span makes no progress; without a floor a derivative that is not finite would use up
# `max_steps` in rejected steps.
SHORTEST_STEP = 1e-24
LEAST_FACTOR, LARGEST_FACTOR = 0.2, 10.0
MOST = -4
"""Index of the largest number of steps among a flow's fixed numbers: before the length of the first step and the tolerances."""


class Lanes(NamedTuple):
    """State of all lanes; the lanes are the last axis of all arrays."""

    t: Array
    h: Array  # of the next attempt
    y: Any
    memory: Carried
    steps: Array
    rejected: Array
    status: Array  # RUNNING or a Status


class Attempt(NamedTuple):
    """Result of an attempt. `t1` equals `t` in lanes that do not run."""

    t1: Array  # where the step ended; just before a jump, not on it
    reached: Array  # up to where it answers for the solution
    y1: Any
    memory: Carried
    dense: Any
    accurate: Array
    last: Array  # whether it ends the solve, if it is accurate
    landed: Array  # whether it ends on a jump
    h: Array  # what to try next
    failure: Array  # the status of a lane that has to give up, else RUNNING


def started(flow: Flow, ops: Operands, fixed: PyTree, t: Time, end: Array, status: Array) -> Lanes:
    """Lanes at their initial states."""
    y = flow.begin(ops)
    h = flow.first(ops, fixed, t, end, y)
    zero = jnp.zeros_like(status)
    return Lanes(t, h, y, flow.start(ops, fixed, t, y), zero, zero, status)


def attempt(flow: Flow, ops: Operands, fixed: PyTree, end: Array, s: Lanes) -> Attempt:
    """Try a step in every lane.

    The rule is the plain one: the next step is `0.9 error^(-1/order)` times this one, within a fifth and ten times, where the
    error is relative to the tolerance. A step may be accepted and the next one shorter, which saves a sixth of the steps of a
    rule that shortens on rejection only.
    """
    live = s.status == RUNNING
    most = fixed[MOST].astype(s.steps.dtype)
    epsilon = float(jnp.finfo(s.t.dtype).eps)
    stop = flow.stop(ops, fixed, s.t, end)
    landed = live & (s.t + s.h * (1 + 4 * epsilon) >= stop)
    before = stop
    if flow.jumps:
        # A jump at the end itself lies behind the solve: the last step ends two numbers before it, and a jump's step one.
        before = jnp.nextafter(stop, stop - 1)
        before = jnp.where(stop < end, before, jnp.nextafter(before, stop - 1))
    t1 = jnp.where(live, jnp.where(landed, before, s.t + s.h), s.t)
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
    return Attempt(t1, reached, y1, memory, dense, accurate, last, landed & ~last, h, failure)


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
        t1 = jnp.where(a.landed, jnp.nextafter(a.reached, a.reached + 1), t1)
        memory = memory._replace(kept=None)
        fresh = lambda: flow.start(ops, fixed, t1, a.y1)._replace(kept=None)
        same = lambda: memory
        restarted = jax.lax.cond(jnp.any(accept & a.landed), fresh, same)
        memory = select(accept & a.landed, restarted, memory)._replace(kept=a.memory.kept)
    counted = live if again is None else live & ~again
    status = jnp.where(a.failure != RUNNING, a.failure, s.status)
    status = jnp.where(accept & a.last, int(Status.OK), status)
    after = Lanes(
        t=jnp.where(accept, t1, s.t),
        h=jnp.where(counted, a.h, s.h),
        y=select(accept, a.y1, s.y),
        memory=select(accept, memory._replace(kept=None), s.memory._replace(kept=None))._replace(kept=memory.kept),
        steps=s.steps + accept.astype(s.steps.dtype),
        rejected=s.rejected + (live & ~a.accurate).astype(s.rejected.dtype),
        status=jnp.where(counted, status, s.status),
    )
    if flow.passes is None:
        return after
    # A step that passes an event is not taken: the lane ends before it, and the length says how far it would have gone.
    passed = accept & flow.passes(ops, fixed, s.t, s.y, after.t, after.y)
    stopped = s._replace(h=s.t - a.t1, status=jnp.full_like(s.status, int(Status.OK)))
    return select(passed, stopped._replace(memory=s.memory._replace(kept=after.memory.kept)), after)


def select(where: Array, new: PyTree, old: PyTree) -> Any:
    """`new` in the lanes of a mask, `old` in the others, leaf by leaf; a number without lanes is that of the only one."""
    over = lambda a: where.reshape((1,) * (a.ndim - 1) + where.shape) if a.ndim else where[0]
    return jax.tree.map(lambda a, b: jnp.where(over(a), a, b), new, old)
