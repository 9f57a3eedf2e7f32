"""ensemble: many members of one system, solved together."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from .._doors import check_mapping, check_progress, shown
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from .._types import Inputs, State
from ..core import (
    DelayedSystem,
    Event,
    JumpSystem,
    ParticleSystem,
    Setup,
    StaticSystem,
    Status,
    StochasticSystem,
    System,
    Trajectory,
    as_events,
    as_float_array,
    as_inputs,
    as_state,
    check_member_numbers,
    check_supports,
    check_system,
    full_products,
    traced,
    warn_of_unread,
    with_fields,
)
from ..reducers import Reducer
from ..solvers import SolverLike
from ._agreed import check_agreed, check_one_process
from ._awaited import awaited
from ._integrate import Method, trajectory_of
from ._memory import within_memory
from ._noisy_steps import check_noisy_steps
from ._simulate import check_served, listed, resolve, solve_options, stiff_instead
from ._unstable import unstable_members
from .adaptive._sizes import ACCELERATOR_LANES
from .kernels._mode import mode
from .stepping._on_disk import GradientChoice, check_disk
from .stepping._room import with_room
from .task._arguments import check_direction, check_events, check_reducers, check_times
from .task._bucket import budgets, cut_members, cut_times, fillable, filled_members, filled_times
from .task._compilations import note_trace
from .task._scales import notes_of, open_and_similar
from .task._step import Adaptive, Fixed, Varying
from .task._task import Frame, Options, Task, framed

PROBED = 5
"""Number of members that are probed for stiffness when the solver is to be chosen."""

FIXED_LANES = 256
"""Least number of members with fixed steps that are stepped together; all take equally long, so the rest is queued."""

STOCHASTIC_LANES = 2**15
STOCHASTIC_NUMBERS = 2**19
"""Most members with noise, and most numbers in their states, that a processor steps together.

