"""Results of the first of several processes, told to the others, under `jax.distributed`."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from ._errors import SimkitError


def several() -> bool:
    """Tell whether this process works together with others."""
    import jax

    return jax.process_count() > 1


def from_first(known: Callable[[], Any]) -> Any:
    """The result of `known()` in the first process, where alone it is called; all processes call this, in the same order.

    **Raises:** in all processes the error of simkit that the first one met.
    """
    import jax
    from jax.experimental import multihost_utils

    content = b""
    if jax.process_index() == 0:
        try:
            content = pickle.dumps((known(), None))
        except SimkitError as error:
            content = pickle.dumps((None, error))
    size = int(multihost_utils.broadcast_one_to_all(np.array(len(content))))
    told = np.frombuffer(content, np.uint8) if content else np.zeros(size, np.uint8)
    found, error = pickle.loads(np.asarray(multihost_utils.broadcast_one_to_all(told)).tobytes())
    if error is not None:
        raise error
    return found
