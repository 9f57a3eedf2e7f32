"""The gate that every input file passes: regular files of bounded size, below the folder that names them."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from .._errors import DataError, SimkitError, close_matches

MIB = 2**20
MOST_STUDY = 8 * MIB
"""Bytes of a study file: three seconds of the TOML parser."""
MOST_HEADER = MIB
"""Bytes of the YAML file of a PEtab problem, which names other files only."""
MOST_DATA = 512 * MIB
"""Bytes of one data file, a table or a model: as Python objects they take some ten times that in memory."""
MOST_TOTAL = 1024 * MIB
"""Bytes of all files that one study names."""
MOST_FILES = 10_000
"""Files that one study names."""
REMEDY = "Copy the file into that folder, or allow it with `--allow-outside` (in Python `allow_outside=True`)."


def input_bytes(path: str | Path, what: str, most: int = MOST_DATA, error: type[SimkitError] = DataError) -> bytes:
    """The bytes of a regular file of at most `most` bytes.

    **Arguments:**

    - `what`: what the file is, for messages, such as "data file".
    - `error`: the class of the messages about a device, a pipe or a file that is too large.

    **Raises:** an `error`; an `OSError` where the file is missing, is a folder or may not be read.
    """
    path = Path(path)
    try:
        # A pipe without a writer would block here for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as raised:  # a null byte in the name
        raise error(f"The {what} must have the name of a file, but its name is {str(path)!r}.") from raised
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        _check_regular(found, path, what, most, error)
        content = file.read(found.st_size)
        # Files of the kernel tell a size of 0, and others may grow.
        while more := file.read(MIB):
            content += more
            if len(content) > most:
                raise _too_large(path, what, most, error)
    return content


@contextlib.contextmanager
def reading(
    path: str | Path, what: str, error: type[SimkitError] = DataError, near: str = "*", remedy: str = ""
) -> Iterator[None]:
    """While a file is read: say what is wrong with it.

    **Arguments:** `what`: what the file is, such as "data file"; `near`: the pattern of names that are told where there is no such
    file; `remedy`: a sentence for a file that is no text in UTF-8.

    **Raises:** an `error` with the names near it where there is no such file, or with the reason why it cannot be read.
    """
    path = Path(path)
    try:
        yield
    except FileNotFoundError as raised:
        names = sorted(p.name for p in path.parent.glob(near) if p.is_file()) if path.parent.is_dir() else []
        raise error(f"There is no {what} `{path}`. {close_matches(path.name, names)}") from raised
    except UnicodeDecodeError as raised:
        said = f"The {what} `{path}` must be text in UTF-8, but byte {raised.start} is not. {remedy}"
        raise error(said.strip()) from raised
    except OSError as raised:
        raise error(f"The {what} `{path}` cannot be read: {raised.strerror or raised}.") from raised


def check_regular(path: str | Path, what: str, error: type[SimkitError] = DataError) -> None:
    """Refuse devices, pipes and sockets before a library opens them.

    **Raises:** an `error`; an `OSError` where the file is missing or is a folder.
    """
    _check_regular(os.stat(path), Path(path), what, None, error)


def _check_regular(found: os.stat_result, path: Path, what: str, most: int | None, error: type[SimkitError]) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise error(
            f"The {what} `{path}` must be a regular file, but it is a device, a pipe or a socket. Save its content as a file."
        )
    if most is not None and found.st_size > most:
        raise _too_large(path, what, most, error)


def _too_large(path: Path, what: str, most: int, error: type[SimkitError]) -> SimkitError:
    return error(
        f"The {what} `{path}` must be of at most {most // MIB} MiB, but it is larger. Cut it into smaller files."
    )


class Gate:
    """The files that a study names, each checked to lie below the study's own folder.

    **Arguments:**

    - `folder`: the study's folder, to which names are relative.
    - `outside`: whether files elsewhere may be read as well.
    """

    def __init__(self, folder: str | Path, *, outside: bool = False):
        self.folder, self.outside = Path(folder), outside
        self._count, self._bytes = 0, 0

    def place(self, name: str, what: str) -> Path:
        """The path of a file by its name in the study; symbolic links are followed before it is checked.

        **Raises:** a `DataError` where it lies outside.
        """
        path = self.folder / name
        try:
            home, found = self.folder.resolve(), path.resolve()
        except (OSError, RuntimeError, ValueError) as raised:  # a ring of links, or a null byte
            raise DataError(f"The {what} must have the name of a file, but its name is {_shown(name)}.") from raised
        if not self.outside and not found.is_relative_to(home):
            raise DataError(
                f"The {what} `{_shown(name)}` must lie below the folder of the study, `{self.folder}`, but lies outside. {REMEDY}"
            )
        return path

    def read(self, name: str, what: str, read: Callable[[Path], str]) -> str:
        """The text that `read` gives for the path of a file; files and characters are counted.

        **Raises:** a `DataError` where it lies outside, or where the study names too many files or bytes; what `read` raises.
        """
        path = self.place(name, what)
        self._count += 1
        if self._count > MOST_FILES:
            raise DataError(
                f"A study must name at most {MOST_FILES} files, but it names more. Join tables into fewer files."
            )
        content = read(path)
        self._bytes += len(content)
        if self._bytes > MOST_TOTAL:
            raise DataError(
                f"The files of a study must have at most {MOST_TOTAL // MIB} MiB in all, but with `{_shown(name)}` they have more. "
                "Cut the study into several."
            )
        return content


def _shown(name: str) -> str:
    return name if len(name) < 200 else f"{name[:197]}..."
