r"""Energy of charges spread over a mesh by B-splines, with potential and field at the charges from the same transforms.

$$E = \sum_m g(m) |\hat Q(m)|^2, \qquad \phi = \frac{\partial E}{\partial Q} = 2 N F^{-1}(g \hat Q), \qquad
\frac{\partial E}{\partial q_i} = \sum_p \phi_p W_p(u_i)$$

One spread, two transforms and one interpolation give all first derivatives; higher ones are JAX's of these. The mesh is stored with
padded rows along its last direction, so that the points of an atom there are contiguous: rows are added and read as a whole.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from ...core import batched_together
from ._b_splines import splines

Mesh = tuple[int, int, int]
VECTOR = 4
"""Rows are filled up with zeros to whole vectors of as many numbers."""


class Windows(NamedTuple):
    """Points that each atom's charge is spread over, and its shares along the three directions with their slopes by u."""

    rows: Int[Array, "rows 1"]  # the first point of each row on the padded mesh
    shares: Float[Array, "3 atoms width"]
    slopes: Float[Array, "3 atoms width"]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def mesh_energy(mesh: Mesh, order: int, influence: Array, u: Float[Array, "atoms 3"], charge: Array) -> Array:
    """The energy for an `influence` of the waves that a transform of real numbers keeps, and positions u in units of the mesh."""
    _, waves = _transformed(mesh, order, u, charge)
    found = jnp.vdot(_counted(mesh, waves.real.dtype) * influence, _power(waves))
    return batched_together(found, (influence, u, charge))


