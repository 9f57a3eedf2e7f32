"""Sums of products of different lengths by gathers of rectangles: no scatter, which takes ten times as long."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Sums are dealt to at most so many rectangles, each as wide as its longest sum; a cut must save at least so many products.
RECTANGLES = 3
LEAST_SAVED = 256
# So many products of sums up to this width are written out, which takes a third of the time of sums along an axis; fewer are
# not worth the larger program.
WRITTEN_OUT_FROM, WRITTEN_OUT_UP_TO = 2048, 16


class Terms(NamedTuple):
    """The terms of several sums: the number of the sum that each belongs to, and the places of its two factors."""

    target: Int[np.ndarray, " terms"]
    left: Int[np.ndarray, " terms"]
    right: Int[np.ndarray, " terms"]


class RaggedSums:
    """The sums over k of left[i_k] right[j_k], one for each of `count` targets.

    **Arguments:** `terms`; `count`, the number of targets; `nowhere`, places of the two arrays that hold 0, for padding.
    """

    def __init__(self, terms: Terms, count: int, nowhere: tuple[int, int]) -> None:
        order = np.argsort(terms.target, kind="stable")
        lengths = np.bincount(terms.target, minlength=count)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        by_length = np.argsort(lengths, kind="stable")
        factors = [np.append(places[order], zero) for places, zero in zip(terms[1:], nowhere, strict=True)]
        self.rectangles = []
        for rows in _dealt(lengths[by_length]):
            targets = by_length[rows]
            column = np.arange(max(1, lengths[targets].max(initial=0)))
            inside = column < lengths[targets][:, None]
            at = np.where(inside, starts[targets][:, None] + column, len(order))
            self.rectangles.append([places[at].astype(np.int32) for places in factors])
        self.place = None if np.array_equal(by_length, np.arange(count)) else np.argsort(by_length).astype(np.int32)

    def __call__(self, left: Float[Array, " m"], right: Float[Array, " n"]) -> Float[Array, " count"]:
        sums = [_sum(left, right, i, j) for i, j in self.rectangles]
        joined = sums[0] if len(sums) == 1 else jnp.concatenate(sums)
        return joined if self.place is None else joined[self.place]


def _sum(left: Array, right: Array, i: Int[np.ndarray, "m k"], j: Int[np.ndarray, "m k"]) -> Array:
    if i.shape[1] > WRITTEN_OUT_UP_TO or i.size < WRITTEN_OUT_FROM:
        return (left[i] * right[j]).sum(1)
    products = [left[a] * right[b] for a, b in zip(i.T, j.T, strict=True)]
    return sum(products[1:], products[0])


def _dealt(lengths: Int[np.ndarray, " count"]) -> list[slice]:
    """Ranges of rising lengths, cut where the most padding is saved."""
    ranges = [slice(0, len(lengths))]
    for _ in range(RECTANGLES - 1):
        cuts = [_best_cut(lengths[part]) for part in ranges]
        best = max(range(len(ranges)), key=lambda i: cuts[i][0])
        saved, size = cuts[best]
        if saved < max(LEAST_SAVED, lengths.sum() // 4):
            break
        whole = ranges[best]
        middle = whole.start + size
        ranges[best : best + 1] = [slice(whole.start, middle), slice(middle, whole.stop)]
    return ranges


def _best_cut(lengths: Int[np.ndarray, " count"]) -> tuple[int, int]:
    """The most products that a cut saves, and the number of sums before it."""
    if len(lengths) < 2:
        return 0, 0
    saved = np.arange(1, len(lengths)) * (lengths[-1] - lengths[:-1])
    return int(saved.max()), int(saved.argmax()) + 1
