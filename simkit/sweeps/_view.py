"""One HDF5 file through which all chunk files of a store are read as one."""

import hashlib
from collections.abc import Mapping, Sequence

import h5py
import numpy as np

from ..stores import Place, hdf5_image, write_text
from ._chunk import VALUES, Chunk, Variable, spans
from ._store import POINTS, Store

NAME, PARTS = "view.h5", "view-*.h5"
"""Name of the view, and the pattern of those of its parts."""

TOGETHER = 1000
"""Number of chunks to which a view refers itself. Of more it refers to parts, each over so many: HDF5 holds all references of a
file in memory, 30 KiB a chunk."""

Sources = Sequence[tuple[str, int, int]]
"""Name of each file, its first member, and how many it holds."""


def write_view(store: Store, chunks: Mapping[int, Chunk], variables: Mapping[str, Variable]) -> Place:
    """Write the view: virtual datasets over the chunk files, which it names relative to its own folder.

    The dimensions follow the netCDF-4 conventions: `xarray.open_dataset` takes it as it is. What is not computed yet is NaN, and
    its status -1.
    """
    times, values, units, by_rule = store.points()
    sources = _sources(store, chunks, variables)

    def fill(file: h5py.File) -> None:
        file.attrs.update(format="simkit sweep view", sweep=store.identity)
        _members(file, store.members, held=not by_rule)
        _dimension(file, "time" if times.ndim == 1 else "predictor", np.arange(len(times)) if times.ndim > 1 else times)
        for name, variable in variables.items():
            _add_result(file, store.members, sources, name, variable)
        for place, (path, value) in enumerate(() if by_rule else values.items()):
            _add_points(file, place, path, value, units[path])

    write_text(store.folder / NAME, hdf5_image(fill))
    return store.folder / NAME


def _sources(store: Store, chunks: Mapping[int, Chunk], variables: Mapping[str, Variable]) -> Sources:
    """The files over which the view goes: chunks, or parts over a thousand of them each, which are written where they changed."""
    known = [(chunks[i].path.name, first, size) for i, first, size in spans(store.members, store.chunk) if i in chunks]
    parts: dict[int, list[tuple[str, int, int]]] = {}
    for name, first, size in known if store.chunks > TOGETHER else ():
        parts.setdefault(first // (TOGETHER * store.chunk), []).append((name, first, size))
    found = []
    for number, held in parts.items():
        begin = number * TOGETHER * store.chunk
        size = min(TOGETHER * store.chunk, store.members - begin)
        digest = hashlib.blake2b("".join(name for name, *_ in held).encode(), digest_size=8).hexdigest()
        path = store.folder / f"view-{number:06d}-{digest}.h5"
        if not path.exists():
            write_text(path, _part([(name, first - begin, rows) for name, first, rows in held], size, variables))
        found.append((path.name, begin, size))
    for path in store.folder.glob(PARTS):
        if path.name not in {name for name, *_ in found}:
            path.unlink(missing_ok=True)
    return found or known


def _part(sources: Sources, members: int, variables: Mapping[str, Variable]) -> bytes:
    """A part of a view: the results of some members, by their names in chunks."""

    def fill(file: h5py.File) -> None:
        file.attrs.update(format="simkit sweep view, a part")
        for name, variable in variables.items():
            file.create_virtual_dataset(name, _layout(members, sources, name, variable), missing(variable.dtype))

    return hdf5_image(fill)


def _layout(members: int, sources: Sources, name: str, variable: Variable) -> h5py.VirtualLayout:
    layout = h5py.VirtualLayout((members, *variable.shape), variable.dtype)
    for file, first, size in sources:
        layout[first : first + size] = h5py.VirtualSource(file, name, (size, *variable.shape), variable.dtype)
    return layout


def _add_result(file: h5py.File, members: int, sources: Sources, name: str, variable: Variable) -> None:
    """One result over all chunk files."""
    _dimensions(file, variable.dims, variable.shape)
    layout, label = _layout(members, sources, name, variable), name.removeprefix(VALUES)
    dataset = file.create_virtual_dataset(_free(file, label), layout, fillvalue=missing(variable.dtype))
    _describe(file, dataset, label, ("member", *variable.dims), variable.unit)


def _add_points(file: h5py.File, place: int, path: str, value: np.ndarray, unit: str) -> None:
    """The values of one path."""
    dims = tuple(f"{path}_axis{i}" for i in range(value.ndim - 1))
    _dimensions(file, dims, value.shape[1:])
    layout = h5py.VirtualLayout(value.shape, value.dtype)
    layout[...] = h5py.VirtualSource(POINTS, f"over/{place:04d}", value.shape, value.dtype)
    dataset = file.create_virtual_dataset(_free(file, path), layout)
    _describe(file, dataset, path, ("member", *dims), unit)


def missing(dtype: np.dtype) -> float | int | bool:
    """Return the fill value of a missing result."""
    return np.nan if dtype.kind in "fc" else -1 if dtype.kind == "i" else 0


def _dimensions(file: h5py.File, dims: tuple[str, ...], shape: tuple[int, ...]) -> None:
    for dim, size in zip(dims, shape, strict=True):
        if dim not in file:
            _dimension(file, dim, np.arange(size))


def _dimension(file: h5py.File, name: str, values: np.ndarray) -> None:
    file.create_dataset(name, data=values).make_scale(name)


def _members(file: h5py.File, count: int, held: bool) -> None:
    """The axis of members, with their numbers where their values are held in memory, too; else by its length alone."""
    if held:
        return _dimension(file, "member", np.arange(count))
    axis = file.create_dataset("member", (count,), "f4")
    axis.make_scale(f"This is a netCDF dimension but not a netCDF variable.{count:10d}")
    return None


def _free(file: h5py.File, name: str) -> str:
    while name in file:
        name += "_"
    return name


def _describe(file: h5py.File, dataset: h5py.Dataset, name: str, dims: tuple[str, ...], unit: str) -> None:
    for axis, dim in enumerate(dims):
        dataset.dims[axis].attach_scale(file[dim])
    if unit != "1":
        dataset.attrs["units"] = unit
    if dataset.name != f"/{name}":
        dataset.attrs["simkit_name"] = name
