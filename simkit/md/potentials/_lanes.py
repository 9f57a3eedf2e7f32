"""Layout of the pairs of many small molecules: atoms of a molecule down, molecules side by side."""

import equinox as eqx
import jax
import jax.core
import numpy as np
from jaxtyping import Array, Int

WIDTH = 128
"""Molecules side by side: 128 of 40 atoms in double precision are 40 KB a component."""
FEWEST = 256
"""Pairs from which the loop pays off."""
FULL = 0.3
"""Least part of all pairs inside molecules that must be listed."""
SHAPES = 12
"""Most shapes of blocks, each of which is a loop of its own to compile."""


class Lanes(eqx.Module):
    """Blocks of molecules of like size, side by side: atom i of each meets atom i + k, for k from 1 to half the number of rows.

    - `atoms`: which atom stands where; where there is none, one that is.
    - `place`: which of the listed pairs atoms i and i + k are, at k - 1 and i; the number of pairs where they are none.
    """

    atoms: Int[Array, "blocks rows width"]
    place: Int[Array, "blocks offsets rows width"]


def mark_of(pairs: Int[Array, "pairs 2"]) -> Array:
    """A number that tells lists of pairs apart, of 32 bits."""
    rows = pairs.astype(jax.numpy.uint32)
    places = jax.numpy.arange(len(pairs), dtype=jax.numpy.uint32)
    scattered = rows[:, 0] * np.uint32(73856093) + rows[:, 1] * np.uint32(19349663)
    return jax.numpy.sum(scattered * (places * np.uint32(2654435761) + np.uint32(1)), dtype=jax.numpy.uint32)


def lanes_of(pairs: Int[Array, "pairs 2"]) -> tuple[Lanes, ...]:
    """Return the layout of pairs; empty where a list is as good: few pairs, few of those inside molecules, or one of them twice."""
    known = isinstance(pairs, jax.Array) and not isinstance(pairs, jax.core.Tracer) and pairs.ndim == 2
    if not known or len(pairs) < FEWEST:
        return ()
    rows = np.asarray(pairs)
    if rows.min() < 0:
        return ()
    atoms, ends = np.unique(rows, return_inverse=True)
    ends = ends.reshape(rows.shape)
    molecule = _parts(ends, len(atoms))
    sizes = np.bincount(molecule)
    ordered = np.sort(ends, axis=1)
    twice = len(np.unique(ordered[:, 0] * len(atoms) + ordered[:, 1])) < len(rows)
    if twice or len(rows) < FULL * (sizes * (sizes - 1) / 2).sum():
        return ()
    return _laid_out(atoms, ends, molecule, sizes)


def _parts(ends: np.ndarray, count: int) -> np.ndarray:
    """The number of the connected part to which each atom belongs."""
    from scipy.sparse import coo_array  # on first use: it takes long to load
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(ends), bool), (ends[:, 0], ends[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[1]


def _laid_out(atoms: np.ndarray, ends: np.ndarray, molecule: np.ndarray, sizes: np.ndarray) -> tuple[Lanes, ...]:
    by_molecule = np.argsort(molecule, kind="stable")
    starts = np.cumsum(sizes) - sizes
    local = np.empty(len(atoms), int)
    local[by_molecule] = np.arange(len(atoms)) - np.repeat(starts, sizes)
    by_size = np.argsort(sizes, kind="stable")
    shapes = min(SHAPES, -(-len(sizes) // WIDTH))
    owner, found = molecule[ends[:, 0]], []
    for group in np.array_split(by_size, shapes):
        blocks = -(-len(group) // WIDTH)
        width, deep = -(-len(group) // blocks), int(sizes[group].max())
        spot = np.full(len(sizes), -1)
        spot[group] = np.arange(len(group))
        mine = spot[molecule] >= 0
        block, lane = np.divmod(spot[molecule[mine]], width)
        stand = np.full((blocks, deep, width), atoms[0])
        stand[block, local[mine], lane] = atoms[mine]
        pair = np.flatnonzero(spot[owner] >= 0)
        a, b = local[ends[pair]].T
        ahead = (b - a) % deep
        near = ahead <= deep // 2
        block, lane = np.divmod(spot[owner[pair]], width)
        place = np.full((blocks, deep // 2, deep, width), len(ends))
        place[block, np.where(near, ahead, deep - ahead) - 1, np.where(near, a, b), lane] = pair
        found.append(Lanes(_whole(stand), _whole(place)))
    return tuple(found)


def _whole(values: np.ndarray) -> Array:
    return jax.numpy.asarray(values, jax.numpy.int32)
