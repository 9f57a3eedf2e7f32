"""Progress of a fit in words."""

import numpy as np

from ._fitted import AGREE
from ._method import End


def line_of(fraction: float, end: End) -> str:
    """The line that tells of one stage of a fit, over the data up to a fraction of each span."""
    value, status = np.asarray(end.model.value), np.asarray(end.status)
    best = value.min()
    near = int((value < best + AGREE).sum())
    return (
        f"data up to {fraction:.0%}: best objective {best:.6g}, {near} of {value.size} starts within {AGREE:g} of it, "
        f"{int((status == 0).sum())} converged, {int(np.asarray(end.iterations).max())} iterations at most, "
        f"{int(np.asarray(end.failures).sum())} failed simulations"
    )
