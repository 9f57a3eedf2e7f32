"""Trajectories in H5MD, frame by frame."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jax.typing import ArrayLike

from .._errors import ArgumentError, ResultFileError, check_known
from ..md import DIMENSIONS, REDUCED, Frame, three_dimensional
from ._h5md_layout import GROUP, Element, elements, factor_to_file, unit_at_edge, value_of
from ._hdf5_recovery import SIGNATURE, is_marked, take_mark_away
from ._provenance import installed_version

CHUNK_BYTES = 16384


class H5MDWriter:
    """Writes a trajectory to an H5MD file that MDAnalysis opens, one frame after the other.

    When `write` returns, the frame is in the file: a process that is killed later does not lose it. After a kill the
    file is opened by `read_h5md`, or by a writer with `append`, which also makes it readable for other programs again.

    **Arguments:**

    - `path`: the file; its folder is made.
    - `like`: a `Frame` that says what all frames have: atoms, names, masses, charges, a cell or none, momenta, forces
        and energy or not, and the unit system. It is not written. Momenta need masses, since the file holds velocities.
    - `observables`: further numbers of every frame: name -> dimension as in `convert`, or None for a number without a unit.
    - `append`: whether to go on in the file; steps must then increase. Without a file, one is begun.
    - `overwrite`: whether an existing file may be replaced.
    - `float_type`: `"float64"`, or `"float32"` for half the space.
    - `sync`: whether each frame is forced to the disk, so that a loss of power does not lose it either; slower.

    Numbers are converted at this edge: metal units become Angstrom, ps and kJ/(mol Angstrom). Numbers of reduced units
    have no units in the file; MDAnalysis then wants `convert_units=False`.

    **Raises:** a `ResultFileError` where the file exists, is being written by another process, or holds another trajectory; an
    `ArgumentError` where a frame is not like the first, or its step does not increase.

    ```python
    import simkit
    solid = simkit.md.crystal("fcc", 3.615, 2)
    frame = simkit.md.Frame(solid.space, solid.position, units=simkit.md.METAL, symbols=("Cu",) * 32)
    with simkit.io.H5MDWriter("copper.h5md", frame, observables={"pressure": "pressure"}) as file:
        file.write(frame, pressure=0.0)
    print(simkit.io.read_h5md("copper.h5md"))
    ```
    """

    def __init__(
        self,
        path: str | Path,
        like: Frame,
        *,
        observables: Mapping[str, str | None] | None = None,
        append: bool = False,
        overwrite: bool = False,
        float_type: str = "float64",
        sync: bool = False,
    ):
        self.path, self._sync = Path(path), sync
        self._like, self._names = three_dimensional(like), tuple(observables or {})
        self._flat = like.space.dimensions == 2
        _check(like, observables or {}, float_type)
        self._elements = elements(self._like, observables or {})
        if self.path.exists() and not (append or overwrite):
            raise ResultFileError(
                f"The file `{path}` exists already. Choose another name, or allow `append` or `overwrite`."
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not (append and self.path.exists()):
            _begin(self.path, self._like, self._elements, float_type, self._flat)
        self._lock = _locked(self.path)
        try:
            if is_marked(self._lock):
                take_mark_away(self._lock)
            self._file = _open(self.path)
            self._data: dict[str, Any] = {
                name: self._file[f"{element.path}/value"] for name, element in self._elements.items()
            }
            self._steps: Any = self._file[f"{GROUP}/position/step"]
            self._times: Any = self._file[f"{GROUP}/position/time"]
            self.frames = self._trimmed()
            self._file.swmr_mode = True
        except BaseException as error:
            self.close()
            if isinstance(error, KeyError):
                raise _another(self.path, "it lacks what frames like this one have") from error
            raise

    def write(self, frame: Frame, **observables: float) -> None:
        """Add a frame, with the value of each observable; when this returns, the frame is in the file.

        **Raises:** an `ArgumentError` where it is not like the first, its step does not increase, or an observable is missing.
        """
        if set(observables) != set(self._names):
            raise ArgumentError(f"Argument `observables` must be {list(self._names)}, but it is {list(observables)}.")
        if (frame.space.dimensions == 2) != self._flat:
            raise ArgumentError(f"Argument `frame` must be of {2 if self._flat else 3} dimensions, like the first.")
        frame = three_dimensional(frame)
        self._check_like(frame)
        n = self.frames
        if n and frame.step <= (last := int(self._steps[n - 1])):
            raise ArgumentError(
                f"Argument `frame` must have a step above {last}, the last one in the file, but its is {frame.step}."
            )
        values = {name: self._converted(frame, name, element, observables) for name, element in self._elements.items()}
        _put(self._steps, n, frame.step)
        _put(self._times, n, frame.time * factor_to_file(self._like.units, "time"))
        # Positions come last: as far as they reach, all else is there.
        for name, value in values.items():
            _put(self._data[name], n, value)
        self._file.flush()
        if self._sync:
            os.fsync(self._file.id.get_vfd_handle())
        self.frames = n + 1

    def close(self) -> None:
        """Close the file; other programs can then read it."""
        if getattr(self, "_file", None) is not None:
            self._file.close()
        if getattr(self, "_lock", None) is not None:
            self._lock.close()
        self._file: Any = None
        self._lock: Any = None

    def __enter__(self) -> "H5MDWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"H5MDWriter of {self.path}: {self.frames} frames of {len(self._like)} atoms"

    def _converted(self, frame: Frame, name: str, element: Element, observables: Mapping[str, float]) -> Any:
        value = observables[name.partition("/")[2]] if name.startswith("observables/") else value_of(frame, name)
        return np.asarray(value, float) * factor_to_file(self._like.units, element.dimension)

    def _check_like(self, frame: Frame) -> None:
        like = self._like
        for name in ("symbols", "units"):
            if getattr(frame, name) != getattr(like, name):
                raise ArgumentError(f"Argument `frame` must have the `{name}` of the first frame, but it has others.")
        if len(frame) != len(like) or frame.space.periodic != like.space.periodic:
            raise ArgumentError(
                f"Argument `frame` must have {len(like)} atoms {'in' if like.space.periodic else 'without'} a cell, like "
                f"the first, but it "
                f"has {len(frame)} {'in' if frame.space.periodic else 'without'} one."
            )
        for name in ("momentum", "force", "energy"):
            if (getattr(frame, name) is None) != (getattr(like, name) is None):
                raise ArgumentError(
                    f"Argument `frame` must have `{name}` if and only if the first frame has, but it differs."
                )

    def _trimmed(self) -> int:
        """Return the number of complete frames; incomplete ones of a killed process are cut off."""
        for name, element in self._elements.items():
            if self._data[name].shape[1:] != element.shape:
                raise _another(self.path, f"its `{name}` has the shape {self._data[name].shape[1:]} a frame")
        stored = str(self._file["parameters"].attrs.get("simkit_units", ""))
        if stored != _described(self._like):
            raise _another(self.path, f"its units are {json.loads(stored)[0] if stored else 'not known'}")
        if self._file["parameters"].attrs["simkit_dimensions"] != (2 if self._flat else 3):
            raise _another(self.path, "its number of dimensions differs")
        series = [self._steps, self._times, *self._data.values()]
        frames = min(len(data) for data in series)
        for data in series:
            data.resize(frames, axis=0)
        self._file.flush()
        return frames


def _put(data: h5py.Dataset, n: int, value: ArrayLike) -> None:
    data.resize(n + 1, axis=0)
    data[n] = value


def _begin(path: Path, like: Frame, parts: Mapping[str, Element], float_type: str, flat: bool) -> None:
    """A file without frames; the newest format is the one that can be consistent while it is written."""
    with h5py.File(path, "w", libver="latest") as file:
        head = file.create_group("h5md")
        head.attrs["version"] = np.array([1, 1], np.int32)
        head.create_group("author").attrs["name"] = "simkit"
        head.create_group("creator").attrs.update(name="simkit", version=installed_version("simkit"))
        head.create_group("modules/units").attrs["version"] = np.array([1, 0], np.int32)
        parameters = file.create_group("parameters")
        parameters.attrs["simkit_units"] = _described(like)
        parameters.attrs["simkit_dimensions"] = 2 if flat else 3
        group = file.create_group(GROUP)
        box = group.create_group("box")
        box.attrs["dimension"] = 3
        along = "periodic" if like.space.periodic else "none"
        box.attrs["boundary"] = [along, along, "none" if flat else along]
        step = group.create_dataset("position/step", (0,), np.int64, maxshape=(None,), chunks=(CHUNK_BYTES // 8,))
        time = group.create_dataset("position/time", (0,), np.float64, maxshape=(None,), chunks=(CHUNK_BYTES // 8,))
        _mark(time, like, "time")
        for element in parts.values():
            size = max(1, int(np.prod(element.shape))) * np.dtype(float_type).itemsize
            chunk = (max(1, CHUNK_BYTES // size), *element.shape)
            place = file.require_group(element.path)
            value = place.create_dataset(
                "value", (0, *element.shape), float_type, maxshape=(None, *element.shape), chunks=chunk
            )
            _mark(value, like, element.dimension)
            if element.path != f"{GROUP}/position":
                place["step"], place["time"] = step, time
        for name in ("mass", "charge"):
            if (fixed := getattr(like, name)) is not None:
                data = group.create_dataset(name, data=fixed * factor_to_file(like.units, name), dtype="float64")
                _mark(data, like, name)
        if like.symbols is not None:
            names = {name: i for i, name in enumerate(dict.fromkeys(like.symbols))}
            kind = h5py.enum_dtype(names, basetype=np.int32)
            group.create_dataset("species", data=np.array([names[s] for s in like.symbols], np.int32), dtype=kind)


def _mark(data: h5py.Dataset, like: Frame, dimension: str) -> None:
    if unit := unit_at_edge(like.units, dimension):
        data.attrs["unit"] = unit
    if dimension:
        data.attrs["simkit_dimension"] = dimension


def _described(like: Frame) -> str:
    """The unit system as text: its name, and the scales of reduced units that have them."""
    return json.dumps([like.units.name, like.units.base if like.units.name == REDUCED.name else None])


def _open(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r+", libver="latest")
    except OSError as error:
        with path.open("rb") as handle:
            what = "is damaged" if handle.read(len(SIGNATURE)) == SIGNATURE else "is no HDF5 file"
        raise ResultFileError(
            f"The file `{path}` must be a trajectory of simkit to go on in, but it {what}: {error}."
        ) from error


def _locked(path: Path) -> Any:
    """A handle that holds the file for this process, as long as the process lives."""
    handle = path.open("rb+")
    with contextlib.suppress(ImportError):  # Windows has no such lock
        import fcntl

        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            handle.close()
            raise ResultFileError(
                f"The file `{path}` is being written by another process. Wait for it, or end it."
            ) from error
    return handle


def _another(path: Path, what: str) -> ResultFileError:
    return ResultFileError(
        f"The file `{path}` must hold a trajectory like the one to append, but {what}. Write to another file."
    )


def _check(like: Frame, observables: Mapping[str, str | None], float_type: str) -> None:
    if like.momentum is not None and like.mass is None:
        raise ArgumentError("Argument `like` must have masses where it has momenta, because H5MD holds velocities.")
    if float_type not in ("float32", "float64"):
        raise ArgumentError(f"Argument `float_type` must be `float32` or `float64`, but it is `{float_type}`.")
    for name, dimension in observables.items():
        if "/" in name or not name or name == "potential_energy":
            raise ArgumentError(
                f"Argument `observables` must have names without slashes, and not `potential_energy`, but has `{name}`."
            )
        if dimension is not None:
            check_known(dimension, DIMENSIONS, "dimension")