Random numbers and the operations of a step are kernels of their own there, of some microseconds each: with 256 members of one
number that is two thirds of the time.
"""

ACCELERATOR_NUMBERS = 2**24
"""Most numbers in the states that an accelerator steps together with fixed steps, unless `FIXED_LANES` hold more."""

KERNEL_LANES = 2**20
"""Most members with fixed steps that one kernel steps: it needs no memory beside what they save."""

VECTOR = 8
"""Numbers of members that this does not divide take three times as long: the compiler leaves such loops without vectors."""

PARTICLE_LANES = 8
"""Number of particle members on a processor at once: all pairs of some hundred atoms stay in its cache, and few wait for the
lists of others."""


@full_products
def ensemble(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[Any],
    *,
    over: Mapping[str, Any],
    lanes: int | None = None,
    devices: Sequence[Any] | None = None,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: Any = None,
    gradient: GradientChoice | None = None,
    reduce: Mapping[str, Reducer] | None = None,
    events: Event | Sequence[Event] | Mapping[str, Event] | None = None,
    on_failure: Literal["raise", "mark"] = "mark",
    progress: Say = None,
) -> Trajectory:
    """Integrate many members that differ in the quantities that `over` names.

    Members run in lanes: a few dozen step together, and one that is done hands its lane to the next of the queue, so that none
    waits for another. Each member takes the steps that `simulate` would take.

    **Arguments:**

    - `system`, `y0`, `times`, `solver`, `step`, `inputs`: as in `simulate`; what all members have in common. A solver that is
        chosen is chosen for all members, by a few of them.
    - `over`: path -> values, one a member along the first axis: `{"growth": values}`, `{"y0.hare": values}`,
        `{"inputs.torque.values": table}`, `{"events.dose.at": times}`. All have the same number of members; for a grid of several
        take `simkit.sweeps.grid`.
    - `lanes`: how many members step together; by default chosen so that they stay in a core's cache.
    - `devices`: the devices to spread members over; by default all there are, except inside a transformation, where the
        caller is in charge, and where a grid is spread over devices itself. Every device works at its own pace.
    - `key`: for stochastic systems a random key, of which every member gets one of its own, or an array of one key a member.
    - `gradient`: as in `simulate`; the bound is for all members on a device, with `OnDisk` for each of those that step together.
    - `reduce`, `events`: as in `simulate`; results and events get a leading member axis. Every member has its own events.
    - `on_failure`: "mark" a member that fails in its status, or "raise" a `SimulationError`. The others are not affected.
    - `progress`: the time that it takes, on terminals and in notebooks by default, from two seconds on; True to print everywhere,
        False not at all, or a function that is given each line. Inside of `jit` nothing is told.

    **Returns:** a `Trajectory` with a leading member axis on every array; `trajectory.failures()` names the members that failed.

    **Raises:** an `UnknownNameError` for a path that names nothing, an `ArgumentError` for values that do not fit.

    ```python
    import numpy as np
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    members = simkit.ensemble(system, y0, times, over={"growth": np.linspace(0.4, 0.6, 100)})
    print(members)
    ```
    """
    if on_failure not in ("raise", "mark"):
        raise ArgumentError(f'Argument `on_failure` must be "raise" or "mark", but it is {on_failure!r}.')
    check_progress(progress)
    mode()  # a wrong word in the environment is told before anything is traced
    check_system(system, y0)
    y0 = as_state(system, y0)
    setup = Setup(system, y0, as_inputs(system, inputs, y0), events=as_events(events))
    check_supports(system)
    values, members = member_values(setup, over)
    check_member_numbers(system, over)
    static = isinstance(system, StaticSystem)
    known = times if static or isinstance(times, jax.core.Tracer) else np.asarray(check_times(times))
    checked = check_reducers(reduce), check_events(events, system, known)
    backward = check_direction(known, system, reduce)
    kinds = {leaf.dtype for leaf in jax.tree.leaves(setup.y0)}
    times = as_float_array(times) if not kinds else jnp.asarray(times, jnp.result_type(*kinds).type(0).real.dtype)
    if events is None:
        warn_of_unread(setup.system, setup.y0, setup.inputs, times[0], inputs)
    method = resolve_members(setup, values, members, known, solver=solver, step=step)
    keys = _member_keys(key, members)
    check_one_process("ensemble", setup.system, setup.y0)
    chosen = _devices(devices, (setup, values, times, keys), members)
    own = [x for path, x in values.items() if path.split(".")[0] == "y0"]
    alike = open_and_similar(method.step, setup.y0, own)
    options = EnsembleOptions(solve_options(lanes, gradient)._replace(similar=alike, backward=backward), chosen)
    task = Task(setup.system, setup.y0, setup.inputs, times, method.solver, method.step, keys, *checked)

    check_served(system, task.events, reduce)
    check_noisy_steps(system, method.step, bool(task.events), bool(reduce))
    check_disk(gradient, task)
    if len({device.process_index for device in chosen}) > 1 and not traced((task, values)):
        check_agreed("ensemble", lambda: {**task._asdict(), "over": values, "options": options.solve})

    def run(task: Task, again: bool, values: dict[str, Array] = values) -> Trajectory:
        count = jax.tree.leaves(values)[0].shape[0]
        here = lambda task, solve: _run(task, values, count, options._replace(solve=solve))
        go = lambda task, solve: within_memory(lambda n: here(task, solve._replace(lanes=n)), solve.lanes, count)
        return listed(task, options.solve._replace(again=again), go)

    with Progress(None, 0, False if traced((task, values)) else progress, verb="ensemble") as counter:
        counter.tell(f"{members} members")
        trajectory = with_room(task, run)
        if method.reason != "given" and method.solver is not None:
            trajectory = with_fields(trajectory, solver=f"{trajectory.solver} (chosen: {method.reason})")
            trajectory = _stiff_again(task, values, trajectory, run)
        trajectory = _without_unstable(task, values, trajectory)
    if notes := notes_of(method.step, trajectory.ys):
        trajectory = with_fields(trajectory, notes=notes)
    if on_failure == "raise" and not isinstance(trajectory.status, jax.core.Tracer):
        failures = trajectory.failures()
        if failures:
            raise SimulationError(f"{len(failures)} of {members} members failed; the first is {failures[0]}")
    return trajectory


def _stiff_again(task: Task, values: dict[str, Array], trajectory: Trajectory, run: Any) -> Trajectory:
    """The members that used up the steps of an explicit solver that was chosen, once more by a stiff one."""
    if isinstance(trajectory.status, jax.core.Tracer) or jax.process_count() > 1:
        return trajectory
    stiff = np.flatnonzero(np.asarray(trajectory.status) == Status.STEP_LIMIT)
    solver = stiff_instead(task) if stiff.size else None
    if solver is None:
        return trajectory
    again = run(task._replace(solver=solver), False, {path: value[stiff] for path, value in values.items()})
    name = f"{trajectory.solver}; {stiff.size} members that used up their steps: {type(solver).__name__}"
    over, again = trajectory.over, dataclasses.replace(again, over={}, solver=name)
    both = dataclasses.replace(trajectory, over={}, solver=name)
    return dataclasses.replace(jax.tree.map(lambda x, new: x.at[stiff].set(new), both, again), over=over)


def _without_unstable(task: Task, values: dict[str, Array], trajectory: Trajectory) -> Trajectory:
    """An ensemble with the status of the members whose fixed steps were too long to be stable."""
    unstable = unstable_members(task, values, trajectory)
    if not unstable.size:
        return trajectory
    return dataclasses.replace(trajectory, status=trajectory.status.at[unstable].set(int(Status.UNSTABLE)))


def _lanes(task: Task, bounded: bool) -> int:
    """Number of members with fixed steps that this machine steps together; few where they share a bounded memory."""
    numbers = max(1, sum(x.size for x in jax.tree.leaves(task.y0)))
    if isinstance(task.system, ParticleSystem):
        return PARTICLE_LANES if jax.default_backend() == "cpu" else FIXED_LANES
    if bounded:
        return FIXED_LANES
    if jax.default_backend() != "cpu":
        most = KERNEL_LANES if mode() == "triton" else ACCELERATOR_LANES
        return max(FIXED_LANES, min(most, ACCELERATOR_NUMBERS // numbers))
    if isinstance(task.system, StochasticSystem):
        return max(FIXED_LANES, min(STOCHASTIC_LANES, STOCHASTIC_NUMBERS // numbers))
    return FIXED_LANES


class EnsembleOptions(NamedTuple):
    """Static options of an ensemble: with its arguments they select the program."""

    solve: Options
    devices: tuple[Any, ...]


def _run(task: Task, values: dict[str, Array], members: int, options: EnsembleOptions) -> Trajectory:
    """Run an ensemble, filled up to lengths that other ensembles share where that costs next to nothing."""
    rows, most, keys = task.times.shape[-1], None, task.key
    fills = isinstance(task.step, Adaptive) and keys is None and jax.process_count() == 1 and not traced(values)
    fills = fills and fillable(task, members)
    if fills:
        task, values, most = filled_times(task), filled_members(values, members), budgets(task.step, members)
    frame, leaves = framed((task, values, most), options)
    trajectory = _compiled(frame, _placed(leaves, options.devices))
    if jax.default_backend() == "cpu":  # elsewhere what follows may be sent ahead
        awaited(trajectory.status, "ensemble", f"while {members} members were solved")
    return cut_times(cut_members(trajectory, members), rows) if fills else trajectory


@functools.partial(jax.jit, static_argnums=0)
def _compiled(frame: Frame, leaves: list[Any]) -> Trajectory:
    task, values, most = frame.filled(leaves)
    note_trace("ensemble", task.noted() | {"over": values})
    keys, task, step = task.key, task._replace(key=None), task.step
    own = frame.options.solve
    lanes = own.lanes or _lanes(task, own.memory is not None or own.disk is not None)
    if isinstance(step, Fixed) and own.memory is not None:  # the members of a turn share it
        own = own._replace(memory=own.memory // min(lanes, jax.tree.leaves(values)[0].shape[0]))

    def one(task: Task, values: dict[str, Array], key: Any, most: Any) -> Trajectory:
        put = Setup(task.system, task.y0, task.inputs, events=task.events).put(values)
        if most is not None and isinstance(step, Adaptive):
            task = task._replace(step=Adaptive(step.rtol, step.atol, step.max_steps, most))
        return trajectory_of(
            task._replace(system=put.system, y0=put.y0, inputs=put.inputs, events=put.events, key=key), own
        )

    def together(task: Task, values: dict[str, Array], keys: Any, most: Any) -> Trajectory:
        axes = [None if x is None else 0 for x in (keys, most)]
        return eqx.filter_vmap(one, in_axes=(None, 0, *axes))(task, values, keys, most)

    def local(task: Task, values: dict[str, Array], keys: Any, most: Any) -> Trajectory:
        queued = not isinstance(step, Fixed) and not isinstance(task.system, DelayedSystem)
        queued |= isinstance(task.system, JumpSystem)
        if queued or isinstance(task.system, StaticSystem):
            return together(task, values, keys, most)
        return in_chunks(functools.partial(together, task), (values, keys, most), lanes)

    devices = frame.options.devices
    if not devices:
        trajectory = local(task, values, keys, most)
    else:
        arrays, rest = eqx.partition(task, eqx.is_array)
        shared = lambda arrays, members: local(eqx.combine(arrays, rest), *members)
        trajectory = over_devices(shared, devices, arrays, (values, keys, most))
    return dataclasses.replace(trajectory, over=values)


def in_chunks(function: Any, members: PyTree, size: int) -> Any:
    """A function of all members in equal turns of at most so many, filled up with repeats of the last member."""
    count = jax.tree.leaves(members)[0].shape[0]
    turns = -(-count // size)
    each = -(-count // turns)
    if each >= 16 * VECTOR:  # filling fewer up costs more than it saves
        each = min(size, -(-each // VECTOR) * VECTOR)
    filled = jax.tree.map(lambda x: _filled(x, turns * each), members)
    if turns == 1:
        found = function(*filled)
    else:
        chunks = jax.tree.map(lambda x: x.reshape(turns, each, *x.shape[1:]), filled)
        found = jax.lax.map(jax.checkpoint(lambda chunk: function(*chunk)), chunks)
        found = jax.tree.map(lambda x: x.reshape(turns * each, *x.shape[2:]), found)
    return jax.tree.map(lambda x: x[:count], found) if turns * each > count else found


def over_devices(function: Any, devices: tuple[Any, ...], shared: PyTree, members: PyTree) -> Any:
    """`function(shared, members)` with the members dealt out to devices like cards, so that a trend in their cost is shared."""
    count, size = jax.tree.leaves(members)[0].shape[0], len(devices)
    rows = -(-count // size)

    def dealt(x: Array) -> Array:
        x = _filled(x, rows * size)
        return jnp.swapaxes(x.reshape(rows, size, *x.shape[1:]), 0, 1).reshape(x.shape)

    def gathered(x: Array) -> Array:
        return jnp.swapaxes(x.reshape(size, rows, *x.shape[1:]), 0, 1).reshape(x.shape)[:count]

    everywhere = _everywhere(devices)
    # Every process gives all members and gets the whole result; the gradient's way back passes the same two places.
    whole = lambda tree: jax.lax.with_sharding_constraint(tree, everywhere) if jax.process_count() > 1 else tree
    specs = (PartitionSpec(), PartitionSpec("members"))
    spread = jax.shard_map(function, mesh=everywhere.mesh, in_specs=specs, out_specs=specs[1], check_vma=False)
    shared, members = whole((shared, members))
    return whole(jax.tree.map(gathered, spread(shared, jax.tree.map(dealt, members))))


def _everywhere(devices: tuple[Any, ...]) -> NamedSharding:
    """A copy on each of these devices."""
    return NamedSharding(Mesh(np.array(devices), ("members",), axis_types=(AxisType.Auto,)), PartitionSpec())


def _placed(leaves: list[Any], devices: tuple[Any, ...]) -> list[Any]:
    """Arrays on the devices that compute, wherever they were; among several processes JAX finds those that all of them have."""
    if not devices or jax.process_count() > 1:
        return leaves
    everywhere = _everywhere(devices)
    return [x if isinstance(x, jax.core.Tracer) else jax.device_put(x, everywhere) for x in leaves]


def _filled(x: Array, count: int) -> Array:
    if x.shape[0] == count:
        return x
    return jnp.concatenate([x, jnp.repeat(x[-1:], count - x.shape[0], axis=0)])


def member_values(setup: Setup, over: Mapping[str, Any]) -> tuple[dict[str, Array], int]:
    """The values of all members by path, checked against what they replace; and the number of members."""
    check_mapping("over", over, "values by path", '{"growth": [0.4, 0.5]}')
    if not over:
        raise ArgumentError(
            "Argument `over` must name at least one quantity, but it is empty. For one member take `simulate`."
        )
    values: dict[str, Array] = {}
    for path, given in over.items():
        leaf = setup.get(path)
        try:
            value = jnp.asarray(given)
            if jnp.iscomplexobj(value):
                raise TypeError("Quantities are real.")
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"Argument `over` must give real numbers for `{path}`, but gives {given!r}.") from error
        value = value.astype(leaf.dtype)
        if value.shape[1:] != leaf.shape or value.ndim == 0:
            raise ArgumentError(
                f"Argument `over` must give `{path}`, whose shape is {leaf.shape}, an array of shape "
                f"{('members', *leaf.shape)}, but its shape is {value.shape}.".replace("'", "")
            )
        values[path] = value
    sizes = {path: value.shape[0] for path, value in values.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"`{path}` has {size}" for path, size in sizes.items())
        raise ArgumentError(f"All values of `over` must be for the same number of members, but {listed}.")
    (members,) = set(sizes.values())
    if members == 0:
        raise ArgumentError("Argument `over` must hold at least one member, but its arrays are empty.")
    return values, members


def resolve_members(
    setup: Setup,
    values: Mapping[str, Any],
    members: int,
    times: ArrayLike | Sequence[Any],
    *,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
) -> Method:
    """One method for all members: a stiff one where any of a few of them, the first and the last among them, is stiff.

    **Arguments:**

    - `setup`: what all members have in common.
    - `values`: path -> the values of the members, shape `(members, ...)`.
    - `members`: their number.
    - `times`, `solver`, `step`: as in `simulate`.
    """
    if solver is not None or traced(setup, values, times) or isinstance(setup.system, StaticSystem):
        return resolve(setup.system, setup.y0, times, solver=solver, step=step, inputs=setup.inputs)
    found = []
    for member in np.unique(np.linspace(0, members - 1, PROBED).astype(int)):
        put = setup.put({path: value[member] for path, value in values.items()})
        found.append(resolve(put.system, put.y0, times, step=step, inputs=put.inputs))
    return next((method for method in found if method.solver is not None and method.solver.stiff), found[0])


def _member_keys(key: Any, members: int) -> Any:
    if key is None:
        return None
    if not isinstance(key, jax.Array) or key.ndim > 2:
        raise ArgumentError(
            f"Argument `key` must be a random key, such as `jax.random.key(0)`, or one a member, but it is {shown(key)}."
        )
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if (key.ndim if typed else key.ndim - 1) == 0:
        return jax.random.split(key, members)
    if key.shape[0] != members:
        raise ArgumentError(
            f"Argument `key` must be one key or one for each of {members} members, but there are {key.shape[0]}."
        )
    return key


def _devices(devices: Any, arguments: PyTree, members: int) -> tuple[Any, ...]:
    own = getattr(getattr(arguments[0].system, "grid", None), "devices", ())
    if own and devices is not None:
        raise ArgumentError(
            f"Argument `devices` must not be given where each member is spread over {len(own)} devices by its grid: leave out "
            "either."
        )
    if own:
        return ()
    if devices is not None:
        known = isinstance(devices, Sequence) and all(isinstance(device, jax.Device) for device in devices)
        if not known or not devices or len(set(devices)) < len(devices):
            raise ArgumentError(
                f"Argument `devices` must be a list of different devices, such as `jax.devices()[:1]`, but it is {devices!r}."
            )
        return tuple(devices)
    every = () if traced(arguments) or members < 2 else tuple(jax.devices())
    return every if len(every) > 1 else ()
