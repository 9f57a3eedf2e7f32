"""Cosines by Fourier transforms of values in another order: Makhoul (1980), IEEE Trans. ASSP 28:27."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._cells import cells


def inverse(values: np.ndarray, singular: bool = True) -> np.ndarray:
    """One over eigenvalues, 0 for that of a constant, which a `singular` operator has."""
    constant = np.abs(values) < 1e-11 * np.abs(values).max() if singular else values == 0
    return np.where(constant, 0, 1 / np.where(constant, 1, values))


def evens_and_odds(x: Array, axis: int) -> Array:
    """The even places in order, then the odd ones backwards."""
    at = lambda part: (*(slice(None),) * axis, part)
    return jnp.concatenate([x[at(slice(0, None, 2))], jnp.flip(x[at(slice(1, None, 2))], axis)], axis)


def in_order(x: Array, axis: int) -> Array:
    """Invert `evens_and_odds`."""
    n = x.shape[axis]
    evens, odds = cells(x, axis, 0, (n + 1) // 2), jnp.flip(cells(x, axis, (n + 1) // 2, n), axis)
    if n % 2:
        pad = [(0, int(i == axis)) for i in range(x.ndim)]
        odds = jnp.pad(odds, pad)
    mixed = jnp.stack([evens, odds], axis + 1)
    shape = (*x.shape[:axis], 2 * evens.shape[axis], *x.shape[axis + 1 :])
    return cells(mixed.reshape(shape), axis, 0, n)


def quarter_turns(spectrum: Array, axis: int, n: int) -> Array:
    """exp(-i pi k / 2n) along an axis."""
    angle = -0.5 * np.pi * np.arange(spectrum.shape[axis]) / n
    return jnp.asarray(
        np.exp(1j * angle).reshape([-1 if i == axis else 1 for i in range(spectrum.ndim)]), spectrum.dtype
    )
