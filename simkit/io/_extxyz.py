"""Extended XYZ: frames as text."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import ArgumentError, DataError
from ..md import METAL, REDUCED, Frame, OpenSpace, Units, space_from_vectors, three_dimensional, two_dimensional
from ..stores import READERS, Reader, input_bytes, reading
from ._ase_units import from_ase_numbers, to_ase_numbers

_PAIR = re.compile(r"""([^\s=]+)(?:=("(?:\\.|[^"\\])*"|\{[^}]*\}|'[^']*'|[^\s"']*))?""")
COLUMNS = {"mass": "masses", "charge": "initial_charges", "momentum": "momenta", "force": "forces"}
"""Field of a frame -> its column, as ASE calls it."""

_TYPES = {"S": str, "R": float, "I": int, "L": str}


def write_extxyz(path: str | Path, frames: Frame | Iterable[Frame], *, append: bool = False) -> Path:
    """Write frames as extended XYZ, which ASE, OVITO and many others read.

    Numbers are written in ASE's units, from any unit system that has scales: Angstrom, eV, g/mol, forces in eV/Angstrom, momenta in
    (g/mol eV)^(1/2), so that velocities are alive in ASE; times in ps. Numbers of reduced units are written as they are, with
    `units=reduced`. Every number has 17 digits and comes back bit for bit where no unit is converted.

    **Arguments:**

    - `path`: the file; it is replaced, or lengthened with `append`.
    - `frames`: one `Frame` or several, which may differ in their atoms.

    **Returns:** the path.

    ```python
    import simkit
    solid = simkit.md.crystal("diamond", 5.431, 2)
    frame = simkit.md.Frame(solid.space, solid.position, units=simkit.md.METAL, symbols=("Si",) * 64)
    simkit.io.write_extxyz("silicon.xyz", frame)
    print(simkit.io.read_extxyz("silicon.xyz"))  # prints [Frame of 64 atoms of Si at step 0, time 0 (metal units)]
    ```
    """
    path = Path(path)
    with path.open("a" if append else "w", encoding="utf-8", newline="\n") as handle:
        for frame in (frames,) if isinstance(frames, Frame) else frames:
            handle.write(_text(frame))
        handle.flush()
        os.fsync(handle.fileno())
    return path


def read_extxyz(path: str | Path, units: Units | None = None) -> list[Frame]:
    """Read all frames of an extended XYZ file.

    **Arguments:**

    - `path`: the file.
    - `units`: the unit system that the numbers shall have. By default `REDUCED` for a file with `units=reduced`,
        otherwise `METAL`: a file that names no units has ASE's.

    **Returns:** the frames. Known columns are `species`, `pos`, `masses`, `initial_charges`, `momenta`, `velo` or `vel`
    (momenta from
    the masses beside them) and `forces`; known keys `Lattice`, `pbc`, `energy`, `time` and `step`. Others are passed over.

    **Raises:** a `DataError` that names the line: a file that is cut short, a row with too few columns, a word where a
    number belongs, a frame that is periodic along some axes only; a file of another unit system.
    """
    path = Path(path)
    with reading(path, "file"):
        lines = input_bytes(path, "file").decode("utf-8").splitlines()
    found = list(_frames(path.name, lines, units))
    if not found:
        raise DataError(f"The file `{path.name}` must hold at least one frame, but it is empty.")
    return found


def _text(frame: Frame) -> str:
    """One frame: the number of atoms, the comment line, a row an atom."""
    flat, frame = frame.space.dimensions == 2, to_ase_numbers(three_dimensional(frame))
    columns: list[tuple[str, str, Any]] = [
        ("species", "S", frame.symbols or ("X",) * len(frame)),
        ("pos", "R", frame.position),
    ]
    for name, column in COLUMNS.items():
        if (value := getattr(frame, name)) is not None:
            columns.append((column, "R", value))
    keys = []
    if frame.space.periodic:
        keys.append(f'Lattice="{_numbers(np.asarray(frame.space.vectors()).reshape(-1))}"')
    width = lambda value: 1 if np.ndim(value) == 1 else np.shape(value)[1]
    keys.append("Properties=" + ":".join(f"{name}:{kind}:{width(value)}" for name, kind, value in columns))
    periodic = "T" if frame.space.periodic else "F"
    keys.append(f'pbc="{periodic} {periodic} {"F" if flat else periodic}"')
    if frame.energy is not None:
        keys.append(f"energy={_number(frame.energy)}")
    keys += [f"time={_number(frame.time)}", f"step={frame.step}"]
    if frame.units == REDUCED:
        keys.append("units=reduced")
    if flat:
        keys.append("dimensions=2")
    texts = [
        [_symbol(str(x)) for x in value] if kind == "S" else [_numbers(np.atleast_1d(x)) for x in value]
        for _, kind, value in columns
    ]
    rows = "".join(" ".join(cells) + "\n" for cells in zip(*texts, strict=True))
    return f"{len(frame)}\n{' '.join(keys)}\n{rows}"


def _symbol(name: str) -> str:
    if not name or any(c.isspace() for c in name):
        raise ArgumentError(f"Argument `symbols` must be names without blanks, but one is {name!r}.")
    return name


def _number(x: float) -> str:
    return repr(float(x))


def _numbers(values: np.ndarray) -> str:
    return " ".join(_number(x) for x in values)


