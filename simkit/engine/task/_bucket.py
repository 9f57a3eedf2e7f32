"""Lengths that programs are compiled for: arrays are filled up to the next of a short row of lengths."""

import functools
import math
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from ...core import ParticleSystem, StaticSystem, Trajectory, traced, with_fields
from ._step import Adaptive, Fixed
from ._task import Task

T = TypeVar("T")

PARTS = 4
"""Lengths between two powers of two. An extra save time costs an adaptive solve one interpolation, so a fifth more are cheap."""

MEMBER_PARTS = 8
"""The same for members of an ensemble: a filler costs its lane one attempted step."""

MOST_FILLED = 2**20
"""Results of more numbers than this are not filled up, since they would be copied when the fillers are cut off."""


def bucket(count: int, parts: int = PARTS) -> int:
    """The next of a row of lengths, `parts` between two powers of two and every one up to twice `parts`.

    With 4 parts: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...; less than 1 / `parts` is added.
    """
    size = 1
    while count > 2 * parts * size:
        size *= 2
    return -(-count // size) * size


def fillable(task: Task, members: int = 1) -> bool:
    """Tell whether more save times cost next to nothing: adaptive steps, known values, and rows that nobody reduces."""
    if isinstance(task.step, Fixed) or isinstance(task.system, ParticleSystem | StaticSystem):
        return False
    if task.reduce or task.events is not None or traced(task):
        return False
    numbers = sum(math.prod(np.shape(x)) for x in jax.tree.leaves(task.y0))
    return members * numbers * task.times.shape[-1] <= MOST_FILLED


def filled_times(task: Task) -> Task:
    """The task with its last save time repeated up to a `bucket` of them."""
    times = np.asarray(task.times)
    more = bucket(times.shape[0]) - times.shape[0]
    return task._replace(times=np.concatenate([times, np.repeat(times[-1:], more)])) if more else task


def filled_members(members: T, count: int) -> T:
    """Arrays of members, the last one repeated up to a `bucket` of them."""
    more = bucket(count, MEMBER_PARTS) - count
    # In NumPy: JAX would compile a program of its own for every length.
    fill = lambda x: np.concatenate([np.asarray(x), np.repeat(np.asarray(x)[-1:], more, axis=0)])
    return jax.tree.map(fill, members) if more else members


def budgets(step: Adaptive, count: int) -> np.ndarray:
    """The most steps of each member, 0 of the fillers, which end with their first attempt."""
    most = step.max_steps if step.budget is None else min(float(step.budget), step.max_steps)
    return np.where(np.arange(bucket(count, MEMBER_PARTS)) < count, most, 0)


def cut_times(trajectory: Trajectory, count: int) -> Trajectory:
    """A trajectory with the first `count` save times. The last row is that of the end of the solve, not an interpolation."""
    axis = trajectory.times.ndim - 1
    if trajectory.times.shape[axis] == count:
        return trajectory
    times, ys = _cut_rows(count, axis, (trajectory.times, trajectory.ys))
    return with_fields(trajectory, times=times, ys=ys)


def cut_members(trajectory: Trajectory, count: int) -> Trajectory:
    """A trajectory with the first `count` members."""
    return trajectory if trajectory.times.shape[0] == count else _cut_first(count, trajectory)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _cut_rows(count: int, axis: int, arrays: PyTree) -> Any:
    rows = np.append(np.arange(count - 1), -1)
    return jax.tree.map(lambda x: x.take(rows, axis=axis, unique_indices=True, mode="wrap"), arrays)


@functools.partial(jax.jit, static_argnums=0)
def _cut_first(count: int, arrays: PyTree) -> Any:
    return jax.tree.map(lambda x: x[:count], arrays)
