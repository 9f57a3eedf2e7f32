"""The groups of a sparse fit: its path or its models, and groups of the fits of all unknowns and of the chosen model."""

import json
from typing import Any

import h5py
import jax.numpy as jnp
import numpy as np

from ..fitting import SparseFit
from ._groups import read_fit, write_fit
from ._netcdf import read_json, read_variables, write_dimension, write_variable
from ._schema import check_array

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "strengths": ("model",),
    "thetas": ("model", "parameter"),
    "objective": ("model",),
    "converged": ("model",),
    "active": ("model", "candidate"),
    "refitted": ("model", "parameter"),
    "log_likelihood": ("model",),
    "criterion": ("model",),
}
STATIC: dict[str, Any] = {"names": tuple, "targets": tuple, "chosen": int, "by": str, "method": str}
"""Fields that are no arrays, and their kinds."""

FITS = {"full": "sparse_fit_full", "fit": "sparse_fit_chosen"}
"""Field of a `SparseFit` -> the group of that fit."""


def write_sparse_fit(file: h5py.File, found: SparseFit) -> None:
    """Write a sparse fit; the fit of the chosen model is left out where nothing of it is free."""
    group = file.create_group("sparse_fit")
    write_dimension(group, "model", np.arange(np.shape(found.strengths)[0]))
    write_dimension(group, "parameter", found.full.names)
    write_dimension(group, "candidate", found.names)
    for name, dims in DIMENSIONS.items():
        write_variable(group, name, getattr(found, name), dims)
    for name in STATIC:
        group.attrs[name] = json.dumps(getattr(found, name))
    for name, place in FITS.items():
        if (own := getattr(found, name)) is not None:
            write_fit(file.create_group(place), own)


def read_sparse_fit(group: h5py.Group, full: h5py.Group, chosen: h5py.Group | None = None) -> SparseFit:
    """A sparse fit as it was written.

    **Raises:** a `ValueError` or `KeyError` where arrays or names are not those of one, which the reader of the file turns into a
    sentence.
    """
    arrays = read_variables(group)
    static: dict[str, Any] = {}
    for name, kind in STATIC.items():
        value = read_json(group, name)
        static[name] = tuple(value) if isinstance(value, list) else value
        if not isinstance(static[name], kind):
            raise ValueError(f"`{name}` of a sparse fit is {str(value)[:60]!r}")
    fits: dict[str, Any] = {"full": read_fit(full), "fit": None if chosen is None else read_fit(chosen)}
    sizes = {"model": arrays["strengths"].shape[0], "candidate": len(static["names"])}
    sizes["parameter"] = len(fits["full"].names)
    for name, dims in DIMENSIONS.items():
        check_array(name, arrays[name], tuple(sizes[dim] for dim in dims))
    texts, numbers = static["names"], static["targets"]
    right = all(isinstance(name, str) for name in texts) and all(isinstance(x, int | float) for x in numbers)
    if not right or len(numbers) != len(texts) or not set(texts) <= set(fits["full"].names):
        raise ValueError("the unknowns that may vanish must be among those of the fit, each with its target")
    if not 0 <= static["chosen"] < sizes["model"]:
        raise ValueError(
            f"`chosen` of a sparse fit must be one of {sizes['model']} models, but it is {static['chosen']}"
        )
    return SparseFit(**{name: jnp.asarray(arrays[name]) for name in DIMENSIONS}, **fits, **static)
