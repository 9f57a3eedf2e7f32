"""Progress of long work: what is finished, speed and remaining time."""

import sys
import time
from collections.abc import Callable

EVERY = 10.0
"""Seconds between two lines where the output is no terminal."""


class Progress:
    """Counts finished pieces of work, such as members, and says so in lines such as
    `6144 of 40000 members, 12000 a second, 0:03 left, 2 failed`.

    **Arguments:** `count` pieces there are, and `kept` of them were finished before; `noun` is what they are called; `say` is True
    to print, or a function that is given each line.
    """

    def __init__(self, count: int, kept: int, say: bool | Callable[[str], None] | None, noun: str = "members"):
        self.count, self.kept, self.say, self.noun = count, kept, say, noun
        self.computed = self.failed = 0
        self.first, self.since = 0, time.perf_counter()
        self.ended, self.last = self.since, float("-inf")

    def add(self, count: int, failed: int = 0) -> None:
        """Count more finished pieces."""
        if self.computed and not self.first:  # the first addition compiled, which the others do not
            self.first, self.since = self.computed, self.ended
        self.ended = time.perf_counter()
        self.computed += count
        self.failed += failed
        self._print()

    @property
    def rate(self) -> float:
        """Pieces a second, in this call; from the second addition on without the first, which compiled."""
        return (self.computed - self.first) / max(self.ended - self.since, 1e-9)

    def line(self) -> str:
        """The state in a line."""
        finished = self.kept + self.computed
        text = f"{finished} of {self.count} {self.noun}"
        if self.computed:
            left = (self.count - finished) / self.rate
            text += f", {self.rate:.3g} a second, {clock(left)} left"
        return text + (f", {self.failed} failed" if self.failed else "")

    def close(self) -> None:
        """End the line on a terminal."""
        if self.say is True and self.computed:
            print(file=sys.stderr, flush=True)

    def _print(self) -> None:
        if self.say is True:
            terminal, now = sys.stderr.isatty(), time.perf_counter()
            complete = self.kept + self.computed == self.count
            if terminal or complete or now - self.last > EVERY:
                self.last = now
                print(
                    f"\r{self.line()}\x1b[K" if terminal else self.line(), end="" if terminal else "\n", file=sys.stderr
                )
                sys.stderr.flush()
        elif callable(self.say):
            self.say(self.line())


def clock(seconds: float) -> str:
    """Seconds as 0:07, 12:30 or 3:05:00."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
