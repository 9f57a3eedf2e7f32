"""Particles in which events happen: known times end a window of steps, and conditions are looked at where steps end."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import NamedEvents, ParticleSystem, Status, SystemTerm, at_time, driven, greatest, held
from ..batching._mesh import alike_arrays
from ..task._task import Options, Task
from ._event_search import crossed_from
from ._event_steps import EventGrid, Run, begun_run

Window = Callable[[Any, tuple[Array, Array], int], Any]
"""State, force, lists and totals, the ends of a window, a number of steps -> those at its end."""


class ParticleEvents(NamedTuple):
    """Particles at the save times, in a run with events."""

    rows: Any  # at all save times but the first; NaN after an event that ends the run
    last: Any
    run: Run


def only_ends(events: NamedEvents) -> bool:
    """Tell whether events are one of a condition that ends the run and is nothing else."""
    (event, *rest) = events.events
    return event.ends and not (rest or event.timed or event.change is not None)


def windows_with_events(window: Window, begun: PyTree, task: Task, options: Options) -> ParticleEvents:
    """All windows one after the other, with the events in them.

    Known times are ends of windows, so that they are exact. Conditions are looked at where the user's steps end, and an event is
    there: late by up to a step.
    """
    system, times, events = task.system, task.times, task.events
    assert isinstance(system, ParticleSystem)
    assert events is not None
    state = begun[0]
    grid = EventGrid(SystemTerm(system, task.inputs), None, events, state, times[0])
    at = [events.events[i].times(system).astype(times.dtype) for i in grid.functions.timed]
    inside = lambda x: jnp.where((x >= times[0]) & (x <= times[-1]), x, times[-1])
    points = jnp.sort(jnp.concatenate([times, *map(inside, at)]))
    pieces = task.step.substeps if grid.functions.found else 1
    steps = task.step.substeps * system.inner_steps // pieces
    begun = alike_arrays((begun, points))[0]

    def happened(inside: Any, run: Run, t: Array, taken: int) -> Any:
        """Let events happen at the end of a step; the forces afterwards are new."""
        state, force, lists, totals = inside
        point = grid.operands(t, state)
        g = grid.functions.marks(*point)
        crossed = crossed_from(grid.functions, run.sides, g, lambda: grid.functions.slopes(*point))
        hit = ~jnp.isfinite(run.end) & (jnp.any(crossed) | (run.sides.due <= held(t)))
        quiet = run._replace(state=state, sides=grid.passed(run.sides, g), steps=run.steps + taken)
        alike = lambda found: alike_arrays((found, inside, run, t))[0]

        def changed() -> Any:
            new = grid.cut(quiet._replace(sides=run.sides), t, (t, t, jnp.zeros_like(t)))
            moved = jax.tree.map(lambda a, b: jnp.where(hit, a, b), new, quiet)
            near = held(system.relisted(held(moved.state), lists))
            return moved.state, driven(system, at_time(task.inputs, t)).forces(moved.state, near), near, moved

        same = lambda: (state, force, lists, quiet)
        *own, run = jax.lax.cond(greatest(hit), lambda: alike(changed()), lambda: alike(same()))
        return (*own, totals), run

    def piece(carry: tuple[Any, Run], ends: tuple[Array, Array]) -> tuple[tuple[Any, Run], None]:
        inside, run = carry
        live = (run.status == Status.OK) & ~jnp.isfinite(run.end)
        long = live & (ends[1] > ends[0])
        alike = lambda found: alike_arrays((found, carry, ends))[0]
        chosen = lambda where, new, old: jax.tree.map(lambda a, b: jnp.where(where, a, b), new, old)
        stepped = lambda: alike(chosen(long, window(inside, ends, steps), inside))
        moved = jax.lax.cond(greatest(long), stepped, lambda: alike(inside))
        after = lambda: alike(chosen(live, happened(moved, run, ends[1], steps), carry))
        return jax.lax.cond(greatest(live), after, lambda: alike(carry)), None

    def whole(carry: tuple[Any, Run], ends: tuple[Array, Array]) -> tuple[tuple[Any, Run], Any]:
        start, end = ends
        marks = start + (end - start) * jnp.arange(pieces + 1, dtype=start.dtype) / pieces
        marks = marks.at[-1].set(end)
        carry, _ = jax.lax.scan(jax.checkpoint(piece), carry, (marks[:-1], marks[1:]))
        gone = (carry[1].status != Status.OK) | (held(end) > carry[1].end)
        return carry, jax.tree.map(lambda x: jnp.where(gone, jnp.nan, x), carry[0][0])

    begin = happened(begun, begun_run(grid, state, None, points, options.room or events.room), points[0], 0)
    (last, run), rows = jax.lax.scan(whole, alike_arrays((begin, points))[0], (points[:-1], points[1:]))
    # Of several points at one time the last one counts, after what happens there.
    places = jnp.searchsorted(points, times[1:], side="right") - 2
    return ParticleEvents(jax.tree.map(lambda x: x[places], rows), last, run)
