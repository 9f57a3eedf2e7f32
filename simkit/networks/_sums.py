"""Many sums of different lengths at once."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def picked(vector: Float[Array, " n"], places: Int[np.ndarray, " m"]) -> Float[Array, " m"]:
    """Elements of a vector by places that are known. What stands in a row needs no gather."""
    if not len(places):
        return vector[:0]
    if (np.diff(places) == 1).all():
        return vector if len(places) == vector.shape[0] else vector[int(places[0]) : int(places[-1]) + 1]
    one = jax.lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    index = np.asarray(places, np.int32)[:, None]
    return jax.lax.gather(vector, index, one, (1,), mode=jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)


class Sums:
    """Sums of values with factors, each summed with those of about its length.

    `index` says where in one vector all values stand, and a call takes what was picked there. A scatter would be shorter to
    write, but is a loop in XLA on CPU.

    **Arguments:** `rows` are the terms of each sum, places and factors; `offsets` is what is added.
    """

    def __init__(self, rows: Sequence[Sequence[tuple[int, float]]], offsets: Sequence[float] = ()):
        lengths = np.array([len(row) for row in rows], int)
        # Rows of 1, 2, 3 to 4, 5 to 8, ... terms; one without any is its offset.
        classes = np.where(lengths == 0, -1, np.ceil(np.log2(np.maximum(lengths, 1))).astype(int))
        self._factors: list[np.ndarray] = []  # (terms, rows)
        index: list[np.ndarray] = []
        for kind in sorted(set(classes.tolist())):
            group = [rows[i] for i in np.flatnonzero(classes == kind).tolist()]
            width = max(len(row) for row in group)
            # A row that is shorter repeats its first term, with a factor of 0.
            filled = [[*row, *[(row[0][0], 0.0)] * (width - len(row))] if width else [] for row in group]
            shape = len(group), width
            self._factors.append(np.array([[x for _, x in row] for row in filled], float).reshape(shape).T)
            index.append(np.array([[place for place, _ in row] for row in filled], int).reshape(shape).T.ravel())
        self.index = np.concatenate([np.zeros(0, int), *index])
        self._order = np.argsort(np.argsort(classes, kind="stable"), kind="stable")
        self._offsets = np.array(offsets, float)

    def __call__(self, values: Float[Array, " places"]) -> Float[Array, " sums"]:
        parts, first = [values[:0]], 0
        for factors in self._factors:
            part = values[first : first + factors.size].reshape(factors.shape)
            first += factors.size
            if not (factors == 1).all():
                scaled = part * jnp.asarray(factors, part.dtype)
                part = jnp.where(factors == 0, 0, scaled) if (factors == 0).any() else scaled
            parts.append(part[0] if len(part) == 1 else jnp.sum(part, axis=0))
        whole = picked(jnp.concatenate(parts), self._order)
        return whole + jnp.asarray(self._offsets, whole.dtype) if self._offsets.any() else whole
