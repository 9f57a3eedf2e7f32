"""Arrays gathered from several vectors, and many sums of different lengths at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Place = tuple[Any, int]
"""A vector, by its name, and an index into it."""

Term = tuple[Place, Place | None, float]
"""A value, what it is multiplied by (None is one), and a factor."""


class Gather(NamedTuple):
    """Where each number of an array stands: the vectors it is made from, which of them, and the place there."""

    sources: tuple[Any, ...]
    which: np.ndarray
    index: np.ndarray


def gather(places: Sequence[Place], shape: tuple[int, ...] = (-1,)) -> Gather:
    """An array of the values at some places."""
    sources = tuple(sorted({source for source, _ in places}, key=str))
    numbers = {source: i for i, source in enumerate(sources)}
    which, index = np.array([numbers[source] for source, _ in places]), np.array([i for _, i in places])
    return Gather(sources, which.reshape(shape), index.reshape(shape))


class Reader:
    """Named vectors, and arrays gathered from them."""

    def __init__(self, y: Array, c: Array):
        self.dtype = y.dtype
        self.vectors: dict[Any, Array] = {"y": y, "c": c, "one": jnp.ones(1, y.dtype)}
        self._joined: dict[Any, Array] = {}

    def __call__(self, wanted: Gather) -> Array:
        parts = [self.vectors[source] for source in wanted.sources]
        if wanted.sources not in self._joined:
            self._joined[wanted.sources] = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        return picked(self._joined[wanted.sources], wanted.index + starts[wanted.which])


def picked(whole: Array, places: np.ndarray) -> Array:
    """Elements of a vector. What stands in a row needs no gather."""
    flat = places.ravel()
    if (np.diff(flat) == 1).all():
        part = whole if len(flat) == whole.shape[0] else whole[int(flat[0]) : int(flat[-1]) + 1]
        return part.reshape(places.shape)
    return whole.at[places].get(mode="promise_in_bounds")


class Sums:
    """Sums of products of gathered values, each gathered with those of about its length.

    A scatter would be shorter to write, but is a loop in XLA on CPU.
    """

    def __init__(self, rows: Sequence[Sequence[Term]], offsets: Sequence[float] = ()):
        lengths = np.array([len(row) for row in rows], int)
        # Rows of 1, 2, 3 to 4, 5 to 8, ... terms; one without any is its offset.
        classes = np.where(lengths == 0, -1, np.ceil(np.log2(np.maximum(lengths, 1))).astype(int))
        self._groups = [_group([rows[i] for i in np.flatnonzero(classes == c)]) for c in sorted(set(classes.tolist()))]
        self._places = np.argsort(np.argsort(classes, kind="stable"), kind="stable")
        self._offsets = np.array(offsets, float)

    def __call__(self, read: Reader) -> Array:
        parts = [_summed(group, read) for group in self._groups]
        if not parts:
            return jnp.zeros(0, read.dtype)
        whole = picked(parts[0] if len(parts) == 1 else jnp.concatenate(parts), self._places)
        return whole + jnp.asarray(self._offsets, read.dtype) if self._offsets.any() else whole


class _Group(NamedTuple):
    values: Gather | None
    others: Gather | None
    factors: np.ndarray  # (terms, rows)


def _group(rows: Sequence[Sequence[Term]]) -> _Group:
    width = max(len(row) for row in rows)
    if width == 0:
        return _Group(None, None, np.zeros((0, len(rows))))
    # A row that is shorter repeats its first term, with a factor of 0.
    filled = [[*row, *[(row[0][0], row[0][1], 0.0)] * (width - len(row))] for row in rows]
    flat, shape = [row[k] for k in range(width) for row in filled], (width, len(rows))
    others = [other or ("one", 0) for _, other, _ in flat]
    plain = all(other is None for _, other, _ in flat)
    factors = np.array([factor for _, _, factor in flat]).reshape(shape)
    return _Group(gather([value for value, _, _ in flat], shape), None if plain else gather(others, shape), factors)


def _summed(group: _Group, read: Reader) -> Array:
    if group.values is None:
        return jnp.zeros(group.factors.shape[1], read.dtype)
    values = read(group.values)
    if group.others is not None:
        values = values * read(group.others)
    if not (group.factors == 1).all():
        scaled = values * jnp.asarray(group.factors, read.dtype)
        values = jnp.where(group.factors == 0, 0, scaled) if (group.factors == 0).any() else scaled
    return values[0] if len(values) == 1 else jnp.sum(values, axis=0)
