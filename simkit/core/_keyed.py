"""Keys of caches for what depends on the structure and the shapes of a tree alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def keyed(tree: PyTree) -> tuple[Any, ...]:
    """The structure of a tree, the shapes of its arrays, and its static parts with their structure: hashable where those are."""
    dynamic, static = eqx.partition(tree, eqx.is_array_like)
    leaves, structure = jax.tree.flatten(dynamic)
    others, other = jax.tree.flatten(static)
    return structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves), other, tuple(others)
