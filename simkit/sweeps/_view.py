"""One HDF5 file through which all chunk files of a store are read as one."""

from collections.abc import Mapping

import h5py
import numpy as np

from ..stores import Place, hdf5_image, write_text
from ._chunk import VALUES, Chunk, Variable, spans
from ._store import POINTS, Store

NAME = "view.h5"


def write_view(store: Store, chunks: Mapping[int, Chunk], variables: Mapping[str, Variable]) -> Place:
    """Write the view: virtual datasets over the chunk files, which it names relative to its own folder.

    The dimensions follow the netCDF-4 conventions: `xarray.open_dataset` takes it as it is. What is not computed yet is NaN, and
    its status -1.
    """
    times, values, units, by_rule = store.points()

    def fill(file: h5py.File) -> None:
        file.attrs.update(format="simkit sweep view", sweep=store.identity)
        _members(file, store.members, held=not by_rule)
        _dimension(file, "time" if times.ndim == 1 else "predictor", np.arange(len(times)) if times.ndim > 1 else times)
        for name, variable in variables.items():
            _add_result(file, store, chunks, name, variable)
        for place, (path, value) in enumerate(() if by_rule else values.items()):
            _add_points(file, place, path, value, units[path])

    write_text(store.folder / NAME, hdf5_image(fill))
    return store.folder / NAME


def _add_result(file: h5py.File, store: Store, chunks: Mapping[int, Chunk], name: str, variable: Variable) -> None:
    """One result over all chunk files."""
    _dimensions(file, variable.dims, variable.shape)
    layout = h5py.VirtualLayout((store.members, *variable.shape), variable.dtype)
    for index, first, size in spans(store.members, store.chunk):
        if index in chunks:
            source = h5py.VirtualSource(chunks[index].path.name, name, (size, *variable.shape), variable.dtype)
            layout[first : first + size] = source
    label = name.removeprefix(VALUES)
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
