"""One chunk of a sweep, computed and written by whichever process gets it."""

import contextlib
import dataclasses
import functools
import importlib.metadata
import pickle
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from .._errors import ArgumentError
from ..core import Events, Setup, StaticSystem, Status, Trajectory, field_metadata, named_leaves, with_fields
from ..engine import ensemble
from ..stores import Place, import_file, loaded_files, write_text
from ._chunk import COUNTS, VALUES, Chunk, Variable, made_chunk
from ._store import writing
from ._view import missing

_devices_taken = threading.Lock()

Measure = Callable[[Any, Trajectory], Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """Common part of all chunks of a sweep.

    - `folder`, `identity`, `size`: the store, the sweep's SHA-256 and the number of members of a whole chunk.
    - `setup`, `times`, `solver`, `step`, `key`, `measure`, `lanes`, `devices`: what `sweep` was given, completed.
    - `x64`: whether float64 was enabled where the sweep was called.
    - `mark`: the name of a file by which a worker knows that it sees the store; empty where work stays in one process.
    - `versions`: name -> version of the packages on which numbers depend.
    """

    folder: Place
    identity: str
    size: int
    setup: Setup
    times: Any
    solver: Any
    step: Any
    key: Any
    measure: Measure | None
    lanes: int | None
    devices: Any
    x64: bool
    mark: str
    versions: Mapping[str, str]


class Part(NamedTuple):
    """One chunk to compute.

    - `number`, `first`: its number and its first member; `values`: those of its members by path.
    - `rows`: which member of the chunk is computed in each place, where some are left out and others stand in for them.
    - `keeps_values`: True where the file of the chunk holds the values of its members, too.
    """

    number: int
    first: int
    values: dict[str, np.ndarray]
    rows: np.ndarray | None = None
    keeps_values: bool = False

    @property
    def size(self) -> int:
        return len(next(iter(self.values.values())))

    def without(self, left_out: np.ndarray) -> "Part":
        """The part with a neighbour in the place of each member that is left out.

        The others keep their places, so that their bits do not change.
        """
        kept = np.flatnonzero(~left_out)
        rows = kept[np.clip(np.searchsorted(kept, np.arange(self.size)), 0, len(kept) - 1)]
        return self._replace(rows=rows)


class Done(NamedTuple):
    """One chunk: which file, how its members ended, how long it took, and the file's content where it is still to be written."""

    chunk: Chunk
    status: np.ndarray
    seconds: float
    content: bytes | None


def compute(job: Job | bytes, part: Part) -> Done:
    """Compute a chunk and write its file; a worker that does not see the store sends the file back.

    A last chunk that is not full is filled up with its last member, so that one compiled program serves all.
    """
    begin = time.perf_counter()
    job = _unpacked(job) if isinstance(job, bytes) else job
    with _float_types(job.x64), _turn():
        results, variables = run_members(_on_device(job), part)
    if part.rows is not None:
        _leave_out(results, part.rows != np.arange(part.size))
    if part.keeps_values:
        for path, value in part.values.items():
            axes = tuple(f"{path}_axis{i}" for i in range(value.ndim - 1))
            results[VALUES + path] = value
            variables[VALUES + path] = Variable(value.shape[1:], value.dtype, axes, job.setup.metadata(path).unit)
    chunk, content = made_chunk(job.folder, job.identity, part.number, part.first, results, variables)
    if not job.mark or _sees(job.folder, job.mark):
        with writing(job.folder):
            write_text(chunk.path, content)
        content = None
    return Done(chunk, results["status"], time.perf_counter() - begin, content)


def rehearse(job: Job | bytes, part: Part) -> None:
    """Compute a chunk and keep nothing of it: to find out which members let a worker die."""
    job = _unpacked(job) if isinstance(job, bytes) else job
    with _float_types(job.x64), _turn():
        run_members(_on_device(job), part)


def _leave_out(results: dict[str, np.ndarray], left_out: np.ndarray) -> None:
    """Mark members whose worker died each time, in place."""
    for name, values in results.items():
        results[name] = values.copy()
        results[name][left_out] = 0 if name in COUNTS else missing(values.dtype)
    results["status"][left_out] = Status.WORKER_DIED


def installed() -> dict[str, str]:
    """Name -> version of the packages on which the numbers of a sweep depend."""
    return {name: importlib.metadata.version(name) for name in ("simkit", "jax", "jaxlib")}


@functools.lru_cache(maxsize=8)
def _sees(folder: Place, mark: str) -> bool:
    """Tell whether this process sees the store of the sweep, and not another folder of that name."""
    try:
        return (folder / mark).exists()
    except OSError:
        return False


def run_members(job: Job, part: Part) -> tuple[dict[str, np.ndarray], dict[str, Variable]]:
    """The results of the members of a part, and what they look like."""
    rows = np.arange(part.size) if part.rows is None else part.rows
    rows = np.concatenate([rows, np.repeat(rows[-1:], job.size - part.size)])
    values = {path: jnp.asarray(value[rows]) for path, value in part.values.items()}
    keys = None
    if job.key is not None:  # by the member's number: whatever the size of the chunks, a member has the same key
        keys = _member_keys(job.key, jnp.asarray(part.first + rows))
    trajectory = _on_one_device(_trajectories(job, values, keys))
    measure = default_measure(job.setup) if job.measure is None else job.measure
    if measure is None:
        named, dims, prefix = trajectory.ys, ("time",), "y0"
    else:
        room = 0 if job.setup.events is None else job.setup.events.room
        named, dims, prefix = _measured(measure, job.setup, values, _cut(trajectory, room)), (), ""
    results = {name: np.asarray(getattr(trajectory, name))[: part.size] for name in COUNTS}
    variables = {name: Variable((), results[name].dtype, (), "1") for name in COUNTS}
    for name, array in _named(named, measure is None).items():
        results[name] = np.asarray(array)[: part.size]
        shape = results[name].shape[1:]
        axes = (*dims, *(f"{name}_axis{i}" for i in range(len(shape) - len(dims))))
        variables[name] = Variable(shape, results[name].dtype, axes, _unit(job.setup, prefix, name))
    return results, variables


def default_measure(setup: Setup) -> Measure | None:
    """Return the default measure of a member: the states (None), or the outputs of a system without any."""
    return _outputs if isinstance(setup.system, StaticSystem) else None


def pack(job: Job) -> bytes:
    """A job as bytes for another process, which opens them once for all its chunks.

    **Raises:** an `ArgumentError` where something in it cannot travel.
    """
    job = dataclasses.replace(job, key=None if job.key is None else _KeyData.of(job.key))
    try:
        content = _pickler()(jax.tree.map(_as_numpy, _fields(job)))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ArgumentError(
            f"The system, the inputs and `measure` must be able to travel to other processes, but: {error}. Define classes and "
            "functions at the top of a module, not inside of functions, and leave `devices` to the workers."
        ) from error
    # Workers import the user's own files first: classes travel by the names of their modules.
    return pickle.dumps((loaded_files(), dict(job.versions), content))


def _pickler() -> Callable[[Any], bytes]:
    """cloudpickle, which Dask brings, also takes what is defined in a notebook."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps
    return cloudpickle.dumps


@functools.lru_cache(maxsize=2)
def _unpacked(content: bytes) -> Job:
    files, versions, inner = pickle.loads(content)
    differ = [
        f"{name} {installed()[name]} in place of {known}"
        for name, known in versions.items()
        if installed()[name] != known
    ]
    if differ:
        raise ArgumentError(
            f"Workers must have the versions of the process that called `sweep`, but one has {' and '.join(differ)}. Install the "
            "same ones there: chunks of different versions are no one sweep."
        )
    for file in files:
        import_file(file)
    return Job(**pickle.loads(inner))


def _fields(job: Job) -> dict[str, Any]:
    return {field.name: getattr(job, field.name) for field in dataclasses.fields(job)}


class _KeyData(NamedTuple):
    """A random key as an array."""

    kind: str
    data: Any

    @classmethod
    def of(cls, key: PRNGKeyArray) -> "_KeyData":
        return cls(str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)))


def _as_numpy(leaf: object) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _on_device(job: Job) -> Job:
    """The job with its arrays in the float types they had: made only here, where float64 is enabled as it was."""
    key = job.key
    if isinstance(key, _KeyData):
        key = jax.random.wrap_key_data(jnp.asarray(key.data), impl=key.kind)
    arrays = {name: jax.tree.map(_as_jax, getattr(job, name)) for name in ("setup", "solver", "step")}
    return dataclasses.replace(job, key=key, **arrays)


def _as_jax(leaf: object) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf


def is_x64() -> bool:
    """Tell whether float64 is enabled here."""
    return jnp.result_type(float) == jnp.float64


def _turn() -> contextlib.AbstractContextManager[Any]:
    """One chunk at a time over several devices; threads that started programs there in another order would wait for each other."""
    return _devices_taken if jax.local_device_count() > 1 else contextlib.nullcontext()


def _float_types(x64: bool) -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext() if is_x64() == x64 else jax.enable_x64(x64)


@jax.jit
def _member_keys(key: PRNGKeyArray, members: Array | np.ndarray) -> Any:
    return jax.vmap(lambda member: jax.random.fold_in(key, member))(members)


def _on_one_device(trajectory: Trajectory) -> Trajectory:
    """Gather the results of several devices: `measure` then runs as it is, not divided up by the compiler."""
    devices = trajectory.status.devices()
    if len(devices) == 1:
        return trajectory
    return jax.device_put(trajectory, min(devices, key=lambda device: device.id))


def _trajectories(job: Job, values: Mapping[str, Any], keys: PyTree) -> Trajectory:
    setup, events = job.setup, job.setup.events
    return ensemble(
        setup.system,
        setup.y0,
        job.times,
        over=values,
        lanes=job.lanes,
        devices=job.devices,
        solver=job.solver,
        step=job.step,
        inputs=setup.inputs,
        key=keys,
        events=None if events is None else dict(events.items()),
        on_failure="mark",
        progress=False,
    )


def _cut(trajectory: Trajectory, room: int) -> Trajectory:
    """A trajectory whose list of events has the same room in every chunk."""
    events, lead = trajectory.events, trajectory.status.ndim
    if events is None:
        return trajectory
    cut = lambda x: jax.lax.slice_in_dim(x, 0, room, axis=lead)
    sides = jax.tree.map(cut, (events.before, events.after))
    events = Events(events.names, events.count, cut(events.times), cut(events.which), *sides)
    return with_fields(trajectory, events=events)


@eqx.filter_jit
def _measured(measure: Measure, setup: Setup, values: Mapping[str, Any], trajectory: Trajectory) -> Any:
    """`measure` of every member."""

    def one(values: Mapping[str, Any], member: Trajectory) -> Any:
        put = setup.put(values)
        return _outputs(put, member) if measure is _outputs else measure(put.system, member)

    return jax.vmap(one)(values, trajectory)


def _outputs(setup: Setup, trajectory: Trajectory) -> Any:
    """The outputs of a static system at every predictor."""
    return jax.vmap(lambda x: setup.system.outputs(x, setup.y0, setup.inputs))(trajectory.times)


def _named(tree: PyTree, states: bool) -> dict[str, Any]:
    named = named_leaves(tree)
    if states:
        return {name or "y": leaf for name, leaf in named.items()}
    wrong = [name for name in named if not name or name in COUNTS or "/" in name]
    if wrong or not named:
        raise ArgumentError(
            'Argument `measure` must return named arrays, such as {"peak": ...}, under other names than '
            f"{', '.join(COUNTS)} and without slashes, but it returned {sorted(wrong) or type(tree).__name__}."
        )
    return named


def _unit(setup: Setup, prefix: str, name: str) -> str:
    if not prefix:
        return "1"
    owner, _, last = name.rpartition(".")
    node: Any = setup.y0
    for word in filter(None, owner.split(".")):
        node = getattr(node, word, None)
    return field_metadata(node, last).unit
