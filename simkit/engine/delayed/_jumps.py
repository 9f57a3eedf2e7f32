"""Events of a solve with delays: found on the dense output of a step, which then ends there. What they change jumps."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..._types import Inputs, State, Time
from ...core import SystemTerm, greatest, scaled
from ..adaptive._happening import newton
from ..batching._mesh import alike_arrays
from ..stepping._event_search import Found, Sides, search
from ..stepping._event_steps import EventGrid
from ._crossing import Landing, roundings
from ._posed import Posed, within
from ._ring import Ring, count_zero, valued


class PastTerm(eqx.Module):
    """Arguments of events: the system of the user with its inputs, and a slope that sees the past."""

    system: Any
    inputs: Inputs
    step: SystemTerm

    def vf(self, t: Time, y: State) -> State:
        """Return the slope."""
        return self.step.vf(t, y)


class Jumps(NamedTuple):
    """Breaking points that events make where lags are constant; each is met again a lag later, one order higher."""

    times: Array  # (room,): the oldest is overwritten by the newest; infinite where there is none yet
    levels: Array  # (room,): over how many lags they follow from an event
    total: Array
    met: Array  # time and number of the image that was met last
    place: Array


class Happening(NamedTuple):
    """Memory of the events of a solve between its steps."""

    sides: Sides
    jumps: Jumps | None  # None where lags vary: then they are among the breaking points that are watched
    end: Array  # the time of the event that ended the run; infinite where none did
    opened: Array  # whether the last step ended with an event
    stalled: Array  # how many events in a row did not move time on
    since: Array  # the time of the last event


class Note(NamedTuple):
    """The event at the end of an accepted step, as derivatives need it."""

    which: Array  # -1 for none
    number: Array
    sloped: Array
    start: Array  # whether it is at the start of the step
    time: Array


class Entry(NamedTuple):
    """The event of an attempt as the list of events has it, -1 for none, with flat states."""

    which: Array
    time: Array
    before: Array
    after: Array


def events_of(posed: Posed, ring: Ring) -> EventGrid | None:
    """The events of a solve."""
    if posed.events is None:
        return None
    return EventGrid(past_of(posed, ring, posed.begin, posed.end), None, posed.events, posed.state, posed.begin)


def past_of(posed: Posed, ring: Ring, t0: Array, t1: Array, current: Array | None = None) -> PastTerm:
    """The terms of events, which see the past as a step between two times does."""
    return PastTerm(posed.term.system, posed.term.inputs, within(posed, ring, t0, t1, current))


def first_happening(posed: Posed, grid: EventGrid, room: int, zero: Array) -> Happening:
    """The memory at the start of a solve."""
    begin = posed.begin + zero
    sides = grid.begin(begin, posed.unravel(posed.flat))
    sides, none, never = alike_arrays((sides, zero))[0], count_zero(zero), jnp.inf + zero
    jumps = None
    if posed.constant:
        levels = jnp.zeros(room, jnp.int32) + none
        jumps = Jumps(jnp.full(room, jnp.inf, zero.dtype) + zero, levels, none, -never, none)
    return Happening(sides, jumps, never, none != none, none, -never)


class Image(NamedTuple):
    """The first time that is a lag after a breaking point of events and was not met yet."""

    time: Array
    place: Array  # its number among all
    behind: Array  # (lags,): whether a lag looks in front of a jump up to the end of the step, to rounding


def next_image(posed: Posed, jumps: Jumps, goal: Array) -> Image:
    """The breaking point of events that comes next, for a step that ends at `goal` or before."""
    if not posed.lags.size:
        return Image(jnp.full_like(jumps.met, jnp.inf), jumps.place, jnp.zeros(0, bool))
    times = jumps.times[:, None] + posed.lags[None]
    numbers = jnp.arange(times.size, dtype=jumps.place.dtype).reshape(times.shape)
    left = (times > jumps.met) | (times == jumps.met) & (numbers > jumps.place)
    left = left & (jumps.levels < posed.levels)[:, None]
    times = jnp.where(left, times, jnp.inf)
    index = jnp.argmin(times.reshape(-1)).astype(jumps.place.dtype)
    first = jnp.minimum(goal, times.reshape(-1)[index])
    jump = (jumps.levels == 0)[:, None] & (times - first <= roundings(first, posed.end))
    return Image(times.reshape(-1)[index], index, jnp.any(jump, axis=0))


def searched(grid: EventGrid, posed: Posed, sides: Sides, ends: tuple[Array, Array], length: Array, rows: Array) -> Any:
    """The first event in a step, and the conditions at its end."""
    t0, t1 = ends
    at = lambda time: grid.operands(time, posed.unravel(state_at(rows, t0, time, length)))
    found = search(grid.functions, at, grid.coming, sides, (t0, t1, t1), True)
    return found, grid.functions.marks(*at(t1))


def state_at(rows: Array, t0: Array, time: Array, length: Array) -> Array:
    """The flat state at a time of a step, by its dense output."""
    return valued(rows, (time - t0) / jnp.where(length > 0, length, 1))


def happen(
    grid: EventGrid, posed: Posed, sides: Sides, found: Found, time: Array, before: Array, hit: Array
) -> tuple[Array, Sides, Array]:
    """The flat state after the event of a step, the memory of events there, and the slope; `grid` sees the past of what follows."""

    def happens() -> Any:
        own, state = grid.functions, posed.unravel(before)
        after = own.change(grid.held, None, time, before, found.which, found.number)
        memory = grid.sides_after(sides, found, time, state, posed.unravel(after))
        return alike_arrays((after, memory, own.field(grid.held, None, time, after)))

    nothing = lambda: alike_arrays((before, sides, jnp.zeros_like(before)))
    found_there = jax.lax.cond(greatest(hit), happens, nothing)
    return jax.tree.map(lambda a, b: jnp.where(hit, a, b), found_there, nothing())


def followed(posed: Posed, jumps: Jumps, time: Array, image: Image, jumped: Array, met: Array) -> tuple[Jumps, Landing]:
    """The breaking points of events after a step that ends with a jump, or on the image of one."""
    lags, none = max(posed.lags.size, 1), jumps.times.size
    origin = image.place // lags
    level = jnp.where(jumped, 0, jumps.levels[origin] + 1)
    kept = jumped | met
    place = jnp.where(kept, jumps.total % none, none)
    after = Jumps(
        jumps.times.at[place].set(time, mode="drop"),
        jumps.levels.at[place].set(level, mode="drop"),
        jumps.total + kept.astype(jumps.total.dtype),
        jnp.where(met, image.time, jumps.met),
        jnp.where(met, image.place, jumps.place),
    )
    bound = jnp.where(met, image.place % lags, -1)
    return after, Landing(*(x.astype(jnp.int32) for x in (bound, origin, place)))


def replayed_event(
    posed: Posed, grid: EventGrid, note: Note, hit: Array, start: tuple[Array, Array], end: tuple[Any, ...]
) -> tuple[Array, Array, Array]:
    """The time to which a step goes, with derivatives, and the flat states before and after what happens there.

    **Arguments:** `start`: time and state; `end`: the time up to which the step was taken, its length, state and dense output.
    """
    (t0, y0), (t1, length, y1, rows) = start, end
    own, which = grid.functions, jnp.maximum(note.which, 0)
    timed = jnp.array([i in own.timed for i in range(grid.kinds)])[which]
    place = jnp.array([own.found.index(i) if i in own.found else 0 for i in range(grid.kinds)], jnp.int32)[which]
    number = jnp.maximum(note.number, 0)

    def happens() -> Any:
        time, before = t1, y1
        if own.found:
            value = lambda delta: own.marks(
                grid.ops, None, note.time + delta, state_at(rows, t0, note.time + delta, length)
            )[place]
            delta = newton(value, jnp.zeros_like(t1) + 0 * t1, note.sloped & hit & ~timed)
            time = jnp.where(timed, t1, jnp.where(note.start, t0, note.time + delta))
            inside = state_at(rows, t0, jnp.where(timed, jax.lax.stop_gradient(t0), time), length)
            before = jnp.where(timed, y1, jnp.where(note.start, y0, inside))
        return alike_arrays((time, before, own.change(grid.ops, None, time, before, which, number)))

    nothing = lambda: alike_arrays((t1, y1, y1))
    return jax.tree.map(lambda a, b: jnp.where(hit, a, b), jax.lax.cond(greatest(hit), happens, nothing), nothing())


def moved_with_time(posed: Posed, grid: EventGrid, note: Note, hit: Array) -> Array:
    """The known time of an event at the end of a step less that number: zero, with its derivatives."""
    own = grid.functions
    if not own.timed:
        return jnp.zeros_like(posed.begin)
    given = own.filled(grid.ops, None)
    moved = own.known_shift(given, note.time, jnp.maximum(note.which, 0), jnp.maximum(note.number, 0))
    return jnp.where(hit, moved, 0)


def served_last(posed: Posed, ring: Ring, times: Array, t: Array, y: Array, opened: Array, ys: Array) -> Array:
    """Rows with the state after an event at the last time of a run, which no step follows."""
    held = jax.lax.stop_gradient
    here = opened & (held(times) == held(t)) & (held(times) > held(posed.begin))

    def serve() -> Array:
        term = within(posed, ring, t, t + (posed.end - posed.begin))
        slope = ravel_pytree(term.vf(t, posed.unravel(y)))[0]
        rows = y[None] + jax.vmap(lambda late: scaled(late, slope))(times - t)
        return alike_arrays((jnp.where(here[:, None], rows, ys), y))[0]

    return jax.lax.cond(greatest(jnp.any(here)), serve, lambda: alike_arrays((ys, y))[0])
