"""States of a run in files, for reverse mode: the choice of a user, the files, and the loop whose segments begin in them."""

import atexit
import dataclasses
import itertools
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError
from ...core import DelayedSystem, JumpSystem, ParticleSystem, StaticSystem
from ..batching._mesh import alike
from ..task._step import Fixed
from ._checkpointed import WORKING_STATES, Checkpointed, format_bytes, parse_memory
from ._long_scan import Loop

MEMORY = 2**26  # bytes: what reverse mode holds of one segment by default


@dataclasses.dataclass(frozen=True)
class OnDisk:
    """Reverse mode whose record is in files: `gradient=OnDisk("scratch")`.

    Two levels of checkpoints. The states with which segments of fixed steps begin are written to files while the run goes on;
    reverse mode reads them from the last to the first, computes the steps of one segment again, and keeps in memory what it
    needs of that one alone. The segments are as long as `memory` allows. The gradient is that of `Checkpointed` with segments
    of the same length, to the bit.

    **Arguments:**

    - `folder`: where to write, made if it is missing: a disk of the machine that runs; "~" is the home directory. The files lie
        in a folder of their own in it, `record-...`, which is removed when the process ends; one that a killed process left may
        be deleted. A run of n steps writes one state for each segment and member. What was read gives way to what is written
        later: the folder holds at most twice what waits to be read at the most.
    - `memory`: bytes of one member's segment, as in `Checkpointed`. Good values: 64 MiB (the default), or what the
      fastest memory holds.
    - `keep`: keep all files until the process ends, for a function that `jax.vjp` returned and that is called again after
        other gradients. Without it that may be an error: a record that gave way to others is missing.

    It serves fixed steps without events, in `simulate` and `ensemble`, under `jit`, `vmap` and `shard_map` (each member writes
    files of its own). Forward mode needs no record and writes none that is kept; second derivatives through a record are refused,
    since what was read from a file would count as a constant.

    **Raises:** `ArgumentError` where the folder cannot be written, `memory` is no positive amount or too small for one step, the
    steps are adaptive, or there are events; an error of the run where the disk is full, or a record is missing.

    **Reference:** A. Griewank, A. Walther (2000), doi:10.1145/347837.347846; two levels of storage: G. Aupy et al. (2016),
    Optimal multistage algorithm for adjoint computation, SIAM Journal on Scientific Computing 38, C232, doi:10.1137/15M1019222
    (here with segments of equal lengths).

    ```python
    import jax
    import tempfile
    import simkit

    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    with tempfile.TemporaryDirectory() as folder:
        record = simkit.OnDisk(folder, memory="8 kB")
        last = lambda y0: simkit.simulate(system, y0, times, step=0.01, gradient=record).final().hare
        print(jax.grad(last)(y0))
    ```
    """

    folder: str | os.PathLike[str]
    memory: int | str = MEMORY
    keep: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike):
            raise ArgumentError(f'Argument `folder` must be a path, such as "scratch", but it is {self.folder!r}.')
        if not isinstance(self.keep, bool):
            raise ArgumentError(f"Argument `keep` must be True or False, but it is {self.keep!r}.")
        if not str(self.folder):
            raise ArgumentError('Argument `folder` must not be empty. Write "." for the directory of the process.')
        object.__setattr__(self, "folder", str(Path(self.folder).expanduser().absolute()))
        remedy = 'such as `OnDisk("scratch", memory="64 MiB")` or `OnDisk("scratch", memory=50_000_000)`.'
        object.__setattr__(self, "memory", parse_memory(self.memory, remedy, "Argument `memory` of `OnDisk`"))

    def __repr__(self) -> str:
        return f"OnDisk({str(self.folder)!r}, memory={format_bytes(int(self.memory))!r})"


