"""Functions that are compiled as a whole, whoever calls them."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
from jaxtyping import PyTree

from ...core import as_float_array

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """A function of arrays, Python floats (traced, so that another value compiles nothing) and whatever else is hashable.

    Called outside `jit` it compiles once instead of once an operation.
    """
    inner = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*arguments: PyTree, **options: PyTree) -> Any:
        traced = lambda x: as_float_array(x) if isinstance(x, float) else x
        arguments, options = jax.tree.map(traced, (arguments, options))
        return inner(*arguments, **options)

    return call  # pyright: ignore[reportReturnType]
