"""Atom-centred symmetry functions: sums over neighbours, and over pairs of neighbours, of each atom.

Those of one group differ by numbers alone; they are computed one after the other in a loop, for all species of neighbours at once.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ..files._n2p2_files import SymmetryFunction

POLYNOMIALS = {
    "poly1": lambda x: (2 * x - 3) * x**2 + 1,
    "poly2": lambda x: ((15 - 6 * x) * x - 10) * x**3 + 1,
    "poly3": lambda x: (x * (x * (20 * x - 70) + 84) - 35) * x**4 + 1,
    "poly4": lambda x: (x * (x * ((315 - 70 * x) * x - 540) + 420) - 126) * x**5 + 1,
}
WEIGHTED = (12, 13, 23, 24, 25)
"""Types in which neighbours have the weight of their atomic number, whatever their element."""
WIDE = (9, 22, 25)
"""Types that are products of a function of the angle and of two of distances."""
RADIAL = (2, 12, 20, 23)
"""Types that are sums over single neighbours."""


class Pairs(NamedTuple):
    """Neighbours of one atom, and the pairs of them; distances that do not count are as long as the longest cutoff.

    - `r`, `near`: shape (row,). `weights`: (row, columns), 1 in the column of the neighbour's element; `charge`: its atomic number.
    - `across`, `both`: the distance between two neighbours, and which pairs there are, (row, row); `cosine`, of the angle.
    """

    r: Array
    near: Array
    weights: Array
    charge: Array
    across: Array
    both: Array
    cosine: Array


class Group(NamedTuple):
    """Symmetry functions that differ by numbers alone; their type and shape, and the numbers `fixed`, are those of all.

    - `numbers`: those of each function; of a sum over pairs that is a product of a function of the angle and two of distances,
        those of the angle.
    - `radial`: of such products those of distances: all are computed with all angles.
    """

    kind: int
    shape: str
    fixed: tuple[float, ...]
    numbers: tuple[tuple[float, ...], ...]
    radial: tuple[tuple[float, ...], ...]


Place = tuple[int, int, int, tuple[int, ...]]
"""Group of a symmetry function, its place among the numbers and among the radial ones, and the elements of the neighbours."""


def grouped(functions: Sequence[Sequence[SymmetryFunction]]) -> tuple[tuple[Group, ...], list[list[Place]]]:
    """The groups of the symmetry functions of all species, each function once whatever the elements; and where each is."""
    groups: dict[tuple[int, str, tuple[float, ...]], tuple[dict[Any, int], dict[Any, int]]] = {}
    found = []
    for row in functions:
        places = []
        for f in row:
            fixed, numbers, radial = _parted(f)
            key = f.kind, f.shape, fixed
            within, apart = groups.setdefault(key, ({}, {}))
            places.append(
                (key, within.setdefault(numbers, len(within)), apart.setdefault(radial, len(apart)), f.others)
            )
        found.append(places)
    order = {key: k for k, key in enumerate(groups)}
    listed = tuple(Group(*key, tuple(within), tuple(apart)) for key, (within, apart) in groups.items())
    return listed, [[(order[key], *rest) for key, *rest in row] for row in found]


def _parted(f: SymmetryFunction) -> tuple[tuple[float, ...], ...]:
    """The numbers of a function that are fixed in its group, those of the angle or all, and those of distances."""
    if f.kind >= 20:
        wide = f.kind in WIDE
        return (), f.numbers[2:] if wide else f.numbers, f.numbers[:2] if wide else ()
    eta, shift, spread, power, end, alpha = f.numbers
    if f.kind in WIDE:
        return (spread, end, alpha), (power,), (eta, shift)
    return (spread, end, alpha), (eta, shift, power), ()


def values_of(group: Group, pairs: Pairs) -> Array:
    """All functions of a group: of single neighbours by the element of these, (functions, radial, columns), of pairs by both."""
    weights = pairs.charge[:, None] if group.kind in WEIGHTED else pairs.weights
    numbers = jnp.asarray(np.array(group.numbers), pairs.r.dtype)
    radial = jnp.asarray(np.array(group.radial), pairs.r.dtype)
    part = _compact if group.kind >= 20 else _exponential
    distances, terms = part(group, pairs)
    if group.kind in RADIAL:
        return lax.map(lambda n: (distances(n) @ weights)[None], numbers)
    if group.kind not in WIDE:

        def one(n: Array) -> Array:
            own = distances(n)[:, None] * weights
            return (own.T @ (terms(n) @ own))[None]

        return lax.map(one, numbers)
    own = jnp.stack([distances(n) for n in radial])[:, :, None] * weights[None]
    columns = jnp.moveaxis(own, 0, 1)  # (row, radial, columns)
    flat = columns.reshape(len(columns), -1)

    def every(n: Array) -> Array:
        turned = (terms(n) @ flat).reshape(columns.shape)
        return jnp.einsum("inc,ind->ncd", columns, turned)

    return lax.map(every, numbers)


def _exponential(group: Group, pairs: Pairs) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Gaussians of distances with a cutoff function, of each neighbour and of each pair, from their numbers."""
    spread, end, alpha = group.fixed
    ends = lambda r: jnp.where(r < end, ending(group.shape, jnp.minimum(r / end, 1), alpha), 0)
    inner = jnp.where(pairs.near, ends(pairs.r), 0)
    gaussian = lambda n: inner * jnp.exp(-n[0] * (pairs.r - n[1]) ** 2)
    base = 1 + spread * pairs.cosine
    inside = pairs.both & (base > 0)
    logarithm = jnp.log(jnp.where(inside, base, 1)) + math.log(0.5)
    if group.kind in WIDE:
        plain = jnp.where(inside, 2.0, 0.0).astype(pairs.r.dtype)
        return gaussian, lambda n: plain * jnp.exp(n[0] * logarithm)
    third = jnp.where(inside, 2 * ends(pairs.across), 0)
    return gaussian, lambda n: third * jnp.exp(n[2] * logarithm - n[0] * (pairs.across - n[1]) ** 2)


