"""Events of SBML in a solve: what is remembered from one to the next, and what happens at one time, in the order that SBML says.

The engine finds where a condition passes zero, and stops at known times. What waits for its delay, and which comparisons hold, are
numbers beside the state that no rate changes.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import Inputs, State, Time
from ..core import Event, NamedEvents, Setup, Status, SystemTerm, Trajectory, at_time
from ..engine import Adaptive, Method, integrate
from ..solvers import slope_of  # internal
from ._consistent import consistent_state
from ._passages import Passages, holds
from ._remembering import Remembering, diluted, remembering
from ._sbml_system import AbstractSBMLSystem

KEPT, SLOTS = 4, 8
"""Number of times that an event may wait for its delay at once, and for others of the same time; more are reported as a failure,
never as a wrong result."""

ROUNDS = 16
"""Number of events, beside twice all of a model, that may happen at one time; more are a failure."""

CLOSE = 1e-8
"""Distance from zero, relative to the compared values, within which a condition counts as zero."""


FAR = -1e-3
"""Value, in the largest number, of a condition that passes zero at known times or never."""


class Queue(NamedTuple):
    """State of the events.

    `true` says which comparisons hold, and `still` which are of two equal values that stay so. Of each event and slot `waits` says
    whether it is to happen, `due` from when on, and `kept` its new values as they were when it became true. `turn` is how many
    happened, and `broken` a status, 0 while all is well.
    """

    true: Array  # (comparisons,)
    still: Array
    waits: Array  # (events, slots)
    due: Array  # (events, slots)
    kept: Array  # (events, slots, values)
    turn: Array
    broken: Array


@dataclasses.dataclass(frozen=True)
class Plan:
    """The events of a problem with what is remembered of them; hashable."""

    events: Passages

    @property
    def size(self) -> int:
        """The number of remembered numbers."""
        return len(self.events.parts) + 2 + len(self.events.late) * KEPT * (2 + self.events.width)

    def packed(self, queue: Queue, dtype: Any) -> Array:
        """Return what is remembered, as one vector."""
        late = np.array(self.events.late, int)
        waits = queue.waits[late]
        order = jnp.argsort(~waits, axis=1, stable=True)[:, :KEPT]
        taken = lambda x: jnp.take_along_axis(x[late], order.reshape(*order.shape, *(1,) * (x.ndim - 2)), axis=1)
        waiting = (taken(x).ravel().astype(dtype) for x in (queue.waits, queue.due, queue.kept))
        lost = jnp.any(jnp.sum(waits, axis=1, dtype=jnp.int32) > KEPT) & (queue.broken == 0)
        broken = jnp.where(lost, float(Status.STEP_LIMIT), queue.broken)
        rest = queue.turn[None].astype(dtype), broken[None].astype(dtype)
        held = jnp.where(queue.still, jnp.where(queue.true, 2, -1), jnp.where(queue.true, 1, 0))
        return jnp.concatenate([held.astype(dtype), *rest, *waiting])

    def unpacked(self, memory: Array) -> Queue:
        """The state of the events from what is remembered."""
        late, own, size = np.array(self.events.late, int), len(self.events.parts), len(self.events.late) * KEPT
        held, rest, waits, due, kept = jnp.split(memory, np.cumsum([own, 2, size, size]))
        # Of the memory, so that it varies over a mesh as that does.
        zero = jnp.where(memory[0] == memory[0], 0.0, 1.0).astype(memory.dtype)

        def whole(x: Array, *width: int) -> Array:
            empty = jnp.broadcast_to(zero, (len(self.events.given), SLOTS, *width))
            return empty.at[late, :KEPT].set(x.reshape(len(late), KEPT, *width))

        still = (held > 1.5) | (held < -0.5)
        return Queue(
            held > 0.5, still, whole(waits) > 0.5, whole(due), whole(kept, self.events.width), rest[0], rest[1]
        )


class Conditions(eqx.Module):
    """A number that passes zero upwards where the first comparison becomes true or false that is none of time alone, or where a
    delay ends."""

    plan: Plan = eqx.field(static=True)

    def __call__(self, system: Remembering, t: Time, y: State, inputs: Inputs) -> Array:
        state, memory = system.split(y)
        return jnp.max(self.all(system, t, state, inputs, self.plan.unpacked(memory)))

    def all(self, system: Remembering, t: Time, state: State, inputs: Inputs, queue: Queue) -> Array:
        """One number for each comparison and each slot of an event with a delay."""
        moving, size, true = levels(self.plan, system, t, state, inputs)
        level, size, true = jax.lax.stop_gradient((moving, size, true))
        # Where both sides of `x > 0` are equal, a crossing may begin.
        below = -float(jnp.finfo(t.dtype).tiny)
        rises = jnp.where((level == 0) & (true == 0), below, level)
        # What has just become true is zero but for rounding: it is false again when it is clearly so.
        close = 2 * CLOSE * size
        falls = jnp.where(((level < 0) & (level > -close)) | (level == 0), below, -level - close)
        late = np.array(self.plan.events.late, int)
        ends = jnp.where(queue.waits[late], t - queue.due[late], FAR * float(jnp.finfo(t.dtype).max)).ravel()
        # The derivative is that of the level, also at zero itself.
        slope = jnp.where(jnp.isfinite(level), moving - level, 0)
        crossing = jnp.where(queue.true, falls - slope, rises + slope)
        timed = np.array([part.timed for part in self.plan.events.parts], bool)
        stays = queue.still & (jnp.abs(level) <= CLOSE * size)  # would hide all others
        crossing = jnp.where(timed | stays, FAR * float(jnp.finfo(t.dtype).max), crossing)
        return jnp.concatenate([crossing, ends])


def levels(plan: Plan, system: Remembering, t: Time, state: State, inputs: Inputs) -> tuple[Array, Array, Array]:
    """Return for all comparisons a number at least 0 where they are true, the size of what they compare, and 1 where true."""
    nodes = [node for kind in ("level", "size", "condition") for node in (getattr(p, kind) for p in plan.events.parts)]
    level, size, true = jnp.split(jnp.stack(evaluated(system, nodes, t, state, inputs)), 3)
    return level, size, true


def evaluated(system: Remembering, nodes: Sequence[int], t: Time, state: State, inputs: Inputs) -> list[Array]:
    """The values of formulas, of the type of the time."""
    lookup = system.whole.lookup(t, system.inner.unpacked(state), inputs)
    like = jnp.asarray(t)
    return [jnp.asarray(x, like.dtype) + jnp.zeros_like(like) for x in system.whole.formulas.evaluate(nodes, lookup)]


class Resolution(eqx.Module):
    """The state after all that happens at one time.

    Events that have become true are put into the queue; those whose time has come happen one after the other, by their
    priorities, and each may make others true, or those false that do not persist.

    - `found`: whether a condition passes zero there, which then counts as passed whatever its rounding.
    """

    plan: Plan = eqx.field(static=True)
    found: bool = eqx.field(static=True)

    def __call__(self, system: Remembering, t: Time, y: State, inputs: Inputs) -> State:
        state, memory = system.split(y)
        at = _Now(self.plan, system, t, inputs)
        before = self.plan.unpacked(memory)
        queue = at.arrived(before, state, self.found)
        passing = queue.true != before.true
        if self.found:
            # `x < 1` ends where `x > 1` begins: it is at zero up to rounding too, and would hide what comes later.
            level, close, _ = at.held(at.t, state)
            passing |= jnp.abs(level) <= close
        return at.settled(queue, state, passing)


def begun(plan: Plan, system: Remembering, t: Time, y: State) -> State:
    """The state after what happens at the start; conditions count as false before where an event says so."""
    at = _Now(plan, system, t, at_time(system.signals, t))
    (true, shape), state = (at.held(t, y)[2], (len(plan.events.given), SLOTS)), y
    zero = jnp.zeros_like(t)
    kept = jnp.zeros_like(t, shape=(*shape, plan.events.width))
    queue = Queue(true, at.standing(y)[1], jnp.zeros(shape, bool), jnp.zeros_like(t, shape=shape), kept, zero, zero)
    if all(p.initially for p in plan.events.given):  # nothing becomes true at the start
        return system.joined(state, plan.packed(queue, at.t.dtype))
    before = jnp.array([p.initially for p in plan.events.given]) & at.holds(true)
    return at.settled(at.turned(queue, before, true, state), state, jnp.zeros_like(true))


class _Now:
    """The events of a model at one time."""

    def __init__(self, plan: Plan, system: Remembering, t: Time, inputs: Inputs):
        self.plan, self.system, self.inputs, self.given = plan, system, inputs, plan.events.given
        self.t = jnp.asarray(t)
        info = jnp.finfo(self.t.dtype)
        self.after = self.t + jnp.maximum(8 * float(info.eps) * jnp.abs(self.t), float(info.tiny))

    def of(self, nodes: Sequence[int | None], state: State) -> Array:
        """Values of formulas, zero where there is none."""
        given = [node for node in nodes if node is not None]
        found = evaluated(self.system, given, self.t, state, self.inputs)
        zeros = jnp.zeros_like(self.t, shape=(len(nodes),))
        return zeros.at[np.flatnonzero([x is not None for x in nodes])].set(jnp.stack(found)) if found else zeros

    def held(self, t: Time, state: State) -> tuple[Array, Array, Array]:
        """Levels of all comparisons, what counts as zero, and which are true."""
        if not self.plan.events.parts:
            none = jnp.zeros_like(self.t, shape=(0,))
            return none, none, none > 0
        t, state, system = jax.lax.stop_gradient((t, state, self.system))
        level, size, true = levels(self.plan, system, t, state, jax.lax.stop_gradient(self.inputs))
        return level, CLOSE * size, true > 0

    def holds(self, true: Array) -> Array:
        """A mask of the events whose conditions hold."""
        return jnp.stack([holds(p.trigger, true) for p in self.given])

    def values(self, state: State) -> Array:
        """The new values of all events, (events, values)."""
        width = self.plan.events.width
        rows = [[node for _, node in p.assignments] for p in self.given]
        nodes = [node for row in rows for node in (*row, *[None] * (width - len(row)))]
        return self.of(nodes, state).reshape(len(rows), width)

    def arrived(self, queue: Queue, state: State, found: bool) -> Queue:
        """The queue after the comparisons that have become true or false at this time, at zero up to rounding."""
        level, close, holds = self.held(jax.lax.stop_gradient(self.after), state)
        reached = (level >= -close) & (level != 0) & ~queue.still
        true = jnp.where(queue.true, level >= -close, holds | reached)
        if found:
            marks = jax.lax.stop_gradient(Conditions(self.plan).all(self.system, self.t, state, self.inputs, queue))
            first = jnp.arange(marks.shape[0]) == jnp.argmax(marks)
            own = len(self.plan.events.parts)
            true = jnp.where(first[:own], ~queue.true, true)
            late = np.array(self.plan.events.late, int)
            ended = first[own:].reshape(-1, SLOTS)
            due = jnp.where(ended, jnp.minimum(queue.due[late], self.t), queue.due[late])
            queue = queue._replace(due=queue.due.at[late].set(due))
        return self.turned(queue, self.holds(queue.true), true, state)

    def turned(self, queue: Queue, before: Array, true: Array, state: State) -> Queue:
        """The queue after some conditions have become true and others false."""
        now = self.holds(true)
        rises = now & ~before
        waits = queue.waits & (np.array([p.persistent for p in self.given]) | now)[:, None]
        free = jnp.arange(SLOTS)[None] == jnp.argmin(waits, axis=1)[:, None]
        put = rises[:, None] & free & ~waits
        late = self.of([p.delay for p in self.given], state)
        lost = jnp.any(rises & ~jnp.any(put, axis=1))
        return queue._replace(
            true=true,
            waits=waits | put,
            due=jnp.where(put, (self.t + late)[:, None], queue.due),
            kept=jnp.where(put[..., None], self.values(state)[:, None], queue.kept),
            broken=jnp.where(lost & (queue.broken == 0), float(Status.STEP_LIMIT), queue.broken),
        )

    def ready(self, queue: Queue) -> Array:
        """A mask of what is to happen now."""
        return queue.waits & (queue.due <= self.after)

    def settled(self, queue: Queue, state: State, passing: Array) -> State:
        """The state after all that is to happen now; `passing` are the comparisons that pass zero here."""
        level = self.held(self.t, state)[0]

        def one(carry: tuple[Queue, State], _: None) -> tuple[tuple[Queue, State], None]:
            queue, state = carry
            happen = lambda: self.happened(queue, state)
            rest = lambda: (self.returned(queue, state, level, passing), state)
            return jax.lax.cond(jnp.any(self.ready(queue)), happen, rest), None

        (queue, state), _ = jax.lax.scan(one, (queue, state), None, length=ROUNDS + 2 * len(self.given))
        endless = jnp.any(self.ready(queue)) & (queue.broken == 0)
        queue = queue._replace(broken=jnp.where(endless, float(Status.ENDLESS_EVENTS), queue.broken))
        return self.system.joined(state, self.plan.packed(queue, self.t.dtype))

    def returned(self, queue: Queue, state: State, level: Array, passing: Array) -> Queue:
        """The queue where the events that happened send back what passes zero here, as a bounce does, or put it at zero."""
        now, close, _ = self.held(self.t, state)
        slope, still = self.standing(state)
        leaves = jnp.where(jnp.abs(now - level) > close, jnp.abs(now) <= close, passing) & (slope != 0)
        true = jnp.where(leaves, slope > 0, queue.true)
        return self.turned(queue._replace(still=still), self.holds(queue.true), true, state)

    def standing(self, state: State) -> tuple[Array, Array]:
        """Derivatives of all comparisons along the solution, and which stay at zero."""
        now, close, true = self.held(self.t, state)
        if not self.plan.events.parts:
            return now, true
        t, state, system, inputs = jax.lax.stop_gradient((self.t, state, self.system, self.inputs))
        rates = slope_of(SystemTerm(system.inner, jax.lax.stop_gradient(system.signals)), t, state)
        found = lambda t, y: levels(self.plan, system, t, y, inputs)[0]
        slope = jax.lax.stop_gradient(jax.jvp(found, (t, state), (jnp.ones_like(t), rates))[1])
        return slope, (jnp.abs(now) <= close) & (slope == 0)

    def happened(self, queue: Queue, state: State) -> tuple[Queue, State]:
        """The queue and the state after the event that comes first of those that are ready."""
        this = self.first(queue, state)
        names, now = self.system.inner.unpacked(state), self.values(state)
        new: dict[str, Array] = {}
        for i, passage in enumerate(self.given):
            mine = jnp.any(this[i])
            early = jnp.sum(jnp.where(this[i][:, None], queue.kept[i], 0), axis=0)
            sizes = dict(zip(dict(passage.volumes), self.of([n for _, n in passage.volumes], state), strict=True))
            for k, (name, _) in enumerate(passage.assignments):
                value = (early if passage.early else now[i])[k]
                value = value * sizes[name] if name in sizes else value
                new[name] = jnp.where(mine, value, (names | new)[name])
        after = self.system.inner.changed(state, new)
        after, met = consistent_state(Setup(self.system.inner, after, self.system.signals), self.t)
        broken = jnp.where(met | (queue.broken != 0), queue.broken, float(Status.INCONSISTENT))
        queue = queue._replace(waits=queue.waits & ~this, turn=queue.turn + 1, broken=broken)
        before, close, _ = self.held(self.t, state)
        level, _, holds = self.held(self.t, after)
        true = jnp.where(jnp.abs(level - before) > close, holds, queue.true)
        return self.turned(queue, self.holds(queue.true), true, after), after

    def first(self, queue: Queue, state: State) -> Array:
        """A mask, (events, slots), of the one that happens first: of the highest priority, at random among equal ones."""
        ready = self.ready(queue)
        some = jnp.any(ready, axis=1)
        ranked = np.array([p.priority is not None for p in self.given])
        ranks = jax.lax.stop_gradient(self.of([p.priority for p in self.given], state))
        ranks = jnp.where(some, ranks, -jnp.inf)
        order = jnp.arange(len(self.given), 0, -1).astype(ranks.dtype)
        if ranked.sum() > 1:
            turn = jax.lax.stop_gradient(queue.turn).astype(jnp.uint32)
            chance = jax.random.uniform(jax.random.fold_in(jax.random.key(0), turn), order.shape, ranks.dtype)
            order = jnp.where(ranked, chance, order)
        best = some & (ranks == jnp.max(ranks))
        event = jnp.arange(len(self.given)) == jnp.argmax(jnp.where(best, order, -1))
        due = jnp.where(ready, jax.lax.stop_gradient(queue.due), jnp.inf)
        return event[:, None] & ready & (jnp.arange(SLOTS)[None] == jnp.argmin(due, axis=1)[:, None])


def integrate_passages(
    setup: Setup, system: AbstractSBMLSystem, times: Array, method: Method, given: Passages
) -> Trajectory:
    """A trajectory with events, whose times, and what follows from them, have derivatives."""
    plan = Plan(given)
    held = remembering(setup.system, system, setup.inputs, plan.size)
    y0 = begun(plan, held, times[0], setup.y0)
    events: dict[str, Event] = {}
    if given.stops:
        known = system.formulas.evaluate(given.stops, lambda name: system.parameters[name])
        at = jnp.stack([jnp.asarray(x, times.dtype) for x in known])
        # All that happens at one time does so at once.
        same = jax.lax.stop_gradient(at[:, None] == at[None]) & np.tri(at.shape[0], k=-1, dtype=bool)
        at = jnp.where(jnp.any(same, axis=1), jnp.inf, at)
        events["known"] = Event(at=at, change=Resolution(plan, False))
    if given.sought:
        events["found"] = Event(Conditions(plan), "up", Resolution(plan, True), keep=1)
    named = NamedEvents(tuple(events), tuple(events.values())) if events else None
    method = dataclasses.replace(method, step=_step(method.step, *held.split(y0)))
    way = integrate(Setup(held, y0, setup.inputs, events=named), times, method)
    ys, memory = held.split(way.ys)
    broken = memory[-1, len(given.parts) + 1]
    status = jnp.where((way.status == Status.OK) & (broken > 0), broken.astype(way.status.dtype), way.status)
    return dataclasses.replace(way, ys=ys, status=status, events=None)


def _step(step: Any, y: State, memory: Array) -> Any:
    """The step rule with the tolerance of the state alone: the memory has no error, and yet counts in the mean."""
    if not isinstance(step, Adaptive):
        return step
    share, atol = diluted(y, memory), step.atol
    if atol is not None:
        atol = jnp.asarray(atol) * share
        if atol.ndim:
            atol = jnp.concatenate([atol, jnp.broadcast_to(jnp.max(atol), memory.shape)])
    return dataclasses.replace(step, rtol=None if step.rtol is None else step.rtol * share, atol=atol)
