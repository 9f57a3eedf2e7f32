"""A solve with delays, posed on flat states: its equations as a step sees them, its breaking points, and one step."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..._types import Inputs, State, Time
from ...core import (
    Example,
    NamedEvents,
    Past,
    PlainSystem,
    SystemTerm,
    at_time,
    constant_lags,
    is_neutral,
    just_after,
    just_before,
    scaled,
)
from ..task._task import Task
from ._breaking import MOST_NEUTRAL, MOST_POINTS, breaking_points, first_points, flat_lags, lag_numbers
from ._ring import Ring, empty_ring, state_in, valued

ULPS = 8
"""Number of roundings by which a time of the past, computed at an end of a step, may lie on the other side of a breaking point."""

ALL = np.ones(3, bool)
"""Each way in which a past may not be known: not any more, before the history begins, and not yet."""

NONE = np.zeros(3, bool)


DEFECT = 1.0
"""Share of a dense output's defect in the middle of a step that counts as an error, where the method does not estimate its own.

Of a smooth step it is about twice the embedded estimate. Where the slope jumps within a step, the embedded estimate of `Tsit5` is
0.005 of the jump times the length for an error of up to 0.26 of it, and this one 0.09 to 0.63.
"""

BETWEEN = 300.0
"""Weight of the error between the ends of a step, where the method estimates it, against that of the end.

