"""Fixed steps in which events happen: a step is cut at an event, so that the steps after it are those of the grid again."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import State, Time
from ...core import (
    BrownianPath,
    ConstrainedSystem,
    Events,
    NamedEvents,
    Status,
    StochasticSystem,
    by_member,
    greatest,
    held,
    own,
)
from ...solvers import AbstractExplicitRungeKutta, consistent, slope_of
from ..adaptive._happening import NEAR, EventFunctions, newton, opposite
from ..batching._mesh import alike_arrays
from ..task._flat import Flattening
from ._checkpointed import choose_record
from ._event_search import Found, Sides, crossed_from, search
from ._fixed_grid import between_jumps, checkpointed_scan, size_of
from ._reduce import appended, no_events

BLOCK = 8
"""Number of steps that are taken together where they have no event."""

MOST_EVENTS = 8
"""Most events in one step."""


class Eventful(NamedTuple):
    """Fixed steps with events."""

    states: State  # at the save times; NaN after an event that ends the run
    status: Array
    steps: Array
    end: Array  # the time of the event that ended it; infinite where none did
    events: Events  # of encoded states
    sides: Sides  # at the last time


class Run(NamedTuple):
    """Loop carry from one step to the next: the state, and the events so far."""

    state: State
    memory: Any  # of the stepper
    sides: Sides
    end: Array
    status: Array
    steps: Array
    events: Events


class Moved(NamedTuple):
    """The part of a run that a step without an event changes."""

    state: State
    memory: Any
    sides: Sides
    steps: Array


class _Cut(NamedTuple):
    """A step while its events happen, one a round."""

    t: Array
    state: State
    sides: Sides
    end: Array
    done: Array
    steps: Array


class EventGrid:
    """Fixed steps with the events of one member.

    **Arguments:** `terms`, the system with its inputs and noise; `solver`, None where steps are taken elsewhere and events happen
    at their ends; `events`; `state` and `t`, examples of both.
    """

    def __init__(self, terms: Any, solver: Any, events: NamedEvents, state: State, t: Time):
        self.terms, self.solver = terms, solver
        self.place: tuple[Array, Array] | None = None
        self.way = Flattening(terms.system, state)
        self.exact = not isinstance(terms.system, StochasticSystem)
        self.anew = solver is None or isinstance(solver, AbstractExplicitRungeKutta)
        flat = self.way.flat

        def field(ops: PyTree, fixed: PyTree, t: Time, y: Array) -> Array:
            return flat(slope_of(ops[0], t, self.way.state(y)))

        def resume(ops: PyTree, fixed: PyTree, t: Time, y: Array) -> Array:
            return flat(consistent(ops[0], t, self.way.state(y))[0])

        algebraic = isinstance(terms.system, ConstrainedSystem)
        filled = lambda ops, fixed: (ops[0].system, ops[0].inputs, ops[1])
        self.functions = EventFunctions(events, filled, field, resume if algebraic else None, self.way, t.dtype)
        self.ops, self.kinds = (terms, events), len(events.events)
        self.held, self.held_solver = held((self.ops, solver))
        given = filled(self.held, None)
        self.known = [self.functions.sorted_times(given, i)[0] for i in self.functions.timed]
        self.ends = jnp.array([event.ends for event in events.events])

    def seeing(self, terms: Any) -> "EventGrid":
        """The same events of other terms, such as a system that sees another past."""
        other = copy.copy(self)
        other.ops = terms, self.ops[1]
        other.held = held(other.ops)
        return other

    def numbered(self, start: Array, number: Array, part: Array | None = None) -> "EventGrid":
        """The same events where noise is that of step `number` of the window from `start`, or of a part of that step."""
        path = self.ops[0].path
        if not isinstance(path, BrownianPath):
            return self
        other = self.seeing(dataclasses.replace(self.ops[0], path=path.at(start, number, part)))
        other.terms, other.place = other.ops[0], (start, number)
        return other

    # ---- known times ----

    def coming(self, numbers: Array) -> Array:
        """The known times with these numbers; infinite where there are no more."""
        padded = [jnp.concatenate([at, jnp.full((1,), jnp.inf, at.dtype)]) for at in self.known]
        times = [at[jnp.minimum(numbers[k], at.shape[0] - 1)] for k, at in enumerate(padded)]
        return jnp.stack(times) if times else numbers.astype(self.functions.dtype)

    def begin(self, t: Array, state: State) -> Sides:
        """The memory at the start of a run."""
        own, point = self.functions, (*self.operands(t, state),)
        marks = own.marks(*point)
        leaving = marks == 0
        if own.found:
            marks = jnp.where(leaving, own.slopes(*point), marks)
        counts = [jnp.sum(at < t, dtype=jnp.int32) for at in self.known]
        fired = jnp.stack(counts) if counts else jnp.zeros((0,), jnp.int32)
        return held(Sides(marks, leaving, fired, self.due(fired, t)))

    def due(self, fired: Array, t: Array) -> Array:
        """The first of the next known times."""
        return jnp.min(self.coming(fired)) if self.known else jnp.full_like(t, jnp.inf)

    def operands(self, t: Array, state: State) -> tuple[Any, ...]:
        """The operands of conditions, without derivatives."""
        t, state = held((t, state))
        return self.held, None, t, self.way.flat(state)

    # ---- steps ----

    def stepped(self, ops: Any, solver: Any, t: Array, until: Array, stride: Array, state: State) -> State:
        """One step of any length; one of no length moves by its derivative alone. `stride` is the length of whole steps."""
        if solver is None:
            return state
        none = held(until) <= held(t)
        there = jnp.where(none, t + held(stride), until)
        found = solver.advance(ops[0], t, there, there - t, state, solver.init(ops[0], t, state)).state
        flat = self.functions.flowed(ops, None, t, jnp.where(none, until - t, 0), self.way.flat(state))
        return jax.tree.map(lambda a, b: jnp.where(none, a, b), self.way.state(flat), found)

    def round(self, cut: "_Cut", ends: tuple[Array, Array, Array]) -> tuple["_Cut", Any]:
        """Let the first event of the rest of a step happen, or take that rest."""
        until, limit, stride = ends
        t, state = held((cut.t, cut.state))
        at = lambda time: self.operands(time, self.stepped(self.held, self.held_solver, t, time, held(stride), state))
        found = held(search(self.functions, at, self.coming, cut.sides, held((t, until, limit)), self.exact))
        operands = self.ops, self.solver, cut.t, until, stride, cut.state, found
        time, before, after = by_member(self._moved, *operands)
        ended = found.hit & ~cut.done & self.ends[found.which]
        now = _Cut(
            t=time,
            state=after,
            sides=self.sides_after(cut.sides, found, time, before, after),
            end=jnp.where(ended, held(time), cut.end),
            done=~found.hit | ended,
            steps=cut.steps + (found.time > t).astype(cut.steps.dtype),
        )
        which = jnp.where(found.hit & ~cut.done, found.which, -1)
        return _where(cut.done, cut, now), (which, time, before, after)

    def _moved(self, ops: Any, solver: Any, t: Array, until: Array, stride: Array, state: State, found: Found) -> Any:
        """The time to which a step goes, with derivatives, and the states before and after what happens there."""
        own = self.functions
        advance = lambda time: self.stepped(ops, solver, t, time, stride, state)
        total, zero = found.time, jnp.zeros_like(found.time)
        if own.found:
            place = jnp.array([own.found.index(i) if i in own.found else 0 for i in range(self.kinds)], jnp.int32)

            def value(delta: Array) -> Array:
                time = found.time + delta
                return own.marks(ops, None, time, self.way.flat(advance(time)))[place[found.which]]

            if self.exact:
                total = total + newton(value, zero, found.sloped)
        if own.timed:
            known = jnp.array([i in own.timed for i in range(self.kinds)])[found.which] & found.hit
            flat = self.way.flat(state)
            moved = own.shift(ops, None, found.time, flat, found.which, jnp.where(known, found.number, 0))
            total = total + jnp.where(known, moved, 0)
        total = jnp.where(found.start, t, total)
        total = jnp.where(found.hit, total, until)
        before = advance(total)
        after = own.change(ops, None, total, self.way.flat(before), found.which, found.number)
        after = jax.tree.map(lambda a, b: jnp.where(found.hit, a, b), self.way.state(after), before)
        return total, before, after

    def sides_after(self, sides: Sides, found: Found, time: Array, before: State, after: State) -> Sides:
        """The memory after an event, or after the rest of a step without one."""
        own = self.functions
        point, fired = self.operands(time, after), sides.fired
        if own.timed:
            timed = jnp.array(own.timed, jnp.int32) == found.which
            fired = fired + (timed & found.hit).astype(fired.dtype)
        g = own.marks(*point)
        passed = self.passed(sides, g)
        if own.found:
            g0, slope = own.marks(*self.operands(time, before)), own.slopes(*point)
            mine = jnp.array(own.found, jnp.int32) == found.which
            near = (g == g0) | (jnp.abs(g) <= NEAR * jnp.abs(found.change))
            # One that left zero before is still there where this event did not move it.
            at_zero = (g == 0) | mine & found.sloped & near | sides.leaving & (g == g0)
            settled = mine | ~crossed_from(own, sides, g, lambda: slope)
            settled = settled & found.hit
            marks = jnp.where(settled, jnp.where(at_zero, slope, g), jnp.where(found.hit, sides.marks, passed.marks))
            leaving = jnp.where(settled, at_zero, jnp.where(found.hit, sides.leaving, passed.leaving))
        else:
            marks, leaving = passed.marks, passed.leaving
        return held(Sides(marks, leaving, fired, self.due(fired, time)))

    def passed(self, sides: Sides, g: Array) -> Sides:
        """The memory after a step without an event, from the conditions at its end."""
        back = sides.leaving & opposite(sides.marks, g)
        return sides._replace(marks=jnp.where(back, sides.marks, g), leaving=back)

    def cut(self, run: Run, t: Array, ends: tuple[Array, Array, Array]) -> Run:
        """One step of the grid with its events."""
        begin = alike_arrays((_Cut(t, run.state, run.sides, run.end, ~runs(run), run.steps), ends))[0]

        def one(cut: _Cut, _: None) -> Any:
            alike = lambda found: alike_arrays((found, cut))[0]
            none = jnp.full((), -1, jnp.int32)
            skipped = lambda: alike((cut, (none, cut.t, cut.state, cut.state)))
            grid = self if self.place is None else self.numbered(*self.place, cut.steps - begin.steps)
            return jax.lax.cond(greatest(~cut.done), lambda: alike(grid.round(cut, ends)), skipped)

        cut, (which, *entries) = jax.lax.scan(jax.checkpoint(one), begin, None, length=MOST_EVENTS + 1)
        real = which >= 0
        more = Events(run.events.names, jnp.sum(real, dtype=jnp.int32), entries[0], which, *entries[1:])
        status = jnp.where((run.status == Status.OK) & ~cut.done, int(Status.ENDLESS_EVENTS), run.status)
        memory = run.memory
        if not self.anew:
            memory = by_member(
                lambda terms, solver, t, y: solver.init(terms, t, y), self.terms, self.solver, cut.t, cut.state
            )
        events = appended(run.events, more, jnp.ones_like(real[0]))
        return Run(cut.state, memory, cut.sides, cut.end, status, cut.steps, events)

    def quiet(self, run: Run, t: Array, ends: tuple[Array, Array, Array], inside: Array) -> tuple[Run, Array]:
        """One step of the grid as if it had no event, and a flag that it has one; a step that is not `inside` is not taken."""
        until, limit, stride = ends
        live = runs(run) & inside

        def taken(terms: Any, solver: Any, y: State, kept: PyTree, t: Time, until: Time, h: Time) -> Any:
            found = solver.advance(terms, t, until, h, y, solver.init(terms, t, y) if self.anew else kept)
            return found.state, None if self.anew else found.memory

        state, memory = by_member(taken, self.terms, self.solver, run.state, run.memory, t, until, stride)
        point = self.operands(until, state)
        g = self.functions.marks(*point)
        crossed = crossed_from(self.functions, run.sides, g, lambda: self.functions.slopes(*point))
        hit = live & (jnp.any(crossed) | (run.sides.due <= held(limit)))
        moved = Moved(state, memory, self.passed(run.sides, g), run.steps + 1)
        old = Moved(run.state, run.memory, run.sides, run.steps)
        # The list of events is not chosen from, which would copy it in every step.
        return run._replace(**_where(live, moved, old)._asdict()), hit

    def step(self, run: Run, t: Array, ends: tuple[Array, Array, Array], inside: Array) -> Run:
        """One step of the grid with its events."""
        quiet, hit = self.quiet(run, t, ends, inside)
        alike = lambda found: alike_arrays((found, run, ends))[0]
        cut = lambda: alike(_where(hit, self.cut(run, t, ends), quiet))
        return jax.lax.cond(greatest(hit), cut, lambda: alike(quiet))

    def block(self, run: Run, start: Array, first: Array, size: int, points: Callable[[Array], Any]) -> Run:
        """Steps of the grid from one number on, in the window from `start`: as if they had no events, and once more with them if
        they have.

        Steps without a branch are a loop that XLA makes one kernel of on CPUs; with one each is many.
        """
        moving = lambda run: Moved(run.state, run.memory, run.sides, run.steps)
        numbers = first + jnp.arange(size, dtype=first.dtype)

        def quiet(carry: tuple[Moved, Array], i: Array) -> tuple[Any, None]:
            now, hit = self.numbered(start, i).quiet(run._replace(**carry[0]._asdict()), *points(i))
            return alike_arrays(((moving(now), carry[1] | hit), run))[0], None

        begin = alike_arrays(((moving(run), run.status != run.status), run))[0]
        (after, hit), _ = jax.lax.scan(jax.checkpoint(quiet), begin, numbers)
        went = run._replace(**after._asdict())
        alike = lambda found: alike_arrays((found, run))[0]
        one = lambda run, i: (alike(self.numbered(start, i).step(run, *points(i))), None)
        again = lambda: alike(_where(hit, jax.lax.scan(jax.checkpoint(one), run, numbers)[0], went))
        return jax.lax.cond(greatest(hit), again, lambda: alike(went))


def begun_run(grid: EventGrid, state: State, kept: Any, points: Array, room: int, sides: Sides | None = None) -> Run:
    """The carry at the first of some times; `kept` is the memory of the stepper."""
    zero, never = jnp.zeros((), jnp.int32), jnp.full_like(held(points[0]), jnp.inf)
    sides = grid.begin(points[0], state) if sides is None else sides
    empty = no_events(grid.ops[1].names, room, points[0], state)
    return alike_arrays((Run(state, kept, sides, never, zero + int(Status.OK), zero, empty), points))[0]


def eventful_grid(
    grid: EventGrid,
    state: State,
    times: Array,
    substeps: int,
    jumps: Array | None,
    *,
    room: int,
    memory: int | None = None,
    sides: Sides | None = None,
) -> Eventful:
    """The states at `times`, by `substeps` steps between consecutive times or jumps, cut where events happen.

    **Arguments:** as of `fixed_grid`; `room`, how many events are listed; `sides`, the memory of the events where the run goes on
    from one before.
    """
    points = times
    if jumps is not None:
        points = jnp.sort(jnp.concatenate([times, jnp.clip(jumps.astype(times.dtype), times[0], times[-1])]))
    terms, solver = grid.terms, grid.solver
    state = own(state, terms, solver, points, *grid.known)
    first = lambda terms, solver, y, t: solver.init(terms, t, y)
    kept = None if grid.anew else by_member(first, terms, solver, state, points[0])
    run = begun_run(grid, state, kept, points, room, sides)
    size = min(BLOCK, substeps)
    blocks = -(-substeps // size)
    record = choose_record(points.shape[0] - 1, blocks, size_of((state, kept)), size_of(state), memory)

    def window(run: Run, between: tuple[Array, Array]) -> tuple[Run, State]:
        start, end = between if jumps is None else between_jumps(*between)
        h = (end - start) / substeps
        if jumps is not None and isinstance(terms.system, ConstrainedSystem):  # algebraic states jump with an input
            run = run._replace(state=consistent(terms, start, run.state)[0])
        if jumps is not None and not grid.anew:  # what the solver keeps from its last step is of before the jump
            run = run._replace(
                memory=jax.checkpoint(functools.partial(by_member, first))(terms, solver, run.state, start)
            )

        def points_of(i: Array) -> Any:
            last = i >= substeps - 1
            t = start + jnp.where(last, substeps - 1, i) * h
            until = jnp.minimum(t + h, end)
            return t, (until, jnp.where(last, between[1], until), h), i < substeps

        body = lambda run, k: grid.block(run, start, k * size, size, points_of)
        alike = lambda run: alike_arrays((run, points))[0]
        steps = lambda: alike(checkpointed_scan(body, run, blocks, times.dtype, record))
        run = jax.lax.cond(greatest(runs(run)), steps, lambda: alike(run))
        gone = (run.status != Status.OK) | (held(between[1]) > run.end)
        return run, jax.tree.map(lambda x: jnp.where(gone, jnp.nan, x), run.state)

    run, rest = jax.lax.scan(window, run, (points[:-1], points[1:]))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, rest)
    if jumps is not None:
        rows = jnp.searchsorted(points, times)
        states = jax.tree.map(lambda leaf: leaf[rows], states)
    return Eventful(states, run.status, run.steps, run.end, run.events, run.sides)


def runs(run: Run) -> Array:
    """Tell whether a run goes on: neither ended nor failed."""
    return ~jnp.isfinite(run.end) & (run.status == Status.OK)


def _where(where: Array, new: PyTree, old: PyTree) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(where, a, b), new, old)