class Files:
    """Folder of the records of this process: one file for each state, by a ticket that no other state ever has.

    What was read may be asked for again, since the compiler makes one run of two equal ones. It stays until newer records take
    its place: the read ones hold no more bytes than the unread ones held at the most.
    """

    def __init__(self, choice: OnDisk) -> None:
        self.given = choice.folder
        try:
            Path(choice.folder).mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix="record-", dir=choice.folder))
        except OSError as error:
            raise ArgumentError(
                f"Argument `folder` of `OnDisk` must be one that can be written, but {choice.folder} cannot: {error}."
            ) from error
        self.keep = choice.keep
        self.unread: dict[int, int] = {}  # bytes by ticket
        self.read_before: dict[int, int] = {}  # from the first that was read to the last
        self.waiting = self.most = self.held = 0  # bytes unread, the most of them, and bytes that were read
        self.lock = threading.Lock()
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, *leaves: Any) -> np.ndarray:
        """Write the states of all members; their tickets. The last argument is a number of each member, which tells their shape."""
        arrays = [np.asarray(x) for x in leaves]
        like = arrays.pop()
        tickets = np.zeros(like.shape, np.uint32)
        for place in np.ndindex(*like.shape):
            ticket = next(_TICKETS)
            tickets[place] = ticket
            path = self.folder / f"{ticket}"
            try:
                with open(path, "wb") as file:
                    for leaf in arrays:
                        np.save(file, leaf[place], allow_pickle=False)
                    size = file.tell()
            except OSError as error:
                path.unlink(missing_ok=True)
                raise RuntimeError(
                    f"A record could not be written to the folder {self.given} of `OnDisk`: {error}. Where its disk is full, free "
                    "it, take a folder on a larger one, or a larger `memory`, which makes fewer records."
                ) from error
            with self.lock:
                self.unread[ticket] = size
                self.waiting += size
                self.most = max(self.most, self.waiting)
        return tickets

    def read(self, shapes: Any, tickets: Any) -> Any:
        """Read states by their tickets, members in front; NaN where the ticket is 0, that of a member without a run."""
        tickets = np.asarray(tickets)
        found = [np.zeros((*tickets.shape, *shape), dtype) for shape, dtype in shapes]
        for place in np.ndindex(*tickets.shape):
            ticket = int(tickets[place])
            if not ticket:
                for leaf in found:
                    if leaf.dtype.kind in "fc":
                        leaf[place] = np.nan
                continue
            try:
                with open(self.folder / f"{ticket}", "rb") as file:
                    for leaf in found:
                        leaf[place] = np.load(file, allow_pickle=False)
            except FileNotFoundError as error:
                raise RuntimeError(
                    f"Record {ticket} is missing in the folder {self.given} of `OnDisk`: the folder was removed after the run that "
                    "wrote it, or the record was read before and newer ones took its place. Leave the folder until the gradient is "
                    "there; where one record serves again after other gradients, as that of a function of `jax.vjp` which is "
                    "called twice, take `OnDisk(..., keep=True)`."
                ) from error
            if not self.keep:
                self._was_read(ticket)
        return tuple(found)

    def _was_read(self, ticket: int) -> None:
        """Count a record among those that were read, and remove the oldest of these where they are too many."""
        with self.lock:
            size = self.unread.pop(ticket, 0)
            self.waiting -= size
            self.held += size
            self.read_before[ticket] = self.read_before.pop(ticket, 0) + size
            while self.held > self.most:
                oldest = next(iter(self.read_before))
                self.held -= self.read_before.pop(oldest)
                (self.folder / f"{oldest}").unlink(missing_ok=True)


_TICKETS = itertools.count(1)  # of the whole process; 0 is no ticket
_OPEN: dict[tuple[str, bool], Files] = {}
_LOCK = threading.Lock()


def files_of(choice: OnDisk) -> Files:
    """The open folder of a choice, made on first use and where it was removed."""
    key = str(choice.folder), choice.keep
    with _LOCK:
        found = _OPEN.get(key)
        if found is None or not found.folder.exists():
            found = _OPEN[key] = Files(choice)
        return found


