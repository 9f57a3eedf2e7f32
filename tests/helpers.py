"""Helpers that more than one test file needs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import jax
import numpy as np

from simkit.stores import seal


def tree_allclose(found: Any, expected: Any, *, rtol: float = 1e-7, atol: float = 0.0) -> bool:
    """Whether two pytrees have the same structure, shapes, and values within a tolerance."""
    if jax.tree.structure(found) != jax.tree.structure(expected):
        return False
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=rtol, atol=atol) for a, b in pairs)


def tree_bitwise_equal(found: Any, expected: Any) -> bool:
    """Whether two pytrees have the same structure, shapes, dtypes and values, NaN equal to NaN."""
    if jax.tree.structure(found) != jax.tree.structure(expected):
        return False
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(
        np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
        for a, b in pairs
    )


def mean_within(samples: Any, expected: float, *, sigmas: float = 5.0) -> bool:
    """Whether the mean of independent samples lies within so many of its own standard errors of the expected value.

    Five standard errors: a right program fails once in two million draws, and with a fixed key always or never.
    """
    samples = np.asarray(samples, float)
    return bool(abs(samples.mean() - expected) <= sigmas * samples.std(ddof=1) / np.sqrt(samples.size))


@contextlib.contextmanager
def resealed(path: Path, *, sealed: bool = True) -> Iterator[h5py.File]:
    """Change a file of results as a program may that knows how simkit's checksum is made, or leave the checksum away."""
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b"\nsimkit sha256 ")])
    with h5py.File(path, "r+") as file:
        yield file
    if sealed:
        seal(path)
