"""Reading H5MD, of simkit or of another program."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .._errors import ArgumentError, ResultFileError
from ..md import REDUCED, UNIT_SYSTEMS, Units, si_value
from ._frame_series import MOVING, FrameSeries
from ._h5md_layout import dataset, text
from ._hdf5_recovery import is_marked


def read_h5md(
    path: str | Path, units: Units | None = None, *, frames: slice = slice(None), group: str | None = None
) -> FrameSeries:
    """Read an H5MD file of simkit or of another program, also while it is written, and after its writer was killed.

    **Arguments:**

    - `path`: the file.
    - `units`: the unit system that the numbers shall have; by default that of the file, which one of another program does not name.
    - `frames`: which frames, such as `slice(-100, None)`; only these are read.
    - `group`: the group of particles; by default the only one, or `trajectory`.

    **Returns:** an `FrameSeries`.

    **Raises:** a `ResultFileError` where there is no such file, it is no HDF5 or no H5MD, is cut short, has no
    positions, or reaches into
    other files; an `ArgumentError` where `units` must be named, or are not those of the file and cannot be converted.
    """
    path = Path(path)
    try:
        with _opened(path) as file:
            return _read(file, path, units, frames, group)
    except (ResultFileError, ArgumentError):
        raise
    except (OSError, KeyError, RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ResultFileError(
            f"The file `{path}` is no H5MD that can be read, or it is cut short ({reason})."
        ) from error


def _opened(path: Path) -> h5py.File:
    if not path.is_file():
        raise ResultFileError(f"There is no file `{path}`.")
    with path.open("rb") as handle:
        marked = is_marked(handle)
    try:
        return h5py.File(path, "r", swmr=marked)
    except OSError as error:
        raise ResultFileError(f"The file `{path}` is no HDF5 file, or is cut short: {error}.") from error


def _read(file: h5py.File, path: Path, units: Units | None, frames: slice, group: str | None) -> FrameSeries:
    if "h5md" not in file or "particles" not in file:
        missing = "h5md" if "h5md" not in file else "particles"
        raise ResultFileError(
            f"`{path}` must be an H5MD file, but it is an HDF5 file of another kind: it has no group `{missing}`."
        )
    particles = _particles(file, path, group)
    if "position" not in particles:
        raise ResultFileError(
            f"`{path}` must hold positions to be read as a trajectory, but `{particles.name}` has none."
        )
    parameters: Any = file["parameters"].attrs if "parameters" in file else {}
    scale = _Scale(_stored_units(parameters), units, path)
    position = dataset(particles, "position/value", path)
    if position.ndim != 3 or position.shape[2] not in (2, 3):
        raise ResultFileError(
            f"The positions in `{path}` must have the shape (frames, atoms, 3), but they have {position.shape}."
        )
    d = int(parameters.get("simkit_dimensions", position.shape[2]))
    count = _whole_frames(particles, position)
    rows = range(count)[frames]
    numbers = scale.numbers(position, "length", rows)[..., :d]
    vectors = _cells(particles, scale, rows, d, path)
    series = {
        name: scale.numbers(dataset(particles, f"{name}/value", path), dimension, rows)[..., :d]
        for name, dimension in MOVING.items()
        if name in particles
    }
    fixed = {
        name: scale.numbers(dataset(particles, name, path), name, None)
        for name in ("mass", "charge")
        if isinstance(particles.get(name), h5py.Dataset)
    }
    return FrameSeries(
        path,
        scale.wanted,
        numbers,
        _counter(particles, "step", rows, path).astype(np.int64),
        _counter(particles, "time", rows, path) * scale.factor(_unit(particles, "position/time"), "time"),
        vectors,
        series.get("velocity"),
        series.get("force"),
        fixed.get("mass"),
        fixed.get("charge"),
        _symbols(particles, position.shape[1], path),
        _observables(file, scale, rows, count, path),
    )


class _Scale:
    """Conversion from the numbers of a file to those of a unit system."""

    def __init__(self, stored: Units | None, wanted: Units | None, path: Path):
        self.stored, self.path, self._asked = stored, path, wanted
        self.wanted: Any = stored if wanted is None else wanted
        if self.wanted is None:
            raise ArgumentError(
                f"Argument `units` must name the unit system to read `{path}` in, because it is of another program. Take "
                f"`METAL` or `REAL`, or "
                "`REDUCED` where its numbers have no units."
            )
        same = stored is None or (stored == REDUCED) == (self.wanted == REDUCED)
        if not same:
            raise ArgumentError(
                f"Argument `units` must fit `{path}`, but its numbers are in {'no' if stored is None else stored.name} units and "
                f"{self.wanted.name} ones are asked for. Read it without `units`, or give reduced units scales "
                f"(`simkit.md.reduced`)."
            )

    def factor(self, unit: str, dimension: str) -> float:
        if not dimension:
            return 1.0
        if not unit and self.stored is not None:
            return 1.0 if self.stored == self.wanted else self.stored.si(dimension) / self.wanted.si(dimension)
        if not unit:
            if self.wanted == REDUCED:
                return 1.0
            raise ArgumentError(
                f"Argument `units` must be `REDUCED` for `{self.path}`, because its {dimension} has no unit, but it is "
                f"{self.wanted.name}."
            )
        if self.wanted == REDUCED:
            raise ArgumentError(
                f"Argument `units` must be a system with scales for `{self.path}`, because its {dimension} is in "
                f"`{unit}`, but it is reduced."
            )
        return si_value(unit) / self.wanted.si(dimension)

    def numbers(self, data: h5py.Dataset, dimension: str, rows: range | None) -> np.ndarray:
        """The rows of a data set, or all of it, as the simulation counts it."""
        values = np.asarray(data[()] if rows is None else _taken(data, rows), float)
        return values * self.factor(text(data.attrs.get("unit", "")), dimension)


def _taken(data: h5py.Dataset, rows: range) -> np.ndarray:
    """Rows in any order of a data set that is read forwards only."""
    if not rows:
        return np.asarray(data[:0])
    forwards = rows if rows.step > 0 else rows[::-1]
    values = np.asarray(data[forwards.start : forwards.stop : forwards.step])
    return values if rows.step > 0 else values[::-1]


def _stored_units(parameters: Mapping[str, Any]) -> Units | None:
    """The unit system that simkit wrote, None for a file of another program."""
    if "simkit_units" not in parameters:
        return None
    name, base = json.loads(text(parameters["simkit_units"]))
    return UNIT_SYSTEMS[name] if base is None else dataclasses.replace(REDUCED, base=tuple(base))


def _particles(file: h5py.File, path: Path, group: str | None) -> Any:
    particles: Any = file["particles"]
    names = list(particles)
    name = group or ("trajectory" if "trajectory" in names else names[0] if len(names) == 1 else None)
    if name not in names:
        raise ArgumentError(
            f"Argument `group` must name a group of particles in `{path}`, one of {names}, but it is {group}."
        )
    return particles[name]


def _whole_frames(particles: h5py.Group, position: h5py.Dataset) -> int:
    """Return the number of complete frames: a writer may be at work."""
    lengths = [position.shape[0]]
    for name in ("position/step", "position/time", "velocity/value", "force/value", "box/edges/value"):
        if name in particles and isinstance(held := particles[name], h5py.Dataset) and held.ndim:
            lengths.append(held.shape[0])
    return min(lengths)


def _cells(particles: h5py.Group, scale: _Scale, rows: range, d: int, path: Path) -> np.ndarray | None:
    box: Any = particles.get("box")
    boundary = [] if box is None else [text(x) for x in np.asarray(box.attrs.get("boundary", [])).reshape(-1)][:d]
    if box is None or "edges" not in box or not any(flag == "periodic" for flag in boundary):
        return None
    if not all(flag == "periodic" for flag in boundary):
        raise ResultFileError(f"`{path}` must be periodic along all axes or none, but its boundary is {boundary}.")
    moving = isinstance(box["edges"], h5py.Group)
    data = dataset(box, "edges/value" if moving else "edges", path)
    edges = scale.numbers(data, "length", rows if moving else None)
    per_frame = edges if moving else np.broadcast_to(edges, (len(rows), *edges.shape))
    if per_frame.ndim == 2:
        per_frame = per_frame[..., None] * np.eye(per_frame.shape[1])
    return per_frame[:, :d, :d]


def _counter(particles: h5py.Group, name: str, rows: range, path: Path) -> np.ndarray:
    """Steps or times: a whole series, or an increment with an offset; counted from 0 where there is none."""
    if f"position/{name}" not in particles:
        return np.array(rows, float)
    data = dataset(particles, f"position/{name}", path)
    if data.ndim == 0:
        return float(data[()]) * np.array(rows, float) + float(np.asarray(data.attrs.get("offset", 0.0)))
    return _taken(data, rows)


def _unit(particles: h5py.Group, path: str) -> str:
    return text(particles[path].attrs.get("unit", "")) if path in particles else ""


def _symbols(particles: h5py.Group, atoms: int, path: Path) -> tuple[str, ...] | None:
    """Names of the atoms, where the species are an enumeration of names."""
    if not isinstance(particles.get("species"), h5py.Dataset):
        return None
    data = dataset(particles, "species", path)
    names = h5py.check_enum_dtype(data.dtype)
    if names is None or data.shape != (atoms,):
        return None
    known = {value: name for name, value in names.items()}
    return tuple(known[int(value)] for value in np.asarray(data))


def _observables(file: h5py.File, scale: _Scale, rows: range, count: int, path: Path) -> dict[str, np.ndarray]:
    found = {}
    group: Any = file.get("observables", {})
    for name in group:
        if not isinstance(group[name], h5py.Group) or "value" not in group[name]:
            continue
        data = dataset(group, f"{name}/value", path)
        if data.shape[:1] and data.shape[0] >= count:
            found[name] = scale.numbers(data, text(data.attrs.get("simkit_dimension", "")), rows)
    return found
