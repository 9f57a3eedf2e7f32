"""Work of several processes under `jax.distributed`: results of the first, told to the others, and arrays that lie in parts."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from ._errors import ArgumentError, SimkitError


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


def spread(*trees: Any) -> bool:
    """Tell whether devices of several processes hold parts of any array of the trees, so that no process knows its values."""
    import jax

    return jax.process_count() > 1 and any(_spread(leaf) for leaf in jax.tree.leaves(trees))


def gathered(array: Any) -> np.ndarray:
    """The values of an array. Of one that several processes hold each gets the whole: all of them call this, for small ones."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    if not spread(array):
        return np.asarray(array)
    everywhere = NamedSharding(array.sharding.mesh, PartitionSpec())
    return np.asarray(jax.jit(lambda x: x, out_shardings=everywhere)(array))


def check_held(tree: Any) -> None:
    """Refuse to save what this process does not hold whole.

    **Raises:** an `ArgumentError`.
    """
    if spread(tree):
        raise ArgumentError(
            "What is saved must be held whole by this process, but devices of several processes hold it in parts. Call `record`, "
            "which writes from each of them, or gather it with `jax.experimental.multihost_utils.process_allgather`."
        )


def _spread(leaf: Any) -> bool:
    import jax
    import jax.core

    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return False
    return not (leaf.is_fully_addressable or leaf.is_fully_replicated)
