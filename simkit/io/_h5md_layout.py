"""Layout of frames in an H5MD file: names, units, and shapes.

H5MD 1.1 (https://nongnu.org/h5md), with what MDAnalysis asks beyond it: the group is called `trajectory`, the cell is
written with every frame, `step` and `time` are whole series, and units come from its list.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import h5py
import numpy as np

from .._errors import ResultFileError
from ..md import METAL, REAL, REDUCED, SI, Frame, Units, si_value

MOST_PACKED = 1100
"""DEFLATE, the strongest filter of HDF5 itself, makes 1,032 bytes of one at best."""
GROUP = "particles/trajectory"
MDANALYSIS: Mapping[str, str] = MappingProxyType(
    {
        "length": "Angstrom",
        "time": "ps",
        "velocity": "Angstrom ps-1",
        "force": "kJ mol-1 Angstrom-1",
        "mass": "g mol-1",
        "charge": "e",
    }
)
"""Dimension -> the unit in which MDAnalysis counts, whatever the file."""

UNITS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        METAL.name: {**MDANALYSIS, "energy": "eV"},
        REAL.name: {
            "length": "Angstrom",
            "time": "fs",
            "velocity": "Angstrom fs-1",
            "force": "kcal mol-1 Angstrom-1",
            "mass": "g mol-1",
            "charge": "e",
            "energy": "kcal mol-1",
        },
        SI.name: {
            "length": "nm",
            "time": "s",
            "velocity": "m s-1",
            "force": "N",
            "mass": "kg",
            "charge": "C",
            "energy": "J",
        },
        REDUCED.name: {},
    }
)
"""Unit system -> dimension -> the unit in the file, from MDAnalysis' list where it has one."""


class Element(NamedTuple):
    """A series in the file: where, its dimension, and how to take it from a frame."""

    path: str
    dimension: str
    shape: tuple[int, ...]


def elements(like: Frame, observables: Mapping[str, str | None]) -> dict[str, Element]:
    """The series that frames like this one have, the positions last: where they are, all else is."""
    d, atoms = 3, len(like)
    found = {}
    if like.space.periodic:
        found["edges"] = Element(f"{GROUP}/box/edges", "length", (d, d))
    if like.momentum is not None:
        found["velocity"] = Element(f"{GROUP}/velocity", "velocity", (atoms, d))
    if like.force is not None:
        found["force"] = Element(f"{GROUP}/force", "force", (atoms, d))
    if like.energy is not None:
        found["energy"] = Element("observables/potential_energy", "energy", ())
    for name, dimension in observables.items():
        found[f"observables/{name}"] = Element(f"observables/{name}", dimension or "", ())
    found["position"] = Element(f"{GROUP}/position", "length", (atoms, d))
    return found


def unit_at_edge(units: Units, dimension: str) -> str:
    """The unit in the file; empty for numbers without one."""
    if not dimension or units == REDUCED:
        return ""
    return UNITS.get(METAL.name if units.name == REDUCED.name else units.name, {}).get(dimension) or units.unit(
        dimension
    )


def factor_to_file(units: Units, dimension: str) -> float:
    """Return the factor from the numbers of a simulation to those of the file."""
    unit = unit_at_edge(units, dimension)
    return units.si(dimension) / si_value(unit) if unit else 1.0


def value_of(frame: Frame, name: str) -> Any:
    """The number of a series in a frame, as the simulation counts it; the frame is of three dimensions."""
    if name == "edges":
        return np.asarray(frame.space.vectors(), float)
    if name == "velocity":
        if frame.mass is None:
            raise ResultFileError("A frame must have masses where it has momenta, because H5MD holds velocities.")
        return frame.momentum / np.asarray(frame.mass)[:, None]
    return getattr(frame, name)


def text(value: object) -> str:
    """An attribute as text, whichever kind of string it is stored as."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size else ""
    return value.decode() if isinstance(value, bytes) else str(value)


def dataset(group: h5py.Group, path: str, file: str | Path) -> h5py.Dataset:
    """A data set of this very file: one that lies in another file is refused."""
    node: Any = group
    for word in path.split("/"):
        link = node.get(word, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise ResultFileError(f"`{path}` in `{file}` must lie in this file, but it is a link to `{link.filename}`.")
        node = node[word]
    if not isinstance(node, h5py.Dataset):
        raise ResultFileError(f"`{path}` in `{file}` must be a data set, but it is a group.")
    # A soft link may lead to a link into another file.
    if node.external or node.is_virtual or node.file.filename != group.file.filename:
        raise ResultFileError(f"`{path}` in `{file}` must hold its own numbers, but they lie in other files.")
    declared, stored = node.nbytes, node.id.get_storage_size()
    if declared > MOST_PACKED * stored:
        raise ResultFileError(
            f"`{path}` in `{file}` has the shape {node.shape}, which takes {declared} bytes, but {stored} were written. The "
            "file is cut short, or its numbers were never there."
        )
    return node
