"""Arguments of several processes, compared before they share work."""

import importlib.metadata
import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from .._errors import ArgumentError
from ..stores import describe, differences, fingerprint

PACKAGES = ("simkit", "jax", "jaxlib", "numpy")
MOST_TOLD = 5


def check_agreed(verb: str, parts: Callable[[], Mapping[str, Any]]) -> None:
    """Refuse arguments, or versions of packages, that are not those of the other processes; all processes call this.

    Of one process nothing is asked. Where all agree 32 bytes are exchanged.

    **Raises:** an `ArgumentError`, in every process, that says what differs.
    """
    if jax.process_count() == 1:
        return
    versions = {f"version of {name}": importlib.metadata.version(name) for name in PACKAGES}
    own = {**describe(parts()), **versions}
    seen = _gathered(np.frombuffer(bytes.fromhex(fingerprint(own)), np.uint8))
    other = next((i for i, row in enumerate(seen) if (row != seen[0]).any()), None)
    if other is None:
        return
    text = np.frombuffer(json.dumps(own).encode(), np.uint8)
    sizes = _gathered(np.array([text.size]))[:, 0]
    rows = _gathered(np.pad(text, (0, int(sizes.max()) - text.size)))
    there, here = (json.loads(rows[i, : sizes[i]].tobytes()) for i in (0, other))
    found = differences(there, here)
    told = (
        "; ".join(found[:MOST_TOLD])
        .replace(" there and ", " in process 0 and ")
        .replace(" here", f" in process {other}")
    )
    more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
    raise ArgumentError(
        f"All processes must call `{verb}` with the same arguments and versions, but {told}{more}. Make what is random from one "
        "`key`, read the same files, and install the same versions."
    )


def _gathered(row: np.ndarray) -> np.ndarray:
    """This row of every process, shape (processes, *row)."""
    from jax.experimental import multihost_utils  # of use to few, and slow to import

    return np.asarray(multihost_utils.process_allgather(row))
