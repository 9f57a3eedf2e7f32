"""A complex field as users see it."""

import equinox as eqx
from jax import lax
from jaxtyping import Array

from ...core import quantity
from ..spectral._waves import Waves


class ComplexField(eqx.Module):
    """The two parts of a complex field, each `grid.shape`."""

    real: Array = quantity(doc="real part")
    imaginary: Array = quantity(doc="imaginary part")


def encoded(waves: Waves, y: ComplexField) -> Array:
    """The modes of a complex field, `(1, *waves.shape)`."""
    return waves.modes(lax.complex(y.real, y.imaginary))[None]


def decoded(waves: Waves, state: Array) -> ComplexField:
    """The complex field of modes."""
    field = waves.field(state[0])
    return ComplexField(field.real, field.imag)
