"""Colours of columns: columns of one colour share no row, so that one directional derivative gives them all."""

import numpy as np
from jaxtyping import Int

from ._pattern import Pattern


def column_colours(pattern: Pattern) -> Int[np.ndarray, " n"]:
    """A colour for each column, greedily, in the order of the columns.

    Curtis, Powell and Reid (1974), IMA Journal of Applied Mathematics 13:117, doi:10.1093/imamat/13.1.117.
    """
    by_row = np.split(pattern.columns, np.searchsorted(pattern.rows, np.arange(1, pattern.size)))
    order = np.lexsort((pattern.rows, pattern.columns))
    by_column = np.split(pattern.rows[order], np.searchsorted(pattern.columns[order], np.arange(1, pattern.size)))
    colours = np.full(pattern.size, -1)
    for column, rows in enumerate(by_column):
        taken = {-1}
        for row in rows:
            taken.update(colours[by_row[row]].tolist())
        colour = 0
        while colour in taken:
            colour += 1
        colours[column] = colour
    return colours
