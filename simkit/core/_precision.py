"""Float types: double precision is asked for, never taken."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from .._errors import ArgumentError

P = ParamSpec("P")
T = TypeVar("T")

_CHOSEN = "jax_default_matmul_precision"


def enable_x64(on: bool = True) -> None:
    """Make float64 JAX's default float type, for all of the process.

    Importing simkit does not touch JAX's configuration; a script for science calls this first. The command line does.
    """
    jax.config.update("jax_enable_x64", on)


def full_products(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose products of float32 matrices are computed in float32.

    On a GPU JAX rounds their factors to some three digits (TF32) unless told otherwise, with which no pair of atoms, linear solve
    or transform is right to more. What a user has chosen by `jax.default_matmul_precision` or its configuration stays.
    """

    @functools.wraps(function)
    def computed(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(jax.config, _CHOSEN) is not None or jax.default_backend() == "cpu":
            return function(*args, **kwargs)
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return computed


def check_tolerance(rtol: float, dtype: np.dtype) -> None:
    """Refuse a relative tolerance that the float type cannot resolve."""
    floor = 10 * float(jnp.finfo(dtype).eps)
    if rtol < floor:
        raise ArgumentError(
            f"Argument `rtol` must be at least {floor:.1e} in {np.dtype(dtype).name}, but it is {rtol:.1e}, which this float "
            f"type cannot resolve. Loosen it or call `simkit.enable_x64()` before any array is made."
        )


def cast(tree: T, dtype: DTypeLike) -> T:
    """A pytree with every float array in the given float type."""
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)