def segment_length(choice: OnDisk, steps: int, carry: int, state: int, stages: int = 0) -> tuple[int, bool]:
    """The steps of a segment, and whether it keeps the slopes of its stages beside the carries of `carry` bytes each."""
    index = 4  # a step's number, kept beside its carry
    free = int(choice.memory) - WORKING_STATES * state
    each = carry + index + stages
    if stages and free >= min(steps, 2) * each:
        return min(steps, free // each), True
    if free < carry + index:
        raise ArgumentError(
            f"Argument `memory` of `OnDisk` must be at least {format_bytes(WORKING_STATES * state + carry + index)} a "
            f"member, which the derivative of a single step holds, but it is {format_bytes(int(choice.memory))}."
        )
    return min(steps, free // (carry + index)), False


def disk_loop(choice: OnDisk, segment: Any, length: int, size: int) -> Loop:
    """A loop of segments of `size` steps, the last of what is left. `segment(given, (carry, i), size)` is the state after one."""
    count, rest = divmod(length, size)

    def ahead(given: PyTree, carry: PyTree) -> Any:
        return recorded(given, carry, False)[0]

    def recorded(given: PyTree, carry: PyTree, wanted: bool = True) -> Any:
        def one(state: PyTree, _: None) -> Any:
            ticket = _write(choice, state) if wanted else None
            return segment(given, state, size), ticket

        state = carry, jnp.zeros((), jnp.int32)
        state, tickets = jax.lax.scan(one, state, None, length=count)
        if not rest:
            return state[0], (tickets, None)
        last = _write(choice, state) if wanted else None
        return segment(given, state, rest)[0], (tickets, last)

    def back(given: PyTree, begin: PyTree, end: PyTree, record: PyTree, cotangents: PyTree) -> Any:
        moving, fixed = eqx.partition(given, eqx.is_inexact_array)
        tickets, last = record

        def pulled(ticket: Array, size: int, cotangents: PyTree) -> Any:
            carry, i = _read(choice, (begin, jnp.zeros((), jnp.int32)), ticket)
            ran = lambda moving, carry: segment(eqx.combine(moving, fixed), (carry, i), size)[0]
            return jax.vjp(ran, moving, carry)[1](cotangents)

        total = jax.tree.map(jnp.zeros_like, moving)
        if rest:
            more, cotangents = pulled(last, rest, cotangents)
            total = jax.tree.map(jnp.add, total, more)

        def one(state: PyTree, ticket: Array) -> Any:
            total, cotangents = state
            more, cotangents = pulled(ticket, size, cotangents)
            return (jax.tree.map(jnp.add, total, more), cotangents), None

        return jax.lax.scan(one, (total, cotangents), tickets, reverse=True)[0]

    return Loop(ahead, recorded, back)


def _write(choice: OnDisk, state: PyTree) -> Array:
    """Write a state while a program runs; its ticket."""
    leaves = jax.tree.leaves(jax.lax.stop_gradient(state))
    like = leaves[-1]  # the number of the step
    write = lambda *leaves: files_of(choice).write(*leaves)
    # A member's number must vary with members wherever any part of the state does.
    same = sum((jnp.zeros_like(x.reshape(-1)[0]).real.astype(like.dtype) for x in leaves[:-1] if x.size), like)
    ticket = jax.pure_callback(write, jax.ShapeDtypeStruct((), jnp.uint32), *leaves, same, vmap_method="broadcast_all")
    return alike([ticket, *leaves])[0]


def _read(choice: OnDisk, like: PyTree, ticket: Array) -> Any:
    """Read a state while a program runs."""
    leaves, structure = jax.tree.flatten(like)
    shapes = tuple((x.shape, np.dtype(x.dtype)) for x in leaves)
    kinds = tuple(jax.ShapeDtypeStruct(*shape) for shape in shapes)
    read = lambda ticket: files_of(choice).read(shapes, ticket)
    found = jax.pure_callback(read, kinds, ticket, vmap_method="broadcast_all")
    return jax.tree.unflatten(structure, _once(alike([*found, *leaves])[: len(leaves)], leaves))


@jax.custom_jvp
def _once(found: list[Any], leaves: list[Any]) -> list[Any]:
    return found


@_once.defjvp
def _once_jvp(primals: Any, tangents: Any) -> Any:
    raise ArgumentError(
        "A gradient whose record is on disk has no derivative: what was read from a file would count as a constant. Take "
        "`gradient=Checkpointed(...)` for second derivatives."
    )


def check_disk(gradient: Any, task: Any) -> None:
    """Refuse `OnDisk` where it does not serve; the sentence says why."""
    if not isinstance(gradient, OnDisk):
        return
    reason = ""
    if not isinstance(task.step, Fixed):
        reason = "the steps are adaptive, whose number is not known before. Give `step` a number, or `Fixed(substeps)`"
    elif task.events is not None:
        reason = "there are events. Simulate from event to event, or take `Checkpointed(memory)`"
    elif isinstance(task.system, StaticSystem | ParticleSystem | DelayedSystem | JumpSystem):
        reason = f"`{type(task.system).__name__}` has a loop of its own. Take `Checkpointed(memory)`"
    if reason:
        raise ArgumentError(f"Argument `gradient` must not be `OnDisk` here: {reason}.")
    files_of(gradient)


GradientChoice = Checkpointed | OnDisk
"""Choice of how much of a run reverse mode remembers, and where."""
