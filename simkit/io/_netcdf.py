"""HDF5 groups that netCDF-4 readers such as xarray understand: every axis has a dimension scale.

Layout: netCDF-4 data model over HDF5, https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html.
"""

import json
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from jax.typing import ArrayLike

from .._errors import ArgumentError
from ..stores import attribute, texts


def write_dimension(group: h5py.Group, name: str, values: ArrayLike | Sequence[str]) -> None:
    """A dimension with its coordinate: numbers, or texts."""
    array = np.asarray(values)
    if array.dtype.kind in "UO":
        dataset = group.create_dataset(name, data=array.astype(object), dtype=h5py.string_dtype())
    else:
        dataset = group.create_dataset(name, data=array, **_unwritten(array))
    dataset.make_scale(name)


def write_variable(group: h5py.Group, name: str, values: ArrayLike, dims: Sequence[str], unit: str = "1") -> None:
    """An array whose axes are the named dimensions of the group, which must exist.

    HDF5 and netCDF take names with dots as they are; a slash would open a subgroup and is refused.
    """
    if "/" in name or name in ("", "."):
        raise ArgumentError(
            f"A name in a result file must not hold a slash or be empty, but one is `{name}`. Rename it."
        )
    array = np.asarray(values)
    stored = free_name(group, name)
    dataset = group.create_dataset(
        stored, data=array, fletcher32=array.ndim > 0 and array.size > 0, **_unwritten(array)
    )
    for axis, dim in enumerate(dims):
        dataset.dims[axis].attach_scale(group[dim])
    if unit != "1":
        dataset.attrs["units"] = unit
    if stored != name:
        dataset.attrs["simkit_name"] = name


def write_inner(group: h5py.Group, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Dimensions for the components of an output that is an array."""
    dims = tuple(f"{name}_axis{i}" for i in range(len(shape)))
    for dim, size in zip(dims, shape, strict=True):
        write_dimension(group, dim, np.arange(size))
    return dims


def _unwritten(array: np.ndarray) -> dict[str, float]:
    """The fill value of an array: NaN, where its type has that, so that what was never written is no number."""
    return {"fillvalue": np.nan} if array.dtype.kind == "f" else {}


def free_name(group: h5py.Group, name: str) -> str:
    """The name, with underscores behind it where a dimension has it already."""
    while name in group:
        name += "_"
    return name


def read_variables(group: h5py.Group) -> dict[str, np.ndarray]:
    """All arrays of a group that are no dimensions, by the name they were written under."""
    found = {}
    for stored, dataset in group.items():
        if isinstance(dataset, h5py.Dataset) and not dataset.is_scale:
            found[written_name(dataset, stored)] = np.asarray(dataset[()])
    return found


def written_name(dataset: h5py.Dataset, stored: str) -> str:
    """The name under which an array was written, by that under which it is stored."""
    return str(attribute(dataset, "simkit_name")) if "simkit_name" in dataset.attrs else stored


def read_json(group: h5py.Group, name: str) -> Any:
    """An attribute that holds JSON."""
    return json.loads(attribute(group, name))


def read_texts(dataset: Any) -> tuple[str, ...]:
    """A dataset of texts."""
    return tuple(texts(dataset, dataset.file.id.get_filesize()))
