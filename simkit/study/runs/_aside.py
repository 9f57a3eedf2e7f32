"""Results of earlier runs in an output folder: refused where they are those of the same study, kept aside where it was edited."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._errors import ArgumentError, SimkitError
from ...io import Provenance, load_provenance
from ..language._study import Study

RESULT, REPORT, FIGURES, TRAJECTORY = "result.h5", "report.html", "figures", "trajectory.h5md"
EARLIER = "earlier"
"""The folder, in that of the results, to which results of earlier versions of a study go: `earlier/1`, `earlier/2`."""


def identity(study: Study, seed: int | None = None) -> str:
    """The identity of a study by its text, data, seed and own models; another one is another run."""
    return _digest(study.text, study.files, study.seed if seed is None else seed, study.sources)


def check_is_folder(folder: Path) -> None:
    """Refuse an output folder that is a file."""
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"The output folder `{folder}` must be a folder, but it is a file.")


def check_folder(folder: Path, own: str, *, overwrite: bool) -> None:
    """Refuse a folder that holds the results of the same study, of the identity `own`."""
    check_is_folder(folder)
    made = _made(folder)
    if made is not None and not overwrite and _identity_of(made) == own:
        raise ArgumentError(
            f"The output folder `{folder}` holds results already ({', '.join(_held(folder))}), and neither the study nor its data "
            f"have changed since they were made, {made.date}. Choose another folder with --out, or allow --overwrite."
        )


def make_room(folder: Path, own: str, *, overwrite: bool, say: Callable[[str], None]) -> None:
    """Empty a folder of what belongs to other results, just before new ones are written.

    Those of another version of the study are moved to `earlier/1` or the next free number; those of the same one, and all of them
    with `overwrite`, give way: a report and figures that newer results would not belong to are removed.
    """
    made = _made(folder)
    if overwrite or not _held(folder) or (made is not None and _identity_of(made) == own):
        (folder / REPORT).unlink(missing_ok=True)
        figures = folder / FIGURES
        for file in sorted(figures.glob("*")) if figures.is_dir() else ():
            if file.suffix in (".svg", ".png"):
                file.unlink()
        return
    place = _next(folder / EARLIER)
    for name in (RESULT, REPORT, FIGURES, TRAJECTORY, *(() if made is None else made.models)):
        if (folder / name).exists() and Path(name).name == name:
            (folder / name).rename(place / name)
    say(f"kept     the results of the earlier study are in {place}")


def _held(folder: Path) -> list[str]:
    return [name for name in (RESULT, REPORT) if (folder / name).exists()]


def _made(folder: Path) -> Provenance | None:
    """The provenance of the results in a folder; None where there are none, or they cannot be read."""
    try:
        return load_provenance(folder / RESULT) if (folder / RESULT).exists() else None
    except SimkitError:
        return None


def _next(folder: Path) -> Path:
    """A new folder with the next free number; of two processes each gets its own."""
    number = 1
    while True:
        try:
            (folder / str(number)).mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder / str(number)


def _identity_of(made: Provenance) -> str:
    return _digest(made.study, made.files, made.seed, made.models)


def _digest(text: str, files: Mapping[str, str], seed: int | None, sources: Mapping[str, str]) -> str:
    told: list[Any] = [text, dict(files), seed]
    if sources:
        told.append(dict(sources))
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
