"""Processes, on this machine and others that write into the same folders."""

import functools
import hashlib
import os
import socket
from pathlib import Path


def machine() -> str:
    """Return the scope of process numbers: a host, and inside it a container."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}"


def is_alive(pid: object) -> bool:
    if not isinstance(pid, int):
        return False
    if os.name == "nt":  # a signal to a process would end it there: wait for the date instead
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


@functools.cache
def machine_tag() -> str:
    """Eight letters for this machine, in names of files."""
    return hashlib.sha256(machine().encode()).hexdigest()[:8]
