"""Starts and statuses of runs side by side."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._doors import check_kind
from ..._errors import ArgumentError, SimulationError
from ...core import Status
from ..space._atoms import Atoms


def check_atoms(y0: object) -> None:
    """Refuse a start that is no state of atoms."""
    check_kind("y0", y0, Atoms, "a state of atoms", "Write `md.Atoms(position, momentum)`.")


def in_lanes(y0: Atoms, count: int, what: str) -> Atoms:
    """One start a lane: the one given for all, or those given."""
    check_atoms(y0)
    if y0.position.ndim == 2:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), y0)
    if y0.position.ndim != 3 or y0.position.shape[0] != count:
        raise ArgumentError(
            f"Argument `y0` must be one start, or one for each of the {count} {what}, but its positions have the shape "
            f"{y0.position.shape}."
        )
    return y0


def check_status(status: Array, lane: str) -> None:
    """Refuse runs that failed, by the first of them."""
    failed = np.flatnonzero(np.asarray(status) != int(Status.OK))
    if len(failed):
        message = Status(int(np.asarray(status)[failed[0]])).message
        raise SimulationError(f"The run of {lane} {failed[0]} (from 0) failed. {message}")
