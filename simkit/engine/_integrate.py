"""The pure core of a simulation: traced, differentiated, batched; failures are values."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from .._errors import ArgumentError
from .._types import State
from ..core import (
    ConstrainedSystem,
    DelayedSystem,
    DiscreteSystem,
    JumpSystem,
    ParticleSystem,
    Setup,
    StaticSystem,
    Status,
    StochasticSystem,
    SystemTerm,
    Trajectory,
    alike_together,
    brownian_path,
    brownian_shape,
    by_member,
    check_derivative,
    finite,
    full_products,
    jump_times,
    member_inputs,
    member_results,
    started,
    with_curves,
)
from ..solvers import Stepper, WithJumps, consistent
from ._doses import has_regimen, with_doses
from ._noisy_steps import cut_at_jumps
from .adaptive._adaptive import integrate_adaptive
from .adaptive._eventful import integrate_with_events
from .batching._mesh import alike_arrays
from .delayed._delayed import integrate_delayed, kept_steps
from .jumps._trajectory import jump_trajectory
from .stepping._event_on_grid import ended_by, event_on_grid
from .stepping._event_steps import EventGrid, eventful_grid
from .stepping._fixed_grid import fixed_grid
from .stepping._grid_kernel import grid_of_members
from .stepping._particle_windows import integrate_particles
from .stepping._reduce import (
    Solved,
    cut_at,
    cut_between,
    no_events,
    reduce_rows,
    reduce_saved,
    reduce_static,
    results_of,
)
from .task._compilations import note_trace
from .task._scales import settled, without_rounding
from .task._step import Courant, Fixed, Varying
from .task._task import Frame, Options, Task, framed


class Method(eqx.Module):
    """Integration method of a system: the solver, the step rule, and the reasons for both."""

    solver: Stepper | None
    step: Varying | Fixed
    reason: str = eqx.field(static=True, default="given")


def integrate(
    setup: Setup, times: Array, method: Method, *, key: PRNGKeyArray | None = None, options: Options = Options()
) -> Trajectory:
    """The pure core of `simulate`: it marks failures, never raises them, and composes with every transformation."""
    task = Task(setup.system, setup.y0, setup.inputs, times, method.solver, method.step, key, events=setup.events)
    return dispatch(task, options)


def dispatch(task: Task, options: Options = Options()) -> Trajectory:
    """Compile and run, once for all calls of one structure.

    It does what `equinox.filter_jit` does, arrays traced and everything else static, in a quarter of the time: on small
    systems the call would otherwise take as long as ten thousand steps.
    """
    trajectory = _compiled(*framed(task, options))
    if isinstance(trajectory.times, np.ndarray):  # a derivative hands known arguments through as they are
        return eqx.tree_at(lambda t: t.times, trajectory, jnp.asarray(trajectory.times))
    return trajectory


@functools.partial(jax.jit, static_argnums=0)
def _compiled(frame: Frame, leaves: list[Any]) -> Trajectory:
    task = frame.filled(leaves)
    note_trace("simulate", task.noted())
    return trajectory_of(task, frame.options)


@full_products
def trajectory_of(task: Task, options: Options) -> Trajectory:
    """The trajectory of one member, to be traced; derivatives of what of it is not finite are NaN."""
    if isinstance(task.system, StaticSystem):
        return _static_trajectory(task._replace(y0=started(task.y0), inputs=with_curves(task.inputs)))
    if options.backward:
        return _backward_trajectory(task, options)
    if isinstance(task.system, JumpSystem):
        return jump_trajectory(task._replace(inputs=with_curves(task.inputs)))
    particles = isinstance(task.system, ParticleSystem)
    parts = task.system, started(task.y0), with_curves(task.inputs), task.times, task.events
    (system, y0, inputs, times, events), flag = member_inputs(parts)
    task = task._replace(system=system, y0=y0, inputs=inputs, times=times, events=events)
    found = _particle_trajectory(task, options) if particles else _trajectory(task, options)
    return _answered(found, flag)


def _backward_trajectory(task: Task, options: Options) -> Trajectory:
    """The trajectory of one member whose times decrease."""
    times = task.times
    state = jax.eval_shape(lambda: task.system.encode(started(task.y0)))
    check_derivative(task.system, state, times[0], with_curves(task.inputs))
    task = task._replace(inputs=with_curves(task.inputs)).mirrored()
    found = trajectory_of(task, options._replace(backward=False))
    if (events := found.events) is not None:
        events = dataclasses.replace(events, times=jnp.where(events.happened, -events.times, jnp.inf))
    return dataclasses.replace(found, times=times, events=events)


def _answered(trajectory: Trajectory, flag: Any) -> Trajectory:
    """A trajectory that tells derivatives what of it is not finite; what is infinite is NaN, as all that a failure leaves."""
    # Not by a mask: what broke a run is looked for backwards from its result, and NaN out of a mask comes from nowhere.
    numbers = lambda x: x + 0 * x if eqx.is_inexact_array(x) else x
    states, unpacked = alike_together(trajectory.ys)
    ys = jax.tree.map(numbers, states)
    ended = {
        "ys": unpacked(member_results(ys, flag, finite(ys, axes=1))),
        "reduced": member_results(trajectory.reduced, flag, trajectory.status == Status.OK),
    }
    if (events := trajectory.events) is not None:
        # Entries without an event are known numbers, which have no derivatives.
        there = events.happened & jnp.isfinite(events.times) & finite(events.before, axes=1)
        sides = (events.times, events.before, events.after)
        times, before, after = member_results(sides, flag, there | ~events.happened)
        ended["events"] = dataclasses.replace(events, times=times, before=before, after=after)
    return dataclasses.replace(trajectory, **ended)


def _trajectory(task: Task, options: Options) -> Trajectory:
    system, y0, inputs = task.system, task.y0, task.inputs
    state = by_member(lambda system, y: system.encode(y), system, y0)
    check_derivative(system, state, task.times[0], inputs)
    task = cut_at_jumps(task)
    if isinstance(system, DelayedSystem):
        return _delayed_trajectory(task._replace(y0=state), options)
    if isinstance(system, ConstrainedSystem):
        return _constrained_trajectory(task._replace(y0=state), options)
    return _solved(task._replace(y0=state), options)


def _constrained_trajectory(task: Task, options: Options) -> Trajectory:
    """The trajectory of a system with algebraic equations, from the consistent start that its start is a guess for."""
    state, found = consistent(SystemTerm(task.system, task.inputs), task.times[0], task.y0)
    step = settled(task._replace(y0=without_rounding(state))).step
    trajectory = _solved(task._replace(y0=state, step=step), options)
    status = jnp.where(found, trajectory.status, int(Status.INCONSISTENT))
    return dataclasses.replace(trajectory, status=status)


def _delayed_trajectory(task: Task, options: Options) -> Trajectory:
    """The trajectory of a system that sees its past."""
    task = settled(task, options.similar)
    if has_regimen(task.events):
        return with_doses(task, options, _delayed_trajectory)
    found = integrate_delayed(task, options)
    times, states, reduced = task.times, found.states, {}
    if task.reduce:
        reduced = reduce_saved(task.system, times, states, found.end, found.status, task.reduce)
        ends = jnp.array([0, -1])
        times, states = times[ends], jax.tree.map(lambda x: x[ends], states)
    events, figures = _decoded_events(task, found.events), _figures(task, found.counts)
    trajectory = Trajectory(times, _decoded(task, states), found.status, *figures, reduced=reduced)
    return dataclasses.replace(trajectory, events=events, kept_steps=kept_steps(task))


def _solved(task: Task, options: Options) -> Trajectory:
    """The trajectory of one member from an encoded state."""
    task = settled(task, options.similar)
    if has_regimen(task.events):
        return with_doses(task, options, _solved)
    if task.reduce:
        return _reduced_trajectory(task, options)
    if task.events is not None:
        return _event_trajectory(task, options)
    if isinstance(task.step, Fixed):
        states, status, counts = _integrate_fixed(task, options)
        status = _checked(status, states)
    else:
        states, status, counts, _ = integrate_adaptive(task, options)
    return Trajectory(task.times, _decoded(task, states), status, *_figures(task, counts))


def _decoded(task: Task, states: PyTree) -> Any:
    """Rows as users see them, each with derivatives of its own: one that is not finite does not touch the others."""
    return jax.vmap(lambda state: by_member(lambda system, state: system.decode(state), task.system, state))(states)


def _figures(task: Task, counts: tuple[Array, Array]) -> tuple[Array, Array, Array, str]:
    """Accepted and rejected steps, evaluations of the field, and who took them."""
    accepted, rejected = counts
    evaluations = (accepted + rejected) * task.solver.evaluations
    held = " with Courant steps, whose lengths derivatives hold" if isinstance(task.step, Courant) else ""
    name = type(task.solver).__name__
    if isinstance(task.solver, WithJumps):
        name = f"{type(task.solver.inner).__name__} with jumps"
    return accepted, rejected, evaluations, f"{name}{held}"


def _static_trajectory(task: Task) -> Trajectory:
    zero, ends = jnp.zeros((), int), task.times[jnp.array([0, -1])]
    reduced = reduce_static(task.system, task.y0, task.times, task.reduce) if task.reduce else {}
    times = ends if task.reduce else task.times
    ys = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (times.shape[0], *leaf.shape)), task.y0)
    return Trajectory(times, ys, zero + int(Status.OK), zero, zero, zero, "none", reduced=reduced)


def _particle_trajectory(task: Task, options: Options) -> Trajectory:
    system = task.system
    ran = integrate_particles(task._replace(y0=system.encode(task.y0)), options)
    states, ended = ran.states, {}
    if ran.run is not None:
        status = _checked(ran.status, _before(task.times, ran.run.end, states))
        ended = {"events": _decoded_events(task, ran.run.events)}
    else:
        status = _checked(ran.status, states)
        if task.events is not None:
            states, time, final = event_on_grid(task, states)
            ended = {"events": ended_by(task.events, time, system.decode(final))}
    times = task.times[jnp.array([0, -1])] if task.reduce else task.times
    reduced = results_of(ran.totals, task.reduce or {}, status)
    ys = jax.vmap(system.decode)(states)
    trajectory = Trajectory(times, ys, status, *_figures(task, ran.counts), lists=ran.tally, reduced=reduced)
    return dataclasses.replace(trajectory, **ended)


def _before(times: Array, end: Array, states: PyTree) -> Any:
    """Rows up to an event that ends a run; those after it, which are NaN, are the first row again."""
    gone = times > end
    return jax.tree.map(lambda x: jnp.where(gone.reshape(-1, *(1,) * (x.ndim - 1)), x[:1], x), states)


def _checked(status: Array, states: PyTree) -> Array:
    """A status that also tells of states that are not finite."""
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(states)]).all()
    return jnp.where((status == Status.OK) & ~finite, int(Status.NON_FINITE), status)


def _cuts(system: Any, inputs: Any) -> Array | None:
    """The times at which inputs jump, and steps end; the steps of a discrete system are its own."""
    return None if isinstance(system, DiscreteSystem) else jump_times(inputs)


def _integrate_fixed(task: Task, options: Options) -> Any:
    terms, jumps = _terms(task), _cuts(task.system, task.inputs)
    grid = functools.partial(
        fixed_grid,
        substeps=task.step.substeps,
        memory=options.memory,
        even=options.even,
        linear=options.linear,
        disk=options.disk,
    )
    states = None
    if options.disk is None:
        sizes = {"substeps": task.step.substeps, "jumps": jumps, "memory": options.memory}
        states = grid_of_members(grid, terms, task.solver, task.y0, task.times, **sizes)
    if states is None:
        states = grid(terms, task.solver, task.y0, task.times, jumps=jumps)
    return states, jnp.asarray(int(Status.OK)), _fixed_counts(task, jumps)


def _fixed_counts(task: Task, jumps: Array | None) -> tuple[Array, Array]:
    windows = task.times.shape[0] - 1 + (0 if jumps is None else jumps.shape[0])
    return jnp.asarray(windows * task.step.substeps), jnp.asarray(0)


def _terms(task: Task) -> Any:
    """Return the terms that the solver steps, with a random path for stochastic systems."""
    system = task.system
    if isinstance(system, StochasticSystem):
        if task.key is None:
            raise ArgumentError(
                f"`{type(system).__name__}` is stochastic, so argument `key` must be a random key, such as `jax.random.key(0)`."
            )
        state = jax.eval_shape(system.encode, task.y0)
        shape = brownian_shape(system, task.times[0], state, task.inputs)
        path = brownian_path(shape, task.key, levy_area=task.solver.levy_area)
        return SystemTerm(system, task.inputs, path)
    return SystemTerm(system, task.inputs)


def _reduced_trajectory(task: Task, options: Options) -> Trajectory:
    """The trajectory of one member whose rows are reduced: it holds the start, the end and the results."""
    ends = task.times[jnp.array([0, -1])]
    system, state, inputs, times = alike_arrays((task.system, task.y0, task.inputs, task.times))
    task = task._replace(system=system, y0=state, inputs=inputs, times=times)
    jumps, memory = _cuts(task.system, inputs), None if options.memory is None else options.memory // 2
    reduced = functools.partial(reduce_rows, system=system, state=state, reducers=task.reduce or {}, memory=memory)
    if isinstance(task.step, Fixed):
        terms, substeps = _terms(task), task.step.substeps
        inside = None if jumps is None else jnp.zeros(0, times.dtype)
        grid = None if task.events is None else EventGrid(terms, task.solver, task.events, state, times[0])
        empty = _room_for_events(task, options)

        def stepped(state: State, points: Array, length: Any) -> Any:
            if grid is not None:
                went = eventful_grid(
                    grid, state, points, substeps, inside, room=empty.room, memory=memory, sides=length
                )
                counts = went.steps, jnp.zeros_like(went.steps)
                return Solved(went.states, went.status, counts, went.sides, went.end, went.events)
            states = fixed_grid(terms, task.solver, state, points, substeps, inside, memory=memory, disk=options.disk)
            return Solved(states, jnp.asarray(int(Status.OK)), (jnp.asarray(0), jnp.asarray(0)), length)

        sides = None if grid is None else grid.begin(times[0], state)
        found = reduced(stepped, pieces=cut_at(times, jumps, state), events=empty, sides=sides)
        counts = _fixed_counts(task, jumps) if grid is None else (found.accepted, found.rejected)
    else:

        def solve(state: State, points: Array, length: Array) -> Any:
            piece, own = task._replace(y0=state, times=points), options._replace(memory=memory)
            if task.events is None:
                return Solved(*integrate_adaptive(piece, own, length))
            found = integrate_with_events(piece, own, length)
            return Solved(found.states, found.status, found.counts, found.length, found.end, found.events)

        pieces = cut_between(times, jumps, state, eventful=task.events is not None)
        found = reduced(solve, pieces=pieces, max_steps=task.step.max_steps, events=_room_for_events(task, options))
        counts = found.accepted, found.rejected
    there = (found.status == Status.OK) & ~found.ended
    last = jax.tree.map(lambda x: jnp.where(there, x, jnp.nan), system.decode(found.state))
    ys = jax.tree.map(lambda first, last: jnp.stack([first, last]), system.decode(state), last)
    figures, totals = _figures(task, counts), dict(found.totals)
    return Trajectory(ends, ys, found.status, *figures, reduced=totals, events=_decoded_events(task, found.events))


def _room_for_events(task: Task, options: Options) -> Any:
    """An empty list for the events of a run, where it may have any."""
    if task.events is None:
        return None
    return no_events(task.events.names, options.room or task.events.room, task.times[0], task.y0)


def _decoded_events(task: Task, events: Any) -> Any:
    """Events with states as users see them."""
    if events is None:
        return None
    return dataclasses.replace(events, before=_decoded(task, events.before), after=_decoded(task, events.after))


def _event_trajectory(task: Task, options: Options) -> Trajectory:
    """The trajectory of one member with events."""
    assert task.events is not None
    if isinstance(task.step, Fixed):
        grid = EventGrid(_terms(task), task.solver, task.events, task.y0, task.times[0])
        room = options.room or task.events.room
        went = eventful_grid(
            grid, task.y0, task.times, task.step.substeps, jump_times(task.inputs), room=room, memory=options.memory
        )
        status = _checked(went.status, _before(task.times, went.end, went.states))
        states, counts, events = went.states, (went.steps, jnp.zeros_like(went.steps)), went.events
    else:
        states, status, counts, events, *_ = integrate_with_events(task, options)
    events = _decoded_events(task, events)
    return Trajectory(task.times, _decoded(task, states), status, *_figures(task, counts), events=events)
