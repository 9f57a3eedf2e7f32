"""Simulations of particle systems: windows of their own steps, with the list of neighbours kept from step to step."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ..._types import Time
from ...core import ParticleSystem, Status, at_time, driven, greatest
from ..batching._mesh import alike_arrays
from ..task._condition import condition_of, passes
from ..task._task import Options, Task
from ._checkpointed import choose_segments
from ._event_steps import Run
from ._kept import Rules, State, kept_scan
from ._particle_events import only_ends, windows_with_events
from ._reduce import first_totals, next_totals


class Ran(NamedTuple):
    """Result of a run of particles: states at the save times, or the first and the last where rows are reduced; totals; status;
    steps; and the required capacities of the neighbour lists."""

    states: Any
    totals: Any
    status: Array
    counts: tuple[Array, Array]
    tally: Any
    run: Run | None = None  # of one with events that change the state or are at known times


def integrate_particles(task: Task, options: Options) -> Ran:
    """Fixed steps of a particle system's own dynamics.

    Reverse mode keeps what the system stores of the states before every step where that fits into the memory allowed, else the
    states at the ends of segments, from which it computes the others again.
    """
    task = alike_arrays(task)
    system = task.system
    assert isinstance(system, ParticleSystem)
    if task.key is None and system.noisy:
        raise ArgumentError(
            "The thermostat or barostat of these particles draws random numbers, so argument `key` must be a random key, such as "
            "`jax.random.key(0)`."
        )
    floats, others = eqx.partition((system, task.inputs), eqx.is_inexact_array)
    arrays, static = eqx.partition(others, eqx.is_array)
    seed = jax.random.key_data(jax.random.key(0) if task.key is None else task.key)

    def whole(params: PyTree, fixed: PyTree, t: Time) -> ParticleSystem:
        system, inputs = eqx.combine(params[0], fixed[0], static)
        return driven(system, at_time(inputs, t))

    state, times = task.y0, task.times
    rules, substeps = _rules(whole, system, state), task.step.substeps * system.inner_steps
    stored = state if rules.stored is None else rules.stored(state)
    segments = _segments(stored, times, substeps, options)
    lists = jax.lax.stop_gradient(system.listed(state))
    reducers = task.reduce or {}
    first = driven(system, at_time(task.inputs, times[0]))
    totals = first_totals(first, times[0], state, reducers)
    # Over a mesh what the loop carries has to vary alike.
    state, force, lists, totals = alike_arrays((state, first.forces(state, lists), lists, totals))

    def window(
        carried: tuple[Any, ...], ends: tuple[Array, Array], substeps: int = substeps
    ) -> tuple[tuple[Any, ...], Any]:
        state, force, lists, totals = carried
        start, end = ends
        params = floats, (end - start) / substeps, start
        began = State(whole(params, (arrays,), start).opened(params[1], state, force), force, lists)
        after = _segmented(rules, params, (arrays, seed, start), began, substeps, segments)
        system = whole(params, (arrays,), end)
        state = system.closed(params[1], after.carry, after.aside)
        totals = next_totals(system, end, state, reducers, totals)
        carried = state, after.aside, jax.lax.stop_gradient(after.kept), totals
        return carried, None if reducers else state

    begun, ends = (state, force, lists, totals), (times[:-1], times[1:])
    if task.events is not None and not only_ends(task.events):
        found = windows_with_events(lambda *given: window(*given)[0], begun, task, options)
        states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, found.rows)
        fits = jnp.where(system.fits(found.last[2]), found.run.status, int(Status.NO_ROOM))
        return Ran(
            states, totals, fits, (found.run.steps, jnp.zeros_like(fits)), system.tally(found.last[2]), found.run
        )
    (last, _, lists, totals), rows, windows = _windows(window, begun, ends, task, options)
    rows = jax.tree.map(lambda x: x[None], last) if reducers else rows
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, rows)
    status = jnp.where(system.fits(lists), int(Status.OK), int(Status.NO_ROOM))
    return Ran(states, totals, status, (windows * substeps, jnp.asarray(0)), system.tally(lists))


class _Progress(NamedTuple):
    """Progress of a member: whether it has reached its event, the last value of its condition, and its windows so far without
    overflow."""

    ended: Array
    value: Array
    windows: Array


def _windows(window: Any, begun: tuple[Any, ...], ends: PyTree, task: Task, options: Options) -> tuple[Any, Any, Array]:
    """All windows one after the other, as far as they are asked for: up to an event of all members, or to where a run that will be
    done again lacks room. The rest is left out, and rows repeat the last."""
    system: Any = task.system
    event = None if task.events is None else task.events.events[0]
    if event is None and not options.again:
        return *jax.lax.scan(window, begun, ends), jnp.asarray(ends[0].shape[0])

    def condition(t: Time, state: PyTree) -> Array:
        if event is None:
            return jnp.zeros_like(t)
        t, state = jax.lax.stop_gradient((t, state))
        return jax.lax.stop_gradient(condition_of(event, system, task.inputs, t, state).astype(t.dtype))

    def guarded(carried: tuple[Any, _Progress], ends: tuple[Array, Array]) -> tuple[Any, Any]:
        inside, was = carried
        go = greatest(~was.ended)
        if options.again:
            go = go & ~greatest(~system.fits(inside[2]))
        everything = lambda found: alike_arrays((found, inside, ends))[0]
        row = None if task.reduce else inside[0]
        inside, row = jax.lax.cond(go, lambda: everything(window(inside, ends)), lambda: everything((inside, row)))
        value = condition(ends[1], inside[0])
        direction = None if event is None else event.direction
        fine = go & system.fits(inside[2]) if options.again else go & ~was.ended
        now = _Progress(was.ended | passes(direction, was.value, value), value, was.windows + fine.astype(int))
        return alike_arrays((inside, now)), row

    start = condition(ends[0][0], begun[0])
    progress = _Progress(start != start, start, jnp.zeros((), int))
    (last, progress), rows = jax.lax.scan(guarded, alike_arrays((begun, progress)), ends)
    return last, rows, progress.windows


def _rules(whole: Any, system: ParticleSystem, state: PyTree) -> Rules:
    """The halves of a step, of `params` (floats of system and inputs, length of a step, start of the window) and `fixed` (other
    arrays, key, the start's bits).

    Inputs act on the first half as they are in the middle of the step, on forces and the second half as they are at its end.
    """

    def at(params: PyTree, fixed: PyTree, i: Array, part: float) -> ParticleSystem:
        _, h, start = params
        return whole(params, fixed, start + ((fixed[-1] + i).astype(start.dtype) + part) * h)

    def key(fixed: PyTree, i: Array) -> Array:
        """Return the random key of a step, from the bits of its window's time and its number in it: a run that starts at a save
        time goes on as the whole one."""
        _, seed, start, offset = fixed
        found = jax.random.wrap_key_data(seed)
        for word in jnp.atleast_1d(jax.lax.bitcast_convert_type(start, jnp.uint32)):
            found = jax.random.fold_in(found, word)
        return jax.random.fold_in(found, offset + i)

    def second(params: PyTree, fixed: PyTree, middle: PyTree, lists: PyTree, i: Array) -> tuple[Any, Any]:
        system = at(params, fixed, i, 1.0)
        force = system.forces(middle, lists)
        return system.kicked(params[1], middle, force, key(fixed, i)), force

    def restored(params: PyTree, fixed: PyTree, row: PyTree, after: PyTree, begun: Any, i: Array) -> Any:
        return at(params, fixed, i, 0.5).restored(params[1], row, after, begun)

    return Rules(
        first=lambda params, fixed, carry, i: at(params, fixed, i, 0.5).moved(params[1], carry, key(fixed, i)),
        # Neighbours do not depend on inputs.
        stale=lambda params, fixed, middle, lists: whole(params, fixed, params[2]).outdated(middle, lists),
        build=lambda params, fixed, middle, lists: whole(params, fixed, params[2]).relisted(middle, lists),
        second=second,
        stored=(lambda carry: system.stored(carry)) if system.restores(state) else None,
        restored=restored if system.restores(state) else None,
    )


def _segments(state: PyTree, times: Array, substeps: int, options: Options) -> int:
    """Into how many segments a window is cut: 1 where the states before all steps may be kept."""
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    if options.memory is None:
        return 1 if size * substeps * (times.shape[0] - 1) <= KEPT_BYTES else math.isqrt(substeps)
    counts = choose_segments(times.shape[0] - 1, substeps, size, size, options.memory)
    return counts[0] if counts else 1


KEPT_BYTES = 2**30
"""Default memory in bytes for the states before all steps."""


def _segmented(rules: Rules, params: PyTree, fixed: PyTree, state: State, length: int, segments: int) -> State:
    size = math.ceil(length / segments)
    count, rest = divmod(length, size)

    def segment(state: State, offset: Array, size: int) -> State:
        state = kept_scan(rules, size, params, (*fixed, offset), state)
        return state._replace(kept=jax.lax.stop_gradient(state.kept))

    if count == 1 and not rest:
        return segment(state, jnp.zeros((), int), length)
    again = jax.checkpoint(segment, static_argnums=2)
    state, _ = jax.lax.scan(lambda state, k: (again(state, k * size, size), None), state, jnp.arange(count))
    return again(state, jnp.asarray(count * size), rest) if rest else state
