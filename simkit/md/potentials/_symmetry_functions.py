"""Atom-centred symmetry functions: sums over neighbours, and over pairs of neighbours, of each atom.

Those of one group differ by numbers alone; they are computed one after the other in a loop, for all species of neighbours at once.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

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
NARROW = (3, 13, 21, 24)
"""Types in which the two neighbours must be near to each other, too."""
WEIGHTED = (12, 13, 23, 24, 25)
"""Types in which neighbours have the weight of their atomic number, whatever their element."""
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
    """Symmetry functions that differ by numbers alone: type, shape, lambda and cutoff are those of all."""

    kind: int
    shape: str
    fixed: tuple[float, ...]
    numbers: tuple[tuple[float, ...], ...]


def grouped(functions: Sequence[Sequence[SymmetryFunction]]) -> tuple[tuple[Group, ...], list[list[tuple[int, int, tuple[int, ...]]]]]:
    """The groups of the symmetry functions of all species, each function once whatever the elements.

    **Returns:** the groups, and for each species and function its group, its place there, and the elements of the neighbours.
    """
    groups: dict[tuple[int, str, tuple[float, ...]], dict[tuple[float, ...], int]] = {}
    found = []
    for row in functions:
        places = []
        for f in row:
            if f.kind >= 20:
                key, numbers = (f.kind, f.shape, ()), f.numbers
            else:
                eta, shift, spread, power, end, alpha = f.numbers
                key, numbers = (f.kind, f.shape, (spread, end, alpha)), (eta, shift, power)
            within = groups.setdefault(key, {})
            places.append((key, within.setdefault(numbers, len(within)), f.others))
        found.append(places)
    order = {key: k for k, key in enumerate(groups)}
    listed = tuple(Group(*key, tuple(within)) for key, within in groups.items())
    return listed, [[(order[key], place, others) for key, place, others in row] for row in found]


def values_of(group: Group, pairs: Pairs) -> Array:
    """All functions of a group: of single neighbours by the element of these, (functions, columns), of pairs by both."""
    weights = pairs.charge[:, None] if group.kind in WEIGHTED else pairs.weights
    numbers = jnp.asarray(np.array(group.numbers), pairs.r.dtype)
    each = _compact(group, pairs, weights) if group.kind >= 20 else _exponential(group, pairs, weights)
    return lax.map(each, numbers)


def _exponential(group: Group, pairs: Pairs, weights: Array) -> Callable[[Array], Array]:
    """Gaussians of distances with a cutoff function: from eta, shift and power to sums."""
    spread, end, alpha = group.fixed
    ends = lambda r: jnp.where(r < end, ending(group.shape, jnp.minimum(r / end, 1), alpha), 0)
    weights = jnp.where(pairs.near, ends(pairs.r), 0)[:, None] * weights
    if group.kind in RADIAL:
        return lambda n: jnp.exp(-n[0] * (pairs.r - n[1]) ** 2) @ weights
    base = 1 + spread * pairs.cosine
    inside = pairs.both & (base > 0)
    logarithm = jnp.log(jnp.where(inside, base, 1))
    one, other = pairs.r[:, None], pairs.r[None]
    square, plain, count = one**2 + other**2, one + other, 2.0
    if group.kind in NARROW:
        square, plain, count = square + pairs.across**2, plain + pairs.across, 3.0
    third = jnp.where(inside, ends(pairs.across), 0) if group.kind in NARROW else jnp.where(inside, 1.0, 0.0)
    third = third.astype(pairs.r.dtype)

    def each(n: Array) -> Array:
        eta, shift, power = n[0], n[1], n[2]
        apart = square - 2 * shift * plain + count * shift**2
        terms = third * jnp.exp(power * logarithm - eta * apart + (1 - power) * math.log(2))
        return weights.T @ (terms @ weights)

    return each


def _compact(group: Group, pairs: Pairs, weights: Array) -> Callable[[Array], Array]:
    """Functions of compact support: from left and right distance and angle to sums."""

    def window(x: Array, left: Array, right: Array, shape: str = group.shape) -> Array:
        centre, width = (left + right) / 2, (right - left) / 2
        place = jnp.abs(x - centre) / width
        return jnp.where(place < 1, core(shape, jnp.minimum(place, 1)), 0)

    if group.kind in RADIAL:
        radial = lambda n: jnp.where(pairs.near, window(pairs.r, n[0], n[1]), 0)
        return lambda n: radial(n) @ weights
    straight = jnp.abs(pairs.cosine) >= 1
    inside = pairs.both & ~straight
    angle = jnp.arccos(jnp.where(inside, pairs.cosine, 0))

    def each(n: Array) -> Array:
        left, right = jnp.deg2rad(n[2]), jnp.deg2rad(n[3])
        terms = jnp.where(inside, window(angle, left, right, group.shape.removesuffix("a")), 0)  # of angles never asymmetric
        if group.kind in NARROW:
            terms = terms * window(pairs.across, n[0], n[1])
        own = jnp.where(pairs.near, window(pairs.r, n[0], n[1]), 0)[:, None] * weights
        return own.T @ (terms @ own)

    return each


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
