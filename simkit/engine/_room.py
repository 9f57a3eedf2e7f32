"""Room for the neighbours of particles: made before a simulation is traced, and again where a run needed more."""

from collections.abc import Callable

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..core import ParticleSystem, Status, Trajectory
from ._task import Task


def with_room(task: Task, run: Callable[[Task], Trajectory]) -> Trajectory:
    """Run a task; one of particles is prepared before, and run again with more room where there was not enough.

    Inside a transformation no run can be done again: the system does without lists there, where it can, and else it is a status.
    """
    system = task.system
    if not isinstance(system, ParticleSystem):
        return run(task)
    system = system.prepared(task.y0)
    if _inside(task):
        return run(task._replace(system=system))
    system = system.limited()
    while True:
        trajectory = run(task._replace(system=system))
        if not np.any(np.asarray(trajectory.status) == int(Status.NO_ROOM)):
            return trajectory
        system = system.enlarged(trajectory.lists)


def _inside(task: Task) -> bool:
    """Whether someone traces this call, be it that none of its arguments is traced."""
    found = jax.tree.leaves(task), jnp.zeros(()) + 0
    return any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(found))
