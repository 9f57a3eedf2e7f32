"""One process at a time on one store."""

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .._errors import StoreError
from ._process import is_alive, machine
from ._remote import Place, RemotePath

NAME = "lock.json"
BEAT = 5.0
"""Seconds between two signs of life of a holder."""
STALE = 60.0
"""Seconds without a sign of life after which a lock is taken over."""


_held: "set[Lock]" = set()


def drop_locks() -> None:
    """Give back the locks of this process, which is about to end."""
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.give_back()


class Unlocked:
    """Stand-in for a `Lock` where there can be none: an object store has no exclusive files. As records are whole and the same
    whoever writes them, a second process there costs its time and nothing else."""

    @contextlib.contextmanager
    def hold(self) -> Iterator["Unlocked"]:
        yield self

    def check(self) -> None:
        pass


def lock_of(folder: Place) -> "Lock | Unlocked":
    """The lock of a store, or what stands for it."""
    return Unlocked() if isinstance(folder, RemotePath) else Lock(folder)


class Lock:
    """The lock of a store, held while `hold` runs.

    The holder renews the file's date every few seconds. A lock is stale, and taken over, where its process has ended on this
    machine, or where it has shown no sign of life for a minute. A holder that was taken for dead (a suspended laptop) finds
    another's lock at its next `check` and stops; as chunk files are whole and the same whoever writes them, nothing is lost.
    """

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / NAME
        self.token, self.lost = secrets.token_hex(8), False

    @contextlib.contextmanager
    def hold(self) -> Iterator["Lock"]:
        """Take the lock; give it back at the end, whatever happens.

        **Raises:** a `StoreError` that names the holder where another process has it.
        """
        self._take()
        _held.add(self)
        ended = threading.Event()
        beat = threading.Thread(target=self._renew, args=(ended,), name="simkit store lock", daemon=True)
        beat.start()
        try:
            yield self
        finally:
            ended.set()
            beat.join()
            self.give_back()
            _held.discard(self)

    def give_back(self) -> None:
        """Remove the lock, unless another process has taken it over."""
        if self._is_mine():
            self.path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise a `StoreError` where another process has taken the lock over."""
        if self.lost:
            raise StoreError(
                f"The store `{self.folder}` was taken over by {_holder(_read(self.path))}: this process had shown no sign of "
                f"life for {STALE:.0f} seconds. What it finished is kept."
            )

    def _take(self) -> None:
        text = json.dumps(
            {
                "pid": os.getpid(),
                "machine": machine(),
                "host": socket.gethostname(),
                "since": _now(),
                "token": self.token,
            }
        )
        for _ in range(100):
            try:
                handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                self._clear_stale()
                continue
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
            except OSError:  # a full disk
                self.path.unlink(missing_ok=True)
                raise
            return
        raise StoreError(f"The lock of the store `{self.folder}` could not be taken: others keep taking it first.")

    def _clear_stale(self) -> None:
        """Remove a lock that nobody holds any more, or say who holds it."""
        held = _read(self.path)
        gone = held.get("machine") == machine() and not is_alive(held.get("pid"))
        if not gone and self._age() < STALE:
            raise StoreError(
                f"The store `{self.folder}` is in use by {_holder(held)}. Wait until that has ended, or choose another store."
            )
        # Renamed first, and looked at again: another process may have put its own new lock there in the meantime.
        aside = self.folder / f".{NAME}.{self.token}.part"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, aside)
            if _read(aside).get("token") != held.get("token"):
                with contextlib.suppress(FileExistsError):  # on Windows, where a third process was faster
                    os.rename(aside, self.path)
            aside.unlink(missing_ok=True)

    def _age(self) -> float:
        """Seconds since the last sign of life, by the clock of the file system: those of two machines may differ."""
        now = self.folder / f".now.{self.token}.part"
        now.touch()
        try:
            return now.stat().st_mtime - self.path.stat().st_mtime
        except FileNotFoundError:  # given back just now
            return STALE
        finally:
            now.unlink()

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT):
            if not self._is_mine():
                self.lost = True
                return
            with contextlib.suppress(OSError):
                os.utime(self.path)

    def _is_mine(self) -> bool:
        return _read(self.path).get("token", self.token) == self.token  # what cannot be read is no other's


def writer_of(folder: Path) -> str:
    """The process that computes into a store, in words, with the last sign of life; empty where nobody does. Nothing is written."""
    path = folder / NAME
    held = _read(path)
    try:
        age = max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return ""
    gone = not is_alive(held.get("pid")) if held.get("machine") == machine() else age >= STALE
    return "" if gone or not held else f"{_holder(held)}, last sign of life {age:.0f} s ago"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _holder(held: dict[str, Any]) -> str:
    return f"process {held.get('pid', '?')} on {held.get('host', '?')}, since {held.get('since', '?')}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