@mesh_energy.defjvp
def _mesh_energy_tangent(
    mesh: Mesh, order: int, primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[Array, Array]:
    influence, u, charge = primals
    by_influence, by_u, by_charge = tangents
    windows, waves = _transformed(mesh, order, u, charge)
    power = _counted(mesh, u.dtype) * _power(waves)
    potential = 2 * math.prod(mesh) * jnp.fft.irfftn(_scaled(influence, waves), mesh)
    at_charges, field = interpolated(order, potential, windows)
    tangent = jnp.vdot(at_charges, by_charge) + jnp.vdot(charge[:, None] * field, by_u) + jnp.vdot(power, by_influence)
    return batched_together(jnp.vdot(influence, power), primals), tangent


def _transformed(mesh: Mesh, order: int, u: Array, charge: Array) -> tuple[Windows, Array]:
    found = windows(mesh, order, u)
    return found, jnp.fft.rfftn(spread(mesh, order, charge, found))


def _scaled(factor: Array, waves: Array) -> Array:
    return lax.complex(factor * jnp.real(waves), factor * jnp.imag(waves))


def _power(waves: Array) -> Array:
    return jnp.real(waves) ** 2 + jnp.imag(waves) ** 2


def _counted(mesh: Mesh, dtype: DTypeLike) -> Array:
    """Number of waves that each one stands for in a transform of real numbers."""
    last = np.arange(mesh[2] // 2 + 1)
    counts = np.where((last == 0) | (2 * last == mesh[2]), 1.0, 2.0)
    return jnp.asarray(np.broadcast_to(counts, (*mesh[:2], len(last))), dtype)


def windows(mesh: Mesh, order: int, u: Array) -> Windows:
    """The points from floor(u) - order + 1 to floor(u) along each direction."""
    _, ny, nz = mesh
    below = lax.stop_gradient(jnp.floor(u))
    shares, slopes = splines((u - below).T, order)
    width = _width(order)
    # Shares are those of points downwards from the one below.
    filled = lambda values: jnp.stack([*values[::-1], *[jnp.zeros_like(values[0])] * (width - order)], axis=-1)
    first = below.astype(jnp.int32) - (order - 1)
    points = first[:, :, None] + jnp.arange(order, dtype=jnp.int32)[None, None]
    x, y = points[:, 0] % mesh[0], points[:, 1] % ny
    rows = (x[:, :, None] * ny + y[:, None]) * (nz + width) + (first[:, 2] % nz)[:, None, None]
    return Windows(*lax.optimization_barrier((rows.reshape(-1, 1), filled(shares), filled(slopes))))


def _width(order: int) -> int:
    return -(-order // VECTOR) * VECTOR


def spread(mesh: Mesh, order: int, charge: Array, at: Windows) -> Array:
    """The mesh of charges."""
    nx, ny, nz = mesh
    x, y, z = at.shares
    width = z.shape[-1]
    plane = (charge[:, None] * x[:, :order])[:, :, None] * y[:, None, :order]
    plane = lax.optimization_barrier(plane.reshape(-1, order * order))
    values = (plane[:, :, None] * z[:, None]).reshape(-1, width)
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    flat = jnp.zeros(nx * ny * (nz + width), values.dtype)
    flat = lax.scatter_add(flat, at.rows, values, numbers, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    padded = flat.reshape(nx, ny, nz + width)
    # Points beyond the end are those at the beginning.
    whole, beyond = padded[..., :nz], padded[..., nz : nz + order]  # rows are zero from there on
    return whole.at[..., :order].add(beyond)


def interpolated(order: int, potential: Array, at: Windows) -> tuple[Array, Float[Array, "atoms 3"]]:
    """Potential at the atoms and its derivative by their u."""
    width = at.shares.shape[-1]
    again = jnp.pad(potential[..., :order], ((0, 0), (0, 0), (0, width - order)))
    flat = jnp.concatenate([potential, again], axis=-1).reshape(-1)
    numbers = lax.GatherDimensionNumbers((1,), (), (0,))
    rows = lax.gather(flat, at.rows, numbers, (width,), mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    rows = rows.reshape(-1, order, order, width)
    (x, y, z), (dx, dy, dz) = at.shares, at.slopes

    def along(values: Array, shares: Array) -> Array:
        """Sum over the first direction that is left."""
        lifted = lambda k: shares[:, k].reshape(-1, *[1] * (values.ndim - 2))
        return functools.reduce(jnp.add, [lifted(k) * values[:, k] for k in range(order)])

    in_x, by_x = lax.optimization_barrier((along(rows, x), along(rows, dx)))
    value, by_x, by_y = along(in_x, y), along(by_x, y), along(in_x, dy)
    ones = jnp.ones(width, z.dtype)
    found = [a @ ones for a in (value * z, by_x * z, by_y * z, value * dz)]
    return found[0], jnp.stack(found[1:], axis=-1)


def influence(mesh: Mesh, order: int, reciprocal: Array, volume: Array, damping: Array) -> Array:
    r"""$2 \pi e^{-m^2/4\alpha^2} / (V m^2)$ over the splines' own transform, 0 for the mean."""
    dtype = reciprocal.dtype
    numbers = [np.fft.fftfreq(mesh[0]) * mesh[0], np.fft.fftfreq(mesh[1]) * mesh[1], np.arange(mesh[2] // 2 + 1)]
    shapes = (-1, 1, 1), (1, -1, 1), (1, 1, -1)
    along = [jnp.asarray(2 * math.pi * k.reshape(shape), dtype) for k, shape in zip(numbers, shapes, strict=True)]
    a, b, c = along
    m = [a * reciprocal[k, 0] + b * reciprocal[k, 1] + c * reciprocal[k, 2] for k in range(3)]
    square = m[0] * m[0] + m[1] * m[1] + m[2] * m[2]
    moduli = [_spline_moduli(n, order)[: len(k)].reshape(s) for n, k, s in zip(mesh, numbers, shapes, strict=True)]
    grid = np.zeros(square.shape, bool)
    grid[0, 0, 0] = True
    safe = jnp.where(grid, 1, square)
    x, y, z = (jnp.asarray(a, dtype) for a in moduli)
    size = jnp.exp(-safe / (4 * damping * damping)) / safe
    return jnp.where(grid, 0, 2 * math.pi / volume * size * x * y * z)


def _spline_moduli(count: int, order: int) -> np.ndarray:
    """1 / |sum_k M_n(k + 1) exp(2 pi i m k / count)|^2, which takes the splines' own transform out again."""
    at = np.asarray([_cardinal(k + 1.0, order) for k in range(order - 1)])
    m = np.arange(count)[:, None]
    total = (at * np.exp(2j * np.pi * m * np.arange(order - 1) / count)).sum(1)
    size = np.abs(total) ** 2
    return np.where(size > 1e-10, 1 / np.maximum(size, 1e-10), 0)


def _cardinal(x: float, order: int) -> float:
    """The cardinal B-spline of a number."""
    if order == 2:
        return max(0.0, 1.0 - abs(x - 1.0))
    return (x * _cardinal(x, order - 1) + (order - x) * _cardinal(x - 1, order - 1)) / (order - 1)
