"""Progress of long work: what is finished, speed, remaining time and how it goes; one mechanism for all verbs."""

import contextvars
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

Say = bool | Callable[[str], None] | None
"""The argument `progress` of a verb."""

EVERY = 10.0
"""Seconds between two lines where the output is no terminal."""

AFTER = 2.0
"""Seconds of work before the first line on a terminal."""

REFRESH = 0.5
"""Seconds between two looks of the line on a terminal."""

SWITCH = "SIMKIT_PROGRESS"
"""The environment variable that turns the default off (0) or on (1), as for documents made from notebooks."""

_live: contextvars.ContextVar[bool] = contextvars.ContextVar("simkit_progress_live", default=False)


class Progress:
    """Counts finished pieces of work, such as members, and says so in lines such as
    `6144 of 40000 members, 12000 a second, 0:03 left, 2 failed`.

    As a context it shows one line on terminals and in notebooks, from two seconds on, refreshed by a thread so that it moves
    while a compiled program runs; verbs called by other verbs add none. Elsewhere there are lines only where they are asked for.

    **Arguments:**

    - `count`: how many pieces there are, None where that is not known; `kept` of them were finished before.
    - `say`: None to print on terminals and in notebooks alone, True to print everywhere, False for nothing, or a function that is
        given each line.
    - `noun`: what the pieces are called; `verb`: begins the line.
    """

    def __init__(self, count: int | None, kept: int, say: Say, noun: str = "members", verb: str = ""):
        self.count, self.kept, self.say, self.noun, self.verb = count, kept, say, noun, verb
        self.computed = self.failed = 0
        self.begun = self.since = time.perf_counter()
        self.first, self.ended, self.last = 0, self.since, float("-inf")
        self.detail, self.drawn = "", 0
        self.mode = _mode(say)
        self._stop, self._thread, self._token = threading.Event(), None, None

    def __enter__(self) -> "Progress":
        if self.mode == "live":
            self._token = _live.set(True)
            self._thread = threading.Thread(target=self._refresh, daemon=True, name="simkit progress")
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        if self._token is not None:
            _live.reset(self._token)
        if self.drawn:
            self._draw("\n")

    @property
    def silent(self) -> bool:
        """True where nothing is told, so that details need not be computed."""
        return self.mode == "silent"

    def add(self, count: int, failed: int = 0, detail: str = "") -> None:
        """Count more finished pieces; `detail` is added to the line, such as the best value."""
        if self.computed and not self.first:  # the first addition compiled, which the others do not
            self.first, self.since = self.computed, self.ended
        self.ended = time.perf_counter()
        self.computed += count
        self.failed += failed
        self.detail = detail or self.detail
        if self.mode == "call":
            self._call(self.line())
        elif self.mode == "lines":
            complete = self.kept + self.computed == self.count
            if complete or self.ended - self.last > EVERY:
                self.last = self.ended
                print(self.line(), file=sys.stderr, flush=True)

    @property
    def watched(self) -> bool:
        """True where `say` is an object with a method `watch`, such as `viz.LiveFit`, which takes results so far."""
        return callable(getattr(self.say, "watch", None))

    def watch(self, *found: Any) -> None:
        """Hand over what is found so far."""
        watcher: Any = self.say
        watcher.watch(*found)

    def begin(self, count: int, noun: str) -> None:
        """Count from here on so many pieces of another kind."""
        self.count, self.noun = count, noun
        self.kept = self.computed = self.failed = self.first = 0
        self.since = self.ended = time.perf_counter()

    def tell(self, detail: str) -> None:
        """Say where the work is, in words that stay until the next."""
        self.detail = detail
        text = f"{self.verb}: {detail}" if self.verb else detail
        if self.mode == "call":
            self._call(text)
        elif self.mode == "lines":
            print(text, file=sys.stderr, flush=True)

    @property
    def rate(self) -> float:
        """Pieces a second, in this call; from the second addition on without the first, which compiled."""
        return (self.computed - self.first) / max(self.ended - self.since, 1e-9)

    def line(self) -> str:
        """The state in a line."""
        parts = []
        if self.count is not None:
            finished = self.kept + self.computed
            parts.append(f"{finished} of {self.count} {self.noun}")
            if self.computed:
                parts += [f"{self.rate:.3g} a second", f"{clock((self.count - finished) / self.rate)} left"]
        if self.verb and (self.count is None or not self.computed):
            parts.append(clock(time.perf_counter() - self.begun))
        parts += [f"{self.failed} failed"] * bool(self.failed) + [self.detail] * bool(self.detail)
        text = ", ".join(parts)
        return f"{self.verb}: {text}" if self.verb else text

    def _call(self, text: str) -> None:
        assert callable(self.say)
        self.say(text)

    def _refresh(self) -> None:
        wait = AFTER
        while not self._stop.wait(wait):
            self._draw("")
            wait = REFRESH

    def _draw(self, end: str) -> None:
        """Write the line over the one before, as wide as the terminal at most."""
        stream: Any = sys.stdout if notebook() else sys.stderr
        text = self.line()[: max(20, shutil.get_terminal_size().columns - 1)]
        try:
            stream.write("\r" + text.ljust(self.drawn) + end)
            stream.flush()
        except (OSError, ValueError):  # a stream that was closed is no reason to stop the work
            self._stop.set()
        self.drawn = len(text)


def _mode(say: Say) -> Literal["silent", "call", "lines", "live"]:
    """The way of telling that an argument `progress` stands for here."""
    if say is False:
        return "silent"
    if say is not None and say is not True:
        return "call"
    switch = os.environ.get(SWITCH, "")
    if say is None and (switch == "0" or _live.get()):
        return "silent"
    shown = notebook() or bool(getattr(sys.stderr, "isatty", bool)())
    if shown and not _live.get():
        return "live"
    return "lines" if say or switch == "1" else "silent"


def notebook() -> bool:
    """Tell whether this is a notebook, where a line can be written over as on a terminal."""
    module = sys.modules.get("IPython")
    shell: Any = None if module is None else module.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def clock(seconds: float) -> str:
    """Seconds as 0:07, 12:30 or 3:05:00."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
