"""Bispectrum components of densities of neighbours on the sphere in four dimensions, as integrals over that sphere.

Angular momenta are counted in halves: `twice` of 6 means three.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array


@functools.cache
def components(twice: int) -> tuple[tuple[int, int, int], ...]:
    """The triples (j1, j2, j) of the components, in the order of LAMMPS."""
    return tuple(
        (j1, j2, j)
        for j1 in range(twice + 1)
        for j2 in range(j1 + 1)
        for j in range(j1 - j2, min(twice, j1 + j2) + 1, 2)
        if j >= j1
    )


def upper_rows(twice: int, a: tuple[Any, Any], b: tuple[Any, Any], first: Any, np_: Any = jnp) -> list[tuple[Any, Any]]:
    r"""Matrices of rotations, the upper rows up to the middle one: the others are theirs by symmetry.

    $$u^j_{m m'} = \sqrt{\tfrac{j - m'}{j - m}}\, a^* u^{j-1}_{m m'} - \sqrt{\tfrac{m'}{j - m}}\, b^* u^{j-1}_{m, m'-1}$$

    **Arguments:**

    - `a`, `b`: real and imaginary parts of the Cayley-Klein parameters, arrays of one shape.
    - `first`: what stands for 1 in the matrix of j = 0; since the recursion is linear, all matrices are multiplied by it.
    - `np_`: the array module, NumPy for constants.

    **Returns:** for each j the real and imaginary parts, shape (j // 2 + 1, j + 1, ...).
    """
    (ar, ai), (br, bi) = ((x[None, None] for x in pair) for pair in (a, b))
    found = [(first[None, None], np_.zeros_like(first)[None, None])]
    rest = [(0, 0)] * first.ndim
    for j in range(1, twice + 1):
        rows = j // 2 + 1
        re, im = _first_rows(found[-1], rows, np_)
        row, column = np.arange(rows)[:, None], np.arange(j)[None]
        cast = lambda x: x.reshape(*x.shape, *(1,) * len(rest)).astype(first.dtype)
        left, right = cast(np.sqrt((j - column) / (j - row))), cast(np.sqrt((column + 1) / (j - row)))
        behind, before = [(0, 0), (0, 1), *rest], [(0, 0), (1, 0), *rest]
        real = np_.pad(left * (ar * re + ai * im), behind) - np_.pad(right * (br * re + bi * im), before)
        imaginary = np_.pad(left * (ar * im - ai * re), behind) - np_.pad(right * (br * im - bi * re), before)
        found.append((real, imaginary))
    return found


def _first_rows(upper: tuple[Any, Any], rows: int, np_: Any) -> tuple[Any, Any]:
    """The first rows of a matrix of which the upper ones are given, at most one more than these."""
    re, im = upper
    if len(re) >= rows:
        return re[:rows], im[:rows]
    size = re.shape[1]
    sign = (-1.0) ** (np.arange(size) + rows - 1)
    sign = sign.reshape(1, size, *(1,) * (re.ndim - 2)).astype(re.dtype)
    mirrored = [sign * part[size - rows : size - rows + 1, ::-1] for part in upper]
    return np_.concatenate([re, mirrored[0]]), np_.concatenate([im, -mirrored[1]])


class Sphere(NamedTuple):
    """Points of the sphere, and weights that integrate exactly every product of three functions up to the largest j.

    - `weight`: shape (points,), with sum 1.
    - `matrices`: for each j real and imaginary parts of the upper rows at the points, shape (2, rows, j + 1, points), with the
        weights of the rows: the middle one counts once, the others twice, for the lower ones.
    """

    weight: np.ndarray
    matrices: tuple[np.ndarray, ...]


@functools.cache
def sphere(twice: int) -> Sphere:
    """The points for all j up to the largest.

    A product of three functions that belongs to a component has a whole angular momentum, at most L = 3 twice / 2: Euler's first
    and third angles need L + 1 equal steps each, the cosine of the second the L / 2 + 1 points of Gauss and Legendre.
    """
    top = 3 * twice // 2
    cosine, weight = np.polynomial.legendre.leggauss(top // 2 + 1)
    turns = 2 * np.pi * np.arange(top + 1) / (top + 1)
    alpha, gamma, cosine = (x.ravel() for x in np.meshgrid(turns, turns, cosine, indexing="ij"))
    weights = np.tile(weight / 2, (top + 1) ** 2) / (top + 1) ** 2
    inner, outer = np.sqrt((1 + cosine) / 2), np.sqrt((1 - cosine) / 2)
    half, apart = (alpha + gamma) / 2, (alpha - gamma) / 2
    a, b = (inner * np.cos(half), inner * np.sin(half)), (outer * np.cos(apart), outer * np.sin(apart))
    matrices = []
    for j, both in enumerate(upper_rows(twice, a, b, np.ones_like(alpha), np)):
        counts = np.full((j // 2 + 1, 1, 1), 2.0)
        counts[j // 2] = 1.0 if j % 2 == 0 else 2.0
        matrices.append(np.stack(both) * counts)
    return Sphere(weights, tuple(matrices))


def fields_of(density: Sequence[Array], self_weight: Any) -> list[Array]:
    r"""Real functions on the sphere, $f_j(g) = \sum_{m m'} U^j_{m m'} u^j_{m m'}(g)^*$.

    **Arguments:**

    - `density`: for each j the upper rows of U, shape (2, rows, j + 1, atoms).
    - `self_weight`: what the atom itself adds to the diagonals, shape (atoms,) or ().

    **Returns:** for each j shape (atoms, points).
    """
    found = []
    points = sphere(len(density) - 1)
    for j, (one, matrices) in enumerate(zip(density, points.matrices, strict=True)):
        whole = jnp.asarray(matrices, one.dtype)
        rows = np.arange(j // 2 + 1)
        own = jnp.asarray(matrices[0, rows, rows].sum(0), one.dtype)
        values = jnp.einsum("xmna,xmnq->aq", one, whole, precision=lax.Precision.HIGHEST)
        found.append(values + jnp.asarray(self_weight, one.dtype).reshape(-1, 1) * own[None])
    return found


Channels = Sequence[Sequence[Array]]
"""Functions on the sphere by j, of each channel of neighbours."""


def weighted_sum(channels: Channels, coefficients: Array) -> Array:
    r"""Linear combinations of components, $\sum_k \beta_k B_k$, shape (atoms,).

    The integrand is summed over components at each point before it is integrated: one integral in place of one a component.

    **Arguments:** `coefficients`: shape (channels, channels, channels, components, atoms).
    """
    twice, places = len(channels[0]) - 1, _places(len(channels[0]) - 1)
    points = sphere(twice)
    total: Any = 0.0
    for e, one in enumerate(channels):
        for j1 in range(twice + 1):
            inner: Any = 0.0
            for f, other in enumerate(channels):
                for j2 in range(j1 + 1):
                    last = [
                        (coefficients[e, f, g, k] * (j + 1))[:, None] * third[j]
                        for g, third in enumerate(channels)
                        for j, k in places.get((j1, j2), ())
                    ]
                    if last:
                        inner = inner + other[j2] * functools.reduce(jnp.add, last)
            total = total + one[j1] * inner
    return jnp.dot(total, jnp.asarray(points.weight, total.dtype), precision=lax.Precision.HIGHEST)


def bispectrum(channels: Channels) -> Array:
    r"""All components of the densities of some channels,

    $$B_{j_1 j_2 j} = \sum_{m m'} (U^j_{m m'})^* \sum C\, C\, U^{j_1} U^{j_2} = (j + 1) \int f_{j_1} f_{j_2} f_j \, dg$$

    with products of two Clebsch-Gordan coefficients C. The integral of a product of three matrices of rotations is one of such
    products, so that the sums over magnetic numbers are one matrix product and products at points.

    **Returns:** shape (channels, channels, channels, components, atoms): channels of j1, of j2 and of j.
    """
    twice = len(channels[0]) - 1
    weight = jnp.asarray(sphere(twice).weight, channels[0][0].dtype)
    found = []
    for one in channels:
        for other in channels:
            for third in channels:
                weighted = [f * weight[None] * (j + 1) for j, f in enumerate(third)]
                found.append([jnp.sum(one[j1] * other[j2] * weighted[j], axis=1) for j1, j2, j in components(twice)])
    count = len(channels)
    return jnp.stack([jnp.stack(row) for row in found]).reshape(count, count, count, -1, len(channels[0][0]))


@functools.cache
def _places(twice: int) -> dict[tuple[int, int], tuple[tuple[int, int], ...]]:
    """The j that belong to each pair (j1, j2), and the places of these components."""
    found: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
    for k, (j1, j2, j) in enumerate(components(twice)):
        found[j1, j2] = (*found.get((j1, j2), ()), (j, k))
    return found
