"""Numbers that vary over a mesh alike, which loops and operations on several of them ask for."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def alike(values: Sequence[Any]) -> list[Any]:
    """Numbers that vary over a mesh alike; a zero that does is added, which the compiler removes."""
    if len({_varying(x) for x in values}) == 1:
        return list(values)
    zero = origin([x for x in values if jnp.issubdtype(x.dtype, jnp.inexact)])
    return [x + zero.astype(x.dtype) for x in values]


def _varying(x: Any) -> Any:
    aval = jax.typeof(x)
    return getattr(getattr(aval, "mat", None), "varying", getattr(aval, "vma", None))


def varies(tree: PyTree) -> bool:
    """Tell whether numbers vary over a mesh within a function that is mapped over it."""
    return any(_varying(x) for x in jax.tree.leaves(tree))


def alike_arrays(tree: PyTree) -> Any:
    """A tree whose arrays vary over a mesh alike."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = iter(alike([x for x in leaves if hasattr(x, "dtype")]))
    return jax.tree.unflatten(structure, [next(arrays) if hasattr(x, "dtype") else x for x in leaves])


def shaped(values: Sequence[Any], shapes: Sequence[tuple[tuple[int, ...], Any]]) -> Any:
    """Abstract values of these shapes that vary over a mesh as the operands do."""

    def cheap(*values: PyTree) -> list[Any]:
        zero = origin([x for x in values if jnp.issubdtype(x.dtype, jnp.inexact)])
        return [jnp.zeros(shape, dtype) + zero.astype(dtype) for shape, dtype in shapes]

    return jax.make_jaxpr(cheap)(*values).out_avals


def origin(*trees: PyTree) -> Array:
    """A zero that varies over a mesh as the operands do, which loop carries must."""
    leaves = [x for x in jax.tree.leaves(trees) if x.size]
    zeros = [jnp.zeros_like(x.reshape(-1)[0]).real.astype(leaves[-1].real.dtype) for x in leaves]
    return functools.reduce(jnp.add, zeros)
