"""Wait for results so that Ctrl-C is obeyed, and a computation that stands still becomes an error."""

import faulthandler
import os
import sys
import time
from typing import Any, TypeVar

import jax
import jax.core

from .._errors import StandstillError

T = TypeVar("T")

STANDSTILL = 60.0
"""After so many seconds of waiting in which nothing computed, it is a standstill. A computation uses its threads all the time."""

IDLE = 0.01
"""Less than this share of one core is nothing. Threads that wait for each other use none; one that computes uses a whole core."""

SHARE, SHORTEST, LONGEST = 0.02, 2e-5, 0.02
"""The next look is after this share of the time waited so far, but not sooner or later than so many seconds."""

CHECKED = 1.0
"""Processor time is looked at every so many seconds; a longer pause between looks means that the process itself was stopped."""

LEAVE = 10.0
"""Seconds after the end of Python at which a process with hanging threads is terminated."""


def awaited(results: T, verb: str, stage: str) -> T:
    """`results` once all their arrays are computed, or a `StandstillError` that names verb and stage.

    Waiting is done in short sleeps rather than inside of JAX, so that Ctrl-C and other signals are handled at once. Tracers
    and what is no array are passed over; results that are ready cost a look at each.
    """
    for array in jax.tree.leaves(results):
        if _unknown(array):
            _wait(array, verb, stage)
    return results


def _unknown(x: object) -> bool:
    """Tell whether an array is still being computed. Random keys cannot be asked; they are ready with the others."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    is_ready = getattr(x, "is_ready", None)
    return is_ready is not None and not is_ready()


def _wait(array: Any, verb: str, stage: str) -> None:
    watch, begin = _Watch(), time.monotonic()
    while not array.is_ready():
        waited = time.monotonic() - begin
        time.sleep(min(max(SHARE * waited, SHORTEST), LONGEST))
        if watch.stands_still():
            _end_with_python()
            raise StandstillError(_sentence(verb, stage, array, waited))


class _Watch:
    """The processor time of all threads but this one."""

    def __init__(self) -> None:
        self.idle, self.looked, self.others = 0.0, time.monotonic(), _others()

    def stands_still(self) -> bool:
        now = time.monotonic()
        passed = now - self.looked
        if passed < CHECKED:
            return False
        others = _others()
        # Computing elsewhere, a function of the user, or a process that slept is no standstill.
        resting = others - self.others < IDLE * passed and passed < 3 * CHECKED and not _elsewhere()
        self.idle = self.idle + passed if resting else 0.0
        self.looked, self.others = now, others
        return self.idle >= STANDSTILL


def _others() -> float:
    return time.process_time() - time.thread_time()


def _elsewhere() -> bool:
    """Tell whether work may go on elsewhere: on an accelerator, in another process, in a Python callback."""
    if jax.default_backend() != "cpu" or jax.process_count() > 1:
        return True
    return any(_in_callback(frame) for frame in sys._current_frames().values())


def _in_callback(frame: Any) -> bool:
    while frame is not None:
        name = frame.f_code.co_filename
        if f"jax{os.sep}_src" in name and "callback" in os.path.basename(name):
            return True
        frame = frame.f_back
    return False


def _sentence(verb: str, stage: str, array: Any, waited: float) -> str:
    return (
        f"`{verb}` stood still: {stage}, it waited {waited:.0f} s for a result of shape {array.shape} on {_device(array)}, and for "
        f"the last {STANDSTILL:.0f} s no thread of this process computed anything. This is a fault of the compiled program or of a "
        "library that it calls, not of the model. What was finished and kept in a `store` is still there: the same call in a new "
        "Python process goes on from it. This process can compute no further; on a machine of few cores give it more of them, or "
        "take a newer JAX."
    )


def _device(array: Any) -> str:
    names = sorted(str(device) for device in array.devices())
    return names[0] if len(names) == 1 else f"{len(names)} devices"


def _end_with_python() -> None:
    """End the process some seconds after its last line of Python: JAX would wait for ever for the threads that stand still."""
    import atexit

    atexit.register(faulthandler.dump_traceback_later, LEAVE, exit=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
