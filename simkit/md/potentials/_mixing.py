"""Mixing rules: from one number a species to a symmetric table over pairs of species."""

from typing import Literal, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array

from ..._errors import ArgumentError

Rule: TypeAlias = Literal["arithmetic", "geometric"]


def mixed(name: str, value: Array, rule: Rule) -> Array:
    r"""The table (species, species) of a parameter, or its single number.

    Arithmetic is $(a_s + a_t) / 2$, for lengths; geometric $\sqrt{a_s a_t}$, for energies. A table is symmetrised, so that its
    derivative is symmetric, too.
    """
    if value.ndim == 0:
        return value
    if value.ndim == 2 and value.shape[0] == value.shape[1]:
        return (value + value.T) / 2
    if value.ndim != 1:
        raise ArgumentError(
            f"Argument `{name}` must be a number, or have shape (species,) or (species, species), but has {value.shape}. "
            "Give one number a species, or one for each pair of species."
        )
    rows, columns = value[:, None], value[None, :]
    return (rows + columns) / 2 if rule == "arithmetic" else root(rows * columns)


def root(x: Array) -> Array:
    """The square root, with derivative 0 at 0: a species that does not take part must not make gradients infinite."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)
