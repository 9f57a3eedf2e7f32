"""Colours of columns: columns of one colour share no row, so that one directional derivative gives them all."""

import numpy as np
from jaxtyping import Int

from ._pattern import Pattern


def column_colours(pattern: Pattern) -> Int[np.ndarray, " n"]:
    """A colour for each column, greedily, in the order of the columns.

    Curtis, Powell and Reid (1974), IMA Journal of Applied Mathematics 13:117, doi:10.1093/imamat/13.1.117.
    """
    rows = np.searchsorted(pattern.rows, np.arange(pattern.size + 1)).tolist()
    order = np.lexsort((pattern.rows, pattern.columns))
    columns = np.searchsorted(pattern.columns[order], np.arange(pattern.size + 1)).tolist()
    across, down = pattern.columns.tolist(), pattern.rows[order].tolist()
    colours = [-1] * pattern.size
    for column in range(pattern.size):
        taken = set()
        for row in down[columns[column] : columns[column + 1]]:
            taken.update([colours[other] for other in across[rows[row] : rows[row + 1]]])
        colour = 0
        while colour in taken:
            colour += 1
        colours[column] = colour
    return np.array(colours)
