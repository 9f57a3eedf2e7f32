"""Inside `shard_map`, loops and solves want to know beforehand which values differ from device to device."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def varying_like(tree: PyTree, *others: PyTree) -> Any:
    """`tree`, multiplied by a 1 that varies over every mesh axis over which a leaf of `others` varies.

    Nothing is read of `tree`, which may be what a linear map is a map of. The public names of these types differ between versions
    of JAX; arithmetic carries them in all. XLA folds the factor away.
    """
    leaves = [leaf for leaf in jax.tree.leaves(others) if leaf.size]
    never = functools.reduce(
        jnp.logical_and, [leaf.reshape(-1)[0] == leaf.reshape(-1)[0] for leaf in leaves], jnp.array(False)
    )
    return jax.tree.map(lambda leaf: leaf * (1 - never.astype(leaf.dtype)), tree)
