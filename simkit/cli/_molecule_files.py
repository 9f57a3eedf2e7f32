"""The files of the command `simkit md`, told apart by their endings."""

import xml.etree.ElementTree as xml
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .._errors import ArgumentError

TOPOLOGIES = (".prmtop", ".parm7", ".top", ".psf")
STRUCTURES = (".pdb", ".ent", ".cif", ".mmcif")
"""Endings of files that a force field completes, or that hold the coordinates of a topology."""
NEEDED = {".inpcrd": ".prmtop", ".rst7": ".prmtop", ".crd": ".prmtop", ".restrt": ".prmtop", ".gro": ".top"}
"""Endings of coordinates that go with a topology only, and the ending of that topology."""
LAMMPS = (".data", ".lmp", ".lmpdat")


class Asked(NamedTuple):
    """The files of a command: the one to read, and those that it is read with."""

    path: Path
    coordinates: Path | None
    force_field: tuple[str, ...]
    commands: str | None

    @classmethod
    def of(cls, files: Sequence[Path]) -> "Asked":
        """Tell files apart by their endings, in any order.

        **Raises:** an `ArgumentError` for files of which one would not be used, and for coordinates without their topology.
        """
        from_lammps = [file for file in files if _ending(file) in LAMMPS or file.name.startswith("data.")]
        if from_lammps:
            inputs = [file for file in files if file not in from_lammps]
            if len(from_lammps) > 1 or len(inputs) > 1:
                raise ArgumentError(
                    "Give one data file of LAMMPS and one file of its commands, such as `simkit md water.data in.water`, but "
                    f"these are {', '.join(map(str, files))}."
                )
            return cls(from_lammps[0], None, (), "\n".join(map(_text, inputs)))
        topologies = [file for file in files if _ending(file) in TOPOLOGIES]
        if len(topologies) > 1:
            raise ArgumentError(
                f"Give one topology, but these are {' and '.join(map(str, topologies))}. Leave one out."
            )
        twice = [str(file) for k, file in enumerate(files) if file in files[:k]]
        if twice:
            raise ArgumentError(f"Give each file once, but {', '.join(twice)} is there twice.")
        path = (topologies or [file for file in files if _is_system(file)] or [None])[0]
        structures = [file for file in files if _ending(file) in STRUCTURES]
        placed = [file for file in files if _ending(file) in NEEDED or file in structures]
        if path is None and placed:
            _check_structure(placed)
            path, placed = placed[0], []
        path = path or files[0]
        if len(placed) > 1:
            raise ArgumentError(
                f"Give one file of coordinates for {path}, but these are {', '.join(map(str, placed))}."
            )
        rest = [file for file in files if file != path and file not in placed]
        _check_used(path, rest)
        return cls(path, placed[0] if placed else None, tuple(map(str, rest)), None)


def _ending(file: Path) -> str:
    return file.suffix.lower()


def _check_structure(placed: Sequence[Path]) -> None:
    """Refuse coordinates without a topology, and more than one structure."""
    for file in placed:
        if needed := NEEDED.get(_ending(file)):
            own = file.with_suffix(needed)
            raise ArgumentError(
                f"The file {file} holds coordinates only: a topology, `{needed}`, must stand beside it, such as "
                f"`simkit md {own} {file}`."
            )
    if len(placed) > 1:
        raise ArgumentError(
            f"Give one structure with its force fields, or one topology with its coordinates, but {' and '.join(map(str, placed))} "
            "are two structures and there is no topology. Leave one out."
        )


def _check_used(path: Path, rest: Sequence[Path]) -> None:
    """Refuse files that are not read with one of this kind."""
    ending, unused = _ending(path), list(rest)
    if ending in (
        ".psf",
        *STRUCTURES,
    ):  # parameter files and force fields, of which OpenMM refuses what it does not know
        return
    if ending == ".top":
        folders = [file for file in rest if file.is_dir()]
        unused = [file for file in rest if file not in folders[:1]]
    if unused:
        also = " and a folder of its included files" if ending == ".top" else ""
        raise ArgumentError(
            f"The file {path} is read with one file of coordinates{also}, so that {', '.join(map(str, unused))} would not be "
            "used. Leave it out."
        )


def _is_system(file: Path) -> bool:
    """True of a serialised system of OpenMM, which is no force field."""
    if _ending(file) != ".xml" or not file.is_file():
        return False
    try:
        with file.open("rb") as content:
            return next(xml.iterparse(content, events=("start",)))[1].tag == "System"
    except (xml.ParseError, StopIteration):
        return False


def _text(path: Path) -> str:
    if not path.is_file():
        raise ArgumentError(f"There is no file `{path}`. Give the commands that name styles and coefficients.")
    return path.read_text(encoding="utf-8")
