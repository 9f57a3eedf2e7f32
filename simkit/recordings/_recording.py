"""Result of a recording: a folder that is read on demand."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._doors import check_kind, shown
from .._errors import ArgumentError, ResultFileError, check_known
from ..core import Trajectory
from ..stores import Journal, Together, joined, names_of, open_journal, unpacked

KIND = "recording"
COUNTS = ("steps", "rejected", "evaluations")


class Recording:
    """The frames, probes and totals of a recorded run. They stay on disk; what is asked for is read.

    - `store`: the folder.
    - `end`: the time that the run has reached.
    - `times`: the times of the frames; `probe_times`: those of the probes.
    - `names`: the names of the probes.
    - `reduced`: the results of the reducers so far, by name.
    - `cut`: True where the call ended because its time, `within`, was up.

    `run["drag"]` is a probe at `probe_times`, `run.trajectory(0.0, 10.0)` are the frames of an interval, `run.final()` is the last
    state, from which a simulation may go on.
    """

    def __init__(self, held: Journal | Together, like: Mapping[str, Any]):
        self.held, self._like, self.cut = held, like, False

    @property
    def store(self) -> Any:
        return self.held.folder

    @property
    def end(self) -> float:
        return float(self._last()[1]["times"][-1])

    @property
    def times(self) -> np.ndarray:
        return self._column("frame_times")

    @property
    def probe_times(self) -> np.ndarray:
        return np.concatenate([part["times"][int(index > 0) :] for index, part in enumerate(self._parts())])

    @property
    def names(self) -> tuple[str, ...]:
        return _probes_of(self._last()[1])

    @property
    def reduced(self) -> dict[str, Any]:
        return self._tree(self._last()[1], "reduced")

    def __getitem__(self, name: str) -> np.ndarray:
        check_known(name, self.names, "probe")
        return self._column(f"probes.{name}")

    def final(self) -> Any:
        """The state at `end`."""
        return self._tree(self._last()[1], "final")

    def trajectory(self, start: float | None = None, stop: float | None = None) -> Trajectory:
        """The frames from `start` to `stop`, all by default, as one trajectory in memory.

        **Raises:** an `ArgumentError` where no frame lies there.
        """
        for name, value in (("start", start), ("stop", stop)):
            if value is not None and not isinstance(value, int | float | np.number | np.ndarray | jax.Array):
                raise ArgumentError(f"Argument `{name}` must be a time, but it is {shown(value)}.")
        low, high = -np.inf if start is None else start, np.inf if stop is None else stop
        kept = []
        for part in self._parts():
            asked = (part["frame_times"] >= low) & (part["frame_times"] <= high)
            if asked.any():
                kept.append({name: part[name][asked] for name in part if _is_frames(name)} | _counted(part))
        if not kept:
            every = self.times
            raise ArgumentError(
                f"Arguments `start` and `stop` must hold a frame between them, but frames lie from {every[0]:g} to {every[-1]:g} "
                f"and they are {start} and {stop}."
            )
        counts = {name: sum(part[name] for part in kept) for name in COUNTS}
        return self._frames(
            {name: np.concatenate([part[name] for part in kept]) for name in kept[0] if _is_frames(name)} | counts
        )

    def part(self, index: int) -> tuple[Trajectory, dict[str, np.ndarray]]:
        """The frames of one part, and its probes by name; parts follow each other without overlap.

        **Raises:** a `ResultFileError` where it is not there, or damaged.
        """
        part = self._whole(index)
        probes = {name: values[int(index > 0) :] for name, values in _named(part, "probes").items()}
        return self._frames(part | _counted(part)), probes

    @property
    def parts(self) -> int:
        """The number of parts that are finished."""
        return sum(1 for _ in self.store.glob("part-*.h5"))

    def _frames(self, arrays: Mapping[str, Any]) -> Trajectory:
        times, ys = jnp.asarray(arrays["frame_times"]), jax.tree.map(jnp.asarray, self._tree(arrays, "frames"))
        steps, rejected, evaluations = (jnp.asarray(arrays[name], int) for name in COUNTS)
        return Trajectory(times, ys, jnp.asarray(0), steps, rejected, evaluations, solver="recorded")

    def __repr__(self) -> str:
        if not self.parts:
            return f"Recording\n  store    {self.store}\n  reached  nothing yet"
        frames, probed, last = np.zeros(0), 1, {}
        for last in self._parts():  # one pass over the files
            frames, probed = np.append(frames, last["frame_times"]), probed + len(last["times"]) - 1
        names = _probes_of(last)
        rows = [
            ("store", str(self.store)),
            ("reached", f"{last['times'][-1]:g}"),
            *([("", "the time of `within` was up; the same call goes on")] if self.cut else []),
            ("frames", f"{len(frames)} from {frames[0]:g} to {frames[-1]:g}"),
            *(("state", f"{name} {x.dtype}{list(x.shape)}") for name, x in _named(last, "final").items()),
        ]
        if names:
            rows.append(("probes", f"{', '.join(names)} at {probed} times"))
        reduced = dict.fromkeys(name.split(".")[0] for name in _named(last, "reduced"))
        if reduced:
            rows.append(("reduced", ", ".join(reduced)))
        return "Recording\n" + "\n".join(f"  {name:<7}  {text}" for name, text in rows)

    def _parts(self) -> Iterator[dict[str, np.ndarray]]:
        last, _ = self._last()
        return (self._whole(index) for index in range(last + 1))

    def _whole(self, index: int) -> dict[str, np.ndarray]:
        found = joined(self.held.read, part_name(index))
        if found is None:
            raise ResultFileError(
                f"Part {index} of the recording in `{self.store}` is gone, cut short or damaged. Call `record` again, as "
                "before: it does that part anew."
            )
        return found

    def _last(self) -> tuple[int, dict[str, np.ndarray]]:
        """The number and the content of the last whole part."""
        for index in reversed(range(self.parts)):
            if (found := joined(self.held.read, part_name(index))) is not None:
                return index, found
        raise ResultFileError(
            f"The recording in `{self.store}` has no whole part yet. Call `record` as before: it goes on with it."
        )

    def _column(self, name: str) -> np.ndarray:
        skip = lambda index: int(index > 0 and name.startswith("probes."))
        return np.concatenate([part[name][skip(index) :] for index, part in enumerate(self._parts())])

    def _tree(self, arrays: Mapping[str, np.ndarray], root: str) -> Any:
        """A pytree of a part: with the classes that it was recorded with where they are known, else by dotted name."""
        like = self._like.get(root)
        if like is not None:
            _check_like(like, root, arrays)
            return unpacked(arrays, {root: like})[root]
        found = {name: jnp.asarray(value) for name, value in _named(arrays, root).items()}
        return found[""] if list(found) == [""] else found


def open(store: str | Path, y0: Any = None) -> Recording:
    """The recording in a folder, also while another process goes on with it.

    **Arguments:** `y0` is a state of the system, whose class the states then have; without it they are dictionaries.

    **Raises:** a `ResultFileError` where there is none.
    """
    check_kind("store", store, str | Path, "the name of a folder", 'Write `simkit.recordings.open("my_run")`.')
    return Recording(open_journal(store, KIND), {} if y0 is None else {"frames": y0, "final": y0})


def part_name(index: int) -> str:
    """The name of the record of a part."""
    return f"part-{index:06d}"


def read_parts(held: Journal | Together) -> Iterator[dict[str, np.ndarray]]:
    """The whole parts, in their order, up to the first that is missing."""
    for index in itertools.count():
        found = joined(held.read, part_name(index))
        if found is None:
            return
        yield found


def _check_like(like: Any, root: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse a state of another system.

    **Raises:** an `ArgumentError` that tells what the recording holds.
    """
    held, asked = set(_named(arrays, root)), set(names_of(like))
    if held != asked:
        raise ArgumentError(
            f"Argument `y0` must be a state like those of the recording, which holds {', '.join(sorted(held))}, but it holds "
            f"{', '.join(sorted(asked))}."
        )


def _probes_of(part: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    return tuple(name.removeprefix("probes.") for name in part if name.startswith("probes."))


def _is_frames(name: str) -> bool:
    return name == "frame_times" or name == "frames" or name.startswith("frames.")


def _counted(part: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: int(part[f"counts.{name}"]) for name in COUNTS}


def _named(arrays: Mapping[str, np.ndarray], root: str) -> dict[str, np.ndarray]:
    """The arrays below a root by what follows it in their names."""
    inside = lambda name: name == root or name.startswith(f"{root}.")
    return {name.removeprefix(root).removeprefix("."): value for name, value in arrays.items() if inside(name)}
