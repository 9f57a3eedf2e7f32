"""The first event of one fixed step: which one, and where in the step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import greatest
from ..adaptive._happening import NOWHERE, SLOPED, EventFunctions, crossed, opposite
from ..batching._mesh import alike_arrays

MOST_TRIALS = 200
"""Most trials for a zero crossing; every third one halves its interval, and a number has 52 binary digits."""


class Sides(NamedTuple):
    """Memory of the events of a run between its steps."""

    marks: Array  # of each condition: its value, or where it was zero the slope with which it left
    leaving: Array  # whether it was zero and has not been seen on its side yet
    fired: Array  # numbers of the next known times
    due: Array  # the first of them


class Found(NamedTuple):
    """The first event of a step."""

    hit: Array  # whether there is any
    time: Array
    which: Array  # its place among all events; 0 where there is none
    number: Array  # of one at known times, the entry of its sorted times
    start: Array  # whether it is at the start of the step, set off by what happened there
    sloped: Array  # whether its condition has a slope there, so that the time has derivatives
    change: Array  # of each condition over the step


def crossed_from(functions: EventFunctions, sides: Sides, g: Array, slopes: Callable[[], Array]) -> Array:
    """Flags of the conditions that have crossed zero; one that starts from zero has where it also moves back."""
    if not functions.found:
        return g != g
    directions = [functions.kinds[i].direction for i in functions.found]
    up, down = (jnp.array([d != other for d in directions]) for other in ("down", "up"))
    passes = crossed(sides.marks, g, up, down)
    alike = lambda flags: alike_arrays((flags, sides, g))[0]

    def back() -> Array:
        slope = slopes()
        return alike(passes & (~sides.leaving | opposite(sides.marks, slope) & (slope != 0)))

    return jax.lax.cond(greatest(jnp.any(sides.leaving & passes)), back, lambda: alike(passes))


def first_of(places: tuple[int, ...], flags: Array) -> Array:
    """The first place whose flag is set; a large one where none is."""
    if not places:
        return jnp.full((), NOWHERE, jnp.int32)
    return jnp.min(jnp.where(flags, jnp.array(places, jnp.int32), NOWHERE))


def search(
    functions: EventFunctions,
    at: Callable[[Array], Any],
    coming: Callable[[Array], Array],
    sides: Sides,
    ends: tuple[Array, Array, Array],
    exact: bool,
) -> Found:
    """Find the first event of a step; nothing here has derivatives.

    **Arguments:**

    - `at`: a time in the step -> the operands of the conditions there: operands, None, time and flat state.
    - `coming`: numbers of the next known times -> those times.
    - `ends`: the start of the step, its end, and the last known time that belongs to it.
    - `exact`: whether a condition is located within the step; else its event is at the step's end.
    """
    t, until, limit = ends
    goal = jnp.clip(sides.due, t, until)
    timed = sides.due <= limit
    goal = jnp.where(timed, goal, until)
    marks = lambda time: functions.marks(*at(time))
    flags = lambda time, g: crossed_from(functions, sides, g, lambda: functions.slopes(*at(time)))
    g0, g1 = marks(t), marks(goal)
    crossed0, crossed1 = flags(t, g0), flags(goal, g1)
    early = jnp.any(crossed0)
    begin = Bracket(
        t, goal, g0, g1, crossed1, jnp.ones((2,), t.dtype), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
    )
    if exact and functions.found:
        open_ = jnp.any(crossed1) & ~early
        b = narrowed(marks, flags, *alike_arrays((begin, open_)))
    else:
        b = begin
    high = jnp.where(early, t, b.high)
    seen = first_of(functions.found, jnp.where(early, crossed0, b.crossed))
    known = first_of(functions.timed, coming(sides.fired) <= limit)
    by_time = timed & ((seen == NOWHERE) | (high >= goal) & (known < seen))
    which = jnp.where(by_time, known, seen)
    hit = which < NOWHERE
    time = jnp.where(hit, jnp.where(by_time, goal, high), until)
    which = jnp.where(hit, which, 0)
    return Found(
        hit,
        time,
        which,
        _own(functions.timed, which, sides.fired),
        hit & ~by_time & early,
        hit & ~by_time & ~early & exact & _sloped(functions, b, which, g0, g1),
        g1 - g0,
    )


def _sloped(functions: EventFunctions, b: "Bracket", which: Array, g0: Array, g1: Array) -> Array:
    part = _own(functions.found, which, jnp.abs(b.g_high - b.g_low))
    whole = _own(functions.found, which, jnp.abs(g1 - g0))
    return part < SLOPED * whole


def _own(places: tuple[int, ...], which: Array, values: Array) -> Array:
    """The value of one event among those of some of them; zero where it is not among them."""
    if not places:
        return jnp.zeros((), values.dtype)
    return jnp.sum(jnp.where(jnp.array(places, jnp.int32) == which, values, jnp.zeros_like(values)), dtype=values.dtype)


class Bracket(NamedTuple):
    """Interval that holds the first zero crossing of a step."""

    low: Array
    high: Array
    g_low: Array
    g_high: Array
    crossed: Array  # at its upper end
    weights: Array  # of the values at both ends, as the Illinois rule has them
    last: Array  # the end that moved last: -1 the lower, 1 the upper one
    trials: Array


def narrowed(marks: Callable[..., Array], flags: Callable[..., Array], begin: Bracket, open_: Array) -> Bracket:
    """Narrow a bracket to rounding, by secants of the Illinois rule with every third trial in the middle.

    Dowell and Jarratt (1971), BIT 11:168, doi:10.1007/BF01934364.
    """
    size = jnp.maximum(jnp.abs(begin.low), jnp.abs(begin.high))
    least = 2 * float(jnp.finfo(size.dtype).eps) * size

    def more(b: Bracket) -> Array:
        return open_ & (b.high - b.low > least) & (b.trials < MOST_TRIALS)

    def tried(b: Bracket) -> Bracket:
        width = b.high - b.low
        low, high = jnp.abs(b.weights[0] * b.g_low), jnp.abs(b.weights[1] * b.g_high)
        share = low / jnp.where(low + high > 0, low + high, 1)
        part = jnp.min(jnp.where(b.crossed & jnp.isfinite(share), share, 1))
        part = jnp.where((b.trials % 3 == 2) | (part >= 1) | (part <= 0), 0.5, part)
        time = jnp.clip(b.low + part * width, b.low + 0.5 * least, b.high - 0.5 * least)
        time = jnp.where((time > b.low) & (time < b.high), time, b.low + 0.5 * width)
        g = marks(time)
        new = flags(time, g)
        beyond = jnp.any(new)
        moved = jnp.where(beyond, 1, -1).astype(jnp.int32)
        kept = jnp.where(b.last == moved, 0.5, 1.0).astype(time.dtype)
        weights = jnp.where(
            beyond,
            jnp.stack([kept * b.weights[0], jnp.ones_like(kept)]),
            jnp.stack([jnp.ones_like(kept), kept * b.weights[1]]),
        )
        return Bracket(
            jnp.where(beyond, b.low, time),
            jnp.where(beyond, time, b.high),
            jnp.where(beyond, b.g_low, g),
            jnp.where(beyond, g, b.g_high),
            jnp.where(beyond, new, b.crossed),
            weights,
            moved,
            b.trials + 1,
        )

    return jax.lax.while_loop(more, tried, begin)
