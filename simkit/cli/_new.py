"""new: a study file or a package to start from."""

from collections.abc import Sequence
from pathlib import Path

from ..io import read_text
from ..stores import write_text
from ..study import package_files, study_of_table, study_text
from ._files import check_free


def write_new_study(path: Path, overwrite: bool) -> None:
    """Write a commented study file."""
    check_free(path, overwrite, "name")
    write_text(path, study_text(path))


def write_study_of_data(
    path: Path,
    data: Path,
    overwrite: bool,
    *,
    time: str | None = None,
    subject: str | None = None,
    inputs: Sequence[str] = (),
) -> None:
    """Write a study of a table of data; the table is named where it lies below the study, else its numbers are written."""
    check_free(path, overwrite, "name")
    inside = data.resolve().is_relative_to(path.parent.resolve())
    name = data.resolve().relative_to(path.parent.resolve()).as_posix() if inside else data.name
    asked = {"time": time, "subject": subject, "inputs": inputs, "inline": not inside}
    write_text(path, study_of_table(read_text(data), name, path.name, **asked))


def write_new_package(name: str, overwrite: bool) -> tuple[Path, list[Path]]:
    """Write a package into a folder of its name; returns the folder and the files, nothing written where one is there."""
    folder, texts = Path(name), package_files(name)
    files = [folder / path for path in texts]
    for path in files:
        check_free(path, overwrite, "name")
    for path, text in zip(files, texts.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return folder, files
