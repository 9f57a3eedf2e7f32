"""Sentences of systems on the state in which a simulation ended, or failed."""

import jax
import jax.numpy as jnp
import numpy as np

from .._processes import spread
from ..core import DiscreteSystem, Explained, Noted, Trajectory, traced
from ._diagnose import finite_rows
from ._integrate import dispatch
from .task._step import Fixed
from .task._task import Options, Task

AGAIN = 32
"""Into so many pieces a window is cut in which a simulation failed, to find where."""


def end_in_words(task: Task, trajectory: Trajectory) -> str:
    """Return the note of a system on the state in which a simulation ended, where all values are concrete; else nothing."""
    if not isinstance(task.system, Noted) or task.events is not None or traced(task.system, trajectory):
        return ""
    if trajectory.status.item() != 0:
        return ""
    return task.system.note(trajectory.times[-1].item(), trajectory.final())


def explained(task: Task, options: Options, trajectory: Trajectory) -> str:
    """Return the system's explanation of a failed simulation: the last window is run again, saved more often."""
    if not isinstance(task.system, Explained) or task.reduce or task.events is not None or spread(trajectory.ys):
        return ""
    times, good = np.asarray(trajectory.times), finite_rows(trajectory)
    if not good[0]:
        return task.system.explain(times[0].item(), task.y0)
    last = max(int(np.argmin(good)) - 1, 0) if not good.all() else times.size - 2
    y, t = jax.tree.map(lambda x: x[last], trajectory.ys), times[last]
    pieces, step, whole = AGAIN, task.step, isinstance(task.system, DiscreteSystem)  # whose steps cannot be others
    if isinstance(step, Fixed):
        pieces = next(n for n in range(min(AGAIN, step.substeps), 0, -1) if not (whole and step.substeps % n))
        step = Fixed(-(-step.substeps // pieces))
    finer = jnp.asarray(np.linspace(t, times[last + 1], pieces + 1), trajectory.times.dtype)
    again = dispatch(task._replace(y0=y, times=finer, step=step), options._replace(even=False, similar=False))
    row = max(int(np.argmin(finite_rows(again))) - 1, 0)
    return task.system.explain(
        np.asarray(again.times)[row].item(), jax.tree.map(lambda x: np.asarray(x[row]), again.ys)
    )
