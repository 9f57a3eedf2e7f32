"""Waves: fields on a periodic grid as truncated Fourier series, and what is simple there."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float

from .._errors import ArgumentError
from ..core import scaled
from ._grid import Grid


@dataclasses.dataclass(frozen=True)
class Waves:
    r"""The Fourier series of fields on a periodic grid, $u = \sum_k \hat u_k e^{i k \cdot (x - x_0)}$ from the first
    centre $x_0$.

    Only those modes are kept that a product of `degree` factors does not spoil by aliasing: wave indices up to
    `(n - 1) // (degree + 1)` along an axis of n cells, that is two thirds of the half for a product of two (Orszag 1971). So a
    state is less than half as large as its fields, and nothing has to be masked.

    **Arguments:**

    - `grid`: with equal cells.
    - `degree`: the largest number of factors in a product of fields; 1 keeps all modes but the highest of an even number.
    - `real`: whether fields are real, of which half the modes tell the other half (the last axis has no negative ones).

    Fields are `(..., *grid.shape)`, modes `(..., *shape)`.

    **Reference:** Orszag (1971), J. Atmos. Sci. 28:1074.
    """

    grid: Grid
    degree: int = 2
    real: bool = True

    def __post_init__(self) -> None:
        self.grid.check_uniform("Fourier series")
        if self.degree < 1:
            raise ArgumentError(f"Argument `degree` must be at least 1, but it is {self.degree!r}.")

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """The highest wave index kept along each axis."""
        return tuple((n - 1) // (self.degree + 1) for n in self.grid.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the modes of one field."""
        *others, last = self.cutoffs
        return (*(2 * k + 1 for k in others), last + 1 if self.real else 2 * last + 1)

    def indices(self, axis: int) -> np.ndarray:
        """The wave indices along an axis in the order of the modes: 0, 1, ..., K, -K, ..., -1."""
        cutoff = self.cutoffs[axis]
        if self.real and axis == self.grid.dimensions - 1:
            return np.arange(cutoff + 1)
        return np.concatenate([np.arange(cutoff + 1), np.arange(-cutoff, 0)])

    def wavenumber(self, axis: int, dtype: Any = float) -> Float[Array, "..."]:
        """The angular wavenumbers along an axis, shaped so that they broadcast against modes."""
        k = 2 * np.pi / self.grid.lengths[axis] * self.indices(axis)
        return jnp.asarray(k.reshape([-1 if i == axis else 1 for i in range(self.grid.dimensions)]), dtype)

    def square(self, dtype: Any = float) -> Float[Array, "..."]:
        r"""$|k|^2$ of every mode."""
        total = self.wavenumber(0, dtype) ** 2
        for axis in range(1, self.grid.dimensions):
            total = total + self.wavenumber(axis, dtype) ** 2
        return jnp.broadcast_to(total, self.shape)

    def inverse_square(self, dtype: Any = float) -> Float[Array, "..."]:
        r"""$1/|k|^2$ of every mode, 0 of the mean."""
        square = self.square(dtype)
        return jnp.where(square == 0, 0, 1 / jnp.where(square == 0, 1, square))

    def weights(self, dtype: Any = float) -> Float[Array, "..."]:
        """How often a mode counts in sums over all modes: twice where its mirror image is not kept."""
        if not self.real:
            return jnp.ones(self.shape, dtype)
        last = np.where(self.indices(self.grid.dimensions - 1) == 0, 1.0, 2.0)
        return jnp.broadcast_to(jnp.asarray(last.reshape([1] * (self.grid.dimensions - 1) + [-1]), dtype), self.shape)

    def modes(self, field: Array) -> Complex[Array, "..."]:
        """The modes of fields; what lies beyond the cutoffs is left out."""
        return _each(self._modes, field, self.grid.dimensions)

    def field(self, modes: Complex[Array, "..."]) -> Array:
        """The fields of modes."""
        return _each(self._field, modes, self.grid.dimensions)

    def _modes(self, field: Array) -> Array:
        axes = self._axes
        found = (
            jnp.fft.rfftn(field, axes=axes, norm="forward")
            if self.real
            else jnp.fft.fftn(field, axes=axes, norm="forward")
        )
        for axis, cutoff in zip(axes, self.cutoffs, strict=True):
            size = found.shape[axis]
            low = lax.slice_in_dim(found, 0, cutoff + 1, axis=axis)
            if self.real and axis == -1:
                found = low
            else:
                found = lax.concatenate(
                    [low, lax.slice_in_dim(found, size - cutoff, size, axis=axis)], found.ndim + axis
                )
        return found

    def _field(self, modes: Array) -> Array:
        found = modes
        for axis, cutoff, size in zip(self._axes, self.cutoffs, self.grid.shape, strict=True):
            place = found.ndim + axis
            if self.real and axis == -1:
                found = jnp.pad(found, [(0, size // 2 - cutoff if i == place else 0) for i in range(found.ndim)])
                continue
            gap = jnp.zeros(
                [size - 2 * cutoff - 1 if i == place else n for i, n in enumerate(found.shape)], found.dtype
            )
            low = lax.slice_in_dim(found, 0, cutoff + 1, axis=place)
            high = lax.slice_in_dim(found, cutoff + 1, 2 * cutoff + 1, axis=place)
            found = lax.concatenate([low, gap, high], place)
        if self.real:
            return jnp.fft.irfftn(found, s=self.grid.shape, axes=self._axes, norm="forward")
        return jnp.fft.ifftn(found, axes=self._axes, norm="forward")

    def derivative(self, modes: Complex[Array, "..."], axis: int) -> Complex[Array, "..."]:
        """The modes of the derivative along an axis."""
        k = self.wavenumber(axis, modes.real.dtype)
        k = k.reshape((1,) * (modes.ndim - k.ndim) + k.shape)
        return lax.complex(-k * modes.imag, k * modes.real)

    def laplacian(self, modes: Complex[Array, "..."]) -> Complex[Array, "..."]:
        """The modes of the Laplacian."""
        return scaled(self._leading(-self.square(modes.real.dtype), modes), modes)

    def inverse_laplacian(self, modes: Complex[Array, "..."]) -> Complex[Array, "..."]:
        """The modes of the field without mean of which these are the Laplacian; the mean of `modes` is ignored."""
        return scaled(self._leading(-self.inverse_square(modes.real.dtype), modes), modes)

    def mean(self, modes: Complex[Array, "..."]) -> Float[Array, "..."]:
        """The mean of fields over the grid."""
        return modes[(..., *([0] * self.grid.dimensions))].real

    def inner(self, a: Complex[Array, "..."], b: Complex[Array, "..."]) -> Float[Array, "..."]:
        """The mean over the grid of the product of two real fields (the real part of one with the conjugate other)."""
        product = a.real * b.real + a.imag * b.imag
        return jnp.sum(self._leading(self.weights(product.dtype), a) * product, axis=self._axes)

    @property
    def largest(self) -> tuple[float, ...]:
        """The largest wavenumber kept along each axis."""
        return tuple(2 * math.pi * k / length for k, length in zip(self.cutoffs, self.grid.lengths, strict=True))

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-self.grid.dimensions, 0))

    def _leading(self, values: Array, modes: Array) -> Array:
        return values.reshape((1,) * (modes.ndim - values.ndim) + values.shape)


MOST_APART = 16
"""So many fields at most are transformed one by one; more would take long to compile."""


def _each(transform: Callable[[Array], Array], values: Array, dimensions: int) -> Array:
    """A transform of fields: on CPUs one after the other, so that each stays in the cache; on accelerators all together."""
    leading = values.shape[: values.ndim - dimensions]
    if jax.default_backend() != "cpu" or not 1 < math.prod(leading) <= MOST_APART:
        return transform(values)
    flat = values.reshape((-1, *values.shape[len(leading) :]))
    found = jnp.stack([transform(flat[i]) for i in range(flat.shape[0])])
    return found.reshape((*leading, *found.shape[1:]))
