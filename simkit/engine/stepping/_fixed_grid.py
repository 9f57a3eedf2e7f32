"""Fixed steps that land on every save time and on every jump of an input."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PyTree

from ..._types import State, Time
from ...core import BrownianPath, ConstrainedSystem, DiscreteSystem, by_member, just_after, just_before, own
from ...solvers import AbstractExplicitRungeKutta, AbstractSplitStepper, DiscreteStepper, Reversible, consistent
from ._checkpointed import Record, choose_record, whole_fits
from ._long_scan import long_scan, reversed_loop
from ._on_disk import OnDisk, disk_loop, segment_length


def fixed_grid(
    terms: Any,
    solver: Any,
    state: State,
    times: Float[Array, " times"],
    substeps: int,
    jumps: Float[Array, " jumps"] | None = None,
    *,
    memory: int | None = None,
    even: bool = False,
    linear: bool = False,
    disk: OnDisk | None = None,
) -> State:
    """The states at `times`: `substeps` equal steps of a stepper between consecutive times or jumps.

    Reverse mode computes every step again from the state before it. It keeps the states before all steps where they fit into
    `memory` bytes for one member (unless given, into a core's first cache), else those at the ends of segments, from which it
    computes the others again; `choose_record` decides.

    With `even` the times are equally far apart, so that what a split stepper makes of the length of a step is made once for all.

    With `linear` the derivatives are asked for many times at the same place: where it fits into the bound of memory, all that they
    need is kept, and a tangent or an adjoint costs no more than the operations on tangents.

    With `disk` the states at the ends of segments are in files. Reversible steps keep none unless `memory` is given.
    """
    points = points_of(times, jumps)
    state = own(state, terms, solver, points)
    # The last slope of an explicit method is dead code in a step that computes its first anew: as many evaluations as with
    # the slope handed on, and half the carry. That is half the memory of reverse mode, and on CPU a loop small enough to be
    # one kernel where it would be one kernel an operation.
    anew = isinstance(solver, AbstractExplicitRungeKutta)
    first = lambda terms, y, start: solver.init(terms, start, y)
    kept = None if anew else by_member(first, terms, state, points[0])

    # Made in the loop they would be kept, or computed again, for each window or step of reverse mode.
    split = isinstance(solver, AbstractSplitStepper)
    even = even and jumps is None and split and points.shape[0] > 1
    weigh = lambda h: by_member(lambda terms, solver, h: solver.weights(terms, h), terms, solver, h)
    whole = linear and whole_fits(points.shape[0] - 1, substeps, size_of(state), memory)
    weights = weigh((points[-1] - points[0]) / ((points.shape[0] - 1) * substeps)) if even else None

    def step(
        terms: Any, solver: Any, weights: PyTree, y: State, kept: PyTree, t: Time, until: Time, h: Time
    ) -> tuple[State, Any]:
        if weights is not None:
            return solver.weighted(weights, terms, t, until, h, y)[0], None
        held = solver.init(terms, t, y) if anew else kept
        found = solver.advance(terms, t, until, h, y, held)
        return found.state, None if anew else found.memory

    windows = points.shape[0] - 1
    stages = solver.evaluations * size_of(state) if split else 0
    undone = isinstance(solver, Reversible) and memory is None and disk is None
    segment = None
    if disk is not None:
        segment, staged = segment_length(disk, substeps, size_of((state, kept)), size_of(state), stages)
        record = Record((), staged)
    else:
        record = choose_record(windows, substeps, size_of((state, kept)), size_of(state), memory, stages)
    if whole:
        record = Record((), whole=True)
    if record.stages:
        terms = dataclasses.replace(terms, late=True)

    def stepped(given: PyTree, carry: PyTree, i: Any) -> Any:
        terms, solver, factors, start, end, h = given
        y, kept = carry
        t, until = place(start, end, h, i)
        if isinstance(terms.path, BrownianPath):
            terms = dataclasses.replace(terms, path=terms.path.at(start, i))
        return by_member(step, terms, solver, factors, y, kept, t, until, h)

    steps = substeps if segment is None else segment
    walk = _walk(stepped, substeps, times.dtype, record, disk, steps, undone)

    def window(carry: tuple[State, Any], ends: tuple[Any, Any]) -> tuple[tuple[State, Any], State]:
        state, kept = carry
        start, end = ends_of(*ends, jumps is not None)
        h = length_of(terms.system, start, end, substeps)
        if jumps is not None and isinstance(terms.system, ConstrainedSystem):  # algebraic states jump with an input
            state = consistent(terms, start, state)[0]

        factors = weigh(h) if whole and split and not even else weights

        given = terms, solver, factors, start, end, h
        if jumps is not None and not anew:  # what the solver keeps from its last step is of before the jump
            kept = jax.checkpoint(functools.partial(by_member, first))(terms, state, start)
        state, kept = walk(given, (state, kept))
        if (
            isinstance(solver, DiscreteStepper) and solver.ragged
        ):  # of traced times nobody knows whether the steps suffice
            state = jax.tree.map(lambda x: jnp.where(end - start > (substeps + 0.5) * h, jnp.nan, x), state)
        return (state, kept), state

    _, rest = jax.lax.scan(window, (state, kept), (points[:-1], points[1:]))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, rest)
    if jumps is None:
        return states
    rows = jnp.searchsorted(points, times)
    return jax.tree.map(lambda leaf: leaf[rows], states)


def points_of(times: Array, jumps: Array | None) -> Array:
    """The times between which steps are equal: those that are saved, and those of jumps."""
    if jumps is None:
        return times
    inside = jnp.clip(jumps.astype(times.dtype), times[0], times[-1])
    return jnp.sort(jnp.concatenate([times, inside]))


def ends_of(start: Array, end: Array, jumps: bool) -> tuple[Array, Array]:
    """The begins and ends of windows, without the points themselves where inputs may jump there."""
    return between_jumps(start, end) if jumps else (start, end)


def place(start: Array, end: Array, h: Array, i: Any) -> tuple[Any, Any]:
    """Begin and end of step i of a window."""
    t = start + i * h
    return t, jnp.minimum(t + h, end)  # rounding must not carry a stage past a jump


def _walk(
    stepped: Callable[..., Any],
    length: int,
    dtype: DTypeLike,
    record: Record,
    disk: OnDisk | None,
    segment: int,
    undone: bool,
) -> Callable[[Any, Any], Any]:
    """All steps of a window, by the way in which reverse mode goes back over them: `(given, carry) -> carry`."""
    counted = lambda given, carry, i: stepped(given, carry, i.astype(dtype))
    if undone:
        return functools.partial(long_scan, reversed_loop(counted, _undo, _right, length))
    if disk is not None:
        own = functools.partial(_segment, counted, record)
        return functools.partial(long_scan, disk_loop(disk, own, length, segment))
    return lambda given, carry: checkpointed_scan(
        lambda carry, i: stepped(given, carry, i), carry, length, dtype, record
    )


def _undo(given: PyTree, after: PyTree, i: Array, cotangents: PyTree) -> Any:
    """The carry before a reversible step, and the transpose of the step's derivative by what is given and by that carry."""
    solver = given[1]
    moving, fixed = eqx.partition(given, eqx.is_inexact_array)
    (y1, (z1, sizes)), (by_y1, (by_z1, by_sizes)) = after, cotangents

    def increment(back: bool, moving: PyTree, y: State) -> Any:
        terms, solver, _, start, end, h = eqx.combine(moving, fixed)
        t, until = place(start, end, h, i.astype(h.dtype))
        if back:
            return by_member(lambda *known: solver.increment(*known), terms, until, t, -h, y)
        return by_member(lambda *known: solver.increment(*known), terms, t, until, h, y)

    down, pull = jax.vjp(functools.partial(increment, True), moving, y1)
    z = jax.tree.map(jnp.add, z1, down)
    by_down, more = pull(jax.tree.map(jnp.negative, by_z1))
    by_y1 = jax.tree.map(jnp.add, by_y1, more)
    up, pull = jax.vjp(functools.partial(increment, False), moving, z)
    y = solver.unmixed(y1, z, up)
    by_up, more = pull(by_y1)
    _, mix = jax.vjp(solver.mixed, y, z, up)
    by_y, by_z, _ = mix(by_y1)
    by_z = jax.tree.map(lambda *parts: sum(parts), by_z1, by_z, more)
    return (y, (z, sizes)), jax.tree.map(jnp.add, by_down, by_up), (by_y, (by_z, by_sizes))


def _right(given: PyTree, begin: PyTree, end: PyTree, found: PyTree, cotangents: PyTree) -> Array:
    """Tell whether the reconstruction of a window and what it gave of cotangents mean something."""
    solver, (y, (z, _)), (_, (_, sizes)) = given[1], found, end
    return solver.found_again((y, z), (begin[0], begin[1][0]), sizes) & solver.kept_digits(
        cotangents[0], cotangents[1][0], sizes
    )


def _segment(body: Callable[..., Any], record: Record, given: PyTree, state: PyTree, size: int) -> Any:
    """The carry and the number after a segment of steps, of which reverse mode keeps the carries between them."""
    again = jax.checkpoint(lambda state, _: ((body(given, *state), state[1] + 1), None), policy=policy_of(record))
    return _nested(again, state, size, ())


def length_of(system: Any, start: Array, end: Array, substeps: int) -> Array:
    """The length of the steps of a window: that of a discrete system is its own, and `substeps` are at least as many as fit."""
    return jnp.asarray(system.step, start.dtype) if isinstance(system, DiscreteSystem) else (end - start) / substeps


def checkpointed_scan(
    body: Callable[[Any, Any], Any], carry: PyTree, length: int, dtype: DTypeLike, record: Record | tuple[int, ...] = ()
) -> Any:
    """`carry = body(carry, i)` for i = 0, 1, ... `length - 1`, in nested segments of which reverse mode keeps the starts.

    With segments () it keeps the carry before every step. (a,) makes a segments, of whose steps it keeps the carries of one
    segment at a time; (a, b) makes b segments in each of them. A step itself is computed again, since what its own derivative
    needs are some ten carries; but for the slopes of its stages, where the record keeps those, and where it keeps all.

    The index is counted in the carry: a loop that reads an array of indices is no small loop any more for XLA on CPU, which
    then dispatches every operation of a step by itself (ten times the time for three states).
    """

    def counted(state: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        carry, i = state
        return (body(carry, i.astype(dtype)), i + 1), None

    found = record if isinstance(record, Record) else Record(record)
    again = counted if found.whole else jax.checkpoint(counted, policy=policy_of(found))
    return _nested(again, (carry, jnp.zeros((), jnp.int32)), length, found.segments)[0]


def policy_of(record: Record) -> Any:
    """The rule of what reverse mode keeps of a step beside its carry: the slopes of its stages, where the record keeps those."""
    return jax.checkpoint_policies.save_only_these_names(AbstractSplitStepper.kept) if record.stages else None


def _nested(step: Callable[..., Any], state: PyTree, length: int, counts: tuple[int, ...]) -> Any:
    if length == 1:
        return step(state, None)[0]
    if not counts:
        return jax.lax.scan(step, state, None, length=length)[0]
    size = math.ceil(length / counts[0])
    count, rest = divmod(length, size)

    @functools.partial(jax.checkpoint, static_argnums=1)
    def segment(state: PyTree, size: int) -> Any:
        return _nested(step, state, size, counts[1:])

    if count == 1:
        state = segment(state, size)
    else:
        state, _ = jax.lax.scan(lambda state, _: (segment(state, size), None), state, None, length=count)
    return segment(state, rest) if rest else state


def size_of(tree: PyTree) -> int:
    """The bytes of a tree's arrays."""
    return sum(leaf.size * jnp.result_type(leaf).itemsize for leaf in jax.tree.leaves(tree))


def between_jumps(start: PyTree, end: Any) -> tuple[Any, Any]:
    """A window without its ends, at which an input may jump: one floating point number further in on each side."""
    first, last = jax.lax.stop_gradient((start, end))
    after = start + (just_after(first) - first)
    before = end - (last - just_before(last))
    long = before > after
    return jnp.where(long, after, start), jnp.where(long, before, end)
