"""The verb `record`: a simulation part by part, each part in a file of its own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from .._budget import Within, budgeted, has_room
from .._doors import check_count, check_key, check_kind, check_progress, shown
from .._errors import ArgumentError, SimulationError, StoreError
from .._processes import spread
from .._progress import Progress, Say
from .._types import Inputs, State
from ..core import (
    DelayedSystem,
    JumpSystem,
    ParticleSystem,
    StaticSystem,
    System,
    Trajectory,
    as_inputs,
    as_state,
    check_system,
    started,
    traced,
)
from ..engine import Fixed, Varying, check_reducers, check_times, over_processes_of, resolve, simulate, with_room_for
from ..reducers import Reducer
from ..solvers import SolverLike
from ..stores import Journal, Together, describe, journal, packed, together, unpacked
from ._measure import Measured, as_probes, forms, measure
from ._recording import COUNTS, KIND, Recording, part_name, read_parts

PARTS = 100
"""Into so many parts a recording is cut where none are asked for."""
ROWS_BYTES = 2**25
"""The states at the times of a part take at most so many bytes of memory, where the number of times of a part is not given."""


def record(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[Any],
    *,
    store: str | Path,
    frames: int = 1,
    every: int | None = None,
    probes: Sequence[str] | Mapping[str, str | Callable[..., Any]] | None = None,
    reduce: Mapping[str, Reducer] | None = None,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
    callback: Callable[[Recording], object] | None = None,
    within: Within = None,
    progress: Say = None,
) -> Recording:
    """Simulate into a folder, part by part, so that a run may be long, larger than memory, and interrupted.

    Each part is a `simulate` from the state at which the part before it ended. Its frames, probes, totals of reducers and last
    state go into one file, which is whole or not there at all. The same call after an interrupt, a crash or `kill -9` goes on
    behind the last whole part and gives the same bits as an undisturbed call. With later times at the end it makes a finished run
    longer.

    **Arguments:**

    - `system`, `y0`, `solver`, `step`, `inputs`: as in `simulate`. A solver that is chosen is chosen once, at the start.
    - `times`: increasing, shape `(times,)`: when `probes` and `reduce` look at the state.
    - `store`: the folder, new or with this very recording in it. Processes whose devices hold one grid give the same folder, which
        all of them see: each writes its pieces.
    - `frames`: of so many times one state is kept, from the first on.
    - `every`: the number of times that go into one part: what is lost at worst. By default a hundredth of all, and at most as many
        as have states of 32 MiB together. An adaptive solve begins with a new first step in each part.
    - `probes`: names of outputs, or name -> a function (system, t, y) or the name of an output: small numbers kept at all times.
    - `reduce`: as in `simulate`; the totals go on from part to part.
    - `key`: a random key, for systems with noise, which is that of `simulate` over all times; jumps of part i draw from
        `fold_in(key, i)`.
    - `callback`: a function of the `Recording` so far, called after each part: a place for pictures of a run that goes on.
    - `within`: the time that this call may take, such as "2 h", "30 min" or seconds. It ends with the last part that is expected to
        be finished by then, and at least one; the same call goes on later, to the same bits.
    - `progress`: times, rate and time left, on terminals and in notebooks by default; True to print everywhere, False
        not at all, or a function that is given each line.

    **Returns:** a `Recording`, which reads from the folder what it is asked for.

    **Raises:** a `StoreError` where the folder holds another recording (it says what differs), is in use, or cannot be written;
    an `ArgumentError` for arguments that cannot work; a `SimulationError` where a part fails, while those before it are kept.

    ```python
    import numpy as np
    import simkit
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    times = np.linspace(0.0, 100.0, 1001)
    run = simkit.record(system, y0, times, store="long_run", frames=10, reduce={"mean": simkit.reducers.Mean()})
    print(run)
    print(run.final().hare)
    ```
    """
    check_system(system, y0)
    check_key(key)
    check_kind("store", store, str | Path, "the name of a folder", 'Write `store="my_run"`.')
    _check_served(system)
    y0 = as_state(system, started(y0))
    inputs = as_inputs(system, inputs, y0)
    if callback is not None and not callable(callback):
        raise ArgumentError(f"Argument `callback` must be a function of the recording, but it is {shown(callback)}.")
    check_progress(progress)
    if spread(y0):
        raise ArgumentError(
            "Argument `y0` of `record` must be known to every process, but each holds a part of it. Give the whole as NumPy "
            "arrays to each process; `simulate` goes on from such a state."
        )
    check_count("frames", frames)
    if every is not None:
        check_count("every", every)
    when = _times(y0, times)
    each = _part_size(y0, when) if every is None else every
    reducers, probed = check_reducers(reduce), as_probes(probes)
    definition = describe(
        {
            "system": system,
            "y0": y0,
            "inputs": inputs,
            "start": when[0],
            "solver": solver,
            "step": step,
            "key": key,
            "frames": frames,
            "probes": probed,
            "reduce": reducers,
        }
    )
    ready = system
    if isinstance(system, ParticleSystem):  # whose states may hold more than the start, such as a cell that changes
        ready, y0 = system.prepared(y0), system.encode(y0)
    form = forms(ready, when[0], y0, inputs, probed, reducers)
    shared = over_processes_of(system, y0)
    opened = (together if shared else journal)(store, KIND, definition, {"every": each})
    with budgeted(within, together=shared), opened as held:
        each = held.settings["every"]
        method = resolve(system, y0, when[: each + 1], solver=solver, step=step, inputs=inputs)

        def part(index: int, reached: Reached, part_times: np.ndarray) -> tuple[Trajectory, Measured, Reached]:
            # Noise of fixed steps depends on the time, that of jumps on their number alone.
            own = jax.random.fold_in(key, index) if key is not None and isinstance(system, JumpSystem) else key
            now, given = reached.system, {"solver": method.solver, "step": step, "inputs": inputs, "key": own}
            found = simulate(now, reached.state, part_times, **given)
            now = with_room_for(now, found.lists)
            measured = measure(now, found.times, found.ys, inputs, probed, reducers, reached.totals)
            return found, measured, Reached(now, found.final(), measured.totals)

        recording = Recording(held, {"frames": y0, "final": y0, "reduced": form[1]})
        plan = Plan(when, each, frames, form[0])
        quiet = shared and jax.process_index() > 0
        _complete(recording, part, plan, Reached(ready, y0, None), callback, False if quiet else progress)
        return recording


class Plan(NamedTuple):
    """The plan of a recording.

    - `every`: save times a part; `frames`: of so many times one frame is kept.
    - `totals`: the shapes of the totals of the reducers.
    """

    times: np.ndarray
    every: int
    frames: int
    totals: Any


class Reached(NamedTuple):
    """The state of a run between two parts.

    - `system`: with room for the neighbours that were met so far.
    - `totals`: those of the reducers; None at the start.
    """

    system: System
    state: State
    totals: Any


def _complete(
    recording: Recording,
    compute: Callable[[int, Reached, np.ndarray], tuple[Trajectory, Measured, Reached]],
    plan: Plan,
    start: Reached,
    callback: Callable[[Recording], object] | None,
    progress: Say,
) -> None:
    """Compute and write the parts that are missing."""
    held, times = recording.held, plan.times
    index, done, reached = _kept(held, plan, start)
    held.plan("part", "times", len(times) - 1, plan.every)
    with Progress(len(times) - 1, done, progress, "times") as counter:
        while done < len(times) - 1:
            if not has_room():
                recording.cut = True
                break
            last = min(done + plan.every, len(times) - 1)
            try:
                found, measured, reached = compute(index, reached, times[done : last + 1])
            except SimulationError as error:
                where = f"What came before time {times[done]:g} is kept in `{held.folder}`."
                raise SimulationError(f"{error} {where if index else ''}".strip()) from error
            content = _content(found, measured, done, plan.frames)
            if isinstance(held, Together):
                held.write_tree(part_name(index), content)
            else:
                held.write(part_name(index), packed(content))
            counter.add(last - done)
            index, done = index + 1, last
            if callback is not None:
                callback(recording)


def _kept(held: Journal | Together, plan: Plan, start: Reached) -> tuple[int, int, Reached]:
    """Count the whole parts and the times that they reach, and return where the run stands after them.

    **Raises:** a `StoreError` where they have other times.
    """
    count, done, last, system = 0, 0, None, start.system
    for last in read_parts(held):
        there = last["times"]
        asked = plan.times[done : done + len(there)]
        if not np.array_equal(there[: len(asked)], asked):
            raise StoreError(
                f"The store `{held.folder}` was recorded at other times from {there[0]:g} to {there[-1]:g}: argument `times` may "
                "have more times at its end, and is otherwise that of the first call. Choose another store, or remove this one."
            )
        if isinstance(system, ParticleSystem):
            met = jax.eval_shape(
                lambda system, state: system.tally(system.listed(state)), system.limited(), start.state
            )
            system = with_room_for(system, unpacked(last, {"lists": met})["lists"])
        count, done = count + 1, done + len(there) - 1
    if last is None:
        return 0, 0, start
    ended = unpacked(last, {"final": start.state, "totals": plan.totals})
    return count, done, Reached(system, ended["final"], ended["totals"])


def _content(found: Trajectory, measured: Measured, done: int, frames: int) -> dict[str, Any]:
    """The content of the file of a part: its first state is that of the part before, unless it is the first of the run."""
    rows = [i for i in range(int(done > 0), len(found.times)) if (done + i) % frames == 0]
    return {
        "times": found.times,
        "frame_times": found.times[np.array(rows, int)],
        "frames": jax.tree.map(lambda x: x[np.array(rows, int)] if spread(x) else np.asarray(x)[rows], found.ys),
        "final": found.final(),
        "counts": {name: getattr(found, name) for name in COUNTS},
        "lists": found.lists,
        **measured._asdict(),
    }


def _check_served(system: System) -> None:
    """Refuse systems whose runs cannot be cut into parts."""
    if isinstance(system, StaticSystem):
        raise ArgumentError(
            f"Argument `system` must have dynamics to be recorded, but `{type(system).__name__}` has none. Call `simulate`."
        )
    if isinstance(system, DelayedSystem):
        raise ArgumentError(
            f"Argument `system` must not have delays to be recorded, but `{type(system).__name__}` depends on its past, of which "
            "a part keeps only the last state. Call `simulate`."
        )


def _times(y0: State, times: Any) -> np.ndarray:
    """The times in the float type of the state."""
    given = check_times(times)
    if traced((given, y0)):
        raise ArgumentError(
            "`record` writes files, so its arguments must be known, but some are traced. Call it outside of `jit`."
        )
    array = np.asarray(given)
    if array[0] > array[-1]:
        raise ArgumentError(
            "Argument `times` must increase where a run is recorded, but they decrease. Call `simulate`."
        )
    return np.asarray(array, jnp.finfo(jnp.result_type(*jax.tree.leaves(y0))).dtype)


def _part_size(y0: State, times: np.ndarray) -> int:
    """The number of times of a part where none is given."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(y0))
    return max(1, min(-(-(len(times) - 1) // PARTS), ROWS_BYTES // max(size, 1)))
