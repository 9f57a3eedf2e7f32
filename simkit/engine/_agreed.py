"""Arguments of several processes, compared before they share work."""

import importlib.metadata
import json
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._errors import ArgumentError
from .._processes import spread
from ..core import System, traced
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


def check_together(verb: str, task: Any) -> None:
    """Refuse other arguments than those of the other processes where their devices hold one grid; such processes all call this.

    What they hold in parts is told by its shape.

    **Raises:** an `ArgumentError`, in every process, that says what differs.
    """
    if jax.process_count() == 1 or traced(task) or not over_processes_of(task.system, task.y0):
        return
    known = lambda x: f"{x.dtype}{list(x.shape)} on several processes" if spread(x) else x
    check_agreed(verb, lambda: {name: jax.tree.map(known, value) for name, value in task._asdict().items()})


def over_processes_of(system: System, y0: Any) -> bool:
    """Tell whether devices of several processes hold the state of a system."""
    if jax.process_count() == 1:
        return False
    found = jax.tree.leaves(system.shardings(eqx.filter_eval_shape(system.encode, y0)))
    return any(len({device.process_index for device in x.mesh.devices.flat}) > 1 for x in found)


def check_one_process(verb: str, system: System, y0: Any) -> None:
    """Refuse states that devices of several processes hold.

    **Raises:** an `ArgumentError`.
    """
    if over_processes_of(system, y0):
        raise ArgumentError(
            f"`{verb}` takes no grid over devices of several processes, but that of `{type(system).__name__}` is one. Give each "
            "process a grid of its own, `devices=jax.local_devices()`, or call `simulate` or `record`."
        )


def _gathered(row: np.ndarray) -> np.ndarray:
    """This row of every process, shape (processes, *row)."""
    from jax.experimental import multihost_utils  # of use to few, and slow to import

    return np.asarray(multihost_utils.process_allgather(row))
