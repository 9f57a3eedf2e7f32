"""Pytrees of arrays as flat dictionaries, which files hold."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath
from jaxtyping import PyTree

from .._errors import ArgumentError
from .._processes import check_held


def packed(tree: PyTree) -> dict[str, np.ndarray]:
    """The arrays of a pytree by dotted name; a random key is told by its numbers.

    **Raises:** an `ArgumentError` for arrays of which several processes hold parts.
    """
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    check_names(tree)
    check_held(tree)
    return {_name(path): np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf) for path, leaf in paths}


def names_of(tree: PyTree) -> list[str]:
    """The dotted names of the arrays of a pytree, in its order."""
    return [_name(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


def check_names(tree: PyTree) -> None:
    """Refuse a pytree of which two arrays have the same dotted name, such as {"a.b": 1.0, "a": {"b": 2.0}}.

    **Raises:** an `ArgumentError` that tells the name.
    """
    names = names_of(tree)
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ArgumentError(
            f"Each array must have a dotted name of its own, but two are called `{twice}`. Rename one of them."
        )


def unpacked(arrays: Mapping[str, np.ndarray], like: PyTree, key: Any = None) -> Any:
    """The pytree that was packed.

    **Arguments:** `like` has its structure, with arrays or their shapes as leaves; `key` is a random key of the kind that the tree
    holds.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    leaves = []
    for path, leaf in paths:
        values = jnp.asarray(arrays[_name(path)])
        leaves.append(jax.random.wrap_key_data(values, impl=jax.random.key_impl(key)) if _is_key(leaf) else values)
    return jax.tree.unflatten(structure, leaves)


def _name(path: KeyPath) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _is_key(leaf: object) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
