"""Progress of work that goes on elsewhere, read from its stores: nothing is written, and nobody is asked."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import ArgumentError, SimkitError
from ...fitting import FAILED
from ...stores import RECORD, journal_manifest, open_hdf5, writer_of
from ...sweeps import Store, open_store

LATEST = 20
"""Number of the last files by whose dates a rate is known: a store that went on after a week has the rate of today."""

LOOKED = 2000
"""Number of the last chunks of a sweep, or records, in which failures are counted."""

COUNTED = {
    "ends": ("status", lambda values: values == FAILED, "failed"),
    "draws": ("diverging", lambda values: values != 0, "divergent"),
}
"""Name of records -> the array in them that tells what went wrong, where it does, and the word for it."""


@dataclasses.dataclass(frozen=True)
class StoreProgress:
    """State of a store.

    - `path`: the folder; `kind`: what the work is called.
    - `noun`: what is counted; `done`, `total`: how many there are, and will be (None where nothing says so).
    - `failed`: how many failed, with the word for it, such as "2 failed"; empty where nothing did.
    - `rate`: pieces a second by the dates of the last files, NaN where there are fewer than two; `left`: seconds to the end at this
        rate, NaN where nobody computes; `age`: seconds since the last file.
    - `writer`: who computes, empty where nobody does.
    - `errors`: what was set aside, or cannot be read.
    """

    path: str
    kind: str
    noun: str = ""
    done: int = 0
    total: int | None = None
    failed: str = ""
    rate: float = float("nan")
    left: float = float("nan")
    age: float = float("nan")
    writer: str = ""
    errors: tuple[str, ...] = ()


def progress_of(folder: Path) -> list[StoreProgress]:
    """The progress of the stores in a folder, itself or in folders below it.

    **Raises:** an `ArgumentError` where there is none.
    """
    found = [one for path in _stores(folder) for one in _of_store(path)]
    if not found:
        raise ArgumentError(
            f"`{folder}` must be the folder of a store, or of stores, of `fit`, `sample`, `sweep` or another verb, but there is "
            "none. Stores of a bucket are not read here."
        )
    return found


def _stores(folder: Path) -> Iterator[Path]:
    """Folders with a manifest, the deepest three folders down: of posteriors of averages the fits are in such ones."""
    for depth in range(4):
        yield from sorted(path.parent for path in folder.glob("/".join(["*"] * depth + ["manifest.json"])))


def _of_store(folder: Path) -> list[StoreProgress]:
    try:
        held = json.loads((folder / "manifest.json").read_bytes())
        if isinstance(held, dict) and held.get("format") == "simkit sweep":
            return [_of_sweep(open_store(folder))]
        manifest = journal_manifest(folder)
        return [] if manifest is None else list(_of_journal(folder, manifest))
    except SimkitError as error:
        told = str(error).splitlines()[0]
    except (OSError, ValueError, RecursionError) as error:
        told = f"The file `{folder / 'manifest.json'}` is damaged ({str(error).splitlines()[0]})."
    return [StoreProgress(str(folder), "store", errors=(told,))]


def _of_sweep(store: Store) -> StoreProgress:
    chunks = store.named_chunks()
    last = store.members - (store.chunks - 1) * store.chunk
    sizes = {index: last if index == store.chunks - 1 else store.chunk for index in chunks}
    files = _dated([(chunk.path, sizes[index]) for index, chunk in chunks.items()])
    notes = store.set_aside()
    told = "chunk {chunk}, members {first} to {last}: {error}"
    errors = [told.format(last=note["first"] + note["members"] - 1, **note) for note in notes]
    failed = _counted(files, "status", lambda values: values != 0, "failed")
    return _progress(store.folder, "sweep", "members", store.members, files, failed, errors)


def _of_journal(folder: Path, manifest: Mapping[str, Any]) -> Iterator[StoreProgress]:
    """One line for each kind of records that is planned; where none is, one for all files."""
    records: dict[str, list[Path]] = {}
    for path in folder.iterdir():
        if match := RECORD.fullmatch(path.name):
            records.setdefault(match[1].rpartition("-")[0] or match[1], []).append(path)
    planned = manifest.get("plan")
    planned = planned if isinstance(planned, dict) and planned else {"": {}}
    for name, entry in planned.items():
        known = isinstance(entry, dict) and all(isinstance(entry.get(key), int) for key in ("total", "each"))
        each, total = (int(entry["each"]), int(entry["total"])) if known else (1, None)
        paths = records.get(name, []) if name else [path for group in records.values() for path in group]
        files = _dated([(path, each) for path in paths])
        failed = _counted(files, *COUNTED[name]) if name in COUNTED else ""
        noun = str(entry.get("noun", "")) if known else "records"
        yield _progress(folder, str(manifest["kind"]), noun, total, files, failed, [])


def _dated(files: Sequence[tuple[Path, int]]) -> list[tuple[float, int, Path]]:
    """Date, number of pieces and path of the files that are still there, the last ones last."""
    found = []
    for path, size in files:
        try:
            found.append((path.stat().st_mtime, size, path))
        except OSError:  # who writes has just removed it
            continue
    return sorted(found)


def _progress(
    folder: Any,
    kind: str,
    noun: str,
    total: int | None,
    files: Sequence[tuple[float, int, Path]],
    failed: str,
    errors: Sequence[str],
) -> StoreProgress:
    done = sum(size for _, size, _ in files)
    done = done if total is None else min(done, total)
    recent, writer, rate = files[-LATEST:], writer_of(folder), float("nan")
    if len(recent) > 1 and recent[-1][0] > recent[0][0]:
        rate = sum(size for _, size, _ in recent[1:]) / (recent[-1][0] - recent[0][0])
    left = (total - done) / rate if total is not None and writer else float("nan")
    age = max(0.0, time.time() - files[-1][0]) if files else float("nan")
    return StoreProgress(str(folder), kind, noun, done, total, failed, rate, left, age, writer, tuple(errors))


def _counted(
    files: Sequence[tuple[float, int, Path]], array: str, bad: Callable[[np.ndarray], np.ndarray], word: str
) -> str:
    """The number of entries of an array in the last files that tell a failure, in words."""
    count = 0
    for _, _, path in files[-LOOKED:]:
        try:
            with open_hdf5(path) as file:
                values = np.asarray(file[array])
        except (OSError, RuntimeError, KeyError):
            continue
        count += int(bad(values).sum())
    where = f" in the last {LOOKED} files" if len(files) > LOOKED else ""
    return f"{count} {word}{where}" if count else ""