Errors of a history act as errors of the rates do, and those of a dense output of order 4 are of one sign along a spike. The
Oregonator with a delay, whose spikes shift by 500 times an error of its rates, ends 1,800 tolerances off by weight 1, 190 by 100
and 84 by 300; by 300 it takes 1.5 times the steps.
"""


class Cells(NamedTuple):
    """The breaking points between which each lag looks in a step, infinite where there is none."""

    low: Array  # (lags,)
    high: Array  # (lags,)


class WithinStep(PlainSystem):
    """A system with delays within one step, a plain system: the vector field with the past that the step knows.

    A time of the past that is computed at an end of the step is looked up a few roundings towards the middle of the step, and
    inputs are read within it: so the slope at an end is the limit from inside where the history or an input jumps there.

    Where lags vary, the past of each is that between the same two breaking points in all of a step, continued beyond them where a
    stage looks there: so the slope is smooth within a step, and the place where a lag crosses a breaking point can be found.

    The state at a time that no declared lag reaches and that is not known is NaN, for each way of `unknown`, as of `ALL`.
    """

    system: Any
    signals: Inputs
    y0: Any  # the state at the first time
    begin: Array  # the first time
    ring: Ring
    t0: Array
    t1: Array
    current: Array | None  # dense output of this step, where it may reach into itself
    lags: Array | None  # where they are constant
    cells: Cells | None  # where lags vary: between which breaking points each of them looks
    behind: (
        Array | None
    )  # (lags,): where they are constant, those that look in front of a jump in a step without length
    unknown: Any  # (3,): the ways in which a state is not known that are looked for
    unravel: Any = eqx.field(static=True)
    stiff: bool = eqx.field(static=True)
    overlaps: bool = eqx.field(static=True)
    guarded: bool = eqx.field(static=True)  # whether any are

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        t0, t1, held = jax.lax.stop_gradient((self.t0, self.t1, t))
        first, last = just_after(t0), just_before(t1)
        inside = t + (jnp.where(first < last, jnp.clip(held, first, last), held) - held)
        rounding = ULPS * jnp.finfo(t0.dtype).eps * jnp.maximum(abs(t0), abs(t1))
        nudge = jnp.sign(0.5 * (t0 + t1) - held) * rounding
        signals = at_time(self.signals, inside)
        lags = self.lags
        if lags is None and (self.guarded or self.cells is not None):
            lags = jax.lax.stop_gradient(lag_numbers(self.system, t, y, signals))
        reach = _reach(held, jax.lax.stop_gradient(lags)) if self.guarded and lags is not None else None

        def past(time: Time) -> State:
            time = jnp.asarray(time, t0.dtype)
            asked = jax.lax.stop_gradient(time)
            side = asked + jnp.clip(nudge, -0.25 * (t1 - t0), 0.25 * (t1 - t0))
            if self.behind is not None and lags is not None:
                own = jnp.argmin(jnp.abs(held - jax.lax.stop_gradient(lags) - asked))
                short = t1 - t0 <= 2 * rounding
                side = jnp.where(short, asked + jnp.where(self.behind[own], -rounding, rounding), side)
            if self.cells is not None and lags is not None:
                side = _in_cell(self.cells, asked, side, held - lags, rounding)
            found = self._past(time, side)
            found = found if self.current is None else self._overlapped(found, t, y, time, side)
            if reach is None:
                return found
            unknown = self._is_unknown(asked, held, reach, rounding)
            return jax.tree.map(lambda x: jnp.where(unknown, jnp.nan, x), found)

        return self.system.delayed_field(t, y, signals, Past(past))

    def slope_before(self) -> Array:
        """The slope with which the solution, or its history, comes to the start of this step, flat."""
        t0 = jax.lax.stop_gradient(self.t0)
        there = lambda time: ravel_pytree(self._past(time, just_before(t0)))[0]
        return jax.jvp(there, (t0,), (jnp.ones_like(t0),))[1]

    def _is_unknown(self, time: Array, t: Array, reach: tuple[Array, Array], rounding: Array) -> Array:
        """Tell whether the state at a time is not known although declared lags do not reach it; else that is theirs to mend."""
        first, last = reach
        begin, oldest = jax.lax.stop_gradient((self.begin, self.ring.oldest))
        margin = rounding + ULPS * jnp.finfo(t.dtype).eps * abs(first)
        gone = (time >= begin) & (time < oldest - margin) & (time < first - margin)
        # Without an iteration a step knows what was before it.
        future = (time > (t if self.overlaps else self.t0) + margin) & (time > last + margin)
        begins = self.system.earliest()
        early = jnp.zeros_like(gone) if begins is None else (time < begins - margin) & (time < first - margin)
        return jnp.any(jnp.stack([gone, early, future]) & self.unknown)

    def _past(self, time: Array, side: Array) -> State:
        begin = jax.lax.stop_gradient(self.begin)
        before = side < begin
        # What is not chosen must be finite, too: the history at the first time, the solution at its start.
        moved = 0 if self.cells is None else side - jax.lax.stop_gradient(time)
        history = self.system.history(jnp.where(before, time + moved, self.begin), self.y0)
        solution = self.unravel(state_in(self.ring, jnp.where(before, self.begin, time), jnp.maximum(side, begin)))
        return jax.tree.map(lambda a, b: jnp.where(before, a.astype(b.dtype), b), history, solution)

    def _overlapped(self, found: State, t: Array, y: State, time: Array, side: Array) -> State:
        """A state of the past where it may lie within this step: by an estimate p of the dense output of the step.

        A stiff step also follows its own state: y(s) = p(s) + w (y(t) - p(t)), which is exact for the exact p whatever the weight
        w is. With w = 1 - (t - s) / h, the share of the step in which the past is a part of it, its Jacobian knows of that part.
        """
        assert self.current is not None
        length = jnp.where(self.t1 > self.t0, self.t1 - self.t0, 1)
        within = side >= jax.lax.stop_gradient(self.t0)
        share = jnp.where(within, (time - self.t0) / length, 0)
        flat = jnp.where(within, valued(self.current, share), ravel_pytree(found)[0])
        if self.stiff:
            weight = jnp.clip(1 - (t - time) / length, 0, 1)
            flat = flat + scaled(weight, ravel_pytree(y)[0] - valued(self.current, (t - self.t0) / length))
        return self.unravel(flat)

    @classmethod
    def example(cls) -> Example:
        raise NotImplementedError("A step has no example of its own.")


def _reach(t: Array, lags: Array) -> tuple[Array, Array]:
    """The earliest and the latest time that declared lags reach back to."""
    return t - jnp.max(lags, initial=0), t - jnp.min(lags, initial=jnp.inf)


def _in_cell(cells: Cells, time: Array, side: Array, reached: Array, rounding: Array) -> Array:
    """The side from which a time of the past is looked up: between the breaking points of the lag that reaches it."""
    away = jnp.abs(reached - time)
    own = jnp.argmin(away)
    inside = jnp.clip(time, cells.low[own], just_before(cells.high[own]))
    return jnp.where(away[own] <= rounding, inside, side)


class Posed(NamedTuple):
    """A solve on flat states."""

    term: SystemTerm
    solver: Any
    state: Any  # the start, as a tree
    flat: Array
    unravel: Any
    begin: Array
    end: Array
    points: Array  # breaking points that are known at the start
    base: Array  # those that follow from no lag, those of the history with them
    lags: Array
    rtol: Array
    atol: Array
    overlaps: bool  # whether a step may reach into itself
    constant: bool  # whether lags are the same at all times and states
    neutral: bool  # whether slopes of the past are asked for
    levels: int  # over how many lags a jump in a derivative is followed
    events: NamedEvents | None = None


class Taken(NamedTuple):
    """Result of one step: the flat state at its end, the increments of its dense output `(degree, n)`, its error."""

    y: Array
    increments: Array
    error: Array


def pose(task: Task) -> Posed:
    """The solve of a task, whose start is an encoded state and whose tolerances are settled."""
    flat, unravel = ravel_pytree(task.y0)
    times, step = task.times, task.step
    system: Any = task.system
    term = SystemTerm(system, task.inputs)
    lags = flat_lags(term, times[0], task.y0)
    known = constant_lags(system, times[0], task.y0, task.inputs)
    constant = bool(known.all())
    # Where a lag varies, what follows by any of them is found on the way.
    neutral = is_neutral(system, times[0], task.y0, task.inputs)
    levels, most = (MOST_NEUTRAL, MOST_NEUTRAL) if neutral else (task.solver.order, MOST_POINTS)
    points = breaking_points(term, lags if constant else lags[:0], times[0], times[-1], levels, most)
    base = first_points(term, times[0])
    rtol, atol = (jax.lax.stop_gradient(jnp.asarray(x, times.dtype)) for x in step.numbers())
    overlaps = task.solver.stiff or not constant
    ends = times[0], times[-1]
    given = (
        term,
        task.solver,
        task.y0,
        flat,
        unravel,
        *ends,
        points,
        base,
        lags,
        rtol,
        atol,
        overlaps,
        constant,
        neutral,
        levels,
    )
    return Posed(*given, task.events)


def within(
    posed: Posed,
    ring: Ring,
    t0: Array,
    t1: Array,
    current: Array | None = None,
    unknown: Any = NONE,
    cells: Cells | None = None,
    behind: Array | None = None,
) -> SystemTerm:
    """The equations within a step, as steppers see them."""
    own = posed.term.system, posed.term.inputs, posed.state, posed.begin
    lags = posed.lags if posed.constant else None
    kind = posed.unravel, posed.solver.stiff, posed.overlaps, unknown is not NONE
    return SystemTerm(WithinStep(*own, ring, t0, t1, current, lags, cells, behind, unknown, *kind), None)


def take(
    posed: Posed,
    ring: Ring,
    t0: Array,
    t1: Array,
    h: Array,
    y: Array,
    current: Array | None = None,
    unknown: Any = NONE,
    cells: Cells | None = None,
    behind: Array | None = None,
) -> Taken:
    """The step from t0 to t1, of length h; `current` is an estimate of its own dense output.

    `unknown` are the ways in which a past may not be known that make it NaN: of steps that were accepted there are none.
    """
    term = within(posed, ring, t0, t1, current, unknown, cells, behind)
    solver, state = posed.solver, posed.unravel(y)
    found = solver.advance(term, t0, t1, h, state, solver.init(term, t0, state))
    increments = jnp.stack([ravel_pytree(q)[0] for q in solver.polynomial(found.dense)])
    error = ravel_pytree(found.error)[0]
    if found.between is None:
        missed = DEFECT * _defect(term, posed, t0, h, y, increments)
    else:
        missed = BETWEEN * ravel_pytree(found.between)[0]
    error = jnp.where(jnp.abs(missed) > jnp.abs(error), missed, error)
    return Taken(ravel_pytree(found.state)[0], increments, error)


def _defect(term: SystemTerm, posed: Posed, t0: Array, h: Array, y: Array, increments: Array) -> Array:
    """The slope of a dense output in the middle of its step less that of the equations, times the length of the step."""
    rows = jnp.concatenate([y[None], increments])
    half = jnp.full_like(h, 0.5)
    middle, slope = jax.jvp(lambda share: valued(rows, share), (half,), (jnp.ones_like(h),))
    return slope - scaled(h, ravel_pytree(term.vf(t0 + 0.5 * h, posed.unravel(middle)))[0])


def empty(posed: Posed, kept: int, zero: Array) -> Ring:
    """The ring at the start of a solve."""
    y, begin = posed.flat, posed.begin
    one = empty_ring(1, 0, y, begin, zero)  # the degree of the dense output does not depend on the past
    degree = jax.eval_shape(lambda: take(posed, one, begin, begin, begin, y).increments).shape[0]
    ring = empty_ring(kept, degree, y, begin, zero)
    if not posed.neutral:
        return ring
    slope = within(posed, ring, begin, posed.end).system.slope_before()
    return ring._replace(rows=ring.rows.at[0, 1].set(slope.astype(y.dtype)))
