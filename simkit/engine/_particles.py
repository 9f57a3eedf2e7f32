"""Simulations of particle systems: windows of their own steps, with the list of neighbours kept from step to step."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import ParticleSystem, Status
from ._checkpointed import choose_segments
from ._kept import Rules, State, kept_scan
from ._mesh import alike_arrays
from ._reduce import first_totals, next_totals
from ._task import Options, Task


class Ran(NamedTuple):
    """What a run of particles gives: states at the save times, or the first and the last where rows are reduced; totals; how it
    ended; steps; and what the lists of neighbours needed."""

    states: Any
    totals: Any
    status: Array
    counts: tuple[Array, Array]
    tally: Any


def integrate_particles(task: Task, options: Options) -> Ran:
    """Fixed steps of a particle system's own dynamics.

    Reverse mode keeps positions and momenta before every step where they fit into the memory allowed, else those at the ends of
    segments, from which it computes the others again.
    """
    task = alike_arrays(task)
    system = task.system
    assert isinstance(system, ParticleSystem)
    floats, others = eqx.partition(system, eqx.is_inexact_array)
    arrays, static = eqx.partition(others, eqx.is_array)
    seed = jax.random.key_data(jax.random.key(0) if task.key is None else task.key)
    whole = lambda params, fixed: eqx.combine(params[0], fixed[0], static)
    rules, substeps = _rules(whole), task.step.substeps * system.inner_steps
    state, times = task.y0, task.times
    segments = _segments(state, times, substeps, options)
    lists = jax.lax.stop_gradient(system.listed(state))
    reducers = task.reduce or {}
    totals = first_totals(system, times[0], state, reducers)
    # Over a mesh what the loop carries has to vary alike.
    state, force, lists, totals = alike_arrays((state, system.forces(state, lists), lists, totals))

    def window(carried: tuple[Any, ...], ends: tuple[Array, Array]) -> tuple[tuple[Any, ...], Any]:
        state, force, lists, totals = carried
        start, end = ends
        params = floats, (end - start) / substeps
        system = whole(params, (arrays,))
        began = State(system.opened(params[1], state, force), force, lists)
        after = _segmented(rules, params, (arrays, seed, start), began, substeps, segments)
        state = system.closed(params[1], after.carry, after.aside)
        totals = next_totals(system, end, state, reducers, totals)
        carried = state, after.aside, jax.lax.stop_gradient(after.kept), totals
        return carried, None if reducers else state

    (last, _, lists, totals), rows = jax.lax.scan(window, (state, force, lists, totals), (times[:-1], times[1:]))
    rows = jax.tree.map(lambda x: x[None], last) if reducers else rows
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, rows)
    status = jnp.where(system.fits(lists), int(Status.OK), int(Status.NO_ROOM))
    steps = jnp.asarray((times.shape[0] - 1) * substeps)
    return Ran(states, totals, status, (steps, jnp.asarray(0)), system.tally(lists))


def _rules(whole: Any) -> Rules:
    """The halves of a step, of `params` (the system's floats, length of a step) and `fixed` (its other arrays, key, time)."""

    def key(fixed: Any, i: Array) -> Array:
        """Of the window, by the bits of its time, and of the step in it: a run that starts at a save time goes on as it would."""
        _, seed, start, offset = fixed
        found = jax.random.wrap_key_data(seed)
        for word in jnp.atleast_1d(jax.lax.bitcast_convert_type(start, jnp.uint32)):
            found = jax.random.fold_in(found, word)
        return jax.random.fold_in(found, offset + i)

    def second(params: Any, fixed: Any, middle: Any, lists: Any, i: Array) -> tuple[Any, Any]:
        system: ParticleSystem = whole(params, fixed)
        force = system.forces(middle, lists)
        return system.kicked(params[1], middle, force, key(fixed, i)), force

    return Rules(
        first=lambda params, fixed, carry, i: whole(params, fixed).moved(params[1], carry, key(fixed, i)),
        stale=lambda params, fixed, middle, lists: whole(params, fixed).outdated(middle, lists),
        build=lambda params, fixed, middle, lists: whole(params, fixed).relisted(middle, lists),
        second=second,
    )


def _segments(state: Any, times: Array, substeps: int, options: Options) -> int:
    """Into how many segments a window is cut: 1 where the states before all steps may be kept."""
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    if options.memory is None:
        return 1 if size * substeps * (times.shape[0] - 1) <= KEPT_BYTES else math.isqrt(substeps)
    counts = choose_segments(times.shape[0] - 1, substeps, size, size, options.memory)
    return counts[0] if counts else 1


KEPT_BYTES = 2**30
"""So much may the states before all steps take where nothing is said."""


def _segmented(rules: Rules, params: Any, fixed: Any, state: State, length: int, segments: int) -> State:
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
