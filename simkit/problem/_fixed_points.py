"""Fixed numbers in place of random ones, for densities that are integrated by draws and differentiated."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import qmc

from .._doors import shown
from .._errors import ArgumentError

PATHS = 256
"""Number of paths, a power of two: the log likelihood of a series with ten censored data in turn, or of a row with three, is within
some 0.01."""


@functools.lru_cache
def fixed_points(paths: int, count: int, dimensions: int) -> np.ndarray:
    """Scrambled Sobol points between 0 and 1, shape `(count, dimensions, paths)`, moved by other numbers in each of `count`."""
    random = np.random.default_rng(0)
    points = qmc.Sobol(dimensions, rng=random).random_base2(paths.bit_length() - 1).T
    return (points + random.random((count, dimensions, 1))) % 1.0 * (1 - 1e-6) + 0.5e-6


def check_paths(paths: object) -> None:
    """Refuse a number of paths that is no power of two.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(paths, int) or isinstance(paths, bool) or paths < 2 or paths & (paths - 1):
        raise ArgumentError(
            f"Argument `paths` must be a whole number that is a power of two, such as {PATHS}, but it is {shown(paths)}."
        )


def log_mean(weights: Float[Array, "*rows paths"]) -> Float[Array, "*rows"]:
    """The logarithm of the mean of weights, given by their logarithms."""
    return jax.nn.logsumexp(weights, axis=-1) - jnp.log(jnp.asarray(weights.shape[-1], weights.dtype))
