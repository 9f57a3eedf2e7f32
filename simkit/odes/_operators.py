"""Matrices of quantum mechanics as real arrays: their real and imaginary parts are the quantities of a model."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs
from ..core import as_float_array
from ._inputs import optional_input


def parts(value: ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]]) -> tuple[Array, Array]:
    """The real and the imaginary part of an array of numbers."""
    found: Any = value if isinstance(value, jnp.ndarray) else np.asarray(value)
    return as_float_array(found.real), as_float_array(found.imag)


def square(
    matrix: ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]],
    name: str,
    *,
    hermitian: bool,
    size: int | None = None,
) -> tuple[Array, Array]:
    """The parts of a square matrix.

    **Raises:** an `ArgumentError` where it is not square, not of the size of the others, or not Hermitian where it has to be.
    """
    real, imaginary = parts(matrix)
    if real.ndim != 2 or real.shape[0] != real.shape[1] or size not in (None, real.shape[0]):
        wanted = "square" if size is None else f"{size} x {size}"
        raise ArgumentError(f"Argument `{name}` must hold {wanted} matrices, but one has shape {real.shape}.")
    known = isinstance(matrix, np.ndarray | list | tuple)
    if hermitian and known and not np.allclose(given := np.asarray(matrix), np.conj(np.transpose(given))):
        raise ArgumentError(f"Argument `{name}` must be Hermitian, equal to its conjugate transpose, but it is not.")
    return real, imaginary


def stacked(matrices: Sequence[Any], name: str, size: int, *, hermitian: bool) -> tuple[Array, Array]:
    """The parts of several square matrices, shape (matrices, size, size)."""
    found = [square(matrix, name, hermitian=hermitian, size=size) for matrix in matrices]
    if not found:
        return jnp.zeros((0, size, size)), jnp.zeros((0, size, size))
    return jnp.stack([real for real, _ in found]), jnp.stack([imaginary for _, imaginary in found])


def driven(base: Array, controls: Array, inputs: Inputs) -> Array:
    """A part of H(t) = H_0 + sum_k u_k(t) H_k; the optional input `controls` holds one number for each of the matrices."""
    drives = optional_input(inputs, "controls")
    if isinstance(drives, float):
        return base
    drives = jnp.stack(list(drives)) if isinstance(drives, list | tuple) else jnp.atleast_1d(drives)
    if drives.shape != controls.shape[:1]:
        raise ArgumentError(
            f"Input `controls` must hold {controls.shape[0]} signals, one for each control, but it holds {drives.shape[0]}."
        )
    return base + jnp.tensordot(drives, controls, axes=1)
