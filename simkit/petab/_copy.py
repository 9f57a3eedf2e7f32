"""A PEtab problem that was read, written again: its own files, with other nominal values."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jax.typing import ArrayLike

from .._errors import ArgumentError
from ._load import PEtab, parameter_files


def copied(read: PEtab, folder: Path, nominal: ArrayLike | Sequence[float] | None) -> Path:
    """Write the files of a problem to a folder, its free parameters with these nominal values; the path of the YAML file."""
    values = np.asarray(read.nominal if nominal is None else nominal, float)
    names = read.problem.names
    if values.shape != (len(names),):
        raise ArgumentError(
            f"Argument `nominal` must hold the {len(names)} free parameters {names}, but its shape is {values.shape}."
        )
    if nominal is not None and not np.isfinite(values).all():
        raise ArgumentError(f"Argument `nominal` must be finite, but it is {values}.")
    (head,) = (file for file in read.texts if file in (f"{read.name}.yaml", f"{read.name}.yml"))
    tables = parameter_files(head, read.texts[head])
    known = {name: repr(float(x)) for name, x in zip(names, values, strict=True) if np.isfinite(x)}
    for file in read.texts:
        if ".." in Path(file).parts:
            raise ArgumentError(
                f"A problem to be written must have its files in one folder, but `{head}` names `{file}`. Move that file, and "
                "read the problem again."
            )
    for file, text in read.texts.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_renewed(text, known) if file in tables else text, encoding="utf-8")
    return folder / head


def _renewed(text: str, known: dict[str, str]) -> str:
    """A table of parameters with these nominal values, all else as it was."""
    header, *rows = csv.reader(text.splitlines(), delimiter="\t")
    columns = [name.strip() for name in header]
    if "nominalValue" not in columns:
        header, columns = [*header, "nominalValue"], [*columns, "nominalValue"]
    name, value = columns.index("parameterId"), columns.index("nominalValue")
    found = io.StringIO()
    writer = csv.writer(found, delimiter="\t", lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        if any(cell.strip() for cell in row):
            cells = [*row, *[""] * (len(header) - len(row))]
            cells[value] = known.get(cells[name].strip(), cells[value])
            writer.writerow(cells)
    return found.getvalue()
