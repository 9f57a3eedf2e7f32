"""Room for the neighbours of particles: made before a simulation is traced, and again where a run needed more."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ...core import ParticleSystem, Status, Trajectory, tracing
from ..task._task import Task


def with_room(task: Task, run: Callable[[Task, bool], Trajectory], parts: bool = False) -> Trajectory:
    """Run a task; one of particles is prepared before, and goes on with more room from where there was not enough.

    Inside a transformation no run can be done again: the system does without lists there, where it can, and else it is a status.

    **Arguments:**

    - `run`: of a task, and whether the run may stop where it lacks room.
    - `parts`: whether it may begin anew at a save time rather than at the first.
    """
    system = task.system
    if not isinstance(system, ParticleSystem):
        return run(task, False)
    system = system.prepared(task.y0)
    if tracing(task) or task.events is not None:
        return run(task._replace(system=system), False)
    system, done = system.limited(), []
    while True:
        trajectory = run(task._replace(system=system), True)
        if not np.any(np.asarray(trajectory.status) == int(Status.NO_ROOM)):
            return joined([*done, trajectory])
        system = system.enlarged(trajectory.lists)
        good = int(trajectory.steps) // (task.step.substeps * system.inner_steps) if parts and not task.reduce else 0
        if good:
            done.append(_between(trajectory, 0, good))
            task = task._replace(y0=_row(trajectory.ys, good), times=task.times[good:])


def with_room_for(system: Any, lists: PyTree) -> Any:
    """The system with as much room for its lists of neighbours as a run needed; `lists` is None of a run without any."""
    if not isinstance(system, ParticleSystem) or lists is None or bool(system.fits(lists)):
        return system
    return system.enlarged(lists)


def _row(ys: PyTree, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], ys)


def _between(trajectory: Trajectory, first: int, last: int) -> Trajectory:
    cut = lambda tree: jax.tree.map(lambda x: x[first:last], tree)
    return dataclasses.replace(trajectory, times=cut(trajectory.times), ys=cut(trajectory.ys))


def joined(parts: list[Trajectory]) -> Trajectory:
    """One trajectory of several that follow each other; how it ended is what the last one says."""
    if len(parts) == 1:
        return parts[0]
    after = lambda *rows: jax.tree.map(lambda *x: jnp.concatenate(x), *rows)
    total = lambda name: sum(getattr(part, name) for part in parts)
    return dataclasses.replace(
        parts[-1],
        times=after(*(part.times for part in parts)),
        ys=after(*(part.ys for part in parts)),
        **{name: total(name) for name in ("steps", "rejected", "evaluations")},
    )
