"""sweep: an ensemble larger than memory and longer than a night."""

import contextlib
import dataclasses
import secrets
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._budget import Budget, Within
from .._doors import check_kind, check_progress
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from .._types import Inputs, State
from ..core import (
    Event,
    Setup,
    StaticSystem,
    System,
    as_events,
    as_inputs,
    as_state,
    check_roots,
    check_supports,
    check_system,
)
from ..engine import Fixed, Varying, check_events, resolve_members
from ..solvers import SolverLike
from ..stores import Lock, Unlocked, describe, lock_of, place, write_text
from ._chunk import Chunk, spans, variables_of
from ._execute import Source, alone, drive, is_death
from ._guilty import guilty_members
from ._job import Done, Job, Measure, Part, compute, installed, is_x64, pack, rehearse
from ._members import Members
from ._prepare import prepare_store
from ._result import Sweep
from ._rules import Rule
from ._store import Store, writing
from ._view import write_view


def sweep(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    over: Mapping[str, Any] | Rule,
    store: str | Path,
    chunk: int = 1024,
    executor: object = None,
    measure: Measure | None = None,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: object = None,
    events: Event | Sequence[Event] | Mapping[str, Event] | None = None,
    lanes: int | None = None,
    devices: Sequence[Any] | None = None,
    retries: int = 3,
    within: Within = None,
    progress: Say = None,
) -> Sweep:
    """Simulate many members that differ in the quantities named by `over`, chunk by chunk, into a folder.

    Every chunk is an `ensemble` of some members, written to a file of its own that is whole or not there at all. A sweep that was
    interrupted, killed, or met a full disk is called again as before and goes on with what is missing; the numbers do not depend on
    that, nor on the executor. With more members behind those of before it computes these only, beside a last chunk that was not
    full. Members that fail are marked and listed; chunks that raise or kill their worker are tried again, then set aside and
    listed; of one that kills its worker, members with whom alone it dies are marked and listed in place of the chunk.

    **Arguments:**

    - `system`, `y0`, `times`, `solver`, `step`, `inputs`: as in `simulate`. A solver that is chosen is chosen for all members, by a
        few of them.
    - `over`: path -> the values of the members, shape `(members,)` or `(members, *shape)` of what the path names. All have one
        length. `simkit.sweeps` makes such dictionaries: `grid`, `points`, `sobol_design`. For more members than fit into memory a
        rule, which makes the values of a chunk when it is computed: `GridRule`, `PointsRule`, `FunctionRule`.
    - `store`: the folder, new or with this very sweep in it, or the URL of one in an object store, such as `s3://bucket/sweep`.
        Workers that do not see it send their chunks back.
    - `chunk`: how many members a file holds: what is lost at worst per worker. 256 to 4096 are good values for small systems; the
        states of one chunk at all `times` must fit into memory twice.
    - `executor`: who computes: None for this process; a `concurrent.futures.Executor`; a client of Dask; or a function without
        arguments that makes an executor, which is then called again when a worker dies and takes the pool with it.
    - `measure`: `measure(system, trajectory)` makes named arrays of one member's trajectory, such as `{"peak": ...}`, which are
        stored in place of the states. Defined at the top of a module.
    - `key`: a random key, for stochastic systems. Member i gets `fold_in(key, i)`, whatever the chunks.
    - `events`: as in `ensemble`; states after an event that ends a member are NaN. The events themselves are for `measure`, whose
        trajectory has room for as many as `keep` of each `Event` says.
    - `lanes`, `devices`: as in `ensemble`.
    - `retries`: how often a chunk that fails is tried again before it is set aside.
    - `within`: the time that this call may take, such as "2 h", "30 min" or seconds. It ends with the last chunk that is
        expected to be finished by then, and at least one; the same call goes on later, to the same bits.
    - `progress`: members, rate and time left, on terminals and in notebooks by default; True to print everywhere, False
        not at all, or a function that is given each line.

    **Returns:** a `Sweep`, which reads from the folder what it is asked for.

    **Raises:** a `StoreError` where the folder holds another sweep (it says what differs), is in use by another process, or
    cannot be written; an `ArgumentError` or an `UnknownNameError` for arguments that cannot work; a `SimulationError` where no
    chunk at all could be computed.

    ```python
    import jax
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    ranges = {"growth": (0.3, 1.0), "y0.hare": (5.0, 50.0, "log")}
    points = simkit.sweeps.points(ranges, 64, key=jax.random.key(1))
    found = simkit.sweep(system, y0, times, over=points, store="lynx_sweep", chunk=32)
    print(found)
    peaks = found["hare"][:].max(axis=1)
    ```
    """
    check_system(system, y0)
    check_kind("store", store, str | Path, "the name of a folder", 'Write `store="my_sweep"`.')
    check_roots(system)
    y0 = as_state(system, y0)
    setup = Setup(system, y0, as_inputs(system, inputs, y0), events=as_events(events))
    check_supports(system)
    members = Members.of(setup, over)
    _check_counts(chunk, retries)
    check_progress(progress)
    budget = Budget(within)
    times = _times(setup, times)
    check_events(setup.events, system, np.asarray(times))
    probed = len(next(iter(members.probed.values())))
    method = resolve_members(setup, members.probed, probed, times, solver=solver, step=step)
    size = min(chunk, members.count)
    key = _typed_key(key)
    put = setup.put({path: value[0] for path, value in members.probed.items()})
    parts = {
        **{root: getattr(put, root) for root in ("system", "y0", "inputs", "noise")},
        **({} if events is None else {"events": put.events}),  # a store of before events is the same sweep
        "times": times,
        "solver": method.solver,
        "step": method.step,
        "key": key,
        "measure": measure,
        "chunk": size,
        **members.definition(),
    }
    folder = place(store)
    with contextlib.ExitStack() as stack:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(lock_of(folder).hold())
            held = prepare_store(folder, describe(parts), chunk=size, times=times, members=members)
            held.clean()
            chunks = held.whole_chunks()
        x64 = is_x64()
        solved = method.solver, method.step
        fixed = folder, held.identity, size, setup, times
        job = Job(*fixed, *solved, key, measure, lanes, devices, x64, mark="", versions=installed())
        rate = _run(held, chunks, job, members, executor, retries, progress, lock, budget)
    return Sweep(held, chunks, structure=jax.tree.structure(setup.y0), rate=rate, cut=budget.cut)


