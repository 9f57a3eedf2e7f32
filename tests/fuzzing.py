"""Damage to files and what readers make of it."""

import dataclasses
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from simkit import SimkitError

DOSED_HEAD = """
[system]
model = "two_compartment"
[y0]
central = 0.0
peripheral = 0.0
[noise]
concentration = { model = "normal", scale = 0.3 }
[free]
exchange = { bounds = [1.0, 50.0] }
[dosing]
file = "doses.csv"
compartments = ["central", "peripheral"]
outputs = "concentration"
"""
"""The head of a study whose doses stand in a table and in an experiment, up to what its table of doses has besides."""

LONGEST = 20.0
"""Seconds after which a reader counts as one that hangs; the slowest here takes one."""


def damaged(content: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield `count` copies with one bit flipped, and as many that are cut."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        place, bit = int(rng.integers(len(content))), int(rng.integers(8))
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        yield f"bit {bit} of byte {place} flipped", bytes(changed)
    for _ in range(count):
        end = int(rng.integers(len(content)))
        yield f"cut after byte {end}", content[:end]


@dataclasses.dataclass
class Told:
    """Outcomes of reading damaged files, counted: "same", "other" or "refused"."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    slowest: float = 0.0

    def __str__(self) -> str:
        parts = ", ".join(f"{self.counts[key]} {key}" for key in ("refused", "same", "other"))
        return f"{self.counts.total()} tried: {parts}; slowest {self.slowest:.1f} s"


def judged(told: Told, what: str, read: Callable[[], Any], same: Callable[[Any], bool]) -> str:
    """Read once: the outcome is counted. What is no `SimkitError`, or takes too long, is a failure."""
    began = time.monotonic()
    try:
        with _limit(what):
            outcome = "same" if same(read()) else "other"
    except SimkitError as error:
        outcome = "refused" if str(error).strip() else "refused without a word"
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {str(error)[:300]}") from error
    assert outcome != "refused without a word", what
    told.counts[outcome] += 1
    told.slowest = max(told.slowest, time.monotonic() - began)
    return outcome


class _limit:
    def __init__(self, what: str):
        self.what = what

    def __enter__(self) -> None:
        def late(*_: Any) -> None:
            raise TimeoutError(f"no answer within {LONGEST} s")

        self.before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, LONGEST)

    def __exit__(self, *_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)
