"""Fourier series along the walls of a layer, as products of small matrices of real numbers."""

import functools

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._layer import PlaneLayer
from ._tables import indices


@functools.lru_cache(maxsize=16)
def _along_x(layer: PlaneLayer) -> tuple[np.ndarray, np.ndarray]:
    """Values from real and imaginary parts along x, `(nx, Kx, 2)`, and back."""
    index, size = indices(layer)[0], layer.shape[0]
    angle = 2 * np.pi / size * (np.outer(np.arange(size), index) % size)
    turns = np.stack([np.cos(angle), -np.sin(angle)], axis=2)
    return np.where(index == 0, 1.0, 2.0)[:, None] * turns, np.moveaxis(turns, 0, 2) / size


@functools.lru_cache(maxsize=16)
def _along_y(layer: PlaneLayer) -> tuple[np.ndarray, np.ndarray]:
    """Complex values from complex modes along y, `(2, ny, Ky, 2)` with real and imaginary parts outside, and back."""
    index, size = indices(layer)[1], layer.shape[1]
    angle = 2 * np.pi / size * (np.outer(np.arange(size), index) % size)
    c, s = np.cos(angle), np.sin(angle)
    turns = np.stack([np.stack([c, -s], axis=2), np.stack([s, c], axis=2)])
    return turns, np.transpose(turns, (2, 3, 0, 1)) / size


def values(layer: PlaneLayer, waves: Float[Array, "kx ky 2 f nz"]) -> Float[Array, "nx ny f nz"]:
    """Real fields from their series along the walls, fields and the axis across behind."""
    if layer.dimensions == 3 and layer.shape[1] > 1:
        found = jnp.asarray(_along_y(layer)[0], waves.dtype)
        waves = jnp.moveaxis(lax.dot_general(waves, found, (((1, 2), (2, 3)), ((), ()))), (3, 4), (1, 2))
    else:
        waves = jnp.moveaxis(waves, 2, 1)
    found = jnp.asarray(_along_x(layer)[0], waves.dtype)
    return lax.dot_general(found, waves, (((1, 2), (0, 1)), ((), ())))


def series(layer: PlaneLayer, fields: Float[Array, "nx ny f nz"]) -> Float[Array, "kx ky 2 f nz"]:
    """Series along the walls of real fields: real and imaginary parts of the waves that are kept."""
    found = jnp.asarray(_along_x(layer)[1], fields.dtype)
    waves = lax.dot_general(found, fields, (((2,), (0,)), ((), ())))
    if layer.dimensions == 3 and layer.shape[1] > 1:
        found = jnp.asarray(_along_y(layer)[1], fields.dtype)
        return jnp.moveaxis(lax.dot_general(waves, found, (((1, 2), (2, 3)), ((), ()))), (3, 4), (1, 2))
    return jnp.moveaxis(waves, 1, 2)
