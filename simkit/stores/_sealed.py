"""HDF5 files from anywhere: with a checksum at their end, and checked before anything in them is read.

HDF5 lets a file refer to other files in three ways (external links, external storage, virtual datasets), and returns a fill value
for what was never written (HDF5 File Format Specification 3.0, sections IV.A.2.h and III.A). None of this belongs into a file of
results.
"""

import contextlib
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .._errors import ResultFileError
from ._gate import check_regular
from ._remote import Place

if TYPE_CHECKING:
    import h5py

SIGNATURE = b"\x89HDF\r\n\x1a\n"
MARK = b"\nsimkit sha256 "
_LENGTH = len(MARK) + 64 + 1
Seal = Literal["whole", "none"]


def seal(path: Path) -> None:
    """Append the SHA-256 of a finished HDF5 file to it; readers of HDF5 pass over what follows the end that they know."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with path.open("ab") as file:
        file.write(MARK + digest.encode() + b"\n")


def check_seal(path: Path) -> Seal:
    """Compare a file with the checksum at its end: "none" where there is no checksum.

    **Raises:** a `ResultFileError` where they differ.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < _LENGTH:
            return "none"
        file.seek(size - _LENGTH)
        end = file.read(_LENGTH)
        if not end.startswith(MARK):
            return "none"
        file.seek(0)
        found, left = hashlib.sha256(), size - _LENGTH
        while left and (part := file.read(min(left, 2**20))):
            found.update(part)
            left -= len(part)
    if end != MARK + found.hexdigest().encode() + b"\n":
        raise ResultFileError(
            f"The file `{path}` is not as it was written: its content and the checksum at its end differ. Take a copy that is "
            "whole, or make it again: `simkit run` of its study."
        )
    return "whole"


@contextlib.contextmanager
def open_sealed(path: Path, what: str) -> "Iterator[tuple[h5py.File, Seal]]":
    """An HDF5 file whose checksum, links and arrays have been checked, and whether it has a checksum.

    **Arguments:** `what` is what the file should be, such as "result file".

    **Raises:** a `ResultFileError` where it is missing, no regular file, no HDF5, damaged, refers to other files, or holds arrays
    of another size or kind than a file of simkit has.
    """
    import h5py

    _check_signature(path, what)
    kind = check_seal(path)
    try:
        with h5py.File(path, "r") as file:
            check_hdf5(file, path)
            yield file, kind
    except (ResultFileError, Warning):
        raise
    # HDF5 and its reader raise nearly anything for a file that is damaged.
    except Exception as error:
        raise ResultFileError(
            f"The file `{path}` is cut short or damaged ({_first_line(error)}). Make it again: `simkit run` of its study."
        ) from error


def check_hdf5(file: "h5py.File", path: Place) -> None:
    """Refuse an open file that refers to other files, or whose arrays are not in it.

    **Raises:** a `ResultFileError` that names the place.
    """
    _check_group(file, path, path.stat().st_size)


def texts(dataset: "h5py.Dataset", most: int) -> list[str]:
    """The texts of a dataset, of at most `most` characters in all: each may refer to the same bytes, and so take far more memory
    than the file."""
    if dataset.shape == ():
        return [str(dataset.asstr()[()])]
    found: list[str] = []
    for first in range(0, dataset.shape[0], 1000):
        found += map(str, dataset.asstr()[first : first + 1000])
        if sum(map(len, found[-1000:])) > most:
            raise ValueError(f"the texts of `{dataset.name}` are larger than the file")
        most -= sum(map(len, found[-1000:]))
    return found


def attribute(node: "h5py.HLObject", name: str) -> Any:
    """A single number or text among the attributes of a group or a dataset.

    **Raises:** a `KeyError` where there is none, a `ValueError` where it is an array.
    """
    shape = node.attrs.get_id(name).shape
    if shape != ():
        raise ValueError(f"the attribute `{name}` of `{node.name}` must be one value, but it is an array")
    return node.attrs[name]


def _check_signature(path: Path, what: str) -> None:
    try:
        check_regular(path, what, ResultFileError)
        with path.open("rb") as handle:
            start = handle.read(len(SIGNATURE))
    except FileNotFoundError as error:
        raise ResultFileError(f"There is no {what} `{path}`.") from error
    except IsADirectoryError as error:
        raise ResultFileError(
            f"`{path}` must be a {what}, but it is a folder. The store of a sweep is opened by `simkit.sweeps.open`."
        ) from error
    except OSError as error:
        raise ResultFileError(f"The {what} `{path}` cannot be read: {error.strerror or error}.") from error
    if start != SIGNATURE:
        why = "it is empty" if not start else "it is no HDF5 file"
        raise ResultFileError(f"`{path}` must be a {what} of simkit, but {why}.")


def _check_group(group: "h5py.Group", path: Place, size: int, depth: int = 0) -> int:
    """Check all links and arrays below a group; the number of bytes that the arrays take."""
    import h5py

    stored = 0
    for name in group:
        place = f"{(group.name or '').rstrip('/')}/{name}"
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise _refused(path, place, "is a link to somewhere else")
        node = group[name]
        if isinstance(node, h5py.Group):
            if depth:
                raise _refused(path, place, "is a group inside a group")
            stored += _check_group(node, path, size, depth + 1)
        elif isinstance(node, h5py.Dataset):
            stored += _check_dataset(node, path, place, size)
        else:
            raise _refused(path, place, "is neither a group nor an array")
        if stored > size:
            raise _refused(path, place, f"and those before it claim {stored} bytes of a file that has {size}")
    return stored


def _check_dataset(dataset: "h5py.Dataset", path: Place, place: str, size: int) -> int:
    import h5py

    settings = dataset.id.get_create_plist()
    if settings.get_external_count():
        raise _refused(path, place, "takes its numbers from other files")
    if settings.get_layout() == h5py.h5d.VIRTUAL:
        raise _refused(path, place, "is put together from other files")
    filters = {settings.get_filter(i)[0] for i in range(settings.get_nfilters())}
    if filters - {h5py.h5z.FILTER_FLETCHER32}:
        raise _refused(path, place, "is compressed, which simkit does not write (`h5repack -f NONE` undoes it)")
    if dataset.dtype.kind not in "fiubc" and h5py.check_string_dtype(dataset.dtype) is None:
        raise _refused(path, place, f"is of the type {dataset.dtype}: it must hold numbers or texts")
    if dataset.shape is None:
        raise _refused(path, place, "has no shape")
    declared = math.prod(dataset.shape) * dataset.id.get_type().get_size()
    stored = dataset.id.get_storage_size()
    if declared > size:
        raise _refused(
            path, place, f"has the shape {dataset.shape}, which takes {declared} bytes of a file that has {size}"
        )
    chunks = dataset.chunks
    if chunks is not None and declared:
        wanted = math.prod(-(-n // c) for n, c in zip(dataset.shape, chunks, strict=True))
        if dataset.id.get_num_chunks() != wanted:
            raise _refused(path, place, f"has {wanted} chunks, of which {dataset.id.get_num_chunks()} were written")
    if stored < declared:
        raise _refused(path, place, f"has the shape {dataset.shape}, but {stored} of its {declared} bytes were written")
    return stored


def _refused(path: Place, place: str, why: str) -> ResultFileError:
    return ResultFileError(
        f"The file `{path}` must hold its results itself, whole and in the form in which simkit writes them, but `{place}` {why}. "
        "Make it again: `simkit run` of its study."
    )


def _first_line(error: BaseException) -> str:
    text = str(error.args[0]) if error.args else type(error).__name__
    return text.splitlines()[0] if text else type(error).__name__
