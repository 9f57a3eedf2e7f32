"""simulate: a system, a state and times in, a trajectory out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from .._doors import check_key
from .._errors import ArgumentError, SimulationError
from .._types import Inputs, State, Time
from ..core import (
    ConstrainedSystem,
    CoupledSystem,
    DelayedSystem,
    DiscreteSystem,
    Event,
    JumpSystem,
    KnownJacobian,
    NamedEvents,
    ParticleSystem,
    PlainSystem,
    Reviewed,
    SeparableSystem,
    Setup,
    StaticSystem,
    Status,
    StochasticSystem,
    System,
    Trajectory,
    TransportSystem,
    as_float_array,
    as_inputs,
    as_state,
    at_time,
    check_roots,
    check_supports,
    check_system,
    check_tolerance,
    full_products,
    jump_times,
    mirrored_inputs,
    mirrored_system,
    started,
    traced,
    unknown,
    warn_of_unread,
    wired,
    with_fields,
)
from ..reducers import Reducer
from ..solvers import (
    BDF,
    AbstractSplitStepper,
    DiscreteStepper,
    Rodas5P,
    SolverLike,
    Stepper,
    Strang,
    as_solver,
    check_pattern,
    check_serves,
    choose,
    completed,
    implicit_solver,
)
from ._agreed import check_together
from ._awaited import awaited
from ._diagnose import diagnose, with_cause
from ._integrate import Method, dispatch
from ._noisy_steps import check_noisy_steps, varied
from ._told import end_in_words, explained
from ._unstable import is_unstable
from .delayed._checks import check_method, review_lags
from .jumps._trajectory import check_jump_task, explain_jumps, refuse_events, review_jumps
from .kernels._mode import mode
from .stepping._checkpointed import Checkpointed
from .stepping._on_disk import GradientChoice, OnDisk, check_disk
from .stepping._room import with_room
from .task._arguments import check_direction, check_events, check_reducers, check_times, is_backward
from .task._bucket import cut_times, fillable, filled_times
from .task._own_step import own_steps
from .task._scales import notes_of, open_and_similar
from .task._step import PLAIN, Adaptive, Courant, Fixed, Varying, as_step, plain
from .task._task import Options, Task


@full_products
def simulate(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[Any],
    *,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
    gradient: GradientChoice | None = None,
    reduce: Mapping[str, Reducer] | None = None,
    events: Event | Sequence[Event] | Mapping[str, Event] | None = None,
    on_failure: Literal["raise", "mark"] = "raise",
) -> Trajectory:
    """Integrate a system from `y0` at `times[0]` and save the state at `times`.

    **Arguments:**

    - `system`: the system; its array fields are its parameters.
    - `y0`: the state at `times[0]`, a pytree of float arrays, or a `Start` that makes it.
    - `times`: shape `(times,)`, in the system's unit of time, increasing, or decreasing for a run backwards. The solution is saved
        exactly there: adaptive solves use the method's own dense output, fixed steps end on each time.
    - `solver`: a stepper from `simkit.solvers`, or its name in lower case, such as "tsit5"; by default chosen from the system, and
        reported by the trajectory.
    - `step`: a number (a fixed step, at most this long), `Fixed(substeps)`, `Adaptive(rtol, atol, max_steps)` or, on grids,
        `Courant(number)`; by default `Courant()` for a `TransportSystem`, else `Adaptive()` where the solver estimates its error.
    - `inputs`: a pytree of signals, of which the system receives the values.
    - `key`: a random key, needed by stochastic systems and by particles whose thermostat draws noise.
    - `gradient`: how much reverse mode may remember, `Checkpointed(memory="2 GiB")`; by default some square root of the
        number of fixed steps, at most 1 GiB a member, and 64 MiB a group of members of adaptive ones. What does not fit is
        solved again. `OnDisk(folder)` writes states of fixed steps to files. All derivatives, forward and reverse and of
        any order, are available whatever is said here.
    - `reduce`: name -> reducer, such as `{"mean": simkit.reducers.Mean()}`: what becomes of the states at `times` while the
        solve goes on. The trajectory then holds the first and the last of them and, in `reduced`, the results, so that memory
        does not grow with the number of save times.
    - `events`: where the state changes or the run ends: one `Event`, a list or a mapping of names to events. The trajectory then
        has `events`, their times and the states on both sides, with derivatives. A state saved at an event is the one after it.
    - `on_failure`: "raise" a `SimulationError`, or "mark" it in the trajectory's status. Under a transformation such as `jit` or
        `vmap` a failure is always marked.

    **Returns:** a `Trajectory`.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    trajectory = simkit.simulate(system, y0, times)
    print(trajectory)
    ```
    """
    mode()  # a wrong word in the environment is told before anything is traced
    check_system(system, y0)
    check_key(key)
    y0 = as_state(system, started(y0))
    asked, inputs = inputs, as_inputs(system, inputs, y0)
    dtype = _dtype_of(y0)
    given: Any = times if isinstance(system, StaticSystem) else check_times(times)
    # Inside jit a known array would become a tracer, but a step length and the probe for stiffness need its values.
    known = given if isinstance(given, jax.core.Tracer) else np.asarray(given)
    if dtype is None:
        when: Array = as_float_array(given)
    else:
        when = given if given.dtype == dtype and not getattr(given, "weak_type", False) else jnp.asarray(given, dtype)
    if on_failure not in ("raise", "mark"):
        raise ArgumentError(f'Argument `on_failure` must be "raise" or "mark", but it is {on_failure!r}.')
    check_roots(system)
    checked = check_reducers(reduce), check_events(events, system, known)
    backward = check_direction(known, system, reduce)
    if events is None:
        warn_of_unread(system, y0, inputs, when[0], asked)
    solver, step, reason = _complete(system, y0, known, solver, step, inputs)
    # The reason holds numbers of this very call: kept out of the compiled function, it cannot make it compile again.
    task = Task(system, y0, inputs, when, solver, step, key, *checked)
    check_served(system, task.events, reduce)
    check_noisy_steps(system, step, bool(task.events), bool(reduce))
    check_disk(gradient, task)
    check_together("simulate", task)
    _review(task._replace(times=known))
    even = isinstance(solver, AbstractSplitStepper) and isinstance(step, Fixed) and _even(known)
    options = solve_options(None, gradient)._replace(even=even, similar=open_and_similar(step, y0), backward=backward)
    fills = fillable(task)
    ready = filled_times(task) if fills else task
    trajectory = with_room(ready, lambda task, again: listed(task, options._replace(again=again)), parts=True)
    if fills:
        trajectory = cut_times(trajectory, task.times.shape[0])
    if reason != "given" and solver is not None:
        task, trajectory, reason = _stiff_again(task, options, trajectory, reason)
        trajectory = with_fields(trajectory, solver=f"{trajectory.solver} (chosen: {reason})")
    if is_unstable(task, trajectory):
        trajectory = with_fields(trajectory, status=jnp.full_like(trajectory.status, int(Status.UNSTABLE)))
    if notes := notes_of(step, trajectory.ys):
        trajectory = with_fields(trajectory, notes=notes)
    if on_failure == "mark" or isinstance(trajectory.status, jax.core.Tracer):
        return trajectory
    if awaited(trajectory.status, "simulate", f"while {type(system).__name__} was solved").item() != 0:
        if text := explain_jumps(task, trajectory):
            raise SimulationError(text)
        text = diagnose(Setup(system, y0, inputs), trajectory, task.events)
        raise SimulationError(with_cause(text, system, trajectory, explained(task, options, trajectory)))
    if text := end_in_words(task, trajectory):
        trajectory = with_fields(trajectory, notes=(*trajectory.notes, text))
    return trajectory


def listed(task: Task, options: Options, run: Callable[..., Trajectory] = dispatch) -> Trajectory:
    """A run whose trajectory has room for all of its events, where values are known."""
    while True:
        trajectory = run(task, options)
        events = trajectory.events
        if events is None or traced(events) or jax.process_count() > 1:
            return trajectory
        most = int(np.max(np.asarray(events.count), initial=0))
        if most <= events.room:
            return trajectory
        options = options._replace(room=1 << (most - 1).bit_length())


def _stiff_again(task: Task, options: Options, trajectory: Trajectory, reason: str) -> tuple[Task, Trajectory, str]:
    """A run whose explicit solver was chosen and used up its steps, once more by a stiff one; and the reason for that."""
    if isinstance(trajectory.status, jax.core.Tracer) or trajectory.status.item() != Status.STEP_LIMIT:
        return task, trajectory, reason
    solver = stiff_instead(task)
    if solver is None:
        return task, trajectory, reason
    task = task._replace(solver=solver)
    again = listed(task, options)
    name, steps = type(solver).__name__, trajectory.steps.item() + trajectory.rejected.item()
    return task, again, f"{trajectory.solver} used up {steps} steps, which {name} does not need where a system is stiff"


def stiff_instead(task: Task) -> Stepper | None:
    """The solver that takes over where a chosen explicit one used up its steps; None where there is none."""
    serves = isinstance(task.system, PlainSystem | SeparableSystem | KnownJacobian) and isinstance(task.step, Adaptive)
    if not serves or task.solver is None or task.solver.stiff:
        return None
    return implicit_solver(task.system, task.y0, task.times[0], task.inputs)


def resolve(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[Any],
    *,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
) -> Method:
    """The solver and the step rule for a system: what the user gave, completed and checked."""
    return Method(*_complete(system, y0, times, solver, step, inputs))


def _complete(
    system: System, y0: State, times: Any, solver: Any, step: Any, inputs: Inputs
) -> tuple[Stepper | None, Varying | Fixed, str]:
    if isinstance(system, StaticSystem):
        return None, Fixed(), "no dynamics"
    if isinstance(system, JumpSystem):
        check_jump_task(system, step)
    reason, y0, solver = "given", started(y0), as_solver(solver)
    if is_backward(times):
        seen, run = (mirrored_system(system), mirrored_inputs(inputs)), -np.asarray(times)
    else:
        seen, run = (system, inputs), times
    if solver is None:
        solver, reason = choose(seen[0], y0, run, seen[1], fixed=step is not None and not isinstance(step, Varying))
    solver = completed(solver, system)
    check_serves(solver, system, y0, inputs)
    if isinstance(solver, Rodas5P | BDF) and solver.pattern is not None:
        check_pattern(solver.pattern, system, y0, times, inputs)
    if isinstance(system, DiscreteSystem):
        step, ragged = own_steps(system, step, run)
        solver = DiscreteStepper(ragged)
    if step is None:
        step = _default_step(system, solver, times)
    step = as_step(step, run)
    if isinstance(system, DelayedSystem):
        check_method(system, solver, step)
    if solver.multistep and not isinstance(step, Adaptive):
        raise ArgumentError(
            f"`{type(solver).__name__}` is a method of several steps and varies their length, so argument `step` must be "
            f"`Adaptive()`, but it is {type(step).__name__}. For fixed steps of a stiff system take `Rodas5P()`."
        )
    if solver.multistep and any(jnp.iscomplexobj(leaf) for leaf in jax.tree.leaves(jax.eval_shape(system.encode, y0))):
        raise ArgumentError(
            f"`{type(solver).__name__}` steps real states, and those of `{type(system).__name__}` are complex: take `Rodas5P`."
        )
    if solver.multistep and isinstance(system, ConstrainedSystem) and jump_times(inputs) is not None:
        raise ArgumentError(
            f"`{type(solver).__name__}` solves no algebraic equations whose inputs jump, as those of `{type(system).__name__}` do: "
            "take `Rodas5P`."
        )
    if isinstance(step, Adaptive):
        solver = varied(solver, system, y0, inputs, given=reason == "given")
        if not solver.adaptive:
            raise ArgumentError(
                f"`{type(solver).__name__}` has no error estimate, so argument `step` must be a number or `Fixed(substeps)`, but "
                "it is Adaptive."
            )
        dtype = _dtype_of(y0)
        if step is PLAIN:
            return solver, plain(np.dtype(dtype)), reason
        step = step.completed(dtype)
        if not isinstance(step.rtol, jax.core.Tracer):
            check_tolerance(float(step.rtol), dtype)
    elif isinstance(step, Courant) and not isinstance(system, TransportSystem):
        raise ArgumentError(
            f"`Courant` needs a TransportSystem, which knows its longest step, and `{type(system).__name__}` is none. "
            "Argument `step` must be `Adaptive(rtol, atol)`, `Fixed(substeps)` or a number."
        )
    return solver, step, reason


def _check_courant(system: TransportSystem, y0: State, t: Time, inputs: Inputs, longest: float) -> None:
    """Refuse fixed steps that are too long at the start."""
    allowed = float(_longest_step(system, jnp.asarray(t, _dtype_of(y0)), y0, inputs))
    if longest > allowed:
        raise ArgumentError(
            f"Argument `step` must be at most {allowed:.4g}, the time in which something crosses a cell at the start, but it "
            f"is {longest:.4g} (Courant number {longest / allowed:.3g}). `Courant(0.5)` finds the lengths by itself."
        )


@eqx.filter_jit
def _longest_step(system: TransportSystem, t: Time, y0: State, inputs: Inputs) -> Any:
    return system.longest_step(t, system.encode(y0), at_time(inputs, t))


def solve_options(lanes: int | None, gradient: Any) -> Options:
    """Check the options of the loops that a user fixed."""
    if lanes is not None and (not isinstance(lanes, int) or isinstance(lanes, bool) or lanes < 1):
        raise ArgumentError(f"Argument `lanes` must be an integer of at least 1, but it is {lanes!r}.")
    if gradient is None:
        return Options(lanes)
    if isinstance(gradient, OnDisk):
        return Options(lanes, disk=gradient)
    if not isinstance(gradient, Checkpointed):
        raise ArgumentError(
            f'Argument `gradient` must be a memory bound such as `Checkpointed(memory="2 GiB")`, or `OnDisk("folder")`, but it is '
            f"{gradient!r}. Forward and reverse mode need no choice: both work."
        )
    return Options(lanes, int(gradient.memory))


def check_served(system: System, events: NamedEvents | None, reduce: Any = None) -> None:
    """Refuse events and reducers that a system does not serve, or not together."""
    if isinstance(system, JumpSystem) and events is not None:
        refuse_events(system)
    if isinstance(system, DiscreteSystem) and events is not None:
        raise ArgumentError(
            f"Argument `events` must be left out for `{type(system).__name__}`, whose states are those of its steps with nothing "
            "between them, but is given. Look for the event among the saved states."
        )
    if events is not None and reduce and isinstance(system, ParticleSystem):
        raise ArgumentError(
            "Arguments `reduce` and `events` must not be given together for particles, but both are. Save the states and reduce "
            "them afterwards, or simulate window by window between known times."
        )


def _review(task: Task) -> None:
    """Let a system look at its start and the longest step, where all values are known."""
    system, times, step = task.system, task.times, task.step
    check_supports(system)
    if isinstance(system, DelayedSystem):
        review_lags(task)
    if isinstance(system, JumpSystem):
        review_jumps(task)
    kinds = Reviewed | TransportSystem | CoupledSystem
    if not isinstance(system, kinds) or unknown(system, task.y0, task.inputs, times):
        return
    longest = float(np.max(np.abs(np.diff(times)), initial=0.0)) / step.substeps if isinstance(step, Fixed) else None
    if isinstance(system, CoupledSystem):
        _review_parts(task, system, longest)
    if isinstance(system, Reviewed):
        system.review(task.y0, longest, task.solver)
    if isinstance(system, TransportSystem) and longest is not None:
        _check_courant(system, task.y0, times[0], task.inputs, longest)


def _review_parts(task: Task, system: CoupledSystem, longest: float | None) -> None:
    """Let the parts of a coupled system look at their starts, and at the longest step that is taken of each."""
    for name, part in system.parts.items():
        solver, own = task.solver, longest
        if isinstance(solver, Strang) and longest is not None:
            solver, own = solver.steppers[name], solver.own_step(name, longest)
        if isinstance(part, Reviewed):
            part.review(task.y0[name], own, solver)
        if isinstance(part, TransportSystem) and own is not None:
            states = {key: other.encode(task.y0[key]) for key, other in system.parts.items()}
            alone: Any = wired(system, name, states)
            _check_courant(alone, states[name], task.times[0], task.inputs, own)


def _even(times: Any) -> bool:
    """Tell whether times are known and equally spaced, up to their rounding."""
    if isinstance(times, jax.core.Tracer) or times.shape[0] < 2:
        return False
    epsilon = float(np.finfo(times.dtype if times.dtype.kind == "f" else float).eps)
    spread = np.abs(times - np.linspace(times[0], times[-1], times.shape[0])).max()
    return bool(spread <= 8 * epsilon * np.abs(times).max())


def _dtype_of(y0: State) -> Any:
    """The float type of a state; None where it is empty."""
    found = {leaf.dtype for leaf in jax.tree.leaves(y0)}
    return found.pop() if len(found) == 1 else jnp.result_type(*found) if found else None


def _default_step(system: System, solver: Stepper, times: Any) -> Varying | Fixed:
    if isinstance(system, JumpSystem):
        return Fixed()
    if isinstance(system, TransportSystem):
        return Courant()
    if solver.adaptive:
        return PLAIN
    if isinstance(system, StochasticSystem):
        return Fixed(max(1, -(-1000 // max(1, times.shape[0] - 1))))
    raise ArgumentError(
        f"`{type(solver).__name__}` has no error estimate, so argument `step` must be given: a fixed step length, or "
        "`Fixed(substeps)`. A good first try is a fiftieth of the fastest period."
    )
