"""Ensembles for which a device has too little memory: fewer members at a time."""

from collections.abc import Callable
from typing import Any

import jax

from .._errors import SimulationError

FEWER = 8
"""Factor by which the members that step together are cut where a device has no memory for them."""
FEWEST = 32
"""Members a time below which nothing more is tried: their states are not what fills a device."""


def within_memory(run: Callable[[int | None], Any], lanes: int | None, members: int) -> Any:
    """`run(lanes)`, with fewer lanes each time that the device runs out of memory.

    **Raises:** a `SimulationError` where that does not help.
    """
    while True:
        try:
            return run(lanes)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            lanes = min(lanes or members, members) // FEWER
            if lanes < FEWEST:
                raise SimulationError(
                    f"The device has too little memory for an ensemble of {members} members, however few step together: their "
                    "results may be too large for it. Ask for fewer `times`, keep less by `reduce`, or take `simkit.sweep`, which "
                    f"holds one `chunk` of them at a time. XLA says: {str(error).splitlines()[0]}"
                ) from error
