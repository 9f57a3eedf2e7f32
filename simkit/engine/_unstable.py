"""Fixed steps that are too long to be stable: seen from the states that a run leaves, at no cost where these do not grow."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._processes import gathered, spread
from .._types import State
from ..core import (
    DiscreteSystem,
    ParticleSystem,
    RandomSystem,
    Setup,
    StaticSystem,
    SystemTerm,
    Trajectory,
    scaled,
    traced,
)
from ..solvers import slope_of
from ._integrate import trajectory_of
from .task._arguments import is_backward
from .task._step import Fixed
from .task._task import Options, Task

GROWTH = 100.0
"""A run is looked at where its last finite state is so many times as large as its states mostly were (the median of the rows;
of two rows the first, and where a leaf of it is zero the largest leaf)."""

MISSED = 0.3
"""Share of the state that a step must change differently from its slopes to count as unstable."""

SEEN = 17
"""Number of rows that are examined, the first and the last among them, so that a long run takes no longer."""


def is_unstable(task: Task, trajectory: Trajectory) -> bool:
    r"""Tell whether a state grew under fixed steps although its derivative does not make it grow.

    A step from y to z of length h changes the state by D = z - y, and its slopes at both ends say T = h (f(y) + f(z)) / 2. For a
    mode y' = a y and a method whose step multiplies it by R,

    $$\frac{D - T}{D} = 1 - \frac{ah}{2}\,\frac{R + 1}{R - 1}$$

    With the exact R = exp(a h) this is 1 - x coth(x) at x = a h / 2: below 0.32 in size for growth by up to a factor of e^2 a
    step, and 1 where a step multiplies the state by 46. Where a decaying mode (a < 0) is multiplied by |R| > 1, D and T have
    opposite signs whatever R is, and the size is above 1; for an oscillation it reaches 1 where a step turns the phase by half
    a turn. So a leaf of the state that grows in a step with |D - T| > |D| is unstable, and one that a step resolves is not,
    however fast it grows. At the turn of an oscillation D is nothing, and so is its difference to T beside the state itself:
    below 0.27 for all growth by up to e^2 a step, which `MISSED` bounds.

    Nothing is computed unless the last rows are `GROWTH` times as large as the others.
    """
    if not _looked_at(task, trajectory) or trajectory.status.item() != 0:
        return False
    if not _grew([x[None] for x in jax.tree.leaves(trajectory.ys)])[0]:
        return False
    times = _last_step(task, trajectory.times)
    return bool(_compiled(task._replace(times=times), trajectory.final(), is_backward(times)))


def unstable_members(task: Task, values: Mapping[str, Array], trajectory: Trajectory) -> np.ndarray:
    """The members of an ensemble that are unstable; `values` are those by which they differ, path -> `(members, ...)`."""
    if not _looked_at(task, trajectory) or jax.process_count() > 1:
        return np.zeros(0, int)
    found = np.flatnonzero((np.asarray(trajectory.status) == 0) & _grew(jax.tree.leaves(trajectory.ys)))
    if not found.size:
        return found
    task = task._replace(times=_last_step(task, trajectory.times[0]), key=None)
    ends = jax.tree.map(lambda x: x[found, -1], trajectory.ys)
    own = {path: x[found] for path, x in values.items()}
    return found[np.asarray(_compiled_members(task, own, ends, is_backward(task.times)))]


def _looked_at(task: Task, trajectory: Trajectory) -> bool:
    if not isinstance(task.step, Fixed) or task.reduce or task.events is not None:
        return False
    if isinstance(task.system, StaticSystem | ParticleSystem | DiscreteSystem | RandomSystem):
        return False
    return not traced(task.system, task.y0, task.inputs, trajectory.ys)


def _last_step(task: Task, times: Any) -> Any:
    times = np.asarray(times)
    h = float(times[-1] - times[-2]) / task.step.substeps
    return jnp.asarray([times[-1] - h, times[-1]], times.dtype)


def _grew(leaves: Sequence[Any]) -> np.ndarray:
    """The members whose last row is much larger than their rows mostly are; leaves are `(members, rows, ...)`."""
    grew, sizes = np.zeros(leaves[0].shape[0], bool), []
    for x in leaves:
        if x.shape[1] < 2 or not x.size:
            return grew
        seen = np.unique(np.linspace(0, x.shape[1] - 1, SEEN).astype(int))
        # What another device holds is picked there; picking by JAX compiles, and here nothing has to be moved.
        if spread(x):
            rows = x[:, seen]
        else:
            rows = np.asarray(x)[:, seen] if jax.default_backend() == "cpu" else np.asarray(x[:, seen])
        sizes.append(gathered(abs(rows).reshape(*rows.shape[:2], -1).max(axis=2)))
    largest = np.max([size[:, 0] for size in sizes], axis=0)
    with np.errstate(invalid="ignore"):
        for size in sizes:
            usual = np.median(size, axis=1) if size.shape[1] > 2 else np.where(size[:, 0] > 0, size[:, 0], largest)
            grew |= size[:, -1] > GROWTH * usual
    return grew


@eqx.filter_jit
def _compiled(task: Task, y: State, backward: bool) -> Any:
    return _one(task, {}, y, backward)


@eqx.filter_jit
def _compiled_members(task: Task, values: PyTree, ys: PyTree, backward: bool) -> Any:
    return eqx.filter_vmap(lambda values, y: _one(task, values, y, backward))(values, ys)


def _one(task: Task, values: PyTree, y: State, backward: bool) -> Any:
    options = Options(backward=backward)
    put = Setup(task.system, task.y0, task.inputs).put(values)
    task = task._replace(system=put.system, y0=y, inputs=put.inputs, step=Fixed(1))
    return _disagrees(Setup(put.system, y, put.inputs), trajectory_of(task, options).final(), task.times)


def _disagrees(setup: Setup, after: PyTree, ends: PyTree) -> Any:
    system: Any = setup.system
    first, last = system.encode(setup.y0), system.encode(after)
    term = SystemTerm(system, setup.inputs)
    slopes = [slope_of(term, t, y) for t, y in zip(ends, (first, last), strict=True)]
    h = ends[1] - ends[0]
    unstable = jnp.array(False)
    for y, z, a, b in zip(*map(jax.tree.leaves, (first, last, *slopes)), strict=True):
        scale = jnp.max(jnp.abs(z))
        norm = lambda x, scale=scale: jnp.sqrt(jnp.sum(jnp.square(jnp.abs(x) / scale)))
        change, missed = norm(z - y), norm(z - y - scaled(0.5 * h, a + b))
        found = (norm(z) > norm(y)) & (missed > change) & (missed > MISSED * norm(z))
        unstable = unstable | found | ~jnp.isfinite(missed) & (scale > 0)
    return unstable
