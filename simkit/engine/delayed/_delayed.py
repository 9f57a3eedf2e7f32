"""Solves with delays: from a task to states with derivatives."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, PyTree

from ...core import Events, batched_together, by_member, with_curves
from ..batching._mesh import alike_arrays
from ..task._task import Options, Task
from ._loop import looped
from ._posed import Posed, pose
from ._replay import replayed


class Delayed(NamedTuple):
    """A solve with delays."""

    states: Any  # at the save times; NaN after an event that ends it
    status: Array
    counts: tuple[Array, Array]  # accepted and rejected steps
    events: Events | None  # of encoded states
    end: Array  # the time of the event that ended it; infinite where none did


def integrate_delayed(task: Task, options: Options = Options()) -> Delayed:
    """The solve of a task whose start is an encoded state and whose tolerances are settled."""
    kept, room = kept_steps(task), 0
    if task.events is not None:
        room = options.room or task.events.room
    system, inputs = with_curves((task.system, task.inputs))
    parts = alike_arrays((system, task.y0, inputs, task.times, task.step, task.events))

    def solve(system: Any, y0: Any, inputs: Any, times: Array, step: Any, events: Any) -> Any:
        own = task._replace(system=system, y0=y0, inputs=inputs, times=times, step=step, key=None, events=events)
        return _solved(own._replace(reduce=None), kept, room)

    ys, figures, listed = by_member(solve, *parts)
    figures, unravel = jax.lax.stop_gradient(figures), pose(task).unravel
    status, steps, rejected, count = (figures[i].astype(int) for i in range(4))
    events, end = None, jnp.where(figures[4] > 0, figures[5], jnp.inf)
    if task.events is not None:
        # What comes out of the members' solves is finite, unless a solve failed.
        ys = jnp.where((jax.lax.stop_gradient(task.times) > end)[:, None], jnp.nan, ys)
        which = figures[6:].astype(jnp.int32)
        times = jnp.where(which >= 0, listed[0], jnp.inf)
        before, after = (jax.vmap(unravel)(jnp.where((which >= 0)[:, None], x, jnp.nan)) for x in listed[1:])
        events = Events(task.events.names, count.astype(jnp.int32), times, which, before, after)
    return Delayed(jax.vmap(unravel)(ys), status, (steps, rejected), events, end)


def kept_steps(task: Task) -> int:
    """The number of steps that a solve keeps."""
    system: Any = task.system
    return max(int(system.kept_steps()), 2)


def _solved(task: Task, kept: int, listed: int) -> Any:
    """Rows of flat states; status, steps, rejected steps, number of events, whether one ended the run and when, and kinds of events
    as numbers of their type; and times of events with the flat states before and after them.

    The value is that of a loop without derivatives. Derivatives are those of the steps that it accepted, taken once more.
    """
    leaves, structure = jax.tree.flatten(task)
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array)]

    def posed(arrays: Any) -> tuple[Posed, Array, Any]:
        filled = list(leaves)
        for i, x in zip(places, arrays, strict=True):
            filled[i] = x
        whole: Task = jax.tree.unflatten(structure, filled)
        return pose(whole), whole.times, jnp.asarray(whole.step.most(), whole.times.dtype)

    def run(arrays: Any, room: int) -> Any:
        found, times, most = posed(jax.lax.stop_gradient(arrays))
        result, lists, which = looped(found, times, kept, most, room, listed), (), ()
        count = result.steps * 0
        if result.events is not None:
            own = result.events
            count, which, lists = own.count, own.which, _finite(own)
        ended = jnp.isfinite(result.end)
        counts = result.status, result.steps, result.rejected, count, ended, jnp.where(ended, result.end, 0)
        figures = jnp.stack([x.astype(times.dtype) for x in counts])
        figures = jnp.concatenate([figures, jnp.asarray(which, times.dtype)])
        return (result.ys, figures, lists), result.mesh

    @jax.custom_jvp
    def solve(*arrays: Array) -> Any:
        return batched_together(run(arrays, 0)[0], arrays)

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        (ys, figures, lists), mesh = run(primals, task.step.max_steps)
        moving = [i for i, x in enumerate(tangents) if not isinstance(x, SymbolicZero)]

        def again(*values: PyTree) -> Any:
            filled = list(primals)
            for i, x in zip(moving, values, strict=True):
                filled[i] = x
            found, times, _ = posed(filled)
            rows, found = replayed(found, times, kept, mesh, listed)
            return rows, () if found is None else _finite(found)

        dots, listed_dots = jax.jvp(again, [primals[i] for i in moving], [tangents[i] for i in moving])[1]
        out = batched_together((ys, figures, lists), primals)
        return out, (dots, jnp.zeros_like(figures), listed_dots)

    solve.defjvp(rule, symbolic_zeros=True)
    return solve(*(leaves[i] for i in places))


def _finite(events: Events) -> tuple[Array, Array, Array]:
    """Times of events and the states on both sides; zero where there is no event."""
    rows = lambda x: jnp.where(events.happened[:, None], x, 0)
    return jnp.where(events.happened, events.times, 0), rows(events.before), rows(events.after)
