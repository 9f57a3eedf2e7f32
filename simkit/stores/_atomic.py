"""Files that are whole or not there at all."""

import contextlib
import itertools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from ._process import is_alive, machine_tag
from ._remote import Place, RemotePath

PART = re.compile(r"\..+\.(?:(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-\d+|\d+)\.part")
FORGOTTEN = 86_400.0
"""Seconds after which a temporary file is nobody's, whichever machine wrote it: no file takes a day to write."""

_numbers = itertools.count()
_cleared: set[Path] = set()
_open: set[Path] = set()
"""Temporary files that this process is writing."""


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, force it to disk, and put it in the place of `path` in one step.

    A crash, a full disk or an interrupt in the middle leaves what stood at `path` before. Temporary files of processes that were
    killed while they wrote into this folder are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.parent.resolve()
    _clear_left_over(folder)
    temporary = folder / f".{path.name}.{machine_tag()}-{os.getpid()}-{next(_numbers)}.part"
    _open.add(temporary)
    try:
        write(temporary)
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        _open.discard(temporary)
    _sync_folder(path.parent)


def is_writing() -> bool:
    """Tell whether this process is in the middle of a file."""
    return bool(_open)


def drop_open_files() -> None:
    """Remove the temporary files of this process, which is about to end."""
    for temporary in list(_open):
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _clear_left_over(folder: Path) -> None:
    """Remove temporary files of processes that have ended; a folder is looked through once, as it may hold many files."""
    if folder in _cleared:
        return
    _cleared.add(folder)
    with os.scandir(folder) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(".") and entry.name.endswith(".part")]
    for path in found:
        match = PART.fullmatch(path.name)
        if match is None or path in _open:
            continue
        pid = int(match["pid"] or 0)
        ended = match["machine"] == machine_tag() and (pid == os.getpid() or not is_alive(pid))
        with contextlib.suppress(OSError):
            if ended or time.time() - path.stat().st_mtime > FORGOTTEN:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open folders, and needs no such step
        return
    handle = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Place, content: str | bytes) -> None:
    """Write text in UTF-8, or bytes, whole or not at all."""
    if isinstance(path, RemotePath):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    write_whole(path, lambda temporary: _write(temporary, content))


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
