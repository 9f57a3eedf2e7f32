"""Lags that vary: the places at which they cross breaking points, found within a step, where the step then ends."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import at_time, greatest, just_after, just_before, scaled
from ..adaptive._happening import newton
from ..batching._mesh import alike_arrays
from ..stepping._event_search import Bracket, narrowed
from ._breaking import flat_lags, image_count, lag_numbers
from ._posed import ULPS, Cells, Posed
from ._ring import count_zero, valued

SHARES = 0.25, 0.5, 0.75, 1.0
"""Shares of a step at which lags are looked at: one that crosses a breaking point and comes back between two of them is missed."""

LANDED = 1e-3
"""Distance to a breaking point, over the length of a step and its relative tolerance, at which a step has ended on it."""

MOST_TRIES = 8
"""Most steps that are taken for one crossing; the last of them counts as its place."""

AHEAD = 1e-3
"""Share of a run by which a lag is looked at ahead, where it begins to move more slowly than linearly."""

SPARE = 4
"""Number of times that there is room for what follows from the first breaking points, since a lag may cross one more than once."""


class Watched(NamedTuple):
    """The breaking points of a solve whose lags vary, and where they are looked for next.

    Bounds of a lag are numbered: those above it first, then those below it.
    """

    times: Array  # (room,): of breaking points; infinite where there is none yet
    levels: Array  # (room,): over how many lags they follow from what jumps by itself
    total: Array
    cells: Cells
    aim: Array  # where the next step should end, infinite where nothing is to be hit
    aimed: Array  # (2 lags,): the bounds that are crossed there
    tries: Array


class Crossed(NamedTuple):
    """The crossings of one attempt."""

    again: Array  # whether the step has to be taken again, up to `aim`
    landed: Array  # (2 lags,): the bounds on which it ends
    reached: Array  # (lags,): the times to which the lags look back at its end
    aim: Array
    aimed: Array


class Landing(NamedTuple):
    """The breaking point that an accepted step makes, as derivatives need it."""

    bound: Array  # the bound that is crossed there; -1 for none
    origin: Array  # the breaking point that this is
    place: Array  # where the new one is kept; as large as the room where it is not


def room_of(posed: Posed) -> int:
    """The number of breaking points that a solve keeps."""
    base = posed.base.size
    known = base + SPARE * image_count(base, posed.lags.size, posed.solver.order)
    if posed.events is None and not posed.neutral:
        return known
    steps: int = posed.term.system.kept_steps()  # every jump ends a step
    return steps if posed.constant else known + steps


def first_watched(posed: Posed, rate: Array, zero: Array) -> Watched:
    """The breaking points at the start of a solve, where the state changes at a rate."""
    room, lags = room_of(posed), posed.lags.size
    times = jnp.full(room, jnp.inf, zero.dtype).at[: posed.base.size].set(posed.base) + zero
    none = count_zero(zero)
    levels = jnp.zeros(room, jnp.int32) + none
    cells = cells_at(posed, times, posed.begin + zero, posed.flat + zero.astype(posed.flat.dtype), rate)
    off = jnp.zeros(2 * lags, bool) | (zero != zero)
    return Watched(times, levels, none + posed.base.size, cells, jnp.inf + zero, off, none)


def roundings(*times: Array) -> Array:
    """Some roundings of the largest of some times."""
    size = jnp.max(jnp.abs(jnp.stack(times)))
    return ULPS * float(jnp.finfo(size.dtype).eps) * size


def cells_at(posed: Posed, times: Array, t: Array, y: Array, rate: Array) -> Cells:
    """The breaking points between which the lags look from a time on. One that looks at a breaking point leaves it as it moves."""
    reached = lambda t, y: t - flat_lags(posed.term, t, posed.unravel(y))
    now, moves = jax.jvp(reached, (t, y), (jnp.ones_like(t), rate))
    ahead = AHEAD * (posed.end - posed.begin)
    moves = jnp.where(moves == 0, reached(t + ahead, y + scaled(ahead, rate)) - now, moves)
    gaps, moves = times[None] - now[:, None], moves[:, None]
    near = jnp.abs(gaps) <= roundings(t, posed.begin)
    above, below = jnp.where(near, moves < 0, gaps > 0), jnp.where(near, moves > 0, gaps < 0)
    return Cells(_lowest(times, below), _highest(times, above))


def _lowest(times: Array, flags: Array) -> Array:
    return jnp.max(jnp.where(flags, times[None], -jnp.inf), axis=1)


def _highest(times: Array, flags: Array) -> Array:
    return jnp.min(jnp.where(flags, times[None], jnp.inf), axis=1)


def looking(posed: Posed, t0: Array, t1: Array, rows: Array) -> Callable[[Array], Array]:
    """The times to which the lags look back at a time within a step, by its dense output."""
    held0, held1 = jax.lax.stop_gradient((t0, t1))
    first, last = just_after(held0), just_before(held1)
    length = jnp.where(t1 > t0, t1 - t0, 1)

    def look(time: Array) -> Array:
        held = jax.lax.stop_gradient(time)
        inside = time + jnp.where(first < last, jnp.clip(held, first, last) - held, 0)
        y = posed.unravel(valued(rows, (time - t0) / length))
        return time - lag_numbers(posed.term.system, time, y, at_time(posed.term.inputs, inside))

    return look


def gaps_of(cells: Cells, reached: Array) -> Array:
    """The distances of lags from their bounds, positive between them."""
    return jnp.concatenate([cells.high - reached, reached - cells.low])


def crossings(posed: Posed, w: Watched, t0: Array, t1: Array, rows: Array, live: Array) -> Crossed:
    """Look for what the lags cross in a step that is accurate; nothing here has derivatives."""
    look = looking(posed, t0, t1, rows)
    gaps = lambda time: gaps_of(w.cells, look(time))
    times = jnp.stack([*(t0 + share * (t1 - t0) for share in SHARES[:-1]), t1])
    seen, begun = jax.vmap(gaps)(times), gaps(t0)
    least = roundings(t0, t1)
    near = jnp.maximum(least, LANDED * posed.rtol * (t1 - t0))
    last = w.tries >= MOST_TRIES
    out = (seen < -near) & (seen < begun[None]) & live & ~last
    hit = jnp.any(out)
    end, rate = jax.jvp(gaps, (t1,), (jnp.ones_like(t1),))
    landed = (jnp.abs(end) <= near) & (w.aimed | (end < begun)) | w.aimed & (last | (t1 - t0 <= least))
    landed = landed & live & ~hit
    # A step that ends a little before the place is taken again, so that no short one is left.
    lacks = jnp.where(w.aimed & (rate < 0) & (end > 0), end / jnp.where(rate < 0, -rate, 1), jnp.inf)
    longer = jnp.any(w.aimed) & live & ~hit & ~jnp.any(landed) & (jnp.min(lacks, initial=jnp.inf) < t1 - t0)
    place = jnp.argmax(jnp.any(out, axis=1))
    before = jnp.where(place > 0, times[place - 1], t0)
    bracket = before, times[place], jnp.where(place > 0, seen[place - 1], begun), seen[place], out[place]

    def found() -> tuple[Array, Array]:
        low, high, g0, g1, flags = bracket
        one, zero = jnp.ones((2,), t0.dtype), jnp.zeros((), jnp.int32)
        crossed = lambda time, g: flags & (g <= 0)
        begin, open_ = alike_arrays((Bracket(low, high, g0, g1, flags, one, zero, zero), hit))
        b = narrowed(gaps, crossed, begin, open_)
        return alike_arrays((b.high, b.crossed))

    aim, aimed = jax.lax.cond(greatest(hit), found, lambda: (t1 + 0 * begun[0], w.aimed & out[0]))
    aim = jnp.where(hit, aim, jnp.where(longer, t1 + jnp.min(lacks, initial=jnp.inf), jnp.inf))
    aimed = jnp.where(hit, aimed, w.aimed & longer)
    return Crossed(hit | longer, landed, look(t1), aim, aimed)


def moved_on(
    posed: Posed, w: Watched, c: Crossed, t1: Array, y1: Array, rate: Array, accepted: Array, anew: Array
) -> tuple[Watched, Landing]:
    """The breaking points after an attempt, which ends at a state with a rate. At known ones, `anew`, inputs and lags may jump."""
    lags = posed.lags.size
    on = accepted & jnp.any(c.landed)
    which = jnp.argmax(c.landed)
    bounds = jnp.concatenate([w.cells.high, w.cells.low])
    origins = jnp.argmin(jnp.abs(w.times[None] - bounds[:, None]), axis=1).astype(jnp.int32)
    level = 1 + jnp.min(jnp.where(c.landed, w.levels[origins], posed.levels))
    kept = on & (level < posed.levels)
    place = jnp.where(kept, w.total % w.times.size, w.times.size)
    times = w.times.at[place].set(t1, mode="drop")
    levels = w.levels.at[place].set(level, mode="drop")
    least = roundings(t1)

    def after() -> Cells:
        up, down = c.landed[:lags], c.landed[lags:]
        low, high = w.cells
        above = _highest(times, times[None] > high[:, None] + least)
        below = _lowest(times, times[None] < low[:, None] - least)
        inside = Cells(
            jnp.where(up, high, jnp.where(down, below, low)), jnp.where(up, above, jnp.where(down, low, high))
        )
        new = jnp.where(kept & (c.reached < t1 - least), jnp.minimum(inside.high, t1), inside.high)
        return alike_arrays((Cells(inside.low, new), t1))[0]

    def given() -> Cells:
        return alike_arrays((cells_at(posed, times, t1, y1, rate), t1))[0]

    same = lambda: alike_arrays((w.cells, t1))[0]
    anew = accepted & anew
    cells = jax.lax.cond(greatest(on), after, same)
    cells = jax.tree.map(lambda a, b: jnp.where(on, a, b), cells, w.cells)
    again = jax.lax.cond(greatest(anew), given, same)
    cells = jax.tree.map(lambda a, b: jnp.where(anew, a, b), again, cells)
    tries = jnp.where(c.again, w.tries + 1, 0)
    watched = Watched(times, levels, w.total + kept.astype(w.total.dtype), cells, c.aim, c.aimed, tries)
    return watched, Landing(jnp.where(on, which, -1).astype(jnp.int32), origins[which], place.astype(jnp.int32))


def jumped_to(posed: Posed, w: Watched, t: Array, y: Array, rate: Array, jumped: Array) -> tuple[Watched, Array]:
    """The breaking points where an event has changed the state to y, with a rate; and the place of the new one."""
    place = jnp.where(jumped, w.total % w.times.size, w.times.size)
    times, levels = w.times.at[place].set(t, mode="drop"), w.levels.at[place].set(0, mode="drop")
    there = lambda: alike_arrays((cells_at(posed, times, t, y, rate), t))[0]
    cells = jax.lax.cond(greatest(jumped), there, lambda: alike_arrays((w.cells, t))[0])
    cells = jax.tree.map(lambda a, b: jnp.where(jumped, a, b), cells, w.cells)
    total = w.total + jumped.astype(w.total.dtype)
    return w._replace(times=times, levels=levels, total=total, cells=cells), place.astype(jnp.int32)


def shift(posed: Posed, landing: Landing, origin: Array, t0: Array, t1: Array, rows: Array) -> Array:
    """The time of a breaking point that a step ends on, less its end: zero, with the derivatives of the time.

    `origin` is the breaking point that the lag crosses there, with derivatives.
    """
    look, lags = looking(posed, t0, t1, rows), posed.lags.size
    own = jnp.maximum(landing.bound, 0) % lags
    return newton(lambda delta: look(t1 + delta)[own] - origin, jnp.zeros_like(t1) + 0 * t1, landing.bound >= 0)