def _run(
    store: Store,
    chunks: dict[int, Chunk],
    job: Job,
    members: Members,
    executor: object,
    retries: int,
    progress: Say,
    lock: Lock | Unlocked,
    budget: Budget,
) -> float | None:
    """Compute the chunks that are missing, and write the view; the rate in members a second."""
    layout = {index: (first, size) for index, first, size in spans(store.members, store.chunk)}
    missing = [index for index in layout if index not in chunks]
    counter = Progress(store.members, sum(layout[index][1] for index in chunks), progress)

    def part(index: int) -> Part:
        lock.check()
        first, size = layout[index]
        return Part(index, first, members.at(first, size), keeps_values=members.rule is not None)

    def finished(done: Done) -> None:
        if done.content is not None:
            with writing(store.folder):
                write_text(done.chunk.path, done.content)
        chunks[done.chunk.number] = done.chunk
        store.forget_set_aside(done.chunk.number)
        counter.add(done.status.size, int((done.status != 0).sum()))

    if missing:
        source = Source(executor)
        try:
            last = None
            with counter, _marked(store, job, source.is_here) as job:
                sent = job if source.is_here else pack(job)
                call = lambda i: (compute, (sent, part(i)))
                lost = drive(source, missing, call, retries=retries, finished=finished, has_room=budget.has_room)
                killers = []
                for index, tries, last in lost:
                    with writing(store.folder):
                        store.note_set_aside(index, _note(part(index), tries, last))
                    killers += [index] if is_death(last) else []
                for index in killers:
                    done = _without_guilty(source, sent, part(index), lock, budget)
                    if done is not None:
                        finished(done)
            if not chunks and last is not None:
                raise SimulationError(
                    f"No chunk could be computed; the last one failed with {type(last).__name__}: {_first_line(last)}"
                ) from last
        except BaseException:
            with contextlib.suppress(OSError):  # what ended the sweep is told, not that its view is missing as well
                _view(store, chunks)
            raise
        finally:
            source.close()
    with writing(store.folder):
        _view(store, chunks)
    return counter.rate if counter.computed else None


def _without_guilty(
    source: Source, sent: Job | bytes, part: Part, lock: Lock | Unlocked, budget: Budget
) -> Done | None:
    """A chunk whose worker died each time, computed without the members that let it die; None where those are not found."""

    def dies(members: np.ndarray) -> bool | None:
        lock.check()
        if not budget.has_room():
            return None
        return is_death(alone(source, (rehearse, (sent, part.without(~members))))[1])

    found = guilty_members(part.size, dies)
    return None if found is None else alone(source, (compute, (sent, part.without(found))))[0]


@contextlib.contextmanager
def _marked(store: Store, job: Job, is_here: bool) -> Iterator[Job]:
    """Mark the store, so that workers elsewhere know whether they see it: those that do not send their chunks back."""
    if is_here:
        yield job
        return
    name = f".seen-{secrets.token_hex(8)}.part"
    with writing(store.folder):
        (store.folder / name).write_bytes(b"seen")
    try:
        yield dataclasses.replace(job, mark=name)
    finally:
        with contextlib.suppress(OSError):
            (store.folder / name).unlink(missing_ok=True)


def _view(store: Store, chunks: Mapping[int, Chunk]) -> None:
    if chunks:
        write_view(store, chunks, variables_of(next(iter(chunks.values()))))


def _note(part: Part, tries: int, error: BaseException) -> dict[str, Any]:
    """Return the note on a chunk that is set aside."""
    return {
        "chunk": part.number,
        "first": part.first,
        "members": part.size,
        "tries": tries,
        "error": f"{type(error).__name__}: {_first_line(error)}",
        "values": {path: [float(value.min()), float(value.max())] for path, value in part.values.items()},
        "first_values": {path: value[0].tolist() for path, value in part.values.items()},
        "traceback": "".join(traceback.format_exception(error)),
    }


def _first_line(error: BaseException | None) -> str:
    return (str(error).splitlines() or [""])[0]


def _times(setup: Setup, times: object) -> np.ndarray:
    """The times in the float type of the state."""
    floats = jnp.result_type(float)
    if not isinstance(setup.system, StaticSystem) and (leaves := jax.tree.leaves(setup.y0)):
        floats = jnp.result_type(*leaves)
    try:
        return np.asarray(times, floats)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `times` must be numbers, but it is {times!r}.") from error


def _typed_key(key: object) -> Any:
    """A random key, also where it is an array, as JAX's older keys are."""
    if key is None:
        return None
    if not isinstance(key, jax.Array):
        raise ArgumentError(f"Argument `key` must be a random key, such as `jax.random.key(0)`, but it is {key!r}.")
    return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)


def _check_counts(chunk: object, retries: object) -> None:
    for name, value, least in (("chunk", chunk, 1), ("retries", retries, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ArgumentError(f"Argument `{name}` must be a whole number of at least {least}, but it is {value!r}.")
