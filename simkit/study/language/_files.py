"""Data files of a study: their texts, and the readers that a study names for them."""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import md
from ..._errors import DataError, StudyError
from ...stores import READERS, Reader
from ._section import Section, at_place

Files = Callable[[str], str]
"""The text of a data file by its name in the study."""


def no_files(name: str) -> str:
    """Refuse a data file where none can be named."""
    raise StudyError(f"The data file `{name}` cannot be named here.")


def read_reader(section: Section, gives: str, default: str) -> Reader:
    """`reader`: the format of a data file."""
    name = str(section.name("reader", READERS, "reader", default))
    with at_place(section.where("reader")):
        reader = READERS[name]
    if reader.gives != gives:
        raise section.error("reader", f"must read {WORDS[gives]}, but `{name}` reads {WORDS[reader.gives]}.")
    return reader


WORDS = {"table": "a table", "frames": "frames of atoms", "potential": "a potential"}


def from_file(name: str, files: Files, read: Callable[[Path], Any]) -> Any:
    """Return the result of a reader for a data file of the study; readers take paths, and the text may come out of a result
    file."""
    text = files(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (re.sub(r"[^\w .+()=,-]", "_", Path(name).name)[-100:].strip(".") or "file")
        path.write_text(text, encoding="utf-8", newline="\n")
        return read(path)


def read_columns(name: str, files: Files, reader: Reader, wanted: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Columns of a table by name, checked: a reader may come from another package."""
    found = from_file(name, files, lambda path: reader.read(path, wanted))
    try:
        table = {key: np.asarray(found[key], float) for key in wanted}
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(
            f"The reader of `{name}` must return numbers for {_listed(wanted)}, but it does not."
        ) from error
    if any(column.ndim != 1 for column in table.values()) or len({column.size for column in table.values()}) != 1:
        raise DataError(f"The reader of `{name}` must return columns of one length, but it does not.")
    return table


def read_frames(name: str, files: Files, reader: Reader, units: md.Units) -> Sequence[md.Frame]:
    """Frames of atoms, checked: a reader may come from another package."""
    frames = from_file(name, files, lambda path: reader.read(path, units))
    if not isinstance(frames, list | tuple) or not frames or not all(isinstance(f, md.Frame) for f in frames):
        raise DataError(f"The reader of `{name}` must return a list of `md.Frame`, but it does not.")
    return frames


def _listed(names: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
