"""Fixed numbers in place of random ones, for densities that are integrated by draws and differentiated."""

import functools

import numpy as np
from scipy.stats import qmc

from .._doors import shown
from .._errors import ArgumentError


@functools.lru_cache
def fixed_points(paths: int, count: int, dimensions: int) -> np.ndarray:
    """Scrambled Sobol points between 0 and 1, shape `(count, dimensions, paths)`, moved by other numbers in each of `count`."""
    random = np.random.default_rng(0)
    points = qmc.Sobol(dimensions, rng=random).random_base2(paths.bit_length() - 1).T
    return (points + random.random((count, dimensions, 1))) % 1.0 * (1 - 1e-6) + 0.5e-6


def check_paths(paths: object, usual: int) -> None:
    """Refuse a number of paths that is no power of two.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(paths, int) or isinstance(paths, bool) or paths < 2 or paths & (paths - 1):
        raise ArgumentError(
            f"Argument `paths` must be a whole number that is a power of two, such as {usual}, but it is {shown(paths)}."
        )
