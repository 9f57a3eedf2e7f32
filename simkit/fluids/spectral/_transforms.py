"""Transforms between real fields and the modes that are kept, each of which states its transpose by the other.

XLA's transpose of a transform of real numbers divides by complex numbers, which takes longer than the transform.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from ...core import scaled
from ...engine import paired

MOST_APART = 16
"""Most fields that are transformed one by one; more would take long to compile."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """Modes of fields that are kept.

    - `sizes`: the cells along each axis; `cutoffs`: the highest wave index along each.
    """

    sizes: tuple[int, ...]
    cutoffs: tuple[int, ...]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def modes_of(kept: Kept, field: Array) -> Array:
    """The modes that are kept of real fields `(..., *sizes)`: of the last axis those from 0 on."""
    return _modes(kept, field)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def field_of(kept: Kept, modes: Array) -> Array:
    """The real fields of modes."""
    return _field(kept, modes)


@modes_of.defjvp
def _modes_jvp(kept: Kept, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    forward, backward = _maps(kept)
    return modes_of(kept, *primals), paired(forward, backward, (), tangents[0])


@field_of.defjvp
def _field_jvp(kept: Kept, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    (modes,), (change,) = primals, tangents
    forward, backward = _maps(kept, back=True)
    return field_of(kept, modes), paired(forward, backward, (), change)


@functools.cache
def _maps(kept: Kept, back: bool = False) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """One of the transforms and its transpose, which sums products without conjugates."""
    count = math.prod(kept.sizes)
    twice = count * np.where(np.arange(kept.cutoffs[-1] + 1) == 0, 1.0, 2.0)
    factors = lambda values, like: jnp.asarray(values.reshape([1] * (like.ndim - 1) + [-1]), like.real.dtype)

    def of_field(_: PyTree, field: Array) -> Array:
        modes = _modes(kept, field)
        return jnp.conj(scaled(factors(twice, modes), modes))

    def of_modes(_: PyTree, modes: Array) -> Array:
        return _field(kept, scaled(factors(1 / twice, modes), jnp.conj(modes)))

    if back:
        return lambda _, modes: _field(kept, modes), of_field
    return lambda _, field: _modes(kept, field), of_modes


def _modes(kept: Kept, field: Array) -> Array:
    axes = tuple(range(-len(kept.sizes), 0))
    transform = lambda x: cut(kept, jnp.fft.rfftn(x, axes=axes, norm="forward"), axes, real=True)
    return each(transform, field, len(axes))


def _field(kept: Kept, modes: Array) -> Array:
    return real_fields(kept, modes, modes.ndim - len(kept.sizes))


def real_fields(kept: Kept, modes: Array, count: int) -> Array:
    """The real fields of modes `(*leading, *rows, ...)`, of which `count` axes lead: the last are transformed, rows alike."""
    leading, rows = modes.shape[:count], modes.shape[count : modes.ndim - len(kept.sizes)]
    if not _one_by_one(leading):
        return _one_field(kept, modes)
    flat = parts(modes.reshape((-1, *modes.shape[count:])))
    found: list[Array] = []
    for i in range(0, len(flat) - 1, 2):
        found += _two_fields(kept, flat[i], flat[i + 1])
    if len(flat) % 2:
        found.append(_one_field(kept, flat[-1]))
    return jnp.stack(found).reshape((*leading, *rows, *kept.sizes))


def _one_field(kept: Kept, modes: Array) -> Array:
    axes = tuple(range(-len(kept.sizes), 0))
    return jnp.fft.irfftn(widened(kept, modes, axes, real=True), s=kept.sizes, axes=axes, norm="forward")


def _two_fields(kept: Kept, a: Array, b: Array) -> tuple[Array, Array]:
    """Two real fields by one complex transform, as its real and its imaginary part.

    On CPUs it takes two thirds to three quarters of the time of two transforms to real numbers.
    """
    last = a.ndim - 1
    axes = tuple(range(a.ndim - len(kept.sizes), a.ndim))
    others = axes[:-1]
    # The conjugates of a + i b and, of the opposite waves, of that of a - i b: the sum over exp(ikx) is the conjugate of a
    # transform of conjugates, which XLA does not scale.
    both = lax.complex(a.real - b.imag, -a.imag - b.real)
    apart = lax.complex(a.real + b.imag, a.imag - b.real)
    opposite = _mirrored(apart, others)
    cutoff, size = kept.cutoffs[-1], kept.sizes[-1]
    # Of the waves 0 along the last axis both halves are there, and only what is alike in them makes a real field.
    still = 0.5 * (_columns(both, 0, 1) + _columns(opposite, 0, 1))
    gap = jnp.zeros((*both.shape[:-1], size - 2 * cutoff - 1), both.dtype)
    behind = jnp.flip(_columns(opposite, 1, cutoff + 1), last)
    whole = lax.concatenate([still, _columns(both, 1, cutoff + 1), gap, behind], last)
    for axis, cutoff, cells in zip(others, kept.cutoffs, kept.sizes, strict=False):
        whole = _spread(whole, axis, cutoff, cells)
    found = jnp.fft.fftn(whole, axes=axes)
    return found.real, -found.imag


def _columns(x: Array, start: int, stop: int) -> Array:
    return lax.slice_in_dim(x, start, stop, axis=x.ndim - 1)


def _mirrored(x: Array, axes: tuple[int, ...]) -> Array:
    """The modes of the opposite waves along some axes, in the order 0, 1, ..., K, -K, ..., -1."""
    for axis in axes:
        first = lax.slice_in_dim(x, 0, 1, axis=axis)
        rest = lax.slice_in_dim(x, 1, x.shape[axis], axis=axis)
        x = lax.concatenate([first, jnp.flip(rest, axis)], axis)
    return x


def cut(kept: Kept, found: Array, axes: tuple[int, ...], *, real: bool) -> Array:
    """The modes that are kept along some axes."""
    for axis in axes:
        size, cutoff = found.shape[axis], kept.cutoffs[axis]
        low = lax.slice_in_dim(found, 0, cutoff + 1, axis=axis)
        if real and axis == -1:
            found = low
        else:
            high = lax.slice_in_dim(found, size - cutoff, size, axis=axis)
            found = lax.concatenate([low, high], found.ndim + axis)
    return found


def widened(kept: Kept, found: Array, axes: tuple[int, ...], *, real: bool) -> Array:
    """Kept modes with zeros for all others."""
    for axis in axes:
        cutoff, size, place = kept.cutoffs[axis], kept.sizes[axis], found.ndim + axis
        if real and axis == -1:
            found = jnp.pad(found, [(0, size // 2 - cutoff if i == place else 0) for i in range(found.ndim)])
        else:
            found = _spread(found, place, cutoff, size)
    return found


def _spread(found: Array, axis: int, cutoff: int, size: int) -> Array:
    """Zeros between the modes of positive and of negative waves."""
    shape = [size - 2 * cutoff - 1 if i == axis else n for i, n in enumerate(found.shape)]
    low = lax.slice_in_dim(found, 0, cutoff + 1, axis=axis)
    high = lax.slice_in_dim(found, cutoff + 1, 2 * cutoff + 1, axis=axis)
    return lax.concatenate([low, jnp.zeros(shape, found.dtype), high], axis)


def parts(stack: Array) -> tuple[Array, ...]:
    """The fields of a stack. The derivative is a stack again, where that of `stack[i]` would be a sum of stacks of zeros."""
    count = stack.shape[0]
    return tuple(lax.squeeze(x, (0,)) for x in lax.split(stack, (1,) * count, 0))


def _one_by_one(leading: tuple[int, ...]) -> bool:
    return jax.default_backend() == "cpu" and 1 < math.prod(leading) <= MOST_APART


def each(transform: Callable[[Array], Array], values: Array, dimensions: int) -> Array:
    """A transform of fields: on CPUs one after the other, so that each stays in the cache; on accelerators all together."""
    leading = values.shape[: values.ndim - dimensions]
    if not _one_by_one(leading):
        return transform(values)
    found = jnp.stack([transform(x) for x in parts(values.reshape((-1, *values.shape[len(leading) :])))])
    return found.reshape((*leading, *found.shape[1:]))
