"""Chunks handed to an executor, tried again where they fail, and set aside where they keep failing."""

import concurrent.futures as futures
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._errors import SimkitError, StoreError

WINDOW = 64
"""Number of chunks that are submitted to an executor that does not state its number of workers."""
WINDOW_OF_CLUSTER = 1000
"""Number of chunks that are submitted to Dask, whose workers may come and go, and which tells a chunk whose worker died from
others."""

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Here(futures.Executor):
    """The executor that computes in this process, at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        future: futures.Future[Any] = futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Source:
    """Source of executors: one that the user made, or a function that makes one and may have to make another.

    A client of Dask is asked for its executor.
    """

    def __init__(self, given: Any):
        self.make: Callable[[], Any] | None = None
        self.unknown = WINDOW
        if given is None:
            self.executor: Any = Here()
        elif isinstance(given, futures.Executor):
            self.executor = given
        elif (inner := getattr(given, "get_executor", None)) is not None:
            self.executor = inner(pure=False)
            self.unknown = WINDOW_OF_CLUSTER
        elif getattr(given, "submit", None) is not None:
            self.executor = given
        else:
            self.make = given
            self.executor = self.make()  # pyright: ignore[reportOptionalCall]

    @property
    def is_here(self) -> bool:
        """Tell whether work stays in this process, so that nothing is pickled."""
        return isinstance(self.executor, Here | futures.ThreadPoolExecutor)

    @property
    def window(self) -> int:
        """Return the number of chunks that are submitted ahead of their results."""
        workers = getattr(self.executor, "_max_workers", None)
        if isinstance(self.executor, Here):
            return 1
        return 2 * workers if isinstance(workers, int) else self.unknown

    def renew(self) -> None:
        """Another executor in the place of a broken one."""
        assert self.make is not None
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = self.make()

    def close(self) -> None:
        """End an executor that was made here."""
        if self.make is not None:
            self.executor.shutdown(wait=True, cancel_futures=True)


def drive(
    source: Source,
    indices: Iterable[int],
    call: Callable[[int], Call],
    *,
    retries: int,
    finished: Callable[[Any], None],
    has_room: Callable[[], bool],
) -> Iterator[tuple[int, int, BaseException]]:
    """Run `call(index)` for all indices; yield those that are given up, with the number of tries and the last error.

    A chunk that raises is tried again after the others, up to `retries` times. Where a worker dies, it is not known which of the
    chunks at hand killed it: each of those is tried again with no other beside it, so that no chunk is blamed for another's deed.
    Dask tries several workers itself, and says so. What simkit raises on purpose (an argument that cannot work, a full disk) ends
    everything at once. Where `has_room()` is false no other chunk is handed over, and what the executor has is awaited.
    """
    queue = _Queue(source, indices, call, has_room)
    tries: Counter[int] = Counter()
    try:
        while queue.fill():
            alone = queue.is_single
            for index, future in queue.wait():
                error = _error_of(future)
                if error is None:
                    finished(future.result())
                    continue
                if isinstance(error, SimkitError):
                    raise error
                death = is_death(error)
                if death and not alone:
                    queue.suspect(index)
                else:
                    tries[index] += 1
                    if tries[index] > retries or _has_tried_workers(error):
                        yield index, tries[index], error
                    elif death:
                        queue.suspect(index)
                    else:
                        queue.waiting.append(index)
                if isinstance(error, futures.BrokenExecutor):
                    queue.replace_executor(index, error)
    finally:
        queue.cancel()


def alone(source: Source, call: Call) -> tuple[Any, BaseException | None]:
    """Run one call with no other beside it; its result, and the error with which it ended or its worker died.

    **Raises:** what simkit raises on purpose.
    """
    function, arguments = call
    future = source.executor.submit(function, *arguments)
    futures.wait([future])
    error = _error_of(future)
    if isinstance(error, SimkitError):
        raise error
    if isinstance(error, futures.BrokenExecutor):
        if source.make is None:
            raise _broken([], error) from error
        source.renew()
    return (future.result(), None) if error is None else (None, error)


def is_death(error: BaseException | None) -> bool:
    """Tell whether an error says that a worker died."""
    return isinstance(error, futures.BrokenExecutor) or (error is not None and _has_tried_workers(error))


class _Queue:
    """The chunks that wait, those that an executor has, and those to be tried with no other beside them."""

    def __init__(
        self, source: Source, indices: Iterable[int], call: Callable[[int], Call], has_room: Callable[[], bool]
    ):
        self.source, self.call, self.has_room = source, call, has_room
        self.waiting, self.suspects, self.flying = deque(indices), deque[int](), dict[Any, int]()
        self.is_single = False

    def fill(self) -> bool:
        """Hand over what there is room for; False where nothing is left to do."""
        while self.waiting and len(self.flying) < self.source.window:
            if not self.has_room():
                self.waiting.clear()
                self.suspects.clear()
            elif not self._submit(self.waiting):
                break
        self.is_single = bool(self.suspects) and not self.flying
        if self.is_single:
            self._submit(self.suspects)
        return bool(self.flying)

    def wait(self) -> Iterator[tuple[int, Any]]:
        """Wait for finished chunks, successful ones first: a pool that breaks loses what has not been collected."""
        ended = futures.wait(self.flying, return_when=futures.FIRST_COMPLETED).done
        for future in sorted(ended, key=lambda future: _error_of(future) is not None):
            if future in self.flying:
                yield self.flying.pop(future), future

    def suspect(self, index: int) -> None:
        """Try a chunk again with no other beside it."""
        self.suspects.append(index)

    def replace_executor(self, index: int, error: BaseException) -> None:
        """Go on with another executor; whatever the broken one had is under suspicion."""
        lost = sorted(self.flying.values())
        self.flying.clear()
        if self.source.make is None:
            raise _broken([index, *lost], error) from error
        self.suspects.extend(lost)
        self.source.renew()

    def cancel(self) -> None:
        """Take back what has not begun."""
        for future in self.flying:
            future.cancel()

    def _submit(self, queue: deque[int]) -> bool:
        index = queue[0]
        function, arguments = self.call(index)
        try:
            future = self.source.executor.submit(function, *arguments)
        except futures.BrokenExecutor as error:
            if self.flying:  # they tell who was at hand when it broke
                return False
            self.replace_executor(index, error)
            future = self.source.executor.submit(function, *arguments)
        self.flying[future] = queue.popleft()
        return True


def _error_of(future: futures.Future[Any]) -> BaseException | None:
    if future.cancelled():
        return futures.CancelledError("the executor gave it up")
    with contextlib.suppress(futures.CancelledError):
        return future.exception()
    return futures.CancelledError("the executor gave it up")


def _has_tried_workers(error: BaseException) -> bool:
    """Tell whether the executor has tried a chunk on several workers, and all died, as Dask reports it."""
    return type(error).__name__ == "KilledWorker"


def _broken(lost: list[int], error: BaseException) -> StoreError:
    listed = ", ".join(map(str, sorted(lost)[:8])) + (", ..." if len(lost) > 8 else "")
    return StoreError(
        f"A worker process died, which ends its pool, while these chunks were at hand: {listed}. Most often the memory was not "
        "enough: take fewer workers or a smaller `chunk`. What is finished is kept; call `sweep` again with a new executor to go "
        "on, or give `executor` a function that makes one: a pool that breaks is then replaced."
    )
