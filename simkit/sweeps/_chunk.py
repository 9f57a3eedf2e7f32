"""Chunk files: the results of some members each, whole or not there at all."""

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import h5py
import numpy as np

from .._errors import ResultFileError
from ..stores import Place, RemotePath, check_hdf5, hdf5_image, open_hdf5

FORMAT = "simkit sweep chunk"
PATTERN = re.compile(r"chunk-(\d{6,})-([0-9a-f]{16})\.h5")
COUNTS = ("status", "steps", "rejected", "evaluations")
"""Counts that a chunk holds of every member beside its results."""
VALUES = "over/"
"""The beginning of the names of members' values in a chunk, where a rule makes them: a group of HDF5."""


class Chunk(NamedTuple):
    """One chunk file that a store holds."""

    number: int
    path: Any
    digest: str


class Variable(NamedTuple):
    """Shape of the results of one name, for one member: `dims` names the axes."""

    shape: tuple[int, ...]
    dtype: np.dtype
    dims: tuple[str, ...]
    unit: str


def made_chunk(
    folder: Place, identity: str, number: int, first: int, results: Mapping[str, Any], variables: Mapping[str, Variable]
) -> tuple[Chunk, bytes]:
    """A chunk file and its content, under the hash of that, keyed with the sweep's identity.

    The name alone then says which sweep a file belongs to and whether it is complete. It is built in memory, so that a full
    disk is met by one plain write, and the same results give the same bytes.
    """

    size = len(next(iter(results.values())))
    told = {name: [variable.dims, variable.unit] for name, variable in variables.items()}
    about = {"format": FORMAT, "sweep": identity, "chunk": number, "first": first, "members": size, "variables": told}

    def fill(file: h5py.File) -> None:
        file.attrs["about"] = json.dumps(about)  # a single attribute: each takes as long as a small dataset
        for name, values in results.items():
            file.create_dataset(name, data=np.asarray(values))

    content = hdf5_image(fill)
    digest = _digest(identity, content)
    return Chunk(number, folder / f"chunk-{number:06d}-{digest}.h5", digest), content


def find_chunks(folder: Place) -> dict[int, list[Chunk]]:
    """The chunk files of a folder by index, unchecked."""
    found: dict[int, list[Chunk]] = {}
    for path in sorted(folder.iterdir()):
        if match := PATTERN.fullmatch(path.name):
            found.setdefault(int(match[1]), []).append(Chunk(int(match[1]), path, match[2]))
    return found


def is_whole(chunk: Chunk, identity: str) -> bool:
    """Tell whether a file is complete and unchanged, and of this sweep."""
    return _digest(identity, chunk.path.read_bytes()) == chunk.digest


def check_whole(chunk: Chunk, identity: str) -> None:
    """Refuse a file that is not complete and unchanged, and of this sweep.

    **Raises:** a `ResultFileError`.
    """
    try:
        whole = is_whole(chunk, identity)
    except OSError as error:
        raise _damaged(chunk, error) from error
    if not whole:
        raise _damaged(chunk, "its content is not what its name says")


def _damaged(chunk: Chunk, reason: str | BaseException) -> ResultFileError:
    if isinstance(reason, BaseException):
        reason = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
    return ResultFileError(
        f"The chunk file `{chunk.path}` is gone, cut short or damaged ({reason}). Call `sweep` again, as before: it does such "
        "chunks anew."
    )


def variables_of(chunk: Chunk) -> dict[str, Variable]:
    """Return the shapes of the results in a chunk file."""
    with _reading(chunk) as file:
        told = json.loads(file.attrs["about"])["variables"]  # in the order in which they were written
        return {
            name: Variable(tuple(file[name].shape[1:]), file[name].dtype, tuple(dims), unit)
            for name, (dims, unit) in told.items()
        }


def read_chunk(chunk: Chunk, names: Sequence[str], rows: slice | np.ndarray = slice(None)) -> dict[str, np.ndarray]:
    """Some of the results of some members of a chunk; `rows` is a slice or increasing numbers."""
    with _reading(chunk) as file:
        return {name: file[name][rows] for name in names}


class _reading:
    """A chunk file, open; whatever goes wrong while it is read becomes one sentence."""

    def __init__(self, chunk: Chunk):
        self.chunk = chunk

    def __enter__(self) -> Any:
        try:
            self.file = open_hdf5(self.chunk.path, _remote_content(self.chunk))
            check_hdf5(self.file, self.chunk.path)
        except (OSError, RuntimeError) as error:
            raise _damaged(self.chunk, error) from error
        return self.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        if isinstance(error, OSError | RuntimeError | KeyError | ValueError) and not isinstance(error, ResultFileError):
            raise _damaged(self.chunk, error) from error


def _remote_content(chunk: Chunk) -> bytes | None:
    """The content of a chunk of an object store; the last few are kept, as one is read for each of its results."""
    return _fetched(chunk) if isinstance(chunk.path, RemotePath) else None


@functools.lru_cache(maxsize=4)
def _fetched(chunk: Chunk) -> bytes:
    return chunk.path.read_bytes()


def _digest(identity: str, content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8, key=bytes.fromhex(identity)).hexdigest()


def spans(members: int, chunk: int) -> Iterator[tuple[int, int, int]]:
    """Index, first member and number of members of every chunk."""
    for index in range(-(-members // chunk)):
        yield index, index * chunk, min(chunk, members - index * chunk)
