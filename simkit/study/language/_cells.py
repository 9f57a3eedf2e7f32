"""Data of fields in a study file: a table with a row for each measured cell, made into arrays with nan elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._errors import SimkitError
from ...core import started
from ._section import Section

Shape = Callable[[str], tuple[int, ...] | None]
"""The shape of an output by its name; None where it is not known."""


def shape_of_outputs(system: Any, y0: Any) -> Shape:
    """The shapes of a system's outputs at a state, found without computing them."""

    def shape(name: str) -> tuple[int, ...] | None:
        try:
            state = jax.tree.map(jnp.asarray, started(y0))
            outputs = jax.eval_shape(lambda: system.outputs(jnp.zeros(()), state, {}))
        except (SimkitError, KeyError, TypeError, AttributeError):  # outputs that read inputs
            return None
        found = outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)
        return None if found is None else tuple(found.shape)

    return shape


def on_cells(
    part: Section,
    times: np.ndarray,
    columns: Mapping[str, np.ndarray],
    indices: Sequence[np.ndarray],
    shape: Shape,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times, and each output as an array over them and its cells, nan where nothing was measured.

    **Raises:** a `StudyError` for indices that are no cells, or for a cell that is given twice.
    """
    if np.isnan(times).any():
        raise part.error("file", "must give each row a time, but one is missing.")
    moments, row = np.unique(times, return_inverse=True)
    cells = []
    for column in indices:
        if not np.all(np.isfinite(column) & (column >= 0) & (column == np.floor(column))):
            bad = column[~(np.isfinite(column) & (column >= 0) & (column == np.floor(column)))][0]
            raise part.error("cells", f"must be columns of whole numbers that count cells from 0, but one is {bad:g}.")
        cells.append(column.astype(int))
    found = {}
    for name, values in columns.items():
        sizes = shape(name)
        if sizes is not None and len(sizes) != len(cells):
            raise part.error(
                "cells",
                f"must name {len(sizes)} column(s) for `{name}`, whose array has the shape {sizes}, but it names {len(cells)}.",
            )
        sizes = tuple(int(index.max()) + 1 for index in cells) if sizes is None else sizes
        for index, size in zip(cells, sizes, strict=True):
            if index.max() >= size:
                raise part.error(
                    "cells", f"must be below the shape {sizes} of `{name}`, counted from 0, but one is {index.max()}."
                )
        place = np.ravel_multi_index((row, *cells), (moments.size, *sizes))
        if np.unique(place).size < place.size:
            again = place[np.flatnonzero(np.bincount(place)[place] > 1)[0]]
            at = np.unravel_index(again, (moments.size, *sizes))
            raise part.error(
                "cells",
                f"must give each cell once at a time, but {tuple(map(int, at[1:]))} is there twice at {moments[at[0]]:g}.",
            )
        whole = np.full(moments.size * int(np.prod(sizes)), np.nan)
        whole[place] = values
        found[name] = whole.reshape(moments.size, *sizes)
    return moments, found
