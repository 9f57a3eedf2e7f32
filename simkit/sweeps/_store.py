"""The folder of a sweep: what defines it, its chunk files, and what was set aside."""

import contextlib
import dataclasses
import errno
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._errors import ResultFileError, StoreError
from ..stores import (
    Place,
    check_hdf5,
    describe,
    open_hdf5,
    read_manifest,
    write_text,
)
from ._chunk import Chunk, find_chunks, is_whole

FORMAT, VERSION = "simkit sweep", 1
MANIFEST, POINTS = "manifest.json", "points.h5"
FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT} if hasattr(errno, "EDQUOT") else {errno.ENOSPC, errno.EFBIG}


OVER, BY_RULE = "over", "first member by rule"
"""Names of the groups of values in the file of points: of all members, or of the first of those that a rule makes."""


class Points(NamedTuple):
    """The content of the file of points.

    - `times`: when states are saved; `units`: those of the values, by path.
    - `values`: of the members, by path; `by_rule`: True where these are those of the first member alone, and chunks hold theirs.
    """

    times: np.ndarray
    values: dict[str, np.ndarray]
    units: dict[str, str]
    by_rule: bool


@dataclasses.dataclass(frozen=True)
class Store:
    """A store that exists: its folder and its manifest.

    - `identity`: SHA-256 of the definition.
    - `members`, `chunk`: how many members the sweep has, and how many a chunk file holds.
    """

    folder: Place
    identity: str
    definition: Mapping[str, str]
    members: int
    chunk: int
    made: Mapping[str, Any]

    @property
    def chunks(self) -> int:
        return -(-self.members // self.chunk)

    def points(self) -> "Points":
        """The times, and the values and units of the members by path; where a rule makes them, those of the first member."""
        path = self.folder / POINTS
        try:
            with open_hdf5(path) as file:
                check_hdf5(file, path)
                by_rule = BY_RULE in file
                held: Any = file[BY_RULE if by_rule else OVER]
                values = {str(d.attrs["path"]): d[()] for d in held.values()}
                units = {str(d.attrs["path"]): str(d.attrs["units"]) for d in held.values()}
                times = np.asarray(file["times"])
            told = describe({f"over {name}": value for name, value in values.items()})
            if not by_rule and any(self.definition.get(name) != text for name, text in told.items()):
                raise KeyError("values that are not those of the sweep")
            return Points(times, values, units, by_rule)
        except (OSError, RuntimeError, KeyError) as error:
            raise ResultFileError(
                f"The file `{path}` is gone, cut short or damaged. Call `sweep` again, as before: it writes it anew."
            ) from error

    def whole_chunks(self) -> dict[int, Chunk]:
        """The chunks that are complete and belong here, every byte checked; all other chunk files are removed."""
        found: dict[int, Chunk] = {}
        for index, chunks in find_chunks(self.folder).items():
            for chunk in chunks:
                if index < self.chunks and index not in found and is_whole(chunk, self.identity):
                    found[index] = chunk
                else:
                    chunk.path.unlink()
        return found

    def named_chunks(self) -> dict[int, Chunk]:
        """The chunks by the names of their files alone."""
        return {index: chunks[0] for index, chunks in find_chunks(self.folder).items() if index < self.chunks}

    def set_aside(self) -> list[dict[str, Any]]:
        """Return the notes on chunks that were set aside, by index."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(self.folder.glob("set-aside-*.json"))]

    def note_set_aside(self, index: int, note: Mapping[str, Any]) -> None:
        write_text(self._note(index), json.dumps(note, indent=1))

    def forget_set_aside(self, index: int) -> None:
        self._note(index).unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove what processes that were killed have left half written."""
        for path in self.folder.glob(".*.part"):
            path.unlink(missing_ok=True)

    def _note(self, index: int) -> Place:
        return self.folder / f"set-aside-{index:06d}.json"


def open_store(folder: Place) -> Store:
    """The store in a folder.

    **Raises:** a `ResultFileError` where there is none, where the manifest is damaged or of a newer format.
    """
    path = folder / MANIFEST
    kinds = {"identity": str, "definition": dict, "members": int, "chunk": int, "made": dict}
    remedy = "It can be written anew: remove it and call `sweep` again, as before; chunks that are finished are kept."
    try:
        held = read_manifest(path, FORMAT, VERSION, kinds, remedy)
    except FileNotFoundError as error:
        raise ResultFileError(f"`{folder}` must be the store of a sweep, but there is no file `{path}`.") from error
    if held is None:
        raise ResultFileError(f"`{path}` must be the manifest of a sweep, but it is something else.")
    if held["members"] < 1 or held["chunk"] < 1:
        raise ResultFileError(f"The file `{path}` is damaged (it counts no members). {remedy}")
    return Store(folder, *(held[field.name] for field in dataclasses.fields(Store)[1:]))


@contextlib.contextmanager
def writing(folder: Place) -> Iterator[None]:
    """Turn what the file system complains about while a store is written into one sentence."""
    try:
        yield
    except OSError as error:
        what = f"The store `{folder}` could not be written: {error.strerror or error}."
        if error.errno in FULL:
            what = f"There is no space left for the store `{folder}` ({error.strerror})."
        raise StoreError(
            f"{what} No half-written file is left, and chunks that are finished are kept: make room or access and call `sweep` "
            "again, as before, to go on."
        ) from error
