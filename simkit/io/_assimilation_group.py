"""The group of an assimilation: states by dotted name over the times of the observations, and what says whether to trust them."""

from typing import Any

import h5py
import jax
import jax.numpy as jnp
import numpy as np

from ..assimilation import Assimilation
from ..core import named_leaves, unit_of
from ..stores import attribute
from ._netcdf import read_variables, write_dimension, write_inner, write_variable
from ._schema import check_array

STATES = ("mean", "deviation", "forecast", "forecast_deviation", "smoothed", "smoothed_deviation")
"""Fields that are states with an axis of times."""

SERIES = ("chi_square", "observed", "effective_rank", "status", "error", "forecast_error", "smoothed_error")
"""Fields that are a number for each time."""


def write_assimilation(group: h5py.Group, found: Assimilation) -> None:
    """Write an assimilation; `last` as `last.x`, and analysed ensembles as `members.x`, where they were kept."""
    write_dimension(group, "time", found.times)
    write_dimension(group, "observation", np.arange(found.innovation.shape[1]))
    group.attrs["method"] = found.method
    write_variable(group, "innovation", found.innovation, ("time", "observation"))
    for name in SERIES:
        if (values := getattr(found, name)) is not None:
            write_variable(group, name, values, ("time",))
    inner: dict[str, tuple[str, ...]] = {}
    for leaf, values in named_leaves(found.mean).items():
        inner[leaf] = write_inner(group, leaf or "y", np.shape(values)[1:])
    last, mean = jax.tree.leaves(found.last)[0], jax.tree.leaves(found.mean)[0]
    lead = np.ndim(last) == np.ndim(mean)  # that of 4D-Var is one state
    if lead:
        write_dimension(group, "member", np.arange(np.shape(last)[0]))
    fronts = dict.fromkeys(STATES, ("time",)) | {"last": ("member",) * lead, "members": ("time", "member")}
    for part, front in fronts.items():
        if (tree := getattr(found, part)) is None:
            continue
        for leaf, values in named_leaves(tree).items():
            unit = unit_of(found.mean, leaf)
            write_variable(group, f"{part}.{leaf or 'y'}", values, (*front, *inner[leaf]), unit)


def read_assimilation(group: h5py.Group) -> Assimilation:
    """An assimilation as it was written; states come back as dictionaries by dotted name: a file holds data, not classes.

    **Raises:** a `ValueError` or `KeyError` where arrays are not those of one, which the reader of the file turns into a sentence.
    """
    arrays, stored = read_variables(group), group["time"]
    times = jnp.asarray(stored[()])  # pyright: ignore
    count = int(times.shape[0])
    trees: dict[str, Any] = {}
    for name, values in arrays.items():
        part, dot, leaf = name.partition(".")
        if dot and part in (*STATES, "last", "members"):
            trees.setdefault(part, {})[leaf] = jnp.asarray(values)
    for part in STATES:
        for leaf, values in trees.get(part, {}).items():
            shape = (count, *np.shape(trees["mean"][leaf])[1:])
            check_array(f"{part}.{leaf}", np.asarray(values), shape)
    series = {name: jnp.asarray(arrays[name]) for name in SERIES if name in arrays}
    for name, values in series.items():
        check_array(name, np.asarray(values), (count,))
    check_array("innovation", arrays["innovation"], (count, arrays["innovation"].shape[-1]))
    return Assimilation(
        times=times,
        innovation=jnp.asarray(arrays["innovation"]),
        method=str(attribute(group, "method")),
        **trees,
        **series,
    )
