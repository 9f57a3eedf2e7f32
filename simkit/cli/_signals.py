"""Ctrl-C and SIGTERM end a command within two seconds, also inside of compiled code.

Python handles a signal between two of its own instructions, of which none comes while a compiled program runs or is compiled. A
second thread learns of the signal from the C level at once, waits for the first, and ends the process if it does not come.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

GRACE = 1.5
"""Seconds from a signal to the end of the process, unless a file is being written."""
WRITING = 10.0
"""Seconds that a file may still take."""
NOTHING = "Interrupted; nothing was finished that could be kept."
STOPPED = (signal.SIGINT, signal.SIGTERM)

Told = Callable[[], str]
_told: list[Told] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM: handled like Ctrl-C."""


@contextlib.contextmanager
def telling(what_is_kept: Told) -> Iterator[None]:
    """While this runs, `what_is_kept` gives the text for someone who interrupts it."""
    _told.append(what_is_kept)
    try:
        yield
    finally:
        _told.remove(what_is_kept)


@contextlib.contextmanager
def obeyed_signals() -> Iterator[None]:
    """Let SIGTERM raise `Terminated`, and end the process where neither it nor Ctrl-C gets through in time."""
    if os.name == "nt":  # no such signals there, and no pipe that tells of them
        yield
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGTERM, _terminate)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(read, ended), name="simkit signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.signal(signal.SIGTERM, handler)
        signal.set_wakeup_fd(before)
        os.close(write)  # which ends the watcher


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def _watch(read: int, ended: threading.Event) -> None:
    """Wait for a signal, and then for the end of the command."""
    while got := os.read(read, 1):
        if got[0] not in STOPPED:
            continue
        began = time.monotonic()
        while not ended.wait(0.02):
            waited, stores = time.monotonic() - began, _stores()
            is_writing = stores is not None and stores.is_writing()
            if waited > (WRITING if is_writing else GRACE):
                _end(got[0])
        break
    os.close(read)


def _end(number: int) -> None:
    """End the process from this thread; what is finished is on disk."""
    text = "Interrupted."
    with contextlib.suppress(Exception):
        text = _told[-1]() if _told else NOTHING
    if stores := _stores():
        stores.drop_open_files()
        stores.drop_locks()
    if processes := sys.modules.get("multiprocessing"):
        for child in processes.active_children():
            child.kill()
    with contextlib.suppress(OSError, ValueError):
        print(f"\n{text}", file=sys.stderr, flush=True)
    leave(128 + number)


def _stores() -> Any:
    """The room of files, where it is loaded: `simkit --help` must not wait for it, and this thread must not load it."""
    return sys.modules.get("simkit.stores")


def leave(code: int) -> None:
    """End the process at once: its normal end would wait for compiled programs that still run."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
