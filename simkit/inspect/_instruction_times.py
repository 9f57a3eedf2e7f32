"""Profile of a compiled program: the time of each instruction, as the runtime records it."""

import collections
import concurrent.futures as futures
import functools
import pathlib
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax

WHOLE = 0.01
"""A run that is shorter, in seconds, is recorded from beginning to end."""
WINDOW = 0.003
"""Length of the first profiling window in seconds; later ones are longer until they hold enough events."""
ENOUGH = 10_000
MOST_WINDOWS = 4


def busy(run: Callable[[], object], seconds: float) -> dict[str, float]:
    """Seconds that were recorded in every instruction of the program that `run` runs; `seconds` is how long one run takes.

    Empty where nothing can be recorded: a platform that does not say, or a profile that the user is taking already.
    """
    found: dict[str, float] = collections.defaultdict(float)
    if seconds < WHOLE:
        _record(run, found)
        return found
    with futures.ThreadPoolExecutor(1) as beside:
        running = beside.submit(run)
        time.sleep(0.1 * seconds)
        length, events = WINDOW, 0
        for _ in range(MOST_WINDOWS):
            events += _record(functools.partial(futures.wait, [running], length), found)
            if running.done() or events > ENOUGH:
                break
            length *= 4
        running.result()
    if not events:  # one long kernel, which had begun before: then few are in the whole run
        _record(run, found)
    return found


def _record(run: Callable[[], object], found: dict[str, float]) -> int:
    """Add what is recorded while `run` runs; the number of events."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            jax.profiler.start_trace(folder, profiler_options=options)
        except RuntimeError:
            return 0
        try:
            run()
        finally:
            jax.profiler.stop_trace()
        return sum(_add(file, found) for file in pathlib.Path(folder).rglob("*.xplane.pb"))


def _add(file: pathlib.Path, found: dict[str, float]) -> int:
    """Add the seconds that each instruction took itself, without those that ran inside it on the same thread."""
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            for line in plane.lines:
                around: list[tuple[float, str]] = []
                for start, duration, name in _events(line):
                    while around and around[-1][0] <= start:
                        around.pop()
                    if around:
                        found[around[-1][1]] -= 1e-9 * duration
                    found[name] += 1e-9 * duration
                    around.append((start + duration, name))
                    count += 1
    return count


def _events(line: Any) -> list[tuple[float, float, str]]:
    """Start, duration and instruction of what ran on one thread, in order; what holds others before them."""
    found = []
    for event in line.events:
        name = next((value for key, value in event.stats if key == "hlo_op"), None)
        if name is not None:
            found.append((event.start_ns, event.duration_ns, str(name)))
    return sorted(found, key=lambda event: (event[0], -event[1]))
