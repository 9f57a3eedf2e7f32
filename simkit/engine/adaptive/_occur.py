"""Events in lanes: where a lane waits within a step, what happens there, and where it goes on.

A lane whose attempted step passes an event does not take it but waits for the end of the block. Then the place is bisected on the
step's dense output and improved by Newton steps that take the step again, with the exact length; the state changes, which may
set off other events at the same time, and the lane starts anew.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import Status, just_after
from ..batching._mesh import origin
from ._attempt import (
    MOST,
    RUNNING,
    WAITING,
    Attempt,
    Happening,
    Lanes,
    arrived,
    departing,
    events_of,
    leaving,
    reach,
    select,
    soonest,
)
from ._block import Saving, horner
from ._flow import Flow, Operands
from ._happening import NEAR, NOWHERE, SLOPED, opposite
from ._leap import ROUNDS

SMOOTH = 1e-3
"""Share of its change over a step below which a condition must change at its zero crossing for its place to be improved."""

REFINEMENTS = 2
"""Newton steps for the place of an event after the bisection."""

STALLED = 64
"""After so many events in a row that do not move time on, they are endless."""


class Occurrence(NamedTuple):
    """The events at one time of each lane; lanes are the last axis, and those that do not wait hold no event."""

    t: Array  # start of the step
    t1: Array  # its end; later than the start by something small where nothing is stepped
    still: Array  # whether the event is at the start of the step
    y: Any  # state there
    before: Any  # state before the event
    dense: Any
    time: Array  # of the event
    on: Array  # time at which the lane goes on
    after: Any  # state there
    path: Array  # (ROUNDS, lanes): places of the events that happen, in their order; -1 where there are no more
    numbers: Array  # (ROUNDS, lanes)
    first: Array  # how many events happened before


class Place(NamedTuple):
    """Place of the first event of a step."""

    time: Array  # of the event
    stepped: Array  # end of the step up to it
    on: Array  # where the lane goes on
    which: Array
    sloped: Array  # whether a condition has a slope there, so that the place has derivatives
    change: Array  # of each condition over the step (found, lanes)


class Cascade(NamedTuple):
    """Events at one time that set each other off."""

    y: Any
    sides: Array  # marks of the conditions, as later ones are compared with them
    fired: Array  # numbers of the next known times
    path: Array
    numbers: Array
    which: Array  # the next event; -1 where there is none


def occurrence(flow: Flow, ops: Operands, fixed: PyTree, end: Array, s: Lanes) -> tuple[Occurrence, Lanes]:
    """Let events happen in the lanes that wait; also the lanes after them."""
    assert s.happening is not None
    waits = s.status == WAITING
    root, base_ops = flow.root or flow, flow.rooted(ops)
    base = s._replace(y=flow.rooted(s.y), memory=s.memory._replace(moving=flow.rooted(s.memory.moving)))
    place, step = _place(root, base_ops, fixed, end, base, waits)
    still = place.stepped <= s.t
    t1 = jnp.where(waits & ~still, place.stepped, _later(s))
    y1, dense = s.y, None  # at known times a lane has arrived
    if step is not None:
        y1, dense = step
        if flow.root is not None:
            y1, _, dense, *_ = flow.step(ops, fixed, s.t, t1, s.y, s.memory)
    before = select(still, s.y, y1)
    found = _cascade(root, base_ops, fixed, base, place, waits, flow.rooted(before))
    after = found.y if flow.root is None else flow.leap(ops, fixed, place.time, before, found.path, found.numbers)
    path, numbers, total = found.path, found.numbers, s.happening.total
    occurred = Occurrence(s.t, t1, still, s.y, before, dense, place.time, place.on, after, path, numbers, total)
    stuck = _stuck(root, base_ops, fixed, base, place, flow.rooted(before))
    on = _gone_on(flow, ops, fixed, end, s, occurred, found, stuck)
    return occurred, select(found.path[0] >= 0, on, _retried(s, waits))


def _retried(s: Lanes, waits: Array) -> Lanes:
    """Lanes that waited for no event: a condition left zero, and rounding made it pass. They take their step again."""
    assert s.happening is not None
    marks = s.happening.marks
    spare = waits[None] & s.happening.crossed & leaving(marks)
    marks = jnp.where(spare, 2 * jnp.finfo(marks.dtype).tiny * jnp.sign(marks), marks)
    return s._replace(status=jnp.where(waits, RUNNING, s.status), happening=s.happening._replace(marks=marks))


def as_saving(found: Occurrence, s: Lanes) -> Saving:
    """Events as `saved_until` takes them."""
    happens, none = found.path[0] >= 0, found.t
    step = Attempt(found.t1, none, none, found.before, s.memory, found.dense, happens, happens, happens, none, s.status)
    return Saving(s, step, found.time, found.on, found.after)


def _later(s: Lanes) -> Array:
    """The end of a step that nobody asks for: it is taken where a lane has none, so that all numbers are finite."""
    return jnp.maximum(s.t + jnp.abs(s.h), just_after(s.t))


def _place(
    root: Flow, ops: Operands, fixed: PyTree, end: Array, s: Lanes, waits: Array
) -> tuple[Place, tuple[Any, Any] | None]:
    """Find the first event of the step in which a lane waits; also the step up to it, where it was taken."""
    events, kept = events_of(root, s)
    step = reach(root, ops, fixed, end, s, waits)
    until, timed = step.t1, waits & arrived(step, kept)
    _, known = _first(events.timed, events.coming(ops, fixed, kept.fired) <= kept.due[None])
    on = jnp.maximum(until, kept.due)
    if not events.found:
        none = until != until
        return Place(kept.due, until, on, known, none, kept.marks), None
    advance = functools.partial(root.step, ops, fixed, s.t)

    def turn(i: Array, carry: tuple["_Sought", Any]) -> tuple["_Sought", Any]:
        c, _ = carry
        none = c.time <= s.t
        y1, _, dense, *_ = advance(jnp.where(none, _later(s), c.time), s.y, s.memory)
        search = lambda: _searched(root, ops, fixed, s, until, dense, known, timed)
        better = lambda: _improved(root, ops, fixed, s, until, c, select(none, s.y, y1))
        # One copy of the step in the program: compiling it takes longer than running it.
        return jax.lax.switch(jnp.where(i > REFINEMENTS, 2, jnp.clip(i, 0, 1)), [search, better, lambda: c]), (
            y1,
            dense,
        )

    flags = until != until
    begin = _Sought(until, jnp.where(flags, 0, NOWHERE).astype(jnp.int32), flags, flags, flags, flags, kept.marks)
    shapes = jax.eval_shape(advance, s.t, s.y, s.memory)
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype) + origin(s.t).astype(x.dtype), (shapes[0], shapes[2]))
    c, step = jax.lax.fori_loop(0, REFINEMENTS + 2, turn, (begin, empty))
    on = jnp.where(c.timed, on, c.time)
    if root.jumps:
        stop = root.stop(ops, fixed, s.t, end)
        on = jnp.where(c.beyond, just_after(stop), on)
    time, stepped = jnp.where(c.timed, kept.due, c.time), jnp.where(c.timed, until, c.time)
    return Place(time, stepped, on, c.which, c.sloped, c.change), step


class _Sought(NamedTuple):
    """The first event of a step while it is sought."""

    time: Array
    which: Array
    timed: Array  # whether its time is known
    smooth: Array  # whether its place can be improved
    sloped: Array
    beyond: Array  # whether the condition passes zero by a jump of an input, after the step
    change: Array


def _own(places: Sequence[int], which: Array, values: Array) -> Array:
    """The value of one event of each lane among those of all (events, lanes); zero where it is not among them."""
    own = jnp.array(places, jnp.int32)[:, None] == which[None]
    return jnp.sum(jnp.where(own, values, jnp.zeros_like(values)), axis=0)


def _searched(
    root: Flow, ops: Operands, fixed: PyTree, s: Lanes, until: Array, dense: PyTree, known: Array, timed: Array
) -> _Sought:
    """Bisect the dense output of a step for its first event."""
    events, kept = events_of(root, s)
    increments, width = root.polynomial(ops, fixed, dense), until - s.t

    def at(theta: Array) -> Any:
        state = lambda y, *q: horner(y, q, theta.reshape((1,) * (y.ndim - 1) + theta.shape))
        return ops, fixed, s.t + theta * width, jax.tree.map(state, s.y, *increments)

    # What is decided is carried: evaluated again, a value may be rounded otherwise.
    def halved(_: Any, carry: PyTree) -> Any:
        low, high, g_low, g_high, crossed = carry
        middle = 0.5 * (low + high)
        point = at(middle)
        g = events.marks(*point)
        new = events.crossed(kept.marks, g)
        new = new & _moves_away(kept, new, lambda: events.slopes(*point))
        beyond = jnp.any(new, axis=0)
        low, g_low = jnp.where(beyond, low, middle), jnp.where(beyond[None], g_low, g)
        high, g_high = jnp.where(beyond, middle, high), jnp.where(beyond[None], g, g_high)
        return low, high, g_low, g_high, jnp.where(beyond[None], new, crossed)

    zero = jnp.zeros_like(s.t)
    first, final = events.marks(*at(zero)), events.marks(*at(zero + 1))
    met = kept.crossed & _moves_away(kept, kept.crossed, lambda: events.slopes(*at(zero + 1)))
    begin = (zero, zero + 1, first, final, met)
    _, high, g_low, g_high, crossed = jax.lax.fori_loop(0, jnp.finfo(s.t.dtype).nmant + 2, halved, begin)
    found, which = _first(events.found, crossed)
    timed = timed & (~found | (high >= 1) & (known < which))
    which, change = jnp.where(timed, known, which), final - first
    own = functools.partial(_own, events.found, which)
    sought = found & ~timed
    inside = (high < 1) | own(events.crossed(kept.marks, final)).astype(bool)
    part, whole = jnp.abs(own(g_high - g_low)), jnp.abs(own(change))
    smooth, sloped = (sought & inside & (part < share * whole) for share in (SMOOTH, SLOPED))
    time = jnp.where(high >= 1, until, s.t + high * width)
    return _Sought(time, which, timed, smooth, sloped, sought & ~inside, change)


def _moves_away(kept: Happening, crossed: Array, slopes: Callable[[], Array]) -> Array:
    """Flags of the conditions that are real where they have crossed zero.

    One that starts from zero, to which rounding gives either sign, has crossed only where it also moves away from the side to
    which it went: else a ball that has just bounced would bounce once more.
    """

    def away() -> Array:
        found = slopes()
        return ~leaving(kept.marks) | opposite(kept.marks, found) & (found != 0)

    return jax.lax.cond(jnp.any(leaving(kept.marks) & crossed), away, lambda: crossed | ~crossed)


def _improved(root: Flow, ops: Operands, fixed: PyTree, s: Lanes, until: Array, c: _Sought, y: PyTree) -> _Sought:
    """Take a Newton step for the time of an event, from the state at the end of a step up to it."""
    events, _ = events_of(root, s)
    own = functools.partial(_own, events.found, c.which)
    g, slope = own(events.marks(ops, fixed, c.time, y)), own(events.slopes(ops, fixed, c.time, y))
    sound = c.smooth & (slope != 0) & jnp.isfinite(slope) & jnp.isfinite(g)
    time = jnp.clip(c.time - jnp.where(sound, g, 0) / jnp.where(sound, slope, 1), s.t, until)
    return c._replace(time=time)


def _stuck(root: Flow, ops: Operands, fixed: PyTree, s: Lanes, place: Place, y: PyTree) -> Array:
    """Flags of the lanes whose state leaves zero and is back before the next number of time: it would be changed on its way out."""
    events, kept = events_of(root, s)
    if not events.found:
        return jnp.zeros_like(place.sloped)
    own = leaving(kept.marks) & (jnp.array(events.found, jnp.int32)[:, None] == place.which[None])
    rounded = ~place.sloped[None]  # what is left of the condition's change is rounding
    out = lambda: jnp.any(own & (rounded | opposite(-kept.marks, events.slopes(ops, fixed, place.time, y))), axis=0)
    return jax.lax.cond(jnp.any(own), out, lambda: jnp.zeros_like(place.sloped))


def _first(places: Sequence[int], flags: Array) -> tuple[Array, Array]:
    """Tell whether a flag is set among those of some events (events, lanes), and the place of the first; of none a large one."""
    none = jnp.sum(flags, axis=0, dtype=jnp.int32) * 0 + NOWHERE
    if not places:
        return none < 0, none
    which = jnp.min(jnp.where(flags, jnp.array(places, jnp.int32)[:, None], NOWHERE), axis=0)
    return which < NOWHERE, which


def _cascade(root: Flow, ops: Operands, fixed: PyTree, s: Lanes, place: Place, waits: Array, y: PyTree) -> Cascade:
    """Let the events of one time happen, one after the other."""
    events, kept = events_of(root, s)
    found, timed = (jnp.array(x, jnp.int32)[:, None] for x in (events.found, events.timed))
    ends = jnp.array(events.ends)

    def happen(carry: tuple[Array, Cascade]) -> tuple[Array, Cascade]:
        i, c = carry
        active = c.which >= 0
        fires = timed == c.which[None]
        number = jnp.sum(jnp.where(fires, c.fired, 0), axis=0, dtype=jnp.int32)
        sloped = (place.sloped & (i == 0)).astype(jnp.int32)
        number = jnp.where(jnp.any(fires, axis=0), number, sloped)
        after = events.change(ops, fixed, place.time, c.y, jnp.maximum(c.which, 0), number)
        y, fired = select(active, after, c.y), c.fired + fires.astype(jnp.int32)
        g0, found_there = events.marks(ops, fixed, place.on, c.y), (place.sloped & (i == 0))[None]
        g, slope = events.marks(ops, fixed, place.on, y), events.slopes(ops, fixed, place.on, y)
        mine = (found == c.which[None]) & active[None]
        # The sign of one that has not left zero is rounding; it passes zero where it now moves the other way. Others are compared
        # with what they were just before: in this very step they may have passed zero in the direction that does not count.
        near = lambda g: jnp.abs(g) <= NEAR * jnp.abs(place.change)
        waiting = (place.stepped <= s.t)[None] & (g == g0)
        sides = jnp.where((i == 0) & ~near(g0) & ~(leaving(c.sides) & waiting), g0, c.sides)
        stays = leaving(sides) & (near(g) | waiting) & ~mine
        at_zero = (g == 0) | stays | mine & found_there & ((g == g0) | near(g))
        crossing = events.crossed(sides, jnp.where(stays, slope, g)) & ~mine & ~(stays & (slope == 0))
        due = events.coming(ops, fixed, fired) <= place.time[None]
        following = jnp.minimum(_first(events.found, crossing)[1], _first(events.timed, due)[1])
        goes_on = active & (following < NOWHERE) & ~ends[jnp.maximum(c.which, 0)]
        settled = active[None] & ~crossing
        sides = jnp.where(settled, jnp.where(at_zero, departing(slope), g), sides)
        path, numbers = c.path.at[i].set(c.which), c.numbers.at[i].set(number)
        return i + 1, Cascade(y, sides, fired, path, numbers, jnp.where(goes_on, following, -1))

    which = jnp.where(waits & (place.which < NOWHERE), place.which, -1)
    path = jnp.broadcast_to(jnp.where(which < 0, which, -1)[None], (ROUNDS, *which.shape))
    begin = Cascade(y, kept.marks, kept.fired, path, path * 0, which)
    more = lambda carry: (carry[0] < ROUNDS) & jnp.any(carry[1].which >= 0)
    return jax.lax.while_loop(more, happen, (jnp.zeros((), jnp.int32), begin))[1]


def _gone_on(
    flow: Flow, ops: Operands, fixed: PyTree, end: Array, s: Lanes, occurred: Occurrence, found: Cascade, stuck: Array
) -> Lanes:
    """The lanes after their events, whether they wait or not."""
    (events, kept), on, after = events_of(flow, s), occurred.on, occurred.after
    happened = found.path >= 0
    ended = jnp.any(happened & jnp.array(events.ends)[jnp.maximum(found.path, 0)], axis=0)
    finite = functools.reduce(jnp.logical_and, [jnp.all(jnp.isfinite(x), axis=0) for x in flow.pack(after)[:1]])
    short = 16 * float(jnp.finfo(s.t.dtype).eps) * jnp.maximum(jnp.abs(occurred.time), jnp.abs(s.t))
    stalled = jnp.where(occurred.time - kept.since > short, 0, kept.stalled + 1)
    endless = (stalled >= STALLED) | (found.which >= 0) | stuck
    steps = s.steps + 1
    most = fixed[MOST].astype(s.steps.dtype)
    status = jnp.where(steps + s.rejected >= most, int(Status.STEP_LIMIT), jnp.full_like(s.status, RUNNING))
    status = jnp.where(endless, int(Status.ENDLESS_EVENTS), status)
    status = jnp.where(ended | (on >= end), int(Status.OK), status)
    status = jnp.where(finite, status, int(Status.NON_FINITE))
    due = soonest(events.coming(flow.rooted(ops), fixed, found.fired), on)
    total = kept.total + jnp.sum(happened, axis=0, dtype=kept.total.dtype)
    happening = kept._replace(
        marks=found.sides,
        due=due,
        fired=found.fired,
        total=total,
        stalled=stalled,
        since=occurred.time,
    )
    h = flow.first(ops, fixed, on, end, after) if flow.multistep else s.h
    memory = flow.start(ops, fixed, on, after)
    return Lanes(on, h, after, memory, steps, s.rejected, status, happening)
