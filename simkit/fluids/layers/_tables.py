"""Modes across a layer: the eigenfunctions of diffusion and of Stokes flow between two walls, made once in NumPy."""

import functools
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ._layer import PlaneLayer
from ._legendre import combined, lobatto

Ends = tuple[bool, bool]
"""Condition at the lower and at the upper wall: True where the value is given (no slip), False where the slope is (stress free)."""


class Diffusion(NamedTuple):
    r"""Eigenfunctions $\chi_n$ of the second derivative, of mean square 1, slowest first.

    - `rates`: $\mu_n$ of $\chi_n'' = -\mu_n \chi_n$ with z in units of the depth, `(N,)`.
    - `values`: $\chi_n$ and its derivative with respect to z in units of the depth, `(2, N, nz)`.
    """

    rates: np.ndarray
    values: np.ndarray


class Stokes(NamedTuple):
    r"""Stokes modes of each wave along the walls: what decays by viscosity alone, and is solenoidal, of mean square 1.

    With $\phi_n$ of a wave of the wavenumber K (times the depth) the velocity across is $K \phi_n$ and that along the wave
    $i \phi_n'$, and $(D^2 - K^2)^2 \phi_n = -\lambda_n (D^2 - K^2) \phi_n$.

    - `rates`: $\lambda_n$, `(Kx, Ky, 1, N)`, 0 for the mean, which has none.
    - `mixing`: $\phi_n$ as combinations of functions that all waves share, `(Kx, Ky, shared, N)`.
    - `values`: these functions with first and second derivatives, `(3, shared, nz)`.
    """

    rates: np.ndarray
    mixing: np.ndarray
    values: np.ndarray


class Wavenumbers(NamedTuple):
    """Waves along the walls, in units of one over the depth, each `(Kx, Ky, 1, 1)`.

    - `along`: the components along x and y; `size`: K; `direction`: `along` by `size`, 0 for the mean.
    """

    along: tuple[np.ndarray, np.ndarray]
    size: np.ndarray
    direction: tuple[np.ndarray, np.ndarray]


def indices(layer: PlaneLayer) -> tuple[np.ndarray, np.ndarray]:
    """Wave indices along x, from 0, and along y in the order 0, 1, ..., -1; along y 0 alone in two dimensions."""
    cutoffs = layer.cutoffs
    second = cutoffs[1] if len(cutoffs) == 2 else 0
    return np.arange(cutoffs[0] + 1), np.concatenate([np.arange(second + 1), np.arange(-second, 0)])


@functools.lru_cache(maxsize=16)
def wavenumbers(layer: PlaneLayer) -> Wavenumbers:
    """The wavenumbers of a layer."""
    lengths = (*layer.lengths[:-1], 1.0)[:2]
    x, y = (
        2 * np.pi * layer.depth / length * index.astype(float)
        for index, length in zip(indices(layer), lengths, strict=True)
    )
    x, y = np.meshgrid(x, y, indexing="ij")
    x, y = x[:, :, None, None], y[:, :, None, None]
    size = np.hypot(x, y)
    by = np.where(size > 0, size, 1.0)
    return Wavenumbers((x, y), size, (x / by, y / by))


@functools.lru_cache(maxsize=16)
def diffusion(layer: PlaneLayer, ends: Ends, balanced: bool = False) -> Diffusion:
    """The eigenfunctions of diffusion across a layer; with `balanced` among functions whose mean is 0."""
    points = lobatto(layer.shape[-1])
    orders = [(0,) if fixed else (1,) for fixed in ends]
    functions = _scaled(combined(layer.degree, points.places, *orders), 0, points.weights)
    insulated = not any(ends)
    if balanced or insulated:
        means = functions[0] @ points.weights
        functions = functions[:, 1:] - (means[1:] / means[0])[:, None] * functions[:, :1]
    mass, stiffness = (_products(functions[k], functions[k], points.weights) for k in (0, 1))
    inverse, vectors = scipy.linalg.eigh(mass, stiffness)
    inverse, vectors = inverse[::-1], vectors[:, ::-1]
    rates, values = 1 / inverse, np.einsum("in,dis->dns", vectors / np.sqrt(inverse), functions[:2])
    if insulated and not balanced:
        constant = np.stack([np.ones_like(points.places), np.zeros_like(points.places)])[:, None]
        rates, values = np.concatenate([[0.0], rates]), np.concatenate([constant, values], axis=1)
    return Diffusion(4 * rates, values * np.array([1.0, 2.0])[:, None, None])


@functools.lru_cache(maxsize=8)
def stokes(layer: PlaneLayer, ends: Ends) -> Stokes:
    """The Stokes modes of a layer."""
    points = lobatto(layer.shape[-1])
    orders = [(0, 1) if fixed else (0, 2) for fixed in ends]
    functions = _scaled(combined(layer.degree + 1, points.places, *orders), 2, points.weights)
    half = 0.5 * wavenumbers(layer).size[:, :, 0, 0]  # derivatives are those with respect to s, half the depth
    relative = half / half.max() if half.max() > 0 else half
    sizes, places = np.unique(np.round(relative, 13), return_inverse=True)
    count = functions.shape[1]
    slopes = _products(functions[1], functions[1], points.weights)
    squares = _products(functions[0], functions[0], points.weights)
    rates, mixing = np.zeros((sizes.size, count)), np.zeros((sizes.size, count, count))
    for index in range(sizes.size):
        wave = half.flat[np.flatnonzero(places.ravel() == index)[0]]
        if wave == 0:
            continue
        curved = functions[2] - wave**2 * functions[0]
        energy, damping = slopes + wave**2 * squares, _products(curved, curved, points.weights)
        inverse, vectors = scipy.linalg.eigh(energy, damping)
        inverse, vectors = inverse[::-1], vectors[:, ::-1]
        rates[index], mixing[index] = 1 / inverse, vectors / np.sqrt(inverse)
    places = places.reshape(half.shape)
    # With z in units of the depth a function is twice as large for its slope to be the same.
    values = functions * np.array([0.5, 1.0, 2.0])[:, None, None]
    return Stokes(4 * rates[places][:, :, None], mixing[places], values)


def _products(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Means of products of functions."""
    return (a * weights) @ b.T


def _scaled(functions: np.ndarray, order: int, weights: np.ndarray) -> np.ndarray:
    """Functions whose derivative of an order has the mean square 1."""
    return functions / np.sqrt(functions[order] ** 2 @ weights)[:, None]
