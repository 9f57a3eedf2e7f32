"""Checks of a system with delays before anything is traced."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._errors import ArgumentError
from ..._types import State
from ...core import DelayedSystem, SystemTerm, constant_lags, traced
from ...solvers import Stepper
from ..task._step import Adaptive
from ..task._task import Task
from ._breaking import flat_lags


def check_method(system: DelayedSystem, solver: Stepper, step: object) -> None:
    """Refuse solvers and steps that delays are not served with."""
    name = type(system).__name__
    if not isinstance(step, Adaptive):
        raise ArgumentError(
            f"Argument `step` must be `Adaptive()` for `{name}`, whose steps end where derivatives of a solution with delays jump, "
            f"but it is {type(step).__name__}."
        )
    if solver.multistep or not solver.adaptive:
        raise ArgumentError(
            f"Argument `solver` must be a method of one step with an error estimate for `{name}`, which sees its past, but it is "
            f"`{type(solver).__name__}`. `Tsit5` fits, and `Rodas5P` where it is stiff."
        )


def review_lags(task: Task) -> None:
    """Refuse known lags that are not positive or reach back to before the history, and a history of another form."""
    y0, t = task.y0, task.times[0]
    system: Any = task.system
    _check_history(system, y0, t)
    if traced(system, y0, task.inputs, task.times):
        return
    lags = np.asarray(_lags_at_start(task))
    name, first = type(system).__name__, float(np.asarray(t))
    constant = constant_lags(system, jnp.asarray(t), y0, task.inputs)
    bad = ~np.where(constant, lags > 0, lags >= 0)  # one that varies may vanish
    if bad.any():
        raise ArgumentError(
            f"The lags of `{name}` must be positive, but at the first time one is {lags[bad][0]:g}. Change the parameters "
            "that make it; without a delay take a `PlainSystem`."
        )
    begins = system.earliest()
    earliest = -np.inf if begins is None else float(np.asarray(begins))
    if lags.size and first - lags.max() < earliest:
        raise ArgumentError(
            f"The lags of `{name}` must not reach back to before its history, but at the first time, {first:g}, one is "
            f"{lags.max():g} and the history begins at {earliest:g}. Give an earlier history, or shorten the lag."
        )


def _lags_at_start(task: Task) -> jax.Array:
    times = jnp.asarray(task.times, jax.tree.leaves(task.y0)[0].real.dtype)
    return flat_lags(SystemTerm(task.system, task.inputs), times[0], task.system.encode(task.y0))


def _check_history(system: DelayedSystem, y0: State, t: object) -> None:
    state = jax.eval_shape(system.encode, y0)
    found = jax.eval_shape(system.history, t, state)
    shapes = lambda tree: [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]
    if jax.tree.structure(found) != jax.tree.structure(state):
        raise ArgumentError(
            f"`history` of `{type(system).__name__}` must return the structure of the state, {jax.tree.structure(state)}, but it "
            f"returned {jax.tree.structure(found)}."
        )
    if shapes(found) != shapes(state):
        raise ArgumentError(
            f"`history` of `{type(system).__name__}` must return the shapes and float types of the state, {shapes(state)}, but it "
            f"returned {shapes(found)}."
        )
