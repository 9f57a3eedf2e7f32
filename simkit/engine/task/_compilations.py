"""count_compilations: what was traced and compiled, by verb, and because of which argument it was done again."""

import collections
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, no_type_check

import jax.monitoring

from ._signature import Signature, differences, signature

KEPT = 64
"""Number of latest signatures of a verb that are kept."""

SHOWN = 4
"""Most differences that are listed for one trace; more mean another problem altogether."""

OTHER = "other"
COMPILED = "/jax/core/compile/backend_compile_duration"
FROM_DISK = "/jax/compilation_cache/cache_hits"

_lock = threading.RLock()
_here = threading.local()
_signatures: dict[str, collections.deque[Signature]] = {}
_programs: dict[str, str] = {}  # name of a compiled function -> verb
_bodies: set[Any] = set()  # code objects of the functions that call `note_trace`
_counters: list["Compilations"] = []


class Compilations:
    """Traces and compilations that were counted; `print` shows a table.

    - `traces`: how often a verb of simkit was traced: its Python code run to find out what to compile.
    - `compilations`: how many programs XLA compiled, JAX's own small operations included; `from_disk`: how many were read from
        the persistent cache instead; `seconds`: the time both took.
    - `reasons`: one sentence for every trace of a verb that had been traced before: the arguments that differ from the call
        most like it.
    """

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self._others: collections.Counter[str] = collections.Counter()
        self._reasons: list[str] = []

    @property
    def traces(self) -> int:
        return sum(row["traces"] for row in self._rows.values())

    @property
    def compilations(self) -> int:
        return sum(row["compilations"] for row in self._rows.values())

    @property
    def from_disk(self) -> int:
        return sum(row["from_disk"] for row in self._rows.values())

    @property
    def seconds(self) -> float:
        return sum(row["seconds"] for row in self._rows.values())

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._reasons)

    def table(self) -> list[dict[str, Any]]:
        """One row a verb: verb, traces, compilations, from_disk, seconds; last "other", which simkit does not trace itself."""
        order = sorted(self._rows, key=lambda verb: verb == OTHER)
        return [{"verb": verb, **self._rows[verb]} for verb in order]

    def __repr__(self) -> str:
        lines = [
            f"Compilations: {self.traces} traced, {self.compilations} compiled, {self.from_disk} from disk, {self.seconds:.2f} s",
        ]
        if self._rows:
            lines.append(f"  {'':<24} {'traced':>7} {'compiled':>9} {'from disk':>10} {'seconds':>8}")
        for row in self.table():
            lines.append(
                f"  {row['verb']:<24} {row['traces']:>7} {row['compilations']:>9} {row['from_disk']:>10} {row['seconds']:>8.2f}"
            )
        if self._others:
            names = ", ".join(f"{name} {count}" for name, count in self._others.most_common(SHOWN))
            more = len(self._others) - SHOWN
            lines.append(f"  {OTHER}: {names}" + (f" and {more} more" if more > 0 else ""))
        lines.extend(f"  again: {reason}" for reason in self._reasons)
        return "\n".join(lines)

    def _row(self, verb: str) -> dict[str, Any]:
        return self._rows.setdefault(verb, {"traces": 0, "compilations": 0, "from_disk": 0, "seconds": 0.0})

    def _traced(self, verb: str, reason: str | None) -> None:
        self._row(verb)["traces"] += 1
        if reason is not None:
            self._reasons.append(reason)

    def _compiled(self, function: str, seconds: float, hit: bool) -> None:
        verb = _programs.get(function, OTHER)
        row = self._row(verb)
        row["from_disk" if hit else "compilations"] += 1
        row["seconds"] += seconds
        if verb == OTHER:
            self._others[function] += 1


@contextmanager
def count_compilations() -> Iterator[Compilations]:
    """Count what is traced and compiled inside a `with` block, and find out why.

    A second call with arguments of the same shapes, float types and static fields compiles nothing. When it does compile, a
    reason names the argument: another shape, float type or weak type; another static field, such as a solver or a number of
    steps; a function made anew, which JAX cannot know to be the same.

    **Returns:** (from `with ... as`) `Compilations`, up to date at any time.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    with simkit.count_compilations() as counter:
        simkit.simulate(system, y0, times)
        simkit.simulate(system, y0, times[:-1])
    print(counter)
    ```
    """
    counter = Compilations()
    with _lock:
        if not _counters:
            jax.monitoring.register_event_duration_secs_listener(_on_duration)
            jax.monitoring.register_event_listener(_on_event)
        _counters.append(counter)
    try:
        yield counter
    finally:
        with _lock:
            _counters.remove(counter)
            if not _counters:
                jax.monitoring.unregister_event_duration_listener(_on_duration)
                jax.monitoring.unregister_event_listener(_on_event)


@no_type_check  # a wrapper that checks types would stand between it and the function that it is called from
def note_trace(verb: str, arguments: Mapping[str, Any]) -> None:
    """Record one trace of a verb; call it first in the body of a function under `jit`.

    **Arguments:** the `verb` as the user calls it, and everything that the function depends on, by the name that the user
    knows; of arrays only shapes and types are kept. A trace inside that of another verb is part of it, and not counted.
    """
    body = sys._getframe(1)
    with _lock:
        _bodies.add(body.f_code)
        _programs[body.f_code.co_name] = verb
        if _inside_another(body):
            return
        new = signature(arguments)
        earlier = _signatures.setdefault(verb, collections.deque(maxlen=KEPT))
        reason = _reason(verb, earlier, new) if _counters else None
        earlier.append(new)
        for counter in _counters:
            counter._traced(verb, reason)


def _inside_another(body: Any) -> bool:
    frame = body.f_back
    while frame is not None:
        if frame.f_code in _bodies:
            return True
        frame = frame.f_back
    return False


def _reason(verb: str, earlier: collections.deque[Signature], new: Signature) -> str | None:
    """Return the reason why a verb is traced again: its difference from the most similar earlier call; None for the first."""
    if not earlier:
        return None
    nearest = min((differences(old, new) for old in reversed(earlier)), key=len)
    if not nearest:
        return (
            f"{verb}: the arguments are as before: JAX's caches were cleared, or a device or a setting of JAX differs"
        )
    more = f" and {len(nearest) - SHOWN} more" if len(nearest) > SHOWN else ""
    return f"{verb}: {'; '.join(nearest[:SHOWN])}{more}"


def _on_event(event: str, **kwargs: Any) -> None:
    if event == FROM_DISK:
        _here.hit = True


def _on_duration(event: str, duration_secs: float, **kwargs: Any) -> None:
    if event != COMPILED:
        return
    hit, _here.hit = getattr(_here, "hit", False), False
    function = str(kwargs.get("fun_name", "")).removeprefix("jit(").removesuffix(")")
    with _lock:
        for counter in _counters:
            counter._compiled(function, duration_secs, hit)
