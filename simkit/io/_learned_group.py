"""The group of a learned density: its arrays, and its settings as JSON."""

import json
from typing import Any

import h5py

from ..infer import LearnedLikelihood, LearnedPosterior, learned_from, parts_of
from ._netcdf import read_json, read_variables, write_inner, write_variable


def write_learned(group: h5py.Group, learned: LearnedPosterior | LearnedLikelihood) -> None:
    """Write a learned density.

    **Raises:** an `ArgumentError` where a part of it is code.
    """
    arrays, told = parts_of(learned)
    for name, values in arrays.items():
        write_variable(group, name, values, write_inner(group, name, values.shape))
    group.attrs["settings"] = json.dumps(told)


def read_learned(group: h5py.Group) -> Any:
    """A learned density as it was written.

    **Raises:** a `ValueError` or `KeyError` where the arrays are not those of one, which the reader of the file turns into
    a sentence.
    """
    return learned_from(read_variables(group), read_json(group, "settings"))
