"""Room for the neighbours of particles: made before a simulation is traced, and again where a run needed more."""

from collections.abc import Callable

import jax
import jax.core
import numpy as np

from ..core import ParticleSystem, Status, Trajectory
from ._task import Task


def with_room(task: Task, run: Callable[[Task], Trajectory]) -> Trajectory:
    """Run a task; one of particles is prepared before, and run again with more room where there was not enough.

    Inside a transformation the system is as the caller prepared it, and too little room is a status.
    """
    system = task.system
    if not isinstance(system, ParticleSystem):
        return run(task)
    system = system.prepared(task.y0)
    while True:
        trajectory = run(task._replace(system=system))
        status = trajectory.status
        if isinstance(status, jax.core.Tracer) or not np.any(np.asarray(status) == int(Status.NO_ROOM)):
            return trajectory
        system = system.enlarged(trajectory.lists)
