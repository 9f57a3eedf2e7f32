"""Waves: fields on a periodic grid as truncated Fourier series, and what is simple there."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Complex, Float

from ..._errors import ArgumentError
from ...core import scaled
from ..grids._grid import Grid
from ..grids._parts import check_stages, filled_up, layout, over, spectral_layout, stages
from ._transforms import Kept, cut, each, field_of, modes_of, real_fields, widened


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
        if self.grid.devices and self.grid.dimensions == 1:
            raise ArgumentError(
                "Fourier series over several devices need two or three dimensions, but the grid has one."
            )
        check_stages(self.grid, "Fourier series")

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """The highest wave index kept along each axis."""
        return tuple((n - 1) // (self.degree + 1) for n in self.grid.shape)

    @property
    def kept(self) -> Kept:
        """Static arguments of the transforms."""
        return Kept(self.grid.shape, self.cutoffs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the modes of one field; over devices axes that are dealt out are filled up, so that all hold as many."""
        return tuple(filled_up(self._count(axis), self.grid, axis) for axis in range(self.grid.dimensions))

    def _count(self, axis: int) -> int:
        """The number of modes kept along an axis."""
        half = self.real and axis == self.grid.dimensions - 1
        return self.cutoffs[axis] + 1 if half else 2 * self.cutoffs[axis] + 1

    def indices(self, axis: int) -> np.ndarray:
        """The wave indices along an axis in the order of the modes: 0, 1, ..., K, -K, ..., -1.

        What fills up an axis of a grid over devices are indices above K, of waves that stay 0.
        """
        cutoff, last = self.cutoffs[axis], axis == self.grid.dimensions - 1
        found = np.arange(cutoff + 1)
        if not (self.real and last):
            found = np.concatenate([found, np.arange(-cutoff, 0)])
        more = self.shape[axis] - found.size
        return np.concatenate([found, cutoff + 1 + np.arange(more)])

    def wavenumber(self, axis: int, dtype: DTypeLike = float) -> Float[Array, "..."]:
        """The angular wavenumbers along an axis, shaped so that they broadcast against modes."""
        k = 2 * np.pi / self.grid.lengths[axis] * self.indices(axis)
        return jnp.asarray(k.reshape([-1 if i == axis else 1 for i in range(self.grid.dimensions)]), dtype)

    def square(self, dtype: DTypeLike = float) -> Float[Array, "..."]:
        r"""$|k|^2$ of every mode."""
        total = self.wavenumber(0, dtype) ** 2
        for axis in range(1, self.grid.dimensions):
            total = total + self.wavenumber(axis, dtype) ** 2
        return jnp.broadcast_to(total, self.shape)

    def inverse_square(self, dtype: DTypeLike = float) -> Float[Array, "..."]:
        r"""$1/|k|^2$ of every mode, 0 of the mean."""
        square = self.square(dtype)
        return jnp.where(square == 0, 0, 1 / jnp.where(square == 0, 1, square))

    def weights(self, dtype: DTypeLike = float) -> Float[Array, "..."]:
        """Return the weight of each mode in sums over all modes: 2 where its mirror image is not kept."""
        total = np.ones(())
        for axis, cutoff in enumerate(self.cutoffs):
            index = self.indices(axis)
            twice = self.real and axis == self.grid.dimensions - 1
            along = np.where((index == 0) | (not twice), 1.0, 2.0) * (index <= cutoff)
            total = total * along.reshape([-1 if i == axis else 1 for i in range(self.grid.dimensions)])
        return jnp.asarray(total, dtype)

    def modes(self, field: Array) -> Complex[Array, "..."]:
        """The modes of fields; what lies beyond the cutoffs is left out."""
        if self.grid.devices:
            given, found = layout(self.grid, field.ndim), spectral_layout(self.grid, field.ndim)
            return over(self.grid, self._modes_on_parts, (given,), found, field)
        if self.real:
            return modes_of(self.kept, field)
        return each(
            lambda x: cut(self.kept, _forward(x, self._axes), self._axes, real=False), field, self.grid.dimensions
        )

    def field(self, modes: Complex[Array, "..."]) -> Array:
        """The fields of modes."""
        if self.grid.devices:
            given, found = spectral_layout(self.grid, modes.ndim), layout(self.grid, modes.ndim)
            return over(self.grid, self._field_on_parts, (given,), found, modes)
        if self.real:
            return field_of(self.kept, modes)
        return each(
            lambda x: _backward(widened(self.kept, x, self._axes, real=False), self._axes), modes, self.grid.dimensions
        )

    def _modes_on_parts(self, found: Array) -> Array:
        """Transform the part of a field on one device to its part of the modes."""
        for axes, turn in stages(self.grid):
            if axes:
                real, places = self._stage(axes)
                found = cut(self.kept, _forward(found, places, real), places, real=real)
            if turn is not None:
                found = turn.there(found, self.grid.dimensions)
        return found

    def _field_on_parts(self, found: Array) -> Array:
        """Transform the part of the modes on one device to its part of the field."""
        d, moved = self.grid.dimensions, False
        for axes, turn in reversed(stages(self.grid)):
            if turn is not None:
                back = turn.back_from_last if moved else turn.back
                found, moved = back(found, d, self._count(turn.split) if turn.split in axes else None), False
            if not axes:
                continue
            real, places = self._stage(axes)
            if real:
                kept = Kept(tuple(self.grid.shape[i] for i in axes), tuple(self.cutoffs[i] for i in axes))
                found = real_fields(kept, found, found.ndim - d)
            elif len(axes) == 1:  # a transform is along the last axis, where the next transposition takes it from
                found = jnp.moveaxis(widened(self.kept, found, places, real=False), places[0], -1)
                found, moved = _backward(found, (-1,)), True
            else:
                found = _backward(widened(self.kept, found, places, real=False), places)
        return found

    def _stage(self, axes: tuple[int, ...]) -> tuple[bool, tuple[int, ...]]:
        """Tell whether a stage of the transform takes real fields, and its axes from the last one backwards."""
        return self.real and axes[-1] == self.grid.dimensions - 1, tuple(axis - self.grid.dimensions for axis in axes)

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


def _forward(x: Array, axes: tuple[int, ...], real: bool = False) -> Array:
    return (jnp.fft.rfftn if real else jnp.fft.fftn)(x, axes=axes, norm="forward")


def _backward(x: Array, axes: tuple[int, ...]) -> Array:
    return jnp.fft.ifftn(x, axes=axes, norm="forward")
