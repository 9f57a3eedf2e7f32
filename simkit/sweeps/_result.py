"""Result of a sweep: a store that is read on demand."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Int

from .._errors import ArgumentError, ResultFileError, check_known
from ..core import Status, Trajectory
from ..stores import place
from ._chunk import COUNTS, VALUES, Chunk, Variable, check_whole, is_whole, read_chunk, spans, variables_of
from ._store import Points, Store, open_store
from ._view import NAME as VIEW
from ._view import missing


class Sweep:
    """The results of a sweep. They stay on disk; what is asked for is read.

    - `store`: the folder, or its URL. `store / "view.h5"` is one HDF5 file over all of it, which h5py and xarray open.
    - `members`, `finished`: how many there are, and how many are computed.
    - `values`: the values of the members, by path, arrays or, where a rule made them, columns; `times`: when states are saved.
    - `status`: how each member ended, a `Status`, or -1 where it is not computed; shape `(members,)`.
    - `names`: the names of the results: the states, or what `measure` returned.
    - `set_aside`: what is known of chunks that kept failing.
    - `rate`: members a second, where this call computed any; `cut`: True where it ended because its time, `within`, was up.

    `sweep["peak"]` is the column of one result over all members, NaN where a member is not computed: index it, or take it whole
    with `numpy.asarray`. Printing a sweep says how many members failed, in which way, and where the first of them stand.
    """

    def __init__(
        self,
        store: Store,
        chunks: Mapping[int, Chunk],
        *,
        structure: Any = None,
        rate: float | None = None,
        cut: bool = False,
    ):
        self._store, self._chunks, self._structure = store, dict(chunks), structure
        self._whole: set[int] = set()  # chunks whose content was found to be what their names say
        self.rate, self.cut = rate, cut

    @property
    def store(self) -> Any:
        return self._store.folder

    @property
    def members(self) -> int:
        return self._store.members

    @property
    def finished(self) -> int:
        return sum(size for index, _, size in spans(self.members, self._store.chunk) if index in self._chunks)

    @property
    def view(self) -> Any:
        """The HDF5 file over all chunk files; in an object store it opens once the folder is downloaded."""
        return self.store / VIEW

    @property
    def definition(self) -> Mapping[str, str]:
        """Definition of the sweep, in words, by dotted name."""
        return self._store.definition

    @property
    def made(self) -> Mapping[str, Any]:
        """Provenance of the sweep: date, versions, device and float type, by name."""
        return self._store.made

    @property
    def set_aside(self) -> Sequence[Mapping[str, Any]]:
        return self._store.set_aside()

    @property
    def times(self) -> np.ndarray:
        return self._points.times

    @property
    def values(self) -> Mapping[str, Any]:
        if self._points.by_rule:
            return {path: self._by_rule(path) for path in self._points.values}
        return self._points.values

    @functools.cached_property
    def status(self) -> Int[np.ndarray, " members"]:
        return self["status"][:]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in self._variables if name not in COUNTS and not name.startswith(VALUES))

    def __getitem__(self, name: str) -> "Column":
        if name not in self._variables and name in self._points.values:
            if self._points.by_rule:
                return self._by_rule(name)
            value = self.values[name]
            return Column(
                name, (self.members, *value.shape[1:]), value.dtype, self._points.units[name], self._read_values
            )
        check_known(name, {*self._variables, *self.values}, "result or path")
        variable = self._variables[name]
        return Column(name, (self.members, *variable.shape), variable.dtype, variable.unit, self._read)

    def trajectory(self, members: int | slice | Sequence[int] | np.ndarray) -> Trajectory:
        """The trajectories of some members, with a leading member axis; of a single number, without.

        The states have the structure that they have in the model where `sweep` was called; a sweep that was opened from its folder
        gives a dictionary by dotted name.

        **Raises:** an `ArgumentError` where a member is not computed, or where `measure` kept something else than states.
        """
        rows = self._rows(members)
        states = [name for name, variable in self._variables.items() if variable.dims[:1] == ("time",)]
        if not states:
            raise ArgumentError(
                f"The states of this sweep are not stored, as it was given a `measure`. It holds {', '.join(self.names)}."
            )
        found = self._read_many((*COUNTS, *states), rows)
        if (found["status"] < 0).any():
            row = int(rows[np.argmax(found["status"] < 0)])
            raise ArgumentError(
                f"Member {row} is not computed yet, or its chunk was set aside. Call `sweep` again, as before."
            )
        over = {path: value[rows] for path, value in self.values.items()}
        if isinstance(members, int | np.integer):
            found, over = ({name: array[0] for name, array in part.items()} for part in (found, over))
        ys: Any = {name: jnp.asarray(found[name]) for name in states}
        if self._structure is not None:
            ys = jax.tree.unflatten(self._structure, list(ys.values()))
        return Trajectory(
            jnp.broadcast_to(jnp.asarray(self.times), (*found["status"].shape, len(self.times))),
            ys,
            *(jnp.asarray(found[name]) for name in COUNTS),
            solver=self.definition.get("solver", "").rpartition(".")[2],
            over={path: jnp.asarray(value) for path, value in over.items()},
        )

    def damaged(self) -> list[Any]:
        """The chunk files that do not hold what their names say, every byte read. `sweep` does them anew."""
        return [chunk.path for chunk in self._chunks.values() if not is_whole(chunk, self._store.identity)]

    def member_values(self, member: int) -> dict[str, float]:
        """The values of one member by path, arrays left out."""
        return {path: float(value[member]) for path, value in self.values.items() if value.ndim == 1}

    def failures(self) -> Iterator[tuple[Status, np.ndarray]]:
        """Return each status of failed members, and their numbers."""
        codes, members = [], []
        for index, first, size in spans(self.members, self._store.chunk):  # not all at once: there may be 1e8 of them
            if index in self._chunks:
                status = self._read("status", slice(first, first + size))
                members.append(first + np.flatnonzero(status > 0))
                codes.append(status[status > 0])
        code, member = (np.concatenate(parts) if parts else np.zeros(0, int) for parts in (codes, members))
        for kind in np.unique(code):
            yield Status(int(kind)), member[code == kind]

    def __repr__(self) -> str:
        rows = [("members", f"{self.members} in {self._store.chunks} chunks of {self._store.chunk}")]
        rows.append(("finished", "all" if self.finished == self.members else f"{self.finished} of {self.members}"))
        if self.cut:
            rows.append(("", "the time of `within` was up; the same call goes on"))
        for status, where in self.failures():
            first = ", ".join(f"{path} {value:.4g}" for path, value in self.member_values(int(where[0])).items())
            rows.append(("failed", f"{where.size} with {status.name}, the first is member {where[0]}: {first}"))
            rows.append(("", status.told(self.definition.get("solver", ""))))
        for note in self.set_aside:
            last = note["first"] + note["members"] - 1
            rows.append(("set aside", f"chunk {note['chunk']}, members {note['first']} to {last}: {note['error']}"))
            values = "; ".join(f"{path} {low:.4g} to {high:.4g}" for path, (low, high) in note["values"].items())
            rows.append(("", f"their values: {values}"))
        if self.rate is not None:
            rows.append(("rate", f"{self.rate:.3g} members a second"))
        rows.append(("over", ", ".join(self.values)))
        for name in self.names if self._chunks else ():
            column = self[name]
            unit = "" if column.unit == "1" else f" in {column.unit}"
            rows.append((name, f"{column.dtype}{list(column.shape)}{unit}"))
        size = sum(chunk.path.stat().st_size for chunk in self._chunks.values())
        rows.append(("on disk", f"{size / 2**20:.1f} MiB"))
        width = max(len(name) for name, _ in rows)
        return f"Sweep in {self.store}\n" + "\n".join(f"  {name:<{width}}  {text}" for name, text in rows)

    @functools.cached_property
    def _points(self) -> Points:
        return self._store.points()

    @functools.cached_property
    def _variables(self) -> dict[str, Variable]:
        if not self._chunks:
            raise ResultFileError(f"The store `{self.store}` holds no results yet. Call `sweep` again, as before.")
        return variables_of(next(iter(self._chunks.values())))

    def _rows(self, members: ArrayLike | slice | Sequence[Any]) -> np.ndarray:
        if isinstance(members, slice):
            return np.arange(self.members)[members]
        rows = np.atleast_1d(np.asarray(members))
        if rows.dtype == bool and rows.shape == (self.members,):
            return np.flatnonzero(rows)
        if rows.dtype.kind not in "iu" or rows.ndim != 1 or ((rows < -self.members) | (rows >= self.members)).any():
            raise ArgumentError(
                f"Argument `members` must be numbers of members below {self.members}, a slice or a mask, but it is {members!r}."
            )
        return rows % self.members

    def _read(self, name: str, members: ArrayLike | slice | Sequence[Any]) -> np.ndarray:
        if isinstance(members, slice) and members.step in (None, 1):
            return self._read_slice(name, *members.indices(self.members)[:2])
        return self._read_many((name,), self._rows(members))[name]

    def _read_slice(self, name: str, begin: int, end: int) -> np.ndarray:
        """Consecutive members, without a list of their numbers."""
        kind, size = self._variables[name], self._store.chunk
        found = np.full((max(end - begin, 0), *kind.shape), missing(kind.dtype), kind.dtype)
        for index in range(begin // size, -(-max(end, begin) // size)):
            if (chunk := self._known(index)) is not None:
                low, high = max(begin, index * size), min(end, (index + 1) * size)
                rows = slice(low - index * size, high - index * size)
                found[low - begin : high - begin] = read_chunk(chunk, (name,), rows)[name]
        return found

    def _known(self, index: int) -> Chunk | None:
        """A chunk that is there, whose content was found to be what its name says."""
        chunk = self._chunks.get(index)
        if chunk is not None and index not in self._whole:
            check_whole(chunk, self._store.identity)
            self._whole.add(index)
        return chunk

    def _by_rule(self, path: str) -> "Column":
        """Values that chunks hold, NaN where a member is not computed."""
        first, read = self._points.values[path], lambda _, members: self._read(VALUES + path, members)
        return Column(path, (self.members, *first.shape[1:]), first.dtype, self._points.units[path], read)

    def _read_values(self, name: str, members: ArrayLike | slice | Sequence[Any]) -> np.ndarray:
        return self.values[name][self._rows(members)]

    def _read_many(self, names: Sequence[str], rows: np.ndarray) -> dict[str, np.ndarray]:
        kinds = self._variables
        found = {n: np.full((rows.size, *kinds[n].shape), missing(kinds[n].dtype), kinds[n].dtype) for n in names}
        chunks = rows // self._store.chunk
        for index in np.unique(chunks):
            if (chunk := self._known(int(index))) is None:
                continue
            places = np.flatnonzero(chunks == index)
            inside = rows[places] - index * self._store.chunk
            low = inside.min()
            # One span is read and picked from in memory: HDF5 takes far longer for rows here and there.
            for name, array in read_chunk(chunk, names, slice(low, inside.max() + 1)).items():
                found[name][places] = array[inside - low]
        return found


class Column:
    """One result over all members, on disk: `column[10:20]` reads some members, `numpy.asarray(column)` all."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype, unit: str, read: Callable[..., np.ndarray]):
        self.name, self.shape, self.dtype, self.unit, self._read = name, shape, dtype, unit, read

    def __getitem__(self, members: Any) -> Any:
        first, *rest = members if isinstance(members, tuple) else (members,)
        found = self._read(self.name, first)
        if isinstance(first, int | np.integer):
            return found[(0, *rest)]
        return found[(slice(None), *rest)]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)} on disk" + (
            f", in {self.unit}" if self.unit != "1" else ""
        )


def open(store: str | Path) -> Sweep:
    """Open the store of a sweep, finished or not; the model's code is not needed.

    **Arguments:**

    - `store`: the folder, or the URL of one in an object store.

    **Returns:** a `Sweep`.

    **Raises:** a `ResultFileError` where there is no sweep, or one that is damaged or of a newer format.
    """
    found = open_store(place(store))
    return Sweep(found, found.named_chunks())