def _frames(name: str, lines: list[str], units: Units | None) -> Iterator[Frame]:
    line = 0
    while line < len(lines):
        if not lines[line].strip():
            line += 1
            continue
        try:
            atoms = int(lines[line])
        except ValueError as error:
            raise _error(
                name, line, f"must be the number of atoms of a frame, but it is `{lines[line][:40]}`."
            ) from error
        if atoms < 1 or line + 1 + atoms >= len(lines):
            if atoms < 1:
                raise _error(name, line, f"must be a number of atoms of at least 1, but it is {atoms}.")
            raise DataError(
                f"The file `{name}` is cut short: the frame that begins on its line {line + 1} must have {atoms} atoms, but only "
                f"{max(0, len(lines) - line - 2)} rows follow. Drop it, or write it again."
            )
        yield _frame(name, line, lines[line + 1], lines[line + 2 : line + 2 + atoms], units)
        line += 2 + atoms


def _frame(name: str, line: int, comment: str, rows: list[str], units: Units | None) -> Frame:
    keys = {key: value.strip("\"'{}") for key, value in _PAIR.findall(comment)}
    table = _columns(name, line, keys.get("Properties", "species:S:1:pos:R:3"), rows)
    if "pos" not in table or table["pos"].shape[1] != 3:
        raise _error(name, line + 1, "must name a column `pos:R:3` in its `Properties`, but it does not.")
    own = REDUCED if keys.get("units") == "reduced" else METAL
    wanted = own if units is None else units
    if (own == REDUCED) != (wanted == REDUCED):
        raise DataError(
            f"The file `{name}` must have the unit system that is asked for, but its numbers are in {own.name} and "
            f"{wanted.name} units "
            "are wanted. Read it without `units`, and convert by scales of your own (`simkit.md.reduced`)."
        )
    scalar = lambda key, kind: _scalar(name, line + 1, keys, key, kind)
    fields = {field: _squeezed(table.get(column), field) for field, column in COLUMNS.items()}
    frame = Frame(
        _space(name, line + 1, keys),
        table["pos"],
        units=own,
        symbols=tuple(str(x) for x in table["species"][:, 0]) if "species" in table else None,
        energy=scalar("energy", float),
        time=scalar("time", float) or 0.0,
        step=scalar("step", int) or 0,
        **fields,
    )
    frame = from_ase_numbers(frame)
    if keys.get("dimensions") == "2":
        frame = two_dimensional(frame)
    return frame if own == REDUCED else frame.converted(wanted)


def _squeezed(value: np.ndarray | None, field: str) -> np.ndarray | None:
    return value if value is None or field in ("momentum", "force") else value[:, 0]


def _columns(name: str, line: int, properties: str, rows: list[str]) -> dict[str, np.ndarray]:
    """The columns by name, each of shape (atoms, width)."""
    words = properties.split(":")
    layout = list(zip(words[0::3], words[1::3], words[2::3], strict=False))
    if len(words) % 3 or any(kind not in _TYPES or not width.isdigit() for _, kind, width in layout):
        raise _error(name, line + 1, f"must name columns as name:type:width, but `Properties` is `{properties}`.")
    total = sum(int(width) for *_, width in layout)
    cells = [row.split() for row in rows]
    for number, row in enumerate(cells):
        if len(row) < total:
            raise _error(name, line + 2 + number, f"must have {total} columns, but it has {len(row)}.")
    found, start = {}, 0
    for column, kind, width in layout:
        stop = start + int(width)
        block = [row[start:stop] for row in cells]
        start = stop
        try:
            found[column] = np.array(block) if _TYPES[kind] is str else np.array(block, float)
        except ValueError:
            for number, row in enumerate(block):
                _check_numbers(name, line + 2 + number, column, row)
    return found


def _check_numbers(name: str, line: int, column: str, row: list[str]) -> None:
    for word in row:
        try:
            float(word)
        except ValueError as error:
            raise _error(name, line, f"must hold numbers in the column `{column}`, but there is `{word}`.") from error


def _scalar(name: str, line: int, keys: dict[str, str], key: str, kind: type) -> Any:
    if key not in keys:
        return None
    try:
        return kind(keys[key])
    except ValueError as error:
        raise _error(name, line, f"must give `{key}` as a number, but it is `{keys[key]}`.") from error


def _space(name: str, line: int, keys: dict[str, str]) -> Any:
    flags = [flag in ("T", "1", "True", "true") for flag in keys.get("pbc", "").split()]
    flags = flags or ["Lattice" in keys] * 3
    if keys.get("dimensions") == "2":
        flags = flags[:2]
    if not any(flags):
        return OpenSpace()
    if not all(flags):
        raise _error(
            name,
            line,
            f"must be periodic along all axes or none, but `pbc` is `{keys['pbc']}`. Put vacuum between the images, with "
            f"`pbc` T T T.",
        )
    try:
        vectors = np.array(keys["Lattice"].split(), float).reshape(3, 3)
    except (KeyError, ValueError) as error:
        given = keys.get("Lattice")
        raise _error(
            name, line, f"must give `Lattice` as 9 numbers in a periodic frame, but it is `{given}`."
        ) from error
    return space_from_vectors(vectors)


def _error(name: str, line: int, sentence: str) -> DataError:
    """About a line, counted from 0."""
    return DataError(f"Line {line + 1} of the file `{name}` {sentence}")


READERS.add("extxyz", Reader("frames", read_extxyz))
