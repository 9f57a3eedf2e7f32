"""Missed pairs: tests whether a pair of atoms that is in no list has come within the cutoff."""

import functools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ..space._space import Space, inverse

FAST, FASTER = 4, 32
"""One atom of so many may have moved far for newcomers to be looked for, and one of so many more than half a skin."""

BLOCK, FASTER_BLOCK = 512, 32
"""Sizes of a block of the first atoms and of the second atoms of pairs."""

PAIRS_AN_ATOM = 32
"""More pairs are not looked at: a list would cost less."""

WIDE = 2.5
"""A cell must be so many times as wide as lists reach: then of an atom the nearest image alone counts, also where all atoms stand
in for rows of neighbours, which is planned for a cell of four fifths of the width."""

ROUNDING = 1e-4


class Moves(NamedTuple):
    """Present positions of atoms, and their displacements since the lists were made."""

    position: Float[Array, "atoms d"]
    moved: Float[Array, "atoms d"]


def beyond(moved: Float[Array, "atoms d"], room: Array) -> Bool[Array, ""]:
    """Tell whether an atom has moved by half of `room` or more, one flag for all or one an atom; true for NaN."""
    # Whether any has is told by vectors, the greatest number is not: 1 in place of 25 ns an atom.
    return (~(4 * _square(moved) < jnp.maximum(room, 0) ** 2)).any()


def newcomers(
    ranges: tuple[float, ...], skin: float, space: Space, moves: Moves, stale: Bool[Array, ""]
) -> Bool[Array, ""]:
    r"""Tell whether a pair that was at least one of the `ranges` apart, a cutoff and `skin` each, may now be within that cutoff, in
    a cell that has not changed.

    Let $u$ be displacements. A pair (a, b) that was $c + s$ apart or more and is less than $c$ apart has $|u_a| + |u_b| > s$.
    So one of the two has moved more than $s / 2$, and the other more than $s - \max |u|$. All such pairs are looked at: where the
    cell is wider than two cutoffs only the nearest image of b can be within one of a, at a distance $d$, and the same image was
    at $d - (u_b - u_a)$. Few atoms of a fluid move so far before many do; where they are too many to look at, where the cell is
    narrow, or where one has moved as far as the skin, `stale` comes back.
    """
    position, moved = moves
    count = len(position)
    faster_room, fast_room = (
        FASTER_BLOCK * math.ceil(count / FASTER / FASTER_BLOCK),
        BLOCK * math.ceil(count / FAST / BLOCK),
    )
    length = jnp.sqrt(_square(moved))
    rest = skin * (1 - ROUNDING) - jnp.max(length)
    faster, fast = 2 * length > skin * (1 - ROUNDING), length > rest
    counts = [jnp.sum(chosen, dtype=jnp.int32) for chosen in (faster, fast)]
    turns = [-(-n // size) for n, size in zip(counts, (FASTER_BLOCK, BLOCK), strict=True)]
    # Also false where something is NaN.
    few = (rest > 0) & (counts[0] <= faster_room) & (counts[1] <= fast_room)
    few = few & (turns[0] <= max(PAIRS_AN_ATOM * count // (BLOCK * FASTER_BLOCK), 1) // jnp.maximum(turns[1], 1))
    if space.periodic:
        few = few & (space.plane_distances().min() >= WIDE * max(ranges))
    rows = jnp.concatenate([position, moved], axis=1)
    left, right = (
        rows.at[jnp.nonzero(chosen, size=room, fill_value=count)[0]].get(mode="fill", fill_value=np.nan).T
        for chosen, room in ((faster, faster_room), (fast, fast_room))
    )

    def body(k: Array, found: Array) -> Array:
        first, second = lax.div(k.astype(jnp.int32), turns[1]), lax.rem(k.astype(jnp.int32), turns[1])
        a = lax.dynamic_slice_in_dim(left, first * FASTER_BLOCK, FASTER_BLOCK, 1)
        b = lax.dynamic_slice_in_dim(right, second * BLOCK, BLOCK, 1)
        return found | _met(ranges, skin, space, a, b)

    return lax.fori_loop(0, jnp.where(few, turns[0] * turns[1], 0), body, stale & ~few)


def _met(ranges: tuple[float, ...], skin: float, space: Space, a: Array, b: Array) -> Array:
    """Tell whether a pair of a block has come within a cutoff from beyond its range; rows are positions and displacements."""
    n = space.dimensions
    d, u = ([b[k][None] - a[k][:, None] for k in part] for part in (range(n), range(n, 2 * n)))
    if space.periodic:
        vectors = space.vectors().astype(a.dtype)
        held = inverse(vectors)
        image = [jnp.round(sum(d[c] * held[c, k] for c in range(n))) for k in range(n)]
        d = [d[c] - sum(image[k] * vectors[k, c] for k in range(n)) for c in range(n)]
    now, then = sum(x**2 for x in d), sum((x - y) ** 2 for x, y in zip(d, u, strict=True))
    met = [(now < ((reach - skin) * (1 + ROUNDING)) ** 2) & (then >= (reach * (1 - ROUNDING)) ** 2) for reach in ranges]
    return jnp.any(functools.reduce(jnp.logical_or, met))


def _square(rows: Float[Array, "atoms d"]) -> Float[Array, " atoms"]:
    parts = [rows[:, k] ** 2 for k in range(rows.shape[1])]
    return sum(parts[1:], parts[0])
