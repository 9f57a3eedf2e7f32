"""Results as tables of pandas and data sets of xarray, which are imported on first use."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .._errors import ArgumentError, missing_package


def data_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], what: str, index: str | None = None) -> Any:
    """Rows, or columns by name, as a `pandas.DataFrame`.

    **Arguments:** `what` begins the message where pandas is missing; `index` names the column that becomes the index.

    **Raises:** a `MissingPackageError` where pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise missing_package(f"`{what}`", "pandas", "pandas") from error
    frame = pandas.DataFrame(rows)
    return frame if index is None else frame.set_index(index)


def data_set(leaves: Mapping[str, Any], times: Any, units: Mapping[str, str]) -> Any:
    """States over time as an `xarray.Dataset`: dimensions `time`, before it `member` where there are members, and `NAME_axis0`.

    **Raises:** a `MissingPackageError` where xarray is not installed; an `ArgumentError` for several axes of members.
    """
    try:
        import xarray
    except ImportError as error:
        raise missing_package("`to_xarray`", "xarray", "xarray") from error
    times = np.asarray(times)
    if times.ndim > 2:
        raise ArgumentError(
            f"A trajectory to be written as a data set must have one axis of members at most, but it has {times.ndim - 1}."
        )
    lead = ("member", "time")[2 - times.ndim :]
    variables = {}
    for name, leaf in leaves.items():
        values = np.asarray(jax.device_get(leaf))
        axes = tuple(f"{name}_axis{i}" for i in range(values.ndim - len(lead)))
        unit = units.get(name, "1")
        variables[name] = ((*lead, *axes), values, {} if unit == "1" else {"units": unit})
    same = times.ndim == 1 or bool(np.all(times == times[:1]))
    coordinates = {"time": times if times.ndim == 1 else times[0]} if same else {"times": (lead, times)}
    return xarray.Dataset(variables, coords=coordinates)
