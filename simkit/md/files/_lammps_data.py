"""Data files of LAMMPS: atoms, cell, bonds, and the coefficients that stand in the file."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..._errors import DataError
from ...stores import input_bytes

COLUMNS = {"full": (2, 3, 4), "molecular": (2, None, 3), "charge": (1, 2, 3), "atomic": (1, None, 2)}
"""Style of atoms -> the columns of type, charge and x after the number of the atom, which is column 0."""

MEMBERS = {"bond": 2, "angle": 3, "dihedral": 4, "improper": 4}
"""Kinds of terms, and the atoms of each."""

COEFFICIENTS = {f"{kind.capitalize()} Coeffs": kind for kind in ("pair", *MEMBERS)}

SECTIONS = {"Masses", "Atoms", "Velocities", *COEFFICIENTS, *(f"{kind.capitalize()}s" for kind in MEMBERS)}

IGNORED = {"Atom Type Labels", "Bond Type Labels", "Angle Type Labels", "Dihedral Type Labels", "Improper Type Labels"}


class LammpsData(NamedTuple):
    """Contents of a data file of LAMMPS, atoms in the order of their numbers and counted from 0, types from 0.

    - `origin`, `vectors`: of the cell, rows.
    - `kind`, `charge`, `position`, `velocity`: by atom; `charge` and `velocity` are None where the file has none.
    - `mass`: by type of atom.
    - `terms`: kind of term -> rows of its type and its atoms.
    - `coefficients`: kind -> the lines of its section, the type first.
    - `rests`: the same of sections of the style `zero`, which give lengths and angles of rest and no energy.
    """

    origin: np.ndarray
    vectors: np.ndarray
    kind: np.ndarray
    charge: np.ndarray | None
    position: np.ndarray
    velocity: np.ndarray | None
    mass: np.ndarray
    terms: dict[str, np.ndarray]
    coefficients: dict[str, list[list[str]]]
    rests: dict[str, list[list[str]]] = {}


def read_data(path: Path) -> LammpsData:
    """Read a data file.

    **Raises:** a `DataError` that names the line or the section.
    """
    lines = input_bytes(path, "a data file of LAMMPS").decode(errors="replace").splitlines()
    header, sections = _divided(lines, path)
    counts = {" ".join(words[1:]): int(words[0]) for words in header if words[0].isdigit()}
    for kind in MEMBERS:
        found, said = len(sections.get(f"{kind.capitalize()}s", ("", []))[1]), counts.get(f"{kind}s", 0)
        if found != said:
            raise DataError(f"{path.name} must hold {said} {kind}s, as its header says, but holds {found}.")
    style, rows = sections["Atoms"]
    if style not in COLUMNS:
        raise DataError(
            f"The section `Atoms` of {path.name} must be of one of the styles {sorted(COLUMNS)}, said after a `#`, but it is "
            f"{style or 'not said'}."
        )
    if len(rows) != counts.get("atoms"):
        raise DataError(
            f"{path.name} must hold {counts.get('atoms')} atoms, as its header says, but holds {len(rows)}."
        )
    number = np.array([int(row[0]) for row in rows])
    order = np.argsort(number)
    place = {int(n): k for k, n in enumerate(number[order])}
    of_type, of_charge, of_x = COLUMNS[style]
    column = lambda k: np.array([float(row[k]) for row in rows])[order]
    velocity = None
    if "Velocities" in sections:
        velocity = np.zeros((len(rows), 3))
        for row in sections["Velocities"][1]:
            velocity[place[int(row[0])]] = [float(v) for v in row[1:4]]
    origin, vectors = _cell(header)
    mass = np.full(counts["atom types"], np.nan)
    for row in sections.get("Masses", ("", []))[1]:
        mass[int(row[0]) - 1] = float(row[1])
    if not np.isfinite(mass).all():
        raise DataError(
            f"{path.name} must give a mass to every type of atom, but type "
            f"{int(np.argmin(np.isfinite(mass))) + 1} has none."
        )
    terms = {}
    for kind, size in MEMBERS.items():
        listed = sections.get(f"{kind.capitalize()}s", ("", []))[1]
        table = [[int(row[1]) - 1, *(_place(place, row[2 + k], path, kind) for k in range(size))] for row in listed]
        terms[kind] = np.array(table, int).reshape(len(table), size + 1)
    return LammpsData(
        origin,
        vectors,
        column(of_type).astype(int) - 1,
        None if of_charge is None else column(of_charge),
        np.stack([column(of_x + k) for k in range(3)], axis=1),
        velocity,
        mass,
        terms,
        {
            kind: rows
            for name, kind in COEFFICIENTS.items()
            for hint, rows in [sections.get(name, ("zero", []))]
            if hint != "zero"
        },
        {kind: sections[name][1] for name, kind in COEFFICIENTS.items() if sections.get(name, ("",))[0] == "zero"},
    )


def _place(place: dict[int, int], word: str, path: Path, kind: str) -> int:
    if int(word) not in place:
        raise DataError(f"A {kind} of {path.name} names atom {word}, which the file does not have.")
    return place[int(word)]


def _divided(lines: list[str], path: Path) -> tuple[list[list[str]], dict[str, tuple[str, list[list[str]]]]]:
    """Divide the lines after the first into the words of the header, and by section the hint behind `#` and its rows."""
    header: list[list[str]] = []
    sections: dict[str, tuple[str, list[list[str]]]] = {}
    rows = header
    for line in lines[1:]:
        text, _, hint = line.partition("#")
        words = text.split()
        if not words:
            continue
        name = " ".join(words)
        if name in SECTIONS or name in IGNORED:
            rows = []
            sections[name] = hint.strip(), rows
        elif (
            words[0][0].isalpha() and rows is not header and words[-1] in ("Coeffs", "Labels")
        ) or name == "Ellipsoids":
            raise DataError(f"{path.name} holds the section `{name}`, which simkit does not read.")
        else:
            rows.append(words)
    if "Atoms" not in sections:
        raise DataError(
            f"{path.name} must hold a section `Atoms`, but holds {sorted(sections)}: it is no data file of LAMMPS."
        )
    return header, sections


def _cell(header: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    ends = {words[2][0]: (float(words[0]), float(words[1])) for words in header if words[-1] in ("xhi", "yhi", "zhi")}
    tilt = next(([float(v) for v in words[:3]] for words in header if words[-1] == "yz"), [0.0, 0.0, 0.0])
    (x0, x1), (y0, y1), (z0, z1) = (ends[axis] for axis in "xyz")
    xy, xz, yz = tilt
    return np.array([x0, y0, z0]), np.array([[x1 - x0, 0, 0], [xy, y1 - y0, 0], [xz, yz, z1 - z0]])
