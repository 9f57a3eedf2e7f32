"""Trajectories of jump processes, and what is refused before they begin."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import (
    Constant,
    JumpSystem,
    PiecewiseConstant,
    Pulses,
    Status,
    Trajectory,
    at_time,
    flat_propensities,
    jump_matrix,
    jump_times,
    named_leaves,
    reaction_names,
    reads_time,
    started,
    thinned,
    traced,
)
from ...solvers import TauLeaping
from ..stepping._reduce import reduce_saved
from ..task._task import Task
from ._paths import Paths, Posed, paths

STEADY = Constant | PiecewiseConstant | Pulses
"""Signals that do not change between their jumps."""


def jump_trajectory(task: Task) -> Trajectory:
    """The trajectory of one member: the states at the save times of an exact path."""
    times, y0 = task.times, started(task.y0)
    found, places = _walked(task._replace(y0=y0))
    unravel = ravel_pytree(y0)[1]
    rows = jnp.concatenate([ravel_pytree(y0)[0][None], found.rows[places]])
    ys = jax.vmap(unravel)(rows)
    zero = jnp.zeros_like(found.jumps)
    name = type(task.solver).__name__
    figures = found.jumps, zero, found.jumps
    if not task.reduce:
        return Trajectory(times, ys, found.status, *figures, name)
    reduced = reduce_saved(task.system, times, ys, times[-1], found.status, task.reduce)
    ends = jnp.array([0, -1])
    return Trajectory(times[ends], jax.tree.map(lambda x: x[ends], ys), found.status, *figures, name, reduced=reduced)


def _walked(task: Task) -> tuple[Paths, Array]:
    """The path of one member, and the rows of the save times among those of all stops."""
    if task.key is None:
        raise ArgumentError(
            f"`{type(task.system).__name__}` is random, so argument `key` must be a random key, such as `jax.random.key(0)`."
        )
    system: Any = task.system
    times = task.times
    further = [x.astype(times.dtype) for x in (jump_times(task.inputs), system.stops()) if x is not None]
    stops = jnp.concatenate([times[1:], *further]) if further else times[1:]
    order = jnp.argsort(stops, stable=True) if further else jnp.arange(stops.shape[0])
    # A stop before the start is passed at once.
    stops = jnp.maximum(stops[order], times[0])
    places = jnp.argsort(order)[: times.shape[0] - 1]
    posed = Posed(system, task.y0, task.inputs, times[0], jnp.minimum(stops, times[-1]), task.key)
    return _path(posed, task.solver), places


def _path(posed: Posed, method: Any) -> Paths:
    """A path, which has no derivatives: those of its states by parameters are zero almost everywhere, and mean nothing."""
    arrays, rest = eqx.partition(posed, lambda x: isinstance(x, jax.Array | np.ndarray | np.generic))

    @jax.custom_jvp
    def run(arrays: Posed) -> Paths:
        return paths(eqx.combine(arrays, rest), method)

    def no_derivative(primals: Any, tangents: Any) -> Any:
        raise ArgumentError(
            f"A path of the jump process `{type(posed.system).__name__}` has no derivative by its parameters, its start or its "
            "times: it jumps. Take `fit` with `IteratedFiltering()` or `sample` with `ParticleMetropolis()` in place of a fit by "
            "gradients, or `ChemicalLangevin(system)` with a `KalmanFilter`, whose likelihood is smooth."
        )

    run.defjvp(no_derivative)
    return run(jax.tree.map(jnp.asarray, arrays))


# ---- before a run ----


def review_jumps(task: Task) -> None:
    """Refuse what makes no jump process: no reactions, starts that are no whole numbers, propensities that change by themselves.

    **Raises:** an `ArgumentError`.
    """
    system: Any = task.system
    kind, y0 = type(system).__name__, started(task.y0)
    matrix, thins = jump_matrix(system, y0), thinned(system)
    for signal in jax.tree.leaves(task.inputs, is_leaf=callable):
        if callable(signal) and not isinstance(signal, STEADY) and not thins:
            raise ArgumentError(
                f"The inputs of the jump process `{kind}` must be constant piece by piece (`Constant`, `PiecewiseConstant` or "
                f"`Pulses`), but one is a {type(signal).__name__}: its propensities would change between two jumps. "
                "Take a staircase, or write `bound` of the system."
            )
    values = at_time(task.inputs, task.times[0])
    shape = jax.eval_shape(lambda y: flat_propensities(system, task.times[0], y, values), y0).shape
    if shape[0] != matrix.shape[0]:
        raise ArgumentError(
            f"`propensities` of `{kind}` must give the {matrix.shape[0]} rates of the reactions of `jumps`, but gives {shape[0]}."
        )
    if thins and isinstance(task.solver, TauLeaping):
        raise ArgumentError(
            f"`TauLeaping` takes propensities to stay what they are in a leap, but those of `{kind}`, which has a `bound`, change "
            "with time. Take `DirectMethod()`."
        )
    if not thins and reads_time(lambda t: flat_propensities(system, t, y0, values), task.times[0]):
        raise ArgumentError(
            f"The propensities of the jump process `{kind}` must depend on time through inputs alone, but they read the time "
            "itself: an exact path needs a bound of them. Write `bound` of the system, or make the dependence an input that is "
            "constant piece by piece."
        )
    if isinstance(task.solver, TauLeaping) and _adjusts(system, task.times[0], y0, values):
        raise ArgumentError(
            f"`TauLeaping` must not go with `adjusted` of a system, but `{kind}` changes its state there at once after a jump, and "
            "a leap holds many. Take `DirectMethod()`."
        )
    if traced(system, y0, task.inputs, task.times):
        return
    for name, value in named_leaves(y0).items():
        bad = np.asarray(value)[np.asarray(value) != np.round(np.asarray(value))]
        if bad.size:
            raise ArgumentError(
                f"A jump process counts things, so the start `y0.{name}` must be a whole number, but it is {bad.flat[0]:g}. "
                "Round it."
            )


def _adjusts(system: JumpSystem, t: Any, y: Any, inputs: Any) -> bool:
    """Tell whether `adjusted` of a system may change anything."""
    program = jax.make_jaxpr(lambda old, t, y: system.adjusted((t, old), t, y, inputs))(y, t, y).jaxpr
    count = len(jax.tree.leaves(y))
    return len(program.outvars) != count or any(a is not b for a, b in zip(program.outvars, program.invars[-count:]))


def check_jump_task(system: JumpSystem, step: Any) -> None:
    """Refuse what no path of a jump process has.

    **Raises:** an `ArgumentError`.
    """
    kind = type(system).__name__
    if step is not None:
        raise ArgumentError(
            f"The jump process `{kind}` goes from jump to jump, so argument `step` must be left out, but it is {shown(step)}."
        )


def refuse_events(system: JumpSystem) -> None:
    """Refuse events, of which paths have none.

    **Raises:** an `ArgumentError`.
    """
    raise ArgumentError(
        f"Argument `events` must be left out for the jump process `{type(system).__name__}`, whose states do not pass through "
        "what is between: write `adjusted` and `stops` of the system."
    )


def explain_jumps(task: Task, trajectory: Trajectory) -> str:
    """A sentence on the reaction whose propensity made a run fail; "" for another failure."""
    if trajectory.status.item() != Status.NEGATIVE_PROPENSITY:
        return ""
    system: Any = task.system
    y0 = started(task.y0)
    found, _ = _walked(task._replace(y0=y0))
    t, y = found.time, ravel_pytree(y0)[1](found.state)
    rates = np.asarray(flat_propensities(system, t, y, at_time(task.inputs, t)))
    below = np.flatnonzero(~(rates >= 0))
    if not below.size:  # a negative factor of what is not there yet, or a number of things that is below 0
        return (
            f"At time {float(t):g} a rate constant or a number of things is negative, though no propensity is yet. Rate constants, "
            "and the numbers of what reactions take, must not be negative."
        )
    bad = int(below[0])
    where = ", ".join(f"{name} {float(np.ravel(x)[0]):g}" for name, x in list(named_leaves(y).items())[:8])
    return (
        f"The propensity of the reaction `{reaction_names(system)[bad]}` is {rates[bad]:g} at time {float(t):g}, where the state "
        f"is {where}. Propensities must not be negative, and must be numbers."
    )