def _compact(group: Group, pairs: Pairs) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Functions of compact support, of each neighbour and of each pair, from their boundaries."""
    inside = pairs.both & (jnp.abs(pairs.cosine) < 1)  # of atoms in a line the angle has no derivative
    angle = jnp.arccos(jnp.where(inside, pairs.cosine, 0))
    radial = lambda r, n: _window(group.shape, r, n[0], n[1])

    def terms(n: Array) -> Array:
        left, right = jnp.deg2rad(n[-2]), jnp.deg2rad(n[-1])
        found = jnp.where(inside, _window(group.shape.removesuffix("a"), angle, left, right), 0)
        return found if group.kind in WIDE else found * radial(pairs.across, n)

    return lambda n: jnp.where(pairs.near, radial(pairs.r, n), 0), terms


def _window(shape: str, x: Array, left: Array, right: Array) -> Array:
    """A function that is 1 between its boundaries and 0 on them and beyond."""
    place = jnp.abs(x - (left + right) / 2) / ((right - left) / 2)
    return jnp.where(place < 1, core(shape, jnp.minimum(place, 1)), 0)


def core(shape: str, x: Array) -> Array:
    """A function that falls from 1 at 0 to 0 at 1; an asymmetric one, with `a` behind its name, falls more steeply."""
    if shape.endswith("a"):
        shape, x = shape[:-1], (2 - x) * x
    if shape == "cos":
        return 0.5 * (jnp.cos(jnp.pi * x) + 1)
    if shape == "exp":
        rest = 1 - x * x
        return jnp.where(rest > 0, jnp.exp(1 - 1 / jnp.where(rest > 0, rest, 1)), 0)
    return POLYNOMIALS[shape](x)


def ending(shape: str, x: Array, alpha: float) -> Array:
    """The cutoff function at a share x of the cutoff."""
    if shape == "hard":
        return jnp.ones_like(x)
    if shape in ("tanhu", "tanh"):
        return (jnp.tanh(1 - x) / (math.tanh(1.0) if shape == "tanh" else 1.0)) ** 3
    return core(shape, jnp.maximum(x - alpha, 0) / (1 - alpha))
